"""Listening at home: the kinds that rules write, credential Secrets, namespaces, the CRDs, and our own Pods.

Law: home is never given up; what cannot be heard here is said on the rules that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.crds import DEFINITION, DefinitionCache
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.replicas import Replicas
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.event_handler import EventHandler, NotifyHandler
from registry_controller.watch.reflector import Reflector, WatchScope

Place = tuple[GVK, Selection]


class _Running(NamedTuple):
    """A reflector, its task, and where its events go."""

    reflector: Reflector
    task: asyncio.Task[NoReturn]
    sink: EventHandler


class LocalCluster:
    """The reflectors at home. `kinds_changed` is called when another set of kinds may be served here."""

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        copies: CopyIndex,
        credentials: CredentialStore,
        namespaces: NamespaceCache,
        replicas: Replicas,
        namespace: str,
        pod_selector: str,
        token_type: str,
        tokens_changed: Callable[[], None],
        kinds_changed: Callable[[], None],
    ) -> None:
        self._tell_kinds = kinds_changed
        self.discovery = discovery
        self._reader = reader
        self._copies = copies
        self._credentials = credentials
        self._base: dict[Place, EventHandler] = {
            (meta.NAMESPACE, EVERYTHING): namespaces,
            (DEFINITION, EVERYTHING): DefinitionCache(on_change=self._kinds_changed),
            (meta.SECRET, Selection(namespace=namespace, fields=f"type={token_type}")): NotifyHandler(tokens_changed),
        }
        if pod_selector:
            self._base[(meta.POD, Selection(namespace=namespace, labels=pod_selector))] = replicas
        self._running: dict[tuple[str, Place], _Running] = {}
        self._scope: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as scope:
            self._scope = scope
            for (kind, selection), sink in self._base.items():
                self._follow("base", kind, selection, sink)
            await asyncio.get_running_loop().create_future()

    def set_secret_namespaces(self, namespaces: Iterable[str]) -> None:
        """Listen to registry Secrets in these namespaces."""
        wanted = {
            Selection(namespace=namespace, fields=f"type={meta.REGISTRY_SECRET_TYPE}") for namespace in namespaces
        }
        for purpose, (kind, selection) in list(self._running):
            if purpose == "credentials" and selection not in wanted:
                self._leave(purpose, kind, selection)
        for selection in wanted:
            self._follow("credentials", meta.SECRET, selection, self._credentials.handler(selection.namespace))

    @property
    def kinds(self) -> Collection[GVK]:
        """The kinds that rules write, in the versions in which they are watched."""
        return [cache.kind for cache in self._copies.all_caches()]

    def set_kinds(self, kinds: Mapping[GVK, frozenset[Selection]]) -> None:
        """Watch the kinds that rules write, each in one version, in these places."""
        wanted = {(kind.group, kind.kind) for kind in kinds}
        for cache in self._copies.all_caches():
            if (cache.kind.group, cache.kind.kind) not in wanted:
                cache.set_places(())
        for kind, places in kinds.items():
            self._copies.open(kind).set_places(places, kind=kind)
        streams = {
            (cache.kind, place): stream
            for cache in self._copies.all_caches()
            for place, stream in cache.streams.items()
        }
        for purpose, place in list(self._running):
            if purpose == "copies" and streams.get(place) is not self._running[purpose, place].sink:
                self._leave(purpose, *place)
        for (kind, selection), stream in streams.items():
            self._follow("copies", kind, selection, stream)

    def _follow(self, purpose: str, kind: GVK, selection: Selection, sink: EventHandler) -> None:
        if self._scope is None or (purpose, (kind, selection)) in self._running:
            return
        reflector = Reflector(
            reader=self._reader,
            discovery=self.discovery,
            scope=WatchScope(kind, selection),
            handler=sink,
        )
        task = self._scope.create_task(reflector.run(), name=f"reflect home {purpose} {kind} {selection}")
        self._running[(purpose, (kind, selection))] = _Running(reflector, task, sink)

    def _leave(self, purpose: str, kind: GVK, selection: Selection) -> None:
        running = self._running.pop((purpose, (kind, selection)), None)
        if running is not None:
            running.task.cancel()

    def _kinds_changed(self) -> None:
        self.discovery.invalidate()
        self._tell_kinds()
        for running in self._running.values():
            running.reflector.retry_now()
