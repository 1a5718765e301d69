"""What is here: one feed a kind that rules write, and where the copies of a source lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.local_cache import CopyRecord, LocalCache, RuleAndOwner
from registry_controller.watch.body_cache import BodyCache

_Source = tuple[ClusterUID, str, str, ObjectKey]


class CopyIndex:
    """All local feeds. `counts` says how many copies there are of each origin.

    `on_change` hears which target wants a fresh look, and whose copy it is, or was, `on_late` of which kind something
    was written that nobody may hear of.
    """

    def __init__(
        self,
        *,
        bodies: BodyCache,
        on_change: Callable[[Target, ClusterUID], None],
        on_complete: Callable[[LocalCache], None],
        on_standing: Callable[[LocalCache], None],
        on_late: Callable[[GVK], None],
    ) -> None:
        self.bodies = bodies
        self.on_change = on_change
        self.on_complete = on_complete
        self.on_standing = on_standing
        self.on_late = on_late
        self.counts: Counter[RuleAndOwner] = Counter()
        self._moved: dict[_Source, set[Target]] = {}
        self._feeds: dict[tuple[str, str], LocalCache] = {}
        self._newest: dict[tuple[str, str], int] = {}

    def cache_of(self, group: str, kind: str) -> LocalCache | None:
        """Find the feed of a kind."""
        return self._feeds.get((group, kind))

    def has(self, target: Target) -> bool:
        """Say whether something is known to be there."""
        cache = self.cache_of(target.group, target.kind)
        return cache is not None and target.key in cache.records

    def newest(self, kind: GVK) -> int:
        """Tell the highest resourceVersion of a copy of a kind that was ever known here, by any feed."""
        return self._newest.get((kind.group, kind.kind), 0)

    def note(self, kind: GVK, revision: int | None) -> None:
        """Note the resourceVersion of a copy; None when the server's history went back."""
        self._newest[kind.group, kind.kind] = 0 if revision is None else max(self.newest(kind), revision)

    def copies_of(self, owner: ClusterUID, kind: GVK, key: ObjectKey) -> Iterable[Target]:
        """List where copies of an owner's object may lie: at its own place, and wherever rules have put some."""
        moved = self._moved.get((owner, kind.group, kind.kind, key), ())
        return [Target(kind.group, kind.kind, *key), *sorted(moved)]

    def add(self, target: Target, record: CopyRecord) -> None:
        """Count a copy, and remember what it was made from if its own place does not tell."""
        self.counts[record.origin] += 1
        if (source := _moved_from(target, record)) is not None:
            self._moved.setdefault(source, set()).add(target)

    def discard(self, target: Target, record: CopyRecord) -> None:
        """Count a copy no more."""
        self.counts[record.origin] -= 1
        if (source := _moved_from(target, record)) is not None and (found := self._moved.get(source)):
            found.discard(target)
            if not found:
                del self._moved[source]

    def all_caches(self) -> Iterable[LocalCache]:
        """List every feed."""
        return list(self._feeds.values())

    def open(self, cache: LocalCache) -> None:
        """Add a feed in place of the one of the same kind."""
        self.close(cache.kind.group, cache.kind.kind)
        self._feeds[(cache.kind.group, cache.kind.kind)] = cache

    def close(self, group: str, kind: str) -> None:
        """Drop a feed."""
        cache = self._feeds.pop((group, kind), None)
        if cache is not None:
            cache.close()


def _moved_from(target: Target, record: CopyRecord) -> _Source | None:
    """Name the source of a copy that lies elsewhere or is of another kind; None for all others."""
    if record.source is None or record.marks.owner is None:
        return None
    kind, key = record.source
    if (kind.group, kind.kind, *key) == target:
        return None
    return (record.marks.owner, kind.group, kind.kind, key)
