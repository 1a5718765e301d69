"""The caches of all peers, and which of their objects claim which target.

Laws: a claim exists while a watch that a rule needs has the object, and the rule matches it · a deleted membership
object is never made again from an older record · a member uses up its own room for deletions, and no other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.lost_objects import LostObjects
from registry_controller.cache.rule_evaluator import EvaluationUsage
from registry_controller.cache.source_cache import SourceCache, SourceObserver
from registry_controller.cache.source_records import SourceKey, SourceRecord
from registry_controller.core.rules.active import Hit
from registry_controller.watch.body_cache import BodyCache
from registry_controller.watch.fairness import EvaluationLimiter

MOST_DELETIONS: Final = 128
"""Targets of one member: its Cluster and its Secret, and those that it gave up."""
MOST_MEMBERS: Final = 256
"""As many members as the daemon knows Clusters at a time."""


class MemberDeletions:
    """The revisions at which members deleted their own Clusters and Secrets (O4), by member and target.

    Beyond `MOST_DELETIONS` targets of a member, its oldest become one revision for all.
    """

    def __init__(self) -> None:
        self._at: dict[ClusterUID, dict[Target, int]] = {}
        self._floor: dict[ClusterUID, int] = {}

    def record(self, member: ClusterUID, target: Target, revision: int) -> None:
        """Record the revision at which a member deleted an object of its own."""
        held = self._at.pop(member, {})
        self._at[member] = held
        held[target] = max(revision, held.pop(target, 0))
        if len(held) > MOST_DELETIONS:
            self._floor[member] = max(self._floor.get(member, 0), held.pop(next(iter(held))))
        if len(self._at) > MOST_MEMBERS:
            oldest = next(iter(self._at))
            del self._at[oldest]
            self._floor.pop(oldest, None)

    def at(self, member: ClusterUID, target: Target) -> int:
        """Return the revision up to which a member has deleted an object, or 0."""
        return max(self._at.get(member, {}).get(target, 0), self._floor.get(member, 0))


class Offer(NamedTuple):
    """An object that claims a target: its record, and the rule's match from which the copy is rendered."""

    cache: SourceCache
    key: ObjectKey
    record: SourceRecord
    hit: Hit


class SourceIndex:
    """The caches of all peers, and which of their objects claim which target.

    `status_changed` is called when the errors or the completeness of a cache changed.
    """

    def __init__(
        self, *, bodies: BodyCache, observer: SourceObserver, status_changed: Callable[[], None] = lambda: None
    ) -> None:
        self.bodies = bodies
        self.observer = observer
        self.status_changed = status_changed
        self._caches: dict[tuple[ClusterUID, GVK], SourceCache] = {}
        self._by_kind: dict[tuple[str, str], list[SourceCache]] = {}
        self._by_peer: dict[tuple[ClusterUID, str, str], list[SourceCache]] = {}
        self._renamed: dict[Target, set[SourceKey]] = {}
        self._lost: dict[tuple[ClusterUID, GVK], LostObjects] = {}
        self._deletions = MemberDeletions()
        self.usage = EvaluationUsage()
        self.evaluations = EvaluationLimiter()

    def cache_of(self, peer: ClusterUID, kind: GVK) -> SourceCache | None:
        """Return the cache of a peer's kind; None where no rule reads it."""
        return self._caches.get((peer, kind))

    def lost_of(self, peer: ClusterUID, kind: GVK) -> LostObjects:
        """Return the losses of a peer's kind: they are known also after no rule read it, or no connection was there."""
        return self._lost.setdefault((peer, kind), LostObjects())

    def caches_of(self, peer: ClusterUID) -> Iterable[SourceCache]:
        """List the caches of a peer."""
        return [cache for (held, _), cache in self._caches.items() if held == peer]

    def caches_of_kind(self, peer: ClusterUID, kind: GVK) -> Sequence[SourceCache]:
        """List the caches of a peer's kind, in all versions in which it is read."""
        return self._by_peer.get((peer, kind.group, kind.kind), ())

    def first_rule(self, owner: ClusterUID, kind: GVK) -> str:
        """Return the first rule that reads a kind from an owner; empty without one."""
        return next((active.rule.name for cache in self.caches_of_kind(owner, kind) for active in cache.rules), "")

    def all_caches(self) -> Iterable[SourceCache]:
        """List the caches of all peers."""
        return list(self._caches.values())

    def open(self, cache: SourceCache) -> None:
        """Add a cache; it replaces that of the same peer and kind."""
        self.close(cache.peer, cache.kind)
        self._caches[(cache.peer, cache.kind)] = cache
        self._by_kind.setdefault((cache.kind.group, cache.kind.kind), []).append(cache)
        self._by_peer.setdefault((cache.peer, cache.kind.group, cache.kind.kind), []).append(cache)

    def close(self, peer: ClusterUID, kind: GVK) -> None:
        """Drop a cache with all its claims."""
        cache = self._caches.pop((peer, kind), None)
        if cache is not None:
            self._by_kind[(kind.group, kind.kind)].remove(cache)
            self._by_peer[(peer, kind.group, kind.kind)].remove(cache)
            cache.close()
            if not any(other.kind == kind for other in self._by_kind[(kind.group, kind.kind)]):
                self.evaluations.drop_kind(kind)

    def relink(self, source: SourceKey, old: tuple[Hit, ...], new: tuple[Hit, ...]) -> None:
        """Index the targets that are of another kind, or in another place, than their source."""
        key = source[2]
        for hit in old:
            if hit.is_moved:
                held = self._renamed.get(hit.target(key))
                if held is not None:
                    held.discard(source)
                    if not held:
                        del self._renamed[hit.target(key)]
        for hit in new:
            if hit.is_moved:
                self._renamed.setdefault(hit.target(key), set()).add(source)

    def claiming(self, target: Target) -> tuple[Offer, ...]:
        """List the objects that claim a target, each with its hit."""
        key = ObjectKey(target.namespace, target.name)
        places = [(cache, key) for cache in self._by_kind.get((target.group, target.kind), ()) if key in cache.records]
        for peer, kind, moved_key in sorted(self._renamed.get(target, ())):
            moved_from = self._caches.get((peer, kind))
            if moved_from is not None and moved_key in moved_from.records:
                places.append((moved_from, moved_key))
        offers: list[Offer] = []
        for cache, source in places:
            record = cache.records[source]
            hit = record.hit_on(target, source)
            if hit is not None:
                offers.append(Offer(cache, source, record, hit))
        return tuple(offers)

    def claims_elsewhere(self, target: Target) -> int:
        """Count the objects that claim a target of another kind, or in another place, than they are."""
        return len(self._renamed.get(target, ()))

    def is_offered(self, target: Target, *, owner: ClusterUID, kind: GVK, key: ObjectKey, rule: str) -> bool:
        """Return whether the owner has its own object, from which a rule that may write the target makes it.

        That is a rule of the name `rule`, or any rule where this is empty.
        """
        found = (cache.records.get(key) for cache in self.caches_of_kind(owner, kind))
        return any(
            hit.barrier is None and rule in ("", hit.rule) and hit.target(key) == target
            for record in found
            if record is not None and not record.deleting and record.marks.owner in (None, owner)
            for hit in record.hits
        )

    def record_deletion(self, peer: ClusterUID, target: Target, revision: int) -> None:
        """Record the revision at which a member deleted a membership object of its own (O4)."""
        self._deletions.record(peer, target, revision)

    def deleted_at(self, peer: ClusterUID, target: Target) -> int:
        """Return the revision up to which a member has deleted a membership object (O4), or 0."""
        return self._deletions.at(peer, target)
