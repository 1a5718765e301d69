"""ResourceSyncRule: the objects of the group to copy here, and their mutations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import FeatureMatch, read_feature_match
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK
from registry_controller.api.selectors import Selector, read_selector

KEY_PARTS: Final = ("name", "namespace")
"""The fields of `objectKey`."""
POLICIES: Final = ("Orphan", "Delete")
"""The values of `deletionPolicy`."""
OBJECT_TARGETS: Final = ("Ignore", "Required")
"""The values of `objectTargets`."""
_INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class ContentMatch:
    """A value in the object. `key` is a gjson path."""

    key: str
    value: str | int
    path: str


@dataclass(frozen=True, slots=True)
class Match:
    """Conditions that must all be met; an empty part is no condition. `path` is the path of the match in the rule.

    `misplaced` are the parts of the object's key that were written directly under the match.
    """

    path: str
    name: str = ""
    namespace: str = ""
    namespaces: tuple[str, ...] = ()
    labels: tuple[Selector, ...] = ()
    annotations: tuple[Selector, ...] = ()
    content: tuple[ContentMatch, ...] = ()
    has_sync_status: bool = False
    misplaced: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True without a condition: the match selects all objects of the kind."""
        selectors = self.labels + self.annotations
        return not (
            self.name or self.namespace or self.namespaces or self.content or any(s.requirements for s in selectors)
        )


@dataclass(frozen=True, slots=True)
class MapMutation:
    """Labels or annotations to add first, and keys to remove after that."""

    add: Mapping[str, str] = dataclasses.field(hash=False)
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """A change at one path of the copy; `pointer` has the syntax of go-patch."""

    type: str
    pointer: str
    value: str
    parse_value: bool
    path: str


@dataclass(frozen=True, slots=True)
class Mutations:
    """The differences between a copy and its source. An empty part of `kind` leaves the source's part unchanged."""

    annotations: MapMutation
    labels: MapMutation
    kind: GVK
    overrides: tuple[Override, ...]
    sync_status: bool


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """An entry of `spec.rules`. It matches objects that any of `matches` selects, or all objects without `matches`.

    The hash is that of the path alone, because it is computed for every matching object and an entry may be large.
    """

    matches: tuple[Match, ...] = dataclasses.field(hash=False)
    mutations: Mutations = dataclasses.field(hash=False)
    path: str


