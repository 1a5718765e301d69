"""The objects that are read from every peer, for any rules: its ClusterFeatures and its Clusters."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import DeletedRule, read_deleted_rules
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.formats import is_later_feature
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.lost_objects import LostObjects
from registry_controller.cache.members import MemberRecord, Members, membership_of
from registry_controller.kube.object import PartialObject

_WORD: Final = 32
"""Characters of a state or type: ours have no more."""

_NAME_LENGTH: Final = 253
_LABELS: Final = 64
_FEATURE_LENGTH: Final = 4096
"""Characters of a feature's name and labels, together: a label has 380 at most, a tombstone 300."""


class PeerObjects(abc.ABC):
    """All objects of a kind at a peer, for any rules.

    `is_current` is false from a break of the watch until the list after it is complete, and while the definition of
    the kind is not known to be there after a deletion.
    """

    def __init__(self) -> None:
        self._is_listed = False
        self._is_complete = False
        self._is_defined = True

    @property
    def is_listed(self) -> bool:
        """True if the objects were listed since the watch broke off last."""
        return self._is_listed

    @property
    def is_current(self) -> bool:
        """True if an object that is missing here is missing at the peer, and did not go with its definition."""
        return self._is_listed and self._is_defined

    def reset(self) -> None:
        """Note that the watch broke off: the next list shows what there is."""
        self._is_listed = False

    def upsert(self, obj: PartialObject, body: Callable[[], Manifest]) -> None:
        """Take an object's present state."""
        self._take(obj, body)

    def remove(self, key: ObjectKey) -> None:
        """Take an object that is gone."""
        self._drop(key.name)

    def complete(self) -> None:
        """Note that the list is complete."""
        self._is_listed = self._is_complete = True
        self._changed()

    def on_definition(self, state: DefinitionState) -> None:
        """Note what discovery shows about the definition of the kind after the last deletion.

        After one that went, only a new list shows which objects are missing: the watch may be of the former definition.
        """
        if state is DefinitionState.NEXT:
            self.reset()
        if state.is_there != self._is_defined:
            self._is_defined = state.is_there
            self._changed()

    @abc.abstractmethod
    def _take(self, obj: PartialObject, body: Callable[[], Manifest]) -> None:
        """Keep an object's present state."""

    @abc.abstractmethod
    def _drop(self, name: str) -> None:
        """Remove an object."""

    @abc.abstractmethod
    def _changed(self) -> None:
        """Report a change."""


class PeerFeatures(PeerObjects):
    """The ClusterFeatures that a peer holds.

    `changed` is called when they may choose other rules, `deleted` when one of them went. `lost` has those.
    `deleted_rules` is the peer's record of the rules that were deleted in it, each with the loop's time in seconds at
    which it was first seen.
    """

    def __init__(
        self,
        *,
        changed: Callable[[], None],
        deleted: Callable[[], None] = lambda: None,
        lost: LostObjects | None = None,
    ) -> None:
        super().__init__()
        self._lost = lost or LostObjects()
        self.deleted_rules: Mapping[DeletedRule, float] = {}
        self._tell = changed
        self._deleted = deleted
        self._held: dict[str, Feature] = {}
        self._later: set[str] = set()

    @property
    def later(self) -> Sequence[str] | None:
        """The names of those that a later version of the daemon wrote, in a format that this one cannot read.

        None before the first complete list.
        """
        return sorted(self._later) if self._is_complete else None

    @property
    def held(self) -> tuple[Feature, ...] | None:
        """The features; None before the first complete list."""
        return tuple(self._held.values()) if self._is_complete else None

    @property
    def is_unserved(self) -> bool:
        """True while the peer may have lost all features with their definition, also those in `held`."""
        return self._lost.is_unserved

    def list_lost(self) -> Iterator[Feature]:
        """List the features that are gone and may be lost without a deletion by their owner."""
        return self._lost.list_lost_features()

    def on_definition(self, state: DefinitionState) -> None:
        """Note the definition's state; features may be lost with one that goes."""
        if state is DefinitionState.GOING:
            self._lost.note_unserved()
        super().on_definition(state)

    def _take(self, obj: PartialObject, body: Callable[[], Manifest]) -> None:
        """Keep a feature; one that cannot be read is left out."""
        if obj.key.name == names.DELETED_RULES_OBJECT:
            self._set_deleted_rules(read_deleted_rules(obj.annotations))
        try:
            feature = read_feature(body())
        except InvalidObject:
            return
        if _is_too_much(feature):
            return
        is_later = is_later_feature(feature, obj.annotations)
        self._lost.note_back(obj.key)
        if self._held.get(obj.key.name) != feature or is_later != (obj.key.name in self._later):
            self._held[obj.key.name] = feature
            (self._later.add if is_later else self._later.discard)(obj.key.name)
            self._changed()

    def _drop(self, name: str) -> None:
        if name == names.DELETED_RULES_OBJECT:
            self._set_deleted_rules(frozenset())
        self._later.discard(name)
        feature = self._held.pop(name, None)
        if feature is not None:
            self._lost.note_former(ObjectKey("", name), feature)
            self._deleted()
            self._changed()

    def _set_deleted_rules(self, rules: frozenset[DeletedRule]) -> None:
        if rules != self.deleted_rules.keys():
            now_s = asyncio.get_running_loop().time()
            before = {rule.uid: at_s for rule, at_s in self.deleted_rules.items()}
            self.deleted_rules = {rule: before.get(rule.uid, now_s) for rule in rules}
            self._changed()

    def _changed(self) -> None:
        if self._is_complete:
            self._tell()


