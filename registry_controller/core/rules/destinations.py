"""Reads which clusters an object names in its annotations, and decides whether a Cluster is one of them.

Laws: an object without the annotations names no cluster · an empty annotation names none, with any other one ·
an annotation that cannot be read is an error, never "names none" · the time is linear in the length of the texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta, validation
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.errors import InvalidObject
from registry_controller.api.selectors import Selector, parse_selector

MOST_CHARACTERS: Final = 4096
"""Of one annotation: enough for hundreds of names."""
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
