"""What all peers offer: their feeds, and which of their objects claim which target.

Law: a claim exists while a stream that a rule asked for has the object and the rule matches it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.member_deletions import MemberDeletions
from registry_controller.cache.rule_evaluator import EvaluationUsage
from registry_controller.cache.source_cache import SourceCache, SourceRecord
from registry_controller.core.rules.active import Hit
from registry_controller.watch.body_cache import BodyCache
from registry_controller.watch.fairness import EvaluationLimiter


class SourceIndex:
    """All feeds, and which objects claim which target.

    `on_change` hears which target wants a fresh look, and the member of whose objects that comes, `on_back` which
    object appeared, or is one of which a rule can say again what it wants, or is gone as such a one.
    """

    def __init__(
        self,
        *,
        bodies: BodyCache,
        on_change: Callable[[Target, ClusterUID], None],
        on_complete: Callable[[SourceCache, Collection[Target]], None],
        on_standing: Callable[[SourceCache], None],
        on_back: Callable[[ClusterUID, GVK, ObjectKey], None],
    ) -> None:
        self.bodies = bodies
        self.on_change = on_change
        self.on_complete = on_complete
        self.on_standing = on_standing
        self.on_back = on_back
        self._feeds: dict[tuple[ClusterUID, GVK], SourceCache] = {}
        self._by_kind: dict[tuple[str, str], list[SourceCache]] = {}
        self._by_peer: dict[tuple[ClusterUID, str, str], list[SourceCache]] = {}
        self._renamed: dict[Target, set[tuple[ClusterUID, GVK, ObjectKey]]] = {}
        self.deletions = MemberDeletions()
        self.usage = EvaluationUsage()
        self.evaluations = EvaluationLimiter()

    def cache_of(self, peer: ClusterUID, kind: GVK) -> SourceCache | None:
        """Find a peer's feed of a kind."""
        return self._feeds.get((peer, kind))

    def caches_of(self, peer: ClusterUID) -> Iterable[SourceCache]:
        """List a peer's feeds."""
        return [cache for (held, _), cache in self._feeds.items() if held == peer]

    def caches_of_kind(self, peer: ClusterUID, kind: GVK) -> Sequence[SourceCache]:
        """List a peer's feeds of a kind, in whatever version it is read."""
        return self._by_peer.get((peer, kind.group, kind.kind), ())

    def all_caches(self) -> Iterable[SourceCache]:
        """List every feed."""
        return list(self._feeds.values())

    def open(self, cache: SourceCache) -> None:
        """Add a feed in place of the one of the same peer and kind."""
        self.close(cache.peer, cache.kind)
        self._feeds[(cache.peer, cache.kind)] = cache
        self._by_kind.setdefault((cache.kind.group, cache.kind.kind), []).append(cache)
        self._by_peer.setdefault((cache.peer, cache.kind.group, cache.kind.kind), []).append(cache)

    def close(self, peer: ClusterUID, kind: GVK) -> None:
        """Drop a feed with all its claims."""
        cache = self._feeds.pop((peer, kind), None)
        if cache is not None:
            self._by_kind[(kind.group, kind.kind)].remove(cache)
            self._by_peer[(peer, kind.group, kind.kind)].remove(cache)
            cache.close()
            if not any(other.kind == kind for other in self._by_kind[(kind.group, kind.kind)]):
                self.evaluations.drop_kind(kind)

    def relink(self, cache: SourceCache, key: ObjectKey, old: tuple[Hit, ...], new: tuple[Hit, ...]) -> None:
        """Keep the way back from targets that are of another kind or elsewhere than their source."""
        place = (cache.peer, cache.kind, key)
        for hit in old:
            if hit.is_moved(cache.kind):
                held = self._renamed.get(hit.target(key))
                if held is not None:
                    held.discard(place)
                    if not held:
                        del self._renamed[hit.target(key)]
        for hit in new:
            if hit.is_moved(cache.kind):
                self._renamed.setdefault(hit.target(key), set()).add(place)

    def claiming(self, target: Target) -> Iterator[tuple[SourceCache, ObjectKey, SourceRecord, Hit]]:
        """List the objects that claim a target, each with the rule by which it does."""
        for cache in self._by_kind.get((target.group, target.kind), ()):
            record = cache.records.get(target.key)
            hit = record.hit_on(target, target.key) if record is not None else None
            if record is not None and hit is not None:
                yield cache, target.key, record, hit
        for peer, kind, key in sorted(self._renamed.get(target, ())):
            feed_of = self._feeds.get((peer, kind))
            record = feed_of.records.get(key) if feed_of else None
            hit = record.hit_on(target, key) if record is not None else None
            if feed_of is not None and record is not None and hit is not None:
                yield feed_of, key, record, hit

    def claims_elsewhere(self, target: Target) -> int:
        """Count the objects that claim a target which is of another kind, or elsewhere, than they are."""
        return len(self._renamed.get(target, ()))

    def is_offered(self, target: Target, *, owner: ClusterUID, kind: GVK, key: ObjectKey) -> bool:
        """Return true if an owner has an object of its own, and a rule that may makes the target of it."""
        found = (cache.records.get(key) for cache in self.caches_of_kind(owner, kind))
        return any(
            hit.barrier is None and hit.target(key) == target
            for record in found
            if record is not None and not record.deleting and record.marks.owner in (None, owner)
            for hit in record.hits
        )

    def is_claimed(self, target: Target) -> bool:
        """Say whether anything claims a target."""
        return next(self.claiming(target), None) is not None

    def deleted_at(self, peer: ClusterUID, target: Target) -> int:
        """Tell up to which revision a member was seen to have deleted a membership object (O4), or 0."""
        return self.deletions.at(peer, target)