@dataclass(frozen=True, slots=True)
class Targets:
    """The clusters that apply a rule: their Cluster object has one of the names, and the labels."""

    names: tuple[str, ...]
    labels: Selector

    def select(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a Cluster with this name and these labels is selected; without `names`, every name is."""
        return (not self.names or name in self.names) and self.labels.matches(labels)


ANY_CLUSTER: Final = Targets((), Selector())


@dataclass(frozen=True, slots=True)
class SyncRule:
    """A ResourceSyncRule object whose fields have the right types.

    With `requires_targets` the rule copies an object only to the clusters that the object names.
    """

    name: str
    uid: str
    created: str
    generation: int
    kind: GVK
    entries: tuple[RuleEntry, ...]
    features: tuple[FeatureMatch, ...]
    deletion_policy: str
    targets: Targets | None
    requires_targets: bool
    suspend: bool
    create_namespaces: bool
    sync_disabled: bool

    @property
    def asks_for(self) -> Targets | None:
        """The selector for the Cluster of the cluster that applies the rule; None where the rule needs no Cluster.

        A rule with `requires_targets` needs any Cluster, because objects name it.
        """
        return ANY_CLUSTER if self.targets is None and self.requires_targets else self.targets

    @property
    def has_templates(self) -> bool:
        """True if an override has a template: the copy may depend on more than the source."""
        return any("{{" in override.value for entry in self.entries for override in entry.mutations.overrides)


def read_rule(manifest: meta.Manifest) -> SyncRule:
    """Parse a ResourceSyncRule object. Raises InvalidObject with the path of the first wrong field."""
    field = Field(manifest, "")
    info, spec = field["metadata"], field["spec"]
    annotations = info["annotations"].text_map()
    kind = spec["groupVersionKind"]
    if kind.value is None:
        raise InvalidObject("spec.groupVersionKind", "is required")
    return SyncRule(
        name=info["name"].text(),
        uid=info["uid"].text(),
        created=info["creationTimestamp"].text(),
        generation=info["generation"].value or 0,
        kind=_read_gvk(kind),
        entries=tuple(_read_entry(item) for item in spec["rules"].items()),
        features=tuple(read_feature_match(item) for item in spec["clusterFeatureMatch"].items()),
        deletion_policy=read_policy(manifest),
        targets=_read_targets(spec["targetClusters"]),
        requires_targets=_requires_targets(spec["objectTargets"]),
        suspend=spec["suspend"].flag(),
        create_namespaces=spec["createNamespaces"].flag(),
        sync_disabled=meta.SYNC_DISABLED in annotations,
    )


def read_policy(manifest: meta.Manifest) -> str:
    """Return the deletionPolicy of a ResourceSyncRule object. Raises InvalidObject for an unknown one."""
    policy = Field(manifest, "")["spec"]["deletionPolicy"].text("Orphan")
    if policy not in POLICIES:
        raise InvalidObject("spec.deletionPolicy", "must be Orphan or Delete")
    return policy


def _requires_targets(field: Field) -> bool:
    value = field.text("Ignore")
    if value not in OBJECT_TARGETS:
        raise InvalidObject(field.path, "must be Ignore or Required")
    return value == "Required"


def _read_targets(field: Field) -> Targets | None:
    return None if field.value is None else Targets(field["names"].texts(), read_selector(field))


def _read_gvk(field: Field) -> GVK:
    return GVK(field["group"].text(), field["version"].text(), field["kind"].text())


def _read_entry(field: Field) -> RuleEntry:
    matches = tuple(_read_match(item) for item in field["match"].items())
    return RuleEntry(matches, _read_mutations(field["mutations"]), field.path)


def _read_match(field: Field) -> Match:
    for part in KEY_PARTS:
        if is_contradicted(field, part):
            message = f"belongs under objectKey, and differs from objectKey.{part}: remove one of them"
            raise InvalidObject(f"{field.path}.{part}", message)
    key = field["objectKey"]
    return Match(
        path=field.path,
        name=key["name"].text() or field["name"].text(),
        namespace=key["namespace"].text() or field["namespace"].text(),
        misplaced=tuple(part for part in KEY_PARTS if field[part].value is not None),
        namespaces=field["namespaces"].texts(),
        labels=tuple(
            read_selector(item) for item in field["labels"].items(of="selectors, such as [{matchLabels: {key: value}}]")
        ),
        annotations=tuple(
            read_selector(item, labels_field="matchAnnotations") for item in field["annotations"].items()
        ),
        content=tuple(_read_content(item) for item in field["content"].items()),
        has_sync_status=field["syncStatus"].value is not None,
    )


def is_contradicted(match: Field, part: str) -> bool:
    """Return whether a part of the object's key, directly under a match, differs from that part of its `objectKey`."""
    held, misplaced = match["objectKey"][part].value, match[part].value
    return misplaced is not None and held not in (None, "") and held != misplaced


def _read_content(field: Field) -> ContentMatch:
    key = field["key"].text()
    if not key:
        raise InvalidObject(f"{field.path}.key", "is required")
    value = field["value"]
    if value.value is None:
        raise InvalidObject(value.path, "is required")
    wanted = value.int_or_text()
    if isinstance(wanted, int) and wanted not in _INT32:
        raise InvalidObject(value.path, "must fit into 32 bits; write it as a string")
    return ContentMatch(key, wanted, field.path)


def _read_mutations(field: Field) -> Mutations:
    return Mutations(
        annotations=_read_map_mutation(field["annotations"]),
        labels=_read_map_mutation(field["labels"]),
        kind=_read_gvk(field["groupVersionKind"]),
        overrides=tuple(_read_override(item) for item in field["overrides"].items()),
        sync_status=field["syncStatus"].flag(),
    )


def _read_map_mutation(field: Field) -> MapMutation:
    return MapMutation(field["add"].text_map(), field["remove"].texts())


def _read_override(field: Field) -> Override:
    return Override(
        type=field["type"].text(),
        pointer=field["path"].text(),
        value=field["value"].text(),
        parse_value=field["parseValue"].flag(),
        path=field.path,
    )