class PeerClusters(PeerObjects):
    """The Clusters that a peer holds, passed on to the members. `changed` is called when a status may differ."""

    def __init__(self, peer: ClusterUID, *, members: Members, changed: Callable[[], None]) -> None:
        super().__init__()
        self._peer = peer
        self._members = members
        self._tell = changed

    @property
    def held(self) -> Mapping[str, MemberRecord] | None:
        """The Clusters by name; None before the first complete list."""
        return self._members.there(self._peer) if self._is_complete else None

    def close(self) -> None:
        """Forget what this peer holds."""
        self._members.drop_peer(self._peer)

    def _take(self, obj: PartialObject, body: Callable[[], Manifest]) -> None:
        if self._members.set_there(self._peer, obj.key.name, read_member(obj, body(), peer=self._peer)):
            self._changed()

    def _drop(self, name: str) -> None:
        if self._members.set_there(self._peer, name, None):
            self._changed()

    def _changed(self) -> None:
        self._tell()


def read_member(obj: PartialObject, manifest: Manifest, *, peer: ClusterUID) -> MemberRecord | None:
    """Read a Cluster as a member has it, with any values in its fields; None for a Cluster without an ID."""
    spec, status = manifest.get("spec"), manifest.get("status")
    spec = spec if isinstance(spec, Mapping) else {}
    status = status if isinstance(status, Mapping) else {}
    auth = spec.get("authInfo")
    reference = auth.get("secretRef") if isinstance(auth, Mapping) else None
    reference = reference if isinstance(reference, Mapping) else {}
    name, namespace = (_name(reference.get(part)) for part in ("name", "namespace"))
    cluster_id = spec_cluster_id(manifest)
    if cluster_id is None:
        return None
    secret = ObjectKey(namespace, name) if name and namespace is not None else None
    disabled = meta.CLUSTER_DISABLED in obj.annotations
    state, kind = status.get("state"), status.get("type")
    state, kind = (found if isinstance(found, str) else "" for found in (state, kind))
    membership = obj.uid if cluster_id == peer else membership_of(obj.annotations, obj.key.name, cluster_id)
    return MemberRecord(obj.key.name, cluster_id, secret, state[:_WORD], kind[:_WORD], disabled, membership)


def spec_cluster_id(manifest: Manifest) -> ClusterUID | None:
    """Return the ID of the cluster that a Cluster stands for; None without an ID, or with one that is too long."""
    spec = manifest.get("spec")
    found = spec.get("clusterID") if isinstance(spec, Mapping) else None
    return ClusterUID(found) if isinstance(found, str) and 0 < len(found) <= meta.UID_LENGTH else None


def _name(found: object) -> str | None:
    return found if isinstance(found, str) and len(found) <= _NAME_LENGTH else None


def _is_too_much(feature: Feature) -> bool:
    texts = (feature.feature_name, *feature.labels, *feature.labels.values())
    return len(feature.labels) > _LABELS or sum(map(len, texts)) > _FEATURE_LENGTH
