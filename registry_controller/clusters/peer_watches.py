"""Reads one peer: a cache for each kind, and the watches and lists that fill it, over the present connection.

Laws: a cache lives as long as rules read its kind, and a lost connection takes nothing from it · a selection that no
rule asks for any more is neither watched nor kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.selection import Selection
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures, PeerObjects
from registry_controller.cache.rule_events import RuleEvents
from registry_controller.cache.source_cache import RuleChange, SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.definition_check import DefinitionCheck
from registry_controller.core.rules.active import ActiveRule
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.limits import check_room
from registry_controller.watch.lister import SelectionList, list_until_complete
from registry_controller.watch.reflector import Reflector, ServerObserver, WatchScope
from registry_controller.watch.stream import SelectionStream

_WatchKey = tuple[GVK, Selection]


class _Connection(NamedTuple):
    """The scope and the connection of the tasks; `name` is the name of the peer's Cluster."""

    scope: asyncio.TaskGroup
    reader: Reader
    discovery: Discovery
    name: str


class _RunningTask(NamedTuple):
    """A task, and the stream or list that it fills."""

    read: SelectionStream | SelectionList
    task: asyncio.Task[Any]


class PeerWatches:
    """The caches of one peer, and the reflectors and lists that fill them.

    `changed` is called when something about the peer changed that a status may show, `features_changed` when rules
    may read from it or no longer, or one of its rules was deleted. `observer` receives its signs of life. `window_s`
    is the stabilization window.
    """

    def __init__(
        self,
        cluster_id: ClusterUID,
        *,
        sources: SourceIndex,
        members: Members,
        changed: Callable[[], None],
        features_changed: Callable[[], None],
        observer: ServerObserver,
        window_s: float,
    ) -> None:
        self._rule_check = DefinitionCheck(meta.RULE, window_s=window_s, on_answer=self._on_rules_defined)
        self._feature_check = DefinitionCheck(meta.FEATURE, window_s=window_s, on_answer=self._on_features_defined)
        self.features = PeerFeatures(
            changed=features_changed,
            deleted=self._feature_check.on_deleted,
            lost=sources.lost_of(cluster_id, meta.FEATURE),
        )
        self.clusters = PeerClusters(cluster_id, members=members, changed=changed)
        self._taps: Mapping[GVK, PeerObjects] = {meta.FEATURE: self.features, meta.CLUSTER: self.clusters}
        self._features_changed = features_changed
        self._cluster_id = cluster_id
        self._sources = sources
        self._observer = observer
        self._reflectors: dict[_WatchKey, Reflector] = {}
        self._watches: dict[_WatchKey, _RunningTask] = {}
        self._lists: dict[_WatchKey, _RunningTask] = {}
        self._checks: list[asyncio.Task[Any]] = []
        self._connection: _Connection | None = None
        self.set_rules({})

    def set_rules(self, rules: Mapping[GVK, tuple[ActiveRule, ...]]) -> Mapping[GVK, RuleChange]:
        """Read what these rules select, and what membership needs; return by kind what that changes."""
        changes: dict[GVK, RuleChange] = {}
        for cache in self._sources.caches_of(self._cluster_id):
            if cache.kind not in rules and cache.kind not in self._taps:
                self._sources.close(self._cluster_id, cache.kind)
                self._stop(cache.kind, {}, {})
                changes[cache.kind] = RuleChange(closed=tuple(cache.streams))
        for kind in {**self._taps, **rules}:
            held = self._sources.cache_of(self._cluster_id, kind)
            if held is not None:
                changes[kind] = held.set_rules(rules.get(kind, ()))
                self._follow(held)
                continue
            cache = SourceCache(
                peer=self._cluster_id,
                kind=kind,
                rules=rules.get(kind, ()),
                sources=self._sources,
                tap=self._taps.get(kind),
                rule_events=self._make_rule_events() if kind == meta.RULE else None,
                watches_changed=self._follow,
            )
            self._sources.open(cache)
            changes[kind] = RuleChange(opened=tuple(cache.streams))
            self._follow(cache)
        return changes

    def _make_rule_events(self) -> RuleEvents:
        return RuleEvents(now_s=_now_s, changed=self._features_changed, deleted=self._rule_check.on_deleted)

    def _on_rules_defined(self, state: DefinitionState, until_s: float) -> None:
        cache = self._sources.cache_of(self._cluster_id, meta.RULE)
        if cache is not None and cache.rule_events is not None:
            cache.rule_events.on_definition(state, until_s)

    def _on_features_defined(self, state: DefinitionState, _: float) -> None:
        self.features.on_definition(state)
        if state is DefinitionState.NEXT:  # the watch may have listed before that was known
            self._list_again(meta.FEATURE)

    def start(self, scope: asyncio.TaskGroup, reader: Reader, discovery: Discovery, *, name: str) -> None:
        """Watch and list over this connection, in tasks of that scope, until `stop`."""
        for reflector in [*self._reflectors.values()]:
            reflector.swap(reader, discovery)  # before there is a connection: a reset plans the watches again
        self._connection = _Connection(scope, reader, discovery, name)
        for cache in self._sources.caches_of(self._cluster_id):
            self._follow(cache)
        checks = (self._feature_check, self._rule_check)
        self._checks = [scope.create_task(check.run(discovery), name=f"definition {name}") for check in checks]

    def stop(self) -> Iterable[asyncio.Task[Any]]:
        """Start no more tasks, and return those that still run."""
        self._connection = None
        tasks = [running.task for running in (*self._watches.values(), *self._lists.values())] + self._checks
        self._watches, self._lists, self._checks = {}, {}, []
        return tasks

    def close(self) -> None:
        """Withdraw everything the peer offered."""
        for cache in self._sources.caches_of(self._cluster_id):
            self._sources.close(self._cluster_id, cache.kind)
        self.clusters.close()

    def _follow(self, cache: SourceCache) -> None:
        """Run exactly the watches and lists that a cache needs."""
        self._stop(cache.kind, cache.streams, cache.lists)
        if self._connection is None or self._sources.cache_of(self._cluster_id, cache.kind) is not cache:
            return
        for selection, stream in cache.streams.items():
            if (cache.kind, selection) not in self._watches:
                self._watches[cache.kind, selection] = _RunningTask(
                    stream, self._watch(cache, stream, self._connection)
                )
        for selection, listing in cache.lists.items():
            if (cache.kind, selection) not in self._lists:
                self._lists[cache.kind, selection] = _RunningTask(listing, self._list(cache, listing, self._connection))

    def _list_again(self, kind: GVK) -> None:
        """Restart the watches of a kind with a list. Their reflectors stay: they know which objects are gone."""
        if self._connection is None:
            return
        for key, running in [*self._watches.items()]:
            if key[0] == kind:
                running.task.cancel()
                reflector = self._reflectors[key]
                reflector.swap(self._connection.reader, self._connection.discovery)
                self._watches[key] = running._replace(task=self._start(reflector, key, self._connection))

    def _stop(
        self, kind: GVK, streams: Mapping[Selection, SelectionStream], lists: Mapping[Selection, SelectionList]
    ) -> None:
        """End the tasks that are no longer needed. A complete list ends by itself."""
        for key, running in [*self._watches.items()]:
            if key[0] == kind and streams.get(key[1]) is not running.read:
                del self._watches[key]
                running.task.cancel()
        for key in [key for key in self._reflectors if key[0] == kind and key[1] not in streams]:
            del self._reflectors[key]
        for key, running in [*self._lists.items()]:
            if key[0] == kind and lists.get(key[1]) is not running.read:
                del self._lists[key]
                if not running.read.is_complete:
                    running.task.cancel()

    def _watch(self, cache: SourceCache, stream: SelectionStream, connection: _Connection) -> asyncio.Task[Any]:
        kind, selection = cache.kind, stream.selection
        reflector = self._reflectors.get((kind, selection))
        if reflector is None:
            reflector = self._reflectors[kind, selection] = Reflector(
                reader=connection.reader,
                discovery=connection.discovery,
                # Both are few; those from before a break must not choose rules, nor show that a member goes on.
                scope=WatchScope(kind, selection, resumes=kind not in (meta.FEATURE, meta.CLUSTER)),
                handler=stream,
                observer=self._observer,
                check_room=lambda: check_room(kind, self._reflectors, peer=connection.name),
                turns=self._sources.evaluations,
            )
        return self._start(reflector, (kind, selection), connection)

    def _start(self, reflector: Reflector, key: _WatchKey, connection: _Connection) -> asyncio.Task[Any]:
        kind, selection = key
        return connection.scope.create_task(reflector.run(), name=f"reflect {connection.name} {kind} {selection}")

    def _list(self, cache: SourceCache, listing: SelectionList, connection: _Connection) -> asyncio.Task[Any]:
        work = list_until_complete(
            listing,
            cache.kind,
            reader=connection.reader,
            discovery=connection.discovery,
            observer=self._observer,
            turns=self._sources.evaluations,
        )
        name = f"list {connection.name} {cache.kind} {listing.selection}"
        return connection.scope.create_task(work, name=name)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
