"""Reads which clusters an object names in its annotations, and decides whether a Cluster is one of them.

Laws: an object without the annotations names no cluster · an empty annotation names none, with any other one ·
an annotation that cannot be read is an error, never "names none" · the time is linear in the length of the texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta, validation
from registry_controller.api.cluster import ClusterIdentity, State
from registry_controller.api.errors import InvalidObject
from registry_controller.api.formats import read_daemon_version
from registry_controller.api.meta import Manifest
from registry_controller.api.selectors import Selector, parse_selector
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.rules.findings import Finding

MOST_CHARACTERS: Final = 4096
"""Of one annotation: enough for hundreds of names."""
_MOST_NAMED: Final = 5
NAMES_PATH: Final = f"metadata.annotations[{meta.TARGET_CLUSTERS}]"
SELECTOR_PATH: Final = f"metadata.annotations[{meta.TARGET_CLUSTER_SELECTOR}]"


class Destinations(NamedTuple):
    """The clusters that an object names. A part is None without its annotation, and empty without text in that.

    Without `names` every name counts, without `selector` all labels do; without both, no cluster is named.
    """

    names: tuple[str, ...] | None = None
    selector: Selector | None = None

    @property
    def is_empty(self) -> bool:
        """True if the object names no cluster: it lacks both annotations, or one of them is empty."""
        is_absent = self.names is None and self.selector is None
        return is_absent or self.names == () or (self.selector is not None and not self.selector.requirements)

    def include(self, cluster: ClusterIdentity) -> bool:
        """Return whether a Cluster is named."""
        if self.is_empty or (self.names is not None and cluster.name not in self.names):
            return False
        return self.selector is None or self.selector.matches(cluster.labels)

    def find_unknown(self, known: Collection[str]) -> tuple[str, ...]:
        """Return the names that no Cluster has."""
        return tuple(name for name in self.names or () if name not in known)


NOWHERE: Final = Destinations()


def read_destinations(annotations: Mapping[str, str]) -> Destinations:
    """Read the annotations of an object. Raises InvalidObject with the path of the annotation that is wrong."""
    names, selector = annotations.get(meta.TARGET_CLUSTERS), annotations.get(meta.TARGET_CLUSTER_SELECTOR)
    if names is None and selector is None:
        return NOWHERE
    return Destinations(
        None if names is None else _read_names(names), None if selector is None else _read_selector(selector)
    )


def is_unreadable(error: InvalidObject) -> bool:
    """Return whether a rule cannot be evaluated on an object because of the annotations that name clusters."""
    return error.path in (NAMES_PATH, SELECTOR_PATH)


def _read_names(text: str) -> tuple[str, ...]:
    _check_length(text, NAMES_PATH)
    if not text.strip():
        return ()
    names = dict.fromkeys(name.strip() for name in text.split(","))
    for name in names:
        if not validation.is_own_kinds_name(name):
            raise InvalidObject(NAMES_PATH, f"{name[:80]!r} is no name of a Cluster: write names with commas, as b,c")
    return tuple(names)


def _read_selector(text: str) -> Selector:
    _check_length(text, SELECTOR_PATH)
    selector = parse_selector(text, path=SELECTOR_PATH)
    for requirement in selector.requirements:
        if not validation.is_label_key(requirement.key):
            raise InvalidObject(SELECTOR_PATH, f"{requirement.key[:80]!r} is not a valid label key")
        for value in sorted(requirement.values):
            if not validation.is_label_value(value):
                raise InvalidObject(SELECTOR_PATH, f"{value[:80]!r} is not a valid label value")
    return selector


def _check_length(text: str, path: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise InvalidObject(path, f"has more than {MOST_CHARACTERS} characters")


def find_lost_targets(rule: SyncRule, members: Iterable[Manifest]) -> Finding | None:
    """Return the warning about members that may run the original controller, which loses `objectTargets` (W9).

    `members` are Clusters. One that was read and whose daemon has not named its version there may be such a member.
    """
    if not rule.requires_targets or rule.sync_disabled:
        return None
    found = sorted(_name_of(one) for one in members if _may_run_original(one))
    if not found:
        return None
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    message = (
        f"no daemon of this project is known in {', '.join(found[:_MOST_NAMED])}{more}: the original controller loses "
        f"this field, and copies all that matches; while one runs there, annotate the rule with {meta.SYNC_DISABLED}, "
        "and apply it by hand in each cluster that is to obey it"
    )
    return Finding("spec.objectTargets", message, is_error=False)


def _may_run_original(cluster: Manifest) -> bool:
    """Return whether a Cluster was read, and has no annotation of a daemon of this project."""
    status = cluster.get("status")
    is_read = isinstance(status, Mapping) and bool(status.get("version") or status.get("state") == State.READY.value)
    return is_read and not read_daemon_version(meta.annotations_of(cluster).get(meta.DAEMON, ""))


def _name_of(cluster: Manifest) -> str:
    return str(meta.metadata_of(cluster).get("name", ""))
