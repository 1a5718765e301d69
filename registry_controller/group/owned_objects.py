"""The objects of the local cluster that carry a mark of this operator, by owner.

Law: an object without a valid mark of this operator, or with one for another cluster, is not in it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.group.objects import Object, read_object
from registry_controller.group.ownership import Owner, OwnerMark, read_mark
from registry_controller.kube.object import PartialObject
from registry_controller.watch.event_handler import EventHandler

K = TypeVar("K")


class Owned(NamedTuple):
    """A marked object, in the state that was read last."""

    kind: GVK
    uid: str
    revision: int
    mark: OwnerMark
    is_deleting: bool


class OwnedChange(NamedTuple):
    """A change of an object: `before` is None for a new one, `now` for one that is gone, or has lost its mark."""

    target: Target
    before: Owned | None
    now: Owned | None


class OwnedObjects:
    """The marked objects of the kinds that are watched. `changed` is called with each change.

    `cluster` is the ID of the local cluster. Several watches may show an object: it is here while one of them does.
    """

    def __init__(self, *, operator: str, cluster: ClusterUID, changed: Callable[[OwnedChange], None]) -> None:
        self.cluster = cluster
        self._operator = operator
        self._changed = changed
        self._by_target: dict[Target, Owned] = {}
        self._shown_by: dict[Target, set[object]] = collections.defaultdict(set)
        self._of_owner: dict[tuple[ClusterUID, Target], set[Target]] = collections.defaultdict(set)
        self._of_cluster: dict[ClusterUID, set[Target]] = collections.defaultdict(set)

    def __contains__(self, target: object) -> bool:
        return target in self._by_target

    def get(self, target: Target) -> Owned | None:
        """Return an object; None where it is not here, or has no mark."""
        return self._by_target.get(target)

    @property
    def owners(self) -> Collection[tuple[Owner, Target]]:
        """Return the owner of each object, with the object."""
        return [(found.mark.owner, target) for target, found in self._by_target.items()]

    @property
    def clusters(self) -> Collection[ClusterUID]:
        """Return the clusters of the owners."""
        return self._of_cluster.keys()

    def of_cluster(self, cluster: ClusterUID) -> Collection[Target]:
        """Return the objects whose owners are objects of a cluster."""
        return self._of_cluster.get(cluster, set())

    def of_owner(self, cluster: ClusterUID, owner: Target) -> Collection[Target]:
        """Return the objects of the owners that have, or had, a name in a cluster."""
        return self._of_owner.get((cluster, owner), set())

    def read(self, obj: Object) -> Owned | None:
        """Return a marked object; None for an object without a mark of this operator that is valid here."""
        mark = read_mark(obj.annotations, of=_target(obj.kind, obj.key), cluster=self.cluster)
        if mark is None or mark.operator != self._operator:
            return None
        return Owned(obj.kind, obj.uid, obj.revision, mark, obj.is_deleting)

    def drop(self, watch: object, kind: GVK, key: ObjectKey) -> None:
        """Note that a watch does not show an object any more."""
        target = _target(kind, key)
        self._shown_by[target].discard(watch)
        if not self._shown_by[target]:
            self._put(target, None)

    def put(self, watch: object, kind: GVK, key: ObjectKey, found: Owned | None) -> None:
        """Take the present state of an object, which a watch shows; None where it has no mark."""
        target = _target(kind, key)
        self._shown_by[target].add(watch)
        self._put(target, found)

    def _put(self, target: Target, found: Owned | None) -> None:
        if found is None:
            self._shown_by.pop(target, None)
        before = self._by_target.get(target)
        if before == found and (found is None or found.revision > 0):  # 0 is a resourceVersion that is no number
            return
        if before is not None:
            owner = before.mark.owner
            del self._by_target[target]
            _discard(self._of_owner, (owner.cluster, owner.target), target)
            _discard(self._of_cluster, owner.cluster, target)
        if found is not None:
            owner = found.mark.owner
            self._by_target[target] = found
            self._of_owner[(owner.cluster, owner.target)].add(target)
            self._of_cluster[owner.cluster].add(target)
        self._changed(OwnedChange(target, before, found))


class OwnedHandler(EventHandler):
    """Fills the marked objects from the watch of a kind; `kind` has the version that is served now.

    `synced` is called once all of them were read, and `reset` where the cluster has another history. `report` is called
    with the error for which they may be out of date, and with None when they are not.
    """

    def __init__(
        self,
        kind: GVK,
        owned: OwnedObjects,
        *,
        synced: Callable[[], None],
        reset: Callable[[], None],
        report: Callable[[RegistryError | None], None],
    ) -> None:
        self.kind = kind
        self._owned = owned
        self._synced = synced
        self._reset = reset
        self._report = report

    def on_object(self, obj: PartialObject) -> None:
        """Take an object's present state."""
        found = read_object(obj, kind=self.kind, metadata_only=True)
        self._owned.put(self, self.kind, obj.key, self._owned.read(found))

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take the deletion of an object."""
        self._owned.drop(self, self.kind, key)

    def on_synced(self, revision: int) -> None:
        """Note that all objects are known."""
        self._report(None)
        self._synced()

    def on_reset(self) -> None:
        """Note that the cluster may be another one."""
        self._reset()

    def on_error(self, error: RegistryError) -> None:
        """Report why the objects may be out of date."""
        self._report(error)

    def on_recovered(self) -> None:
        """Note that the objects are current again."""
        self._report(None)


def _target(kind: GVK, key: ObjectKey) -> Target:
    return Target(kind.group, kind.kind, key.namespace, key.name)


def _discard(sets: dict[K, set[Target]], key: K, target: Target) -> None:
    sets[key].discard(target)
    if not sets[key]:
        del sets[key]
