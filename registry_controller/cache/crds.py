"""The local CustomResourceDefinitions: whether the served kinds may have changed, and whether ours are current.

Law: older definitions stop nothing; the fields that they drop are logged once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from registry_controller.api import meta
from registry_controller.api.daemon_report import DefinitionReport
from registry_controller.api.errors import RegistryError
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK, GroupKind, ObjectKey
from registry_controller.core.rules.schema import find_unknown_properties, get_schema
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.report.logs import get_logger
from registry_controller.watch.event_handler import EventHandler

log = get_logger(__name__)

OF_RULES: Final = f"{meta.RULES.resource}.{meta.GROUP}"
"""The name of the definition of ResourceSyncRules."""
OF_CLUSTERS: Final = f"{meta.CLUSTERS.resource}.{meta.GROUP}"
"""The name of the definition of Clusters."""
OF_FEATURES: Final = f"{meta.FEATURES.resource}.{meta.GROUP}"
"""The name of the definition of ClusterFeatures."""
_OBSERVED: Final = "status.observedGeneration"
DEFINITION: Final = GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@functools.cache
def read_bundled() -> Mapping[str, Mapping[str, Any]]:
    """Read the definitions of this release, by name: from the package, or from the checkout beside it."""
    packaged = resources.files("registry_controller") / "crds"
    folder = packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "crds"
    found = [yaml.safe_load(file.read_text()) for file in folder.iterdir() if file.name.endswith(".yaml")]
    return {definition["metadata"]["name"]: definition for definition in found}


class Definition(NamedTuple):
    """A local definition. It exists since `revision`, the first one at which it was seen, at the latest."""

    uid: str
    deleting: bool
    revision: int


class DefinitionRead(NamedTuple):
    """The UID of a definition by a quorum read, empty while it is missing or being deleted.

    `began_s` is the time at which the read began.
    """

    uid: str = ""
    began_s: float = -math.inf


class DefinitionCache(EventHandler):
    """Watches CustomResourceDefinitions; calls `on_change` when the served kinds may have changed.

    `of_rules` and `of_features` are the definitions of ResourceSyncRules and of ClusterFeatures; None while one is
    missing or not known yet. `read` and `read_of_features` are their last quorum reads. `lost_of_rules` are the fields
    of a rule that its definition drops. `is_listed` is False until the definitions were listed, or cannot be.
    `rules_change` is called with the definition of rules, `features_change` when that of ClusterFeatures changed, and
    `schema_change` with the kind of another definition whose schemas may have changed.
    """

    def __init__(
        self,
        *,
        on_change: Callable[[], None],
        rules_change: Callable[[Definition | None], None],
        features_change: Callable[[], None],
        schema_change: Callable[[GroupKind], None] = lambda _: None,
    ) -> None:
        self._on_change = on_change
        self._rules_change = rules_change
        self._features_change = features_change
        self._schema_change = schema_change
        self._ours = read_bundled()
        self._complete = self.is_listed = False
        self.of_rules: Definition | None = None
        self.of_features: Definition | None = None
        self.lost_of_rules: tuple[str, ...] = ()
        self.read = self.read_of_features = DefinitionRead()
        self._known: dict[ObjectKey, int] = {}
        self._logged: dict[str, tuple[str, ...]] = {}
        self._created: dict[str, str] = {}

    def on_object(self, obj: PartialObject) -> None:
        """Record a definition."""
        known, self._known[obj.key] = self._known.get(obj.key), obj.generation
        if known not in (None, obj.generation):
            self._schema_change(_kind_of(obj))
        if obj.key.name == OF_RULES:
            self.of_rules = _next_definition(self.of_rules, obj)
            self._rules_change(self.of_rules)
        elif obj.key.name == OF_FEATURES:
            self.of_features = _next_definition(self.of_features, obj)
            self._features_change()
        if obj.key.name in self._ours:
            self._created[obj.key.name] = obj.created
            self._compare(obj)
        if self._complete:
            self._on_change()

    def report_ours(self) -> tuple[DefinitionReport, ...]:
        """Report the definitions of our own kinds here: since when they exist, and the fields that they drop."""
        return tuple(
            DefinitionReport(self._ours[name]["spec"]["names"]["kind"], created, self._logged.get(name, ()))
            for name, created in sorted(self._created.items())
        )

    def keeps_generation_of_clusters(self) -> bool:
        """Return whether the definition of Clusters here is known, and keeps `status.observedGeneration`."""
        lost = self._logged.get(OF_CLUSTERS, ())
        return OF_CLUSTERS in self._created and not lost.count("status") and not lost.count(_OBSERVED)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Drop a definition."""
        self._logged.pop(key.name, None)
        self._created.pop(key.name, None)
        if key.name == OF_RULES:
            self.of_rules = None
            self.lost_of_rules = ()
            self._rules_change(None)
        elif key.name == OF_FEATURES:
            self.of_features = None
            self._features_change()
        if self._known.pop(key, None) is not None:
            self._on_change()

    def on_synced(self, revision: int) -> None:
        """Record that the list is complete: later definitions are changes."""
        self._complete = True
        self._note_listed()

    def on_error(self, error: RegistryError) -> None:
        """Do not wait for a list that may not come."""
        self._note_listed()

    def on_recovered(self) -> None:
        """Report a change, because events may be missing."""
        self._on_change()

    def _note_listed(self) -> None:
        if not self.is_listed:
            self.is_listed = True
            self._rules_change(self.of_rules)

    def _compare(self, obj: PartialObject) -> None:
        name = obj.key.name
        installed = decode_manifest(obj.raw)
        lost = find_unknown_properties(self._ours[name], installed=installed, version=meta.VERSION)
        if name == OF_RULES:
            has_schema = get_schema(installed, meta.VERSION) is not None
            self.lost_of_rules = tuple(path for path in lost if has_schema and path.startswith("spec."))
        if self._logged.get(name, ()) != lost:
            self._logged[name] = lost
            if lost:
                log.warning(
                    "the installed CRD is older than this release and drops fields; apply the CRDs of this release",
                    crd=name,
                    fields=", ".join(lost),
                )


def _kind_of(obj: PartialObject) -> GroupKind:
    spec = Field(decode_manifest(obj.raw), "")["spec"]
    return GroupKind(spec["group"].text(), spec["names"]["kind"].text())


def _next_definition(known: Definition | None, obj: PartialObject) -> Definition:
    is_same = known is not None and known.uid == obj.uid
    revision = min(known.revision, obj.revision) if known is not None and is_same else obj.revision
    return Definition(obj.uid, obj.deleting, revision)
