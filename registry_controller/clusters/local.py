"""Listening at home: the kinds that rules write, credential Secrets, namespaces, the CRDs, and our own Pods.

Law: home is never given up; what cannot be heard here is said on the rules that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.crds import DEFINITION, DefinitionCache
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.replicas import Replicas
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.event_handler import EventHandler, NotifyHandler
from registry_controller.watch.reflector import Reflector, WatchScope

Place = tuple[GVK, Selection]


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
        self._running: dict[tuple[str, Place], tuple[Reflector, asyncio.Task[NoReturn]]] = {}
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
        """List the kinds that rules write, in the versions in which they are listened to."""
        return [cache.kind for cache in self._copies.all_caches()]

    def set_kinds(self, kinds: Mapping[GVK, frozenset[Selection]]) -> None:
        """Listen to the kinds that rules write, each in one version."""
        for cache in self._copies.all_caches():
            if kinds.get(cache.kind) != frozenset(cache.streams):
                for selection in cache.streams:
                    self._leave("copies", cache.kind, selection)
                self._copies.close(cache.kind.group, cache.kind.kind)
        for kind, places in kinds.items():
            if self._copies.cache_of(kind.group, kind.kind) is None:
                cache = LocalCache(kind=kind, selections=places, index=self._copies)
                self._copies.open(cache)
                for selection, stream in cache.streams.items():
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
        self._running[(purpose, (kind, selection))] = (reflector, task)

    def _leave(self, purpose: str, kind: GVK, selection: Selection) -> None:
        found = self._running.pop((purpose, (kind, selection)), None)
        if found is not None:
            found[1].cancel()

    def _kinds_changed(self) -> None:
        self.discovery.invalidate()
        self._tell_kinds()
        for reflector, _ in self._running.values():
            reflector.retry_now()
