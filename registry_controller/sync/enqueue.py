"""Enqueues the targets that a change of an object, a rule or a peer affects.

Law: a key too many is harmless, a key too few is a bug. A key is processed again from the caches, so an event that is
enqueued twice, or late, changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator, Set
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import HERE, CopyGroup, CopyRecord
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.watch_plan import RuleChanges

PERIOD_S: Final = 3600.0
_KEYS_PER_S: Final = 200
"""Keys of one second of the hourly pass; a copy in sync costs some 0.1 ms."""


class Enqueuer:
    """Adds targets to the work queue. `add` takes a target and its flow: the member whose objects it is about.

    It observes the objects at peers itself, so that an event passes no other class on its way to the queue.
    """

    def __init__(self, *, add: Callable[[Target, str], None]) -> None:
        self._add = add

    def connect(self, *, sources: SourceIndex, copies: CopyIndex) -> None:
        """Use these caches, before the first change of them."""
        self._sources = sources
        self._copies = copies

    def on_claims_changed(
        self, targets: Collection[Target], peer: ClusterUID, known: tuple[GVK, ObjectKey] | None
    ) -> None:
        """Enqueue targets that the peer claims, claims with another state, or claims no longer.

        Enqueue the copies of `known` as well: it appeared or is gone, or rules give it other places now, or can be
        evaluated on it again.
        """
        for target in targets:
            self._copies.on_claim_changed(target)
        copies = self._copies.copies_of(peer, *known) if known is not None else ()
        for target in targets:
            self._add(target, peer)
        for copy in copies:
            if copy not in targets and self._copies.has(copy):
                self._add(copy, peer)

    def on_source_synced(self, cache: SourceCache, dropped: Collection[Target]) -> None:
        """Enqueue the targets that a complete list dropped, and the copies whose absence at the peer it may prove."""
        peer, group_kind = cache.peer, (cache.kind.group, cache.kind.kind)
        for target in dropped:
            self._copies.on_claim_changed(target)
            self._add(target, peer)
        for local_cache, key, record in self._copies.awaiting_proof():
            provenance = record.marks.provenance
            if not (group_kind == meta.RULE_KIND and provenance is not None and provenance.rule_owner == peer):
                if peer not in (record.marks.owner, record.natural):
                    continue
                # Features choose the rules: before they are known, any rule could want a copy.
                if group_kind != _FEATURE and group_kind not in _kinds_behind(local_cache, record):
                    continue
            if local_cache.target(key) not in dropped:
                self._add_copy(local_cache, key)

    def on_local_synced(self, local_cache: LocalCache, place: Selection) -> None:
        """Enqueue the claims on a place in which everything is known now: they waited for that."""
        for cache in self._sources.all_caches():
            self._enqueue_claims(cache, kind=local_cache.kind, namespace=place.namespace or None)

    def on_namespace_changed(self, name: str) -> None:
        """Enqueue the claims on a namespace that was created, is being deleted, or is gone."""
        for cache in self._sources.all_caches():
            self._enqueue_claims(cache, namespace=name)

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        """Enqueue the copies that depend on members that are known or alive now, or no longer; and all memberships."""
        self._enqueue_copies_where(lambda group: not members.isdisjoint((group.owner, group.natural, group.rule_owner)))
        for cache in self._sources.all_caches():
            if cache.kind in (meta.CLUSTER, meta.SECRET):
                self._enqueue_claims(cache)

    def on_member_changed(self, member: ClusterUID) -> None:
        """Enqueue the copies and the claims of a member, and all memberships.

        It has left or is back, or its ID has clones now, or no longer.
        """
        self._enqueue_copies_where(lambda group: member in (group.owner, group.natural))
        for cache in self._sources.all_caches():
            if cache.peer == member or cache.kind in (meta.CLUSTER, meta.SECRET):
                self._enqueue_claims(cache)

    def on_rules_changed(self, changes: RuleChanges) -> None:
        """Enqueue the copies of changed rules and of missing ones, and of members whose features changed.

        The changes name the kinds that the rules read, now or before: a copy of such a source may have waited for a
        rule's match. New matches come with the lists of the changed rules.
        """
        rules, kinds, members, remaining = changes

        def is_affected(group: CopyGroup) -> bool:
            if group.owner in members or group.rule in rules:
                return True
            if group.rule is None:
                return group.owner is not None and group.source in kinds
            return remaining is not None and group.rule not in remaining

        self._enqueue_copies_where(is_affected)
        for target in (Target(*meta.RULE_KIND, "", rule) for rule in rules):  # another rule may have its name now
            if self._copies.has(target) or self._sources.claiming(target):
                self._add(target, HERE)
        if remaining is not None:
            self._enqueue_rules(remaining)
        for local_cache, key, record in self._copies.awaiting_proof():
            group = record.group(local_cache.kind)
            if group.source in kinds and not is_affected(group):
                self._add_copy(local_cache, key)

    def _enqueue_rules(self, remaining: Set[str]) -> None:
        """Enqueue copies of rules, which wait until their owner has deleted the rule, and rules that are offered."""
        for rule in remaining:
            if self._copies.has(target := Target(*meta.RULE_KIND, "", rule)):
                self._add(target, HERE)
        for cache in self._sources.all_caches():
            if cache.kind == meta.RULE:
                self._enqueue_claims(cache)

    async def run(self) -> NoReturn:
        """Enqueue every copy and every claim once an hour, a few a second.

        Law: this corrects a missed key in time; each key that changes by it is a bug in this file.
        """
        while True:
            await asyncio.sleep(PERIOD_S)
            copies = itertools.chain.from_iterable(map(_copies_of, self._copies.all_caches()))
            claims = itertools.chain.from_iterable(map(_claims_of, self._sources.all_caches()))
            for count, (target, flow) in enumerate(itertools.chain(copies, claims), start=1):
                self._add(target, flow)
                if count % _KEYS_PER_S == 0:
                    await asyncio.sleep(1.0)

    def _enqueue_copies_where(self, is_affected: Callable[[CopyGroup], bool]) -> None:
        for local_cache in self._copies.all_caches():
            for key in local_cache.find(is_affected):
                self._add_copy(local_cache, key)

    def _add_copy(self, local_cache: LocalCache, key: ObjectKey) -> None:
        self._add(local_cache.target(key), local_cache.records[key].marks.owner or HERE)

    def _enqueue_claims(self, cache: SourceCache, *, kind: GVK | None = None, namespace: str | None = None) -> None:
        for target, flow in _claims_of(cache):
            if namespace is not None and target.namespace != namespace:
                continue
            if kind is None or (target.group, target.kind) == (kind.group, kind.kind):
                self._add(target, flow)


def _copies_of(local_cache: LocalCache) -> Iterator[tuple[Target, str]]:
    """List the copies of a kind with their flows; the cache may change meanwhile."""
    for key in list(local_cache.records):
        if (record := local_cache.records.get(key)) is not None:
            yield local_cache.target(key), record.marks.owner or HERE


def _claims_of(cache: SourceCache) -> Iterator[tuple[Target, str]]:
    """List the targets that objects of a peer claim, with their flows; the cache may change meanwhile."""
    for key in list(cache.records):
        if (record := cache.records.get(key)) is not None:
            yield from ((hit.target(key), cache.peer) for hit in record.hits)


_FEATURE: Final = (meta.FEATURE.group, meta.FEATURE.kind)
_MEMBERSHIP: Final = ((meta.CLUSTER.group, meta.CLUSTER.kind), (meta.SECRET.group, meta.SECRET.kind))


def _kinds_behind(local_cache: LocalCache, record: CopyRecord) -> tuple[tuple[str, str], ...]:
    """Return the kinds at the owner that decide whether a copy stays; for credentials, Clusters too."""
    here, source = (local_cache.kind.group, local_cache.kind.kind), record.group(local_cache.kind).source
    return (here, source, *_MEMBERSHIP) if here in _MEMBERSHIP else (here, source)
