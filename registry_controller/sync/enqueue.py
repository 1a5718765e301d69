"""What needs a fresh look when something changed that is not an object: who is alive, what is complete, a namespace.

Law: too many looks are harmless, one too few is a bug; a look is a key in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Set
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import HERE, CopyRecord, LocalCache
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.core.decision.ownership import is_membership


class Enqueuer:
    """Finds the targets that a change bears on, and puts them into the queue."""

    def __init__(self, *, sources: SourceIndex, copies: CopyIndex, add: Callable[[Target, str], None]) -> None:
        self._sources = sources
        self._copies = copies
        self._add = add

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        """Look at what bears on members that are known or alive now, or no longer, and at offers of membership."""
        self._enqueue_copies_where(lambda _cache, _key, record: not members.isdisjoint(_parties(record)))
        for cache in self._sources.all_caches():
            if cache.kind in (meta.CLUSTER, meta.SECRET):
                self._enqueue_claims(cache)

    def on_rules_changed(self, rules: Set[str], kinds: Set[tuple[str, str]], members: Set[ClusterUID]) -> None:
        """Look at the copies that rules made which are others now, and at those of members with other features.

        `kinds` are what these rules read, and did before: what is made of such a source may have waited for what one
        of them wants of it. What they newly ask for comes with the feeds that are opened for them.
        """

        def is_meant(local_cache: LocalCache, key: ObjectKey, record: CopyRecord) -> bool:
            provenance = record.marks.provenance
            if record.marks.owner in members or (provenance is not None and provenance.rule in rules):
                return True
            if _kind_behind(local_cache, record) not in kinds:
                return False
            return provenance is None or self._awaits_proof(local_cache, key, record)

        self._enqueue_copies_where(is_meant)

    def on_member_changed(self, member: ClusterUID) -> None:
        """Look at all that came from a member, and at all that it offers, or others of it: it left, or is back."""
        self._enqueue_copies_where(lambda _cache, _key, record: member in (record.marks.owner, record.natural))
        for cache in self._sources.all_caches():
            if cache.peer == member or cache.kind in (meta.CLUSTER, meta.SECRET):
                self._enqueue_claims(cache)

    def on_source_back(self, owner: ClusterUID, kind: GVK, key: ObjectKey) -> None:
        """Look at what was made of an object of which nobody spoke till now, or no rule could tell what it wants."""
        for target in self._copies.copies_of(owner, kind, key):
            if self._copies.has(target):
                self._add(target, owner)

    def on_source_synced(self, cache: SourceCache, dropped: Collection[Target]) -> None:
        """Add the targets that a complete list has `dropped`, and the copies whose absence at the peer it may prove."""
        peer, group_kind = cache.peer, (cache.kind.group, cache.kind.kind)
        for target in dropped:
            self._add(target, peer)

        def is_meant(local_cache: LocalCache, key: ObjectKey, record: CopyRecord) -> bool:
            provenance = record.marks.provenance
            if not (group_kind == _RULE and provenance is not None and provenance.rule_owner == peer):
                if peer not in (record.marks.owner, record.natural):
                    return False
                # Features choose the rules: as long as they were not heard, another rule could want any copy.
                if group_kind != _FEATURE and group_kind not in _kinds_behind(local_cache, record):
                    return False
            return self._awaits_proof(local_cache, key, record) and local_cache.target(key) not in dropped

        self._enqueue_copies_where(is_meant)

    def on_local_synced(self, local_cache: LocalCache, place: Selection) -> None:
        """Add all claims on a place of a kind of which everything is known now: until then they waited."""
        for cache in self._sources.all_caches():
            self._enqueue_claims(cache, kind=local_cache.kind, namespace=place.namespace or None)

    def on_namespace_changed(self, name: str) -> None:
        """Look at what is offered for a namespace that came, goes or is gone."""
        for cache in self._sources.all_caches():
            self._enqueue_claims(cache, namespace=name)

    def _awaits_proof(self, local_cache: LocalCache, key: ObjectKey, record: CopyRecord) -> bool:
        """Return true if complete lists bear on a copy: nothing does while its owner offers what it was made from."""
        owner, source = record.marks.owner, record.source
        if owner is None or source is None or is_membership(local_cache.kind, record.kind_type):
            return True
        kind, source_key = source
        return not self._sources.is_offered(local_cache.target(key), owner=owner, kind=kind, key=source_key)

    def _enqueue_copies_where(self, is_meant: Callable[[LocalCache, ObjectKey, CopyRecord], bool]) -> None:
        for local_cache in self._copies.all_caches():
            for key, record in local_cache.records.items():
                if is_meant(local_cache, key, record):
                    self._add(local_cache.target(key), record.marks.owner or HERE)

    def _enqueue_claims(self, cache: SourceCache, *, kind: GVK | None = None, namespace: str | None = None) -> None:
        for target, lane in claims_of(cache):
            if namespace is not None and target.namespace != namespace:
                continue
            if kind is None or (target.group, target.kind) == (kind.group, kind.kind):
                self._add(target, lane)


def copies_of(local_cache: LocalCache) -> Iterator[tuple[Target, str]]:
    """List the copies of a kind, each with its lane of the queue; they may change meanwhile."""
    for key in list(local_cache.records):
        if (record := local_cache.records.get(key)) is not None:
            yield local_cache.target(key), record.marks.owner or HERE


def claims_of(cache: SourceCache) -> Iterator[tuple[Target, str]]:
    """List what is to be made of what a peer offers, each with its lane of the queue; it may change meanwhile."""
    for key in list(cache.records):
        if (record := cache.records.get(key)) is not None:
            yield from ((hit.target(key), cache.peer) for hit in record.hits)


_FEATURE: Final = (meta.FEATURE.group, meta.FEATURE.kind)
_RULE: Final = (meta.RULE.group, meta.RULE.kind)
_MEMBERSHIP: Final = ((meta.CLUSTER.group, meta.CLUSTER.kind), (meta.SECRET.group, meta.SECRET.kind))


def _parties(record: CopyRecord) -> tuple[ClusterUID | None, ...]:
    """Name all whose silence bears on a copy: its owner, the member it stands for, and its rule's owner."""
    provenance = record.marks.provenance
    return (record.marks.owner, record.natural, provenance.rule_owner if provenance is not None else None)


def _kinds_behind(local_cache: LocalCache, record: CopyRecord) -> tuple[tuple[str, str], ...]:
    """Name the kinds at the owner that say whether a copy stays. What credentials are for, a Cluster says."""
    here, source = (local_cache.kind.group, local_cache.kind.kind), _kind_behind(local_cache, record)
    return (here, source, *_MEMBERSHIP) if here in _MEMBERSHIP else (here, source)


def _kind_behind(local_cache: LocalCache, record: CopyRecord) -> tuple[str, str]:
    """Name the kind of what a copy was made from."""
    kind = record.source[0] if record.source is not None else local_cache.kind
    return (kind.group, kind.kind)
