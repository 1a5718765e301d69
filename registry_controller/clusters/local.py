"""Watches the local cluster: the kinds that rules write, credential Secrets, namespaces, CRDs, and the daemon's Pods.

Law: the local watches are always retried. The rules that need a kind report its errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GroupKind
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.crds import (
    DEFINITION,
    OF_FEATURES,
    OF_RULES,
    Definition,
    DefinitionCache,
    DefinitionRead,
)
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.replicas import Replicas
from registry_controller.clusters.definition_reader import DefinitionReader
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.event_handler import EventHandler, NotifyHandler
from registry_controller.watch.reflector import Reflector, WatchScope

_Watched = tuple[GVK, Selection]


class _RunningReflector(NamedTuple):
    """A reflector, its task, and the receiver of its events."""

    reflector: Reflector
    task: asyncio.Task[NoReturn]
    sink: EventHandler


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The Secrets that may hold the published token, and the Pods of the daemon; None without a Pod name."""

    tokens: Selection
    pods: Selection | None


class LocalObserver(Protocol):
    """Receives changes in the local cluster. A call is cheap and never fails."""

    def on_tokens_changed(self) -> None:
        """A token of a ServiceAccount in the daemon's namespace may have changed."""

    def on_kinds_changed(self) -> None:
        """The kinds that the local API server serves may have changed."""

    def on_schema_changed(self, kind: GroupKind) -> None:
        """The definition of a kind changed: its objects may be read otherwise, without another revision."""

    def on_definition_of_rules(self, definition: Definition | None) -> None:
        """The definition of ResourceSyncRules is there, or is missing."""

    def on_definition_of_rules_read(self) -> None:
        """The definition of ResourceSyncRules was read from the quorum."""

    def on_definition_of_features(self) -> None:
        """The definition of ClusterFeatures is there, or is missing or goes."""


class LocalCluster:
    """The reflectors of the local cluster."""

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        copies: CopyIndex,
        credentials: CredentialStore,
        namespaces: NamespaceCache,
        replicas: Replicas,
        options: LocalOptions,
        observer: LocalObserver,
    ) -> None:
        self._observer = observer
        self.discovery = discovery
        self._reader = reader
        self._copies = copies
        self._credentials = credentials
        self.definitions = DefinitionCache(
            on_change=self._kinds_changed,
            rules_change=observer.on_definition_of_rules,
            features_change=observer.on_definition_of_features,
            schema_change=observer.on_schema_changed,
        )
        self._rules_definition = DefinitionReader(
            OF_RULES, reader=reader, discovery=discovery, on_read=self._on_rules_definition
        )
        self._features_definition = DefinitionReader(
            OF_FEATURES, reader=reader, discovery=discovery, on_read=self._on_features_definition
        )
        self._base: dict[_Watched, EventHandler] = {
            (meta.NAMESPACE, EVERYTHING): namespaces,
            (DEFINITION, EVERYTHING): self.definitions,
            (meta.SECRET, options.tokens): NotifyHandler(observer.on_tokens_changed),
        }
        if options.pods is not None:
            self._base[(meta.POD, options.pods)] = replicas
        self._running: dict[tuple[str, _Watched], _RunningReflector] = {}
        self._scope: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as scope:
            self._scope = scope
            for (kind, selection), sink in self._base.items():
                self._follow("base", kind, selection, sink)
            scope.create_task(self._rules_definition.run(), name="read the definition of rules")
            scope.create_task(self._features_definition.run(), name="read the definition of features")
            await asyncio.get_running_loop().create_future()

    def read_definitions(self, *, rules_since_s: float, features_since_s: float) -> None:
        """Read the definitions of two kinds from the quorum, each unless that was done since a time of the loop."""
        self._rules_definition.request(rules_since_s)
        self._features_definition.request(features_since_s)

    def set_secret_namespaces(self, namespaces: Iterable[str], *, cluster_api: Iterable[str] = ()) -> None:
        """Watch the registry Secrets of these namespaces, and the Secrets of Cluster API of some."""
        registry, other = meta.REGISTRY_SECRET_TYPE, meta.CLUSTER_API_SECRET_TYPE
        places = [*((name, registry) for name in namespaces), *((name, other) for name in cluster_api)]
        wanted = {Selection(namespace=name, fields=f"type={kind}"): kind for name, kind in places}
        for purpose, (kind, selection) in list(self._running):
            if purpose == "credentials" and selection not in wanted:
                self._leave(purpose, kind, selection)
        for selection, secret_type in wanted.items():
            handler = self._credentials.handler(selection.namespace, secret_type=secret_type)
            self._follow("credentials", meta.SECRET, selection, handler)

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
        task = self._scope.create_task(reflector.run(), name=f"reflect local {purpose} {kind} {selection}")
        self._running[(purpose, (kind, selection))] = _RunningReflector(reflector, task, sink)

    def _leave(self, purpose: str, kind: GVK, selection: Selection) -> None:
        running = self._running.pop((purpose, (kind, selection)), None)
        if running is not None:
            running.task.cancel()

    def _on_rules_definition(self, read: DefinitionRead) -> None:
        self.definitions.read = read
        self._observer.on_definition_of_rules_read()

    def _on_features_definition(self, read: DefinitionRead) -> None:
        self.definitions.read_of_features = read
        self._observer.on_definition_of_features()

    def _kinds_changed(self) -> None:
        self.discovery.invalidate()
        self._observer.on_kinds_changed()
        for running in self._running.values():
            running.reflector.retry_now()
