"""What is read of one peer: its feeds, over whatever connection there is.

Laws: what a lost connection had heard stays, and listening goes on where it stopped · what rules do not ask for any
more is neither read nor kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.selection import Selection
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures, PeerObjects
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.core.rules.active import ActiveRule
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.limits import make_room
from registry_controller.watch.reflector import Reflector, ServerObserver, WatchScope
from registry_controller.watch.stream import SelectionStream

_Key = tuple[GVK, Selection]


class _Connection(NamedTuple):
    """What is listened with: tasks, a connection, and under which name the peer is read."""

    scope: asyncio.TaskGroup
    reader: Reader
    discovery: Discovery
    name: str


class PeerWatches:
    """The feeds of one peer, and the reflectors that fill them.

    `changed` is called when something about the peer changed that a status may say, `features_changed` when rules
    may read from it or no longer. `observer` receives its signs of life.
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
    ) -> None:
        self.features = PeerFeatures(changed=features_changed)
        self.clusters = PeerClusters(cluster_id, members=members, changed=changed)
        self._cluster_id = cluster_id
        self._sources = sources
        self._observer = observer
        self._streams: dict[_Key, SelectionStream] = {}
        self._reflectors: dict[_Key, Reflector] = {}
        self._tasks: dict[_Key, asyncio.Task[NoReturn]] = {}
        self._ear: _Connection | None = None
        self.set_rules({})

    def set_rules(self, rules: Mapping[GVK, tuple[ActiveRule, ...]]) -> None:
        """Read what these rules ask for, and what membership needs."""
        taps: dict[GVK, PeerObjects] = {meta.FEATURE: self.features, meta.CLUSTER: self.clusters}
        for kind in {*rules, *taps}:
            cache = self._sources.cache_of(self._cluster_id, kind)
            wanted = rules.get(kind, ())
            if cache is None or [active.identity for active in cache.rules] != [active.identity for active in wanted]:
                self._open(
                    SourceCache(
                        peer=self._cluster_id, kind=kind, rules=wanted, sources=self._sources, tap=taps.get(kind)
                    )
                )
        for cache in self._sources.caches_of(self._cluster_id):
            if cache.kind not in rules and cache.kind not in taps:
                self._stop_kind(cache.kind)
                self._sources.close(self._cluster_id, cache.kind)

    def start(self, scope: asyncio.TaskGroup, reader: Reader, discovery: Discovery, *, name: str) -> None:
        """Listen over this connection, in tasks of that scope, until `deafen`."""
        self._ear = _Connection(scope, reader, discovery, name)
        for key in self._streams:
            self._start(key, self._ear)

    def stop(self) -> Iterable[asyncio.Task[NoReturn]]:
        """Start no more tasks, and return those that listen still."""
        self._ear = None
        tasks, self._tasks = list(self._tasks.values()), {}
        return tasks

    def close(self) -> None:
        """Withdraw everything the peer offered."""
        for cache in self._sources.caches_of(self._cluster_id):
            self._sources.close(self._cluster_id, cache.kind)
        self.clusters.close()

    def _open(self, cache: SourceCache) -> None:
        self._stop_kind(cache.kind)
        self._sources.open(cache)
        for selection, stream in cache.streams.items():
            self._streams[(cache.kind, selection)] = stream
            if self._ear is not None:
                self._start((cache.kind, selection), self._ear)

    def _stop_kind(self, kind: GVK) -> None:
        for key in [key for key in self._streams if key[0] == kind]:
            del self._streams[key]
            self._reflectors.pop(key, None)
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()

    def _start(self, key: _Key, ear: _Connection) -> None:
        reflector = self._reflectors.get(key)
        if reflector is None:
            reflector = self._reflectors[key] = Reflector(
                reader=ear.reader,
                discovery=ear.discovery,
                # Features are few; those from before a break must not choose rules.
                scope=WatchScope(*key, resumes=key[0] != meta.FEATURE),
                handler=self._streams[key],
                observer=self._observer,
                make_room=lambda: make_room(key[0], self._reflectors, peer=ear.name),
                turns=self._sources.evaluations,
            )
        else:
            reflector.swap(ear.reader, ear.discovery)
        self._tasks[key] = ear.scope.create_task(reflector.run(), name=f"reflect {ear.name} {key[0]} {key[1]}")
