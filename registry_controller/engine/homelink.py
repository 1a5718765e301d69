"""Listening at home: the kinds that rules write, credential Secrets, namespaces, and the CRDs.

Law: home is never given up; what cannot be heard here is said on the rules that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig, RegistryError
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.core.view import NamespaceState
from registry_controller.engine.copies import Copies, LocalFeed
from registry_controller.engine.definitions import DEFINITION, Definitions
from registry_controller.engine.reflector import Reflector, Sink
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.watch import Heard, decode_manifest

Place = tuple[GVK, Selection]


class CredentialStore:
    """Registry Secrets here, read and judged: credentials, or the words that say what is wrong with them."""

    def __init__(self, *, on_change: Callable[[ObjectKey], None]) -> None:
        self._held: dict[ObjectKey, Credentials | str] = {}
        self._complete: set[str] = set()
        self._errors: dict[str, RegistryError] = {}
        self._on_change = on_change

    def find(self, key: ObjectKey) -> Credentials | str | None:
        """Find a Secret's credentials, or the problem with them; None while the namespace was not heard yet."""
        found = self._held.get(key)
        if found is not None:
            return found
        error = self._errors.get(key.namespace)
        if error is not None:
            return f"Secret {key} cannot be read: {error}"
        if key.namespace in self._complete:
            return f"Secret {key} of type {meta.REGISTRY_SECRET_TYPE} does not exist"
        return None

    def sink(self, namespace: str) -> Sink:
        """Make the sink for one namespace."""
        return _CredentialSink(self, namespace)

    def upsert(self, heard: Heard) -> None:
        """Hear a Secret."""
        try:
            found: Credentials | str = read_secret(
                secret_type=heard.kind_type, data=decode_manifest(heard.raw).get("data") or {}
            )
        except InvalidKubeconfig as error:
            found = f"Secret {heard.key}: {error}"
        if self._held.get(heard.key) != found:
            self._held[heard.key] = found
            self._on_change(heard.key)

    def remove(self, key: ObjectKey) -> None:
        """Hear that a Secret is gone."""
        self._held.pop(key, None)
        self._on_change(key)

    def judge(self, namespace: str, error: RegistryError | None) -> None:
        """Hear whether a namespace's Secrets can be heard."""
        if error is None:
            self._complete.add(namespace)
            self._errors.pop(namespace, None)
        else:
            self._errors[namespace] = error
        self._on_change(ObjectKey(namespace, ""))


class _CredentialSink:
    def __init__(self, store: CredentialStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def upsert(self, heard: Heard) -> None:
        self._store.upsert(heard)

    def remove(self, key: ObjectKey, heard: Heard | None) -> None:
        self._store.remove(key)

    def complete(self, revision: int) -> None:
        self._store.judge(self._namespace, None)

    def stalled(self, error: RegistryError) -> None:
        self._store.judge(self._namespace, error)

    def current(self) -> None:
        self._store.judge(self._namespace, None)

    def went_back(self) -> None:
        pass


class Namespaces:
    """The namespaces here. Until they were heard, every one counts as there: the write will tell."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self.is_complete = False
        self._held: dict[str, bool] = {}
        self._on_change = on_change

    def state(self, name: str) -> NamespaceState:
        """Tell a namespace's state."""
        if not self.is_complete:
            return NamespaceState.ACTIVE
        deleting = self._held.get(name)
        if deleting is None:
            return NamespaceState.MISSING
        return NamespaceState.TERMINATING if deleting else NamespaceState.ACTIVE

    def upsert(self, heard: Heard) -> None:
        """Hear a namespace."""
        if self._held.get(heard.key.name) != heard.deleting:
            self._held[heard.key.name] = heard.deleting
            self._on_change(heard.key.name)

    def remove(self, key: ObjectKey, heard: Heard | None) -> None:
        """Hear that a namespace is gone."""
        if self._held.pop(key.name, None) is not None:
            self._on_change(key.name)

    def complete(self, revision: int) -> None:
        """Hear that all were heard."""
        self.is_complete = True

    def stalled(self, error: RegistryError) -> None:
        """Hear nothing for a while: what was heard stays."""

    def current(self) -> None:
        """Hear again."""

    def went_back(self) -> None:
        """Hear that what follows may be older: it is what counts."""


class Bell:
    """A sink that only rings: something of its selection changed."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def upsert(self, heard: Heard) -> None:
        """Ring: something is new, or other than it was."""
        self._ring()

    def remove(self, key: ObjectKey, heard: Heard | None) -> None:
        """Ring: something is gone."""
        self._ring()

    def complete(self, revision: int) -> None:
        """Keep still: whatever there is has rung."""

    def stalled(self, error: RegistryError) -> None:
        """Keep still: who is rung for looks by himself, too."""

    def current(self) -> None:
        """Ring: something may have changed meanwhile."""
        self._ring()

    def went_back(self) -> None:
        self._ring()


class HomeLink:
    """The reflectors at home. `kinds_changed` is called when another set of kinds may be served here."""

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        copies: Copies,
        credentials: CredentialStore,
        namespaces: Namespaces,
        namespace: str,
        token_type: str,
        tokens_changed: Callable[[], None],
    ) -> None:
        self.discovery = discovery
        self._reader = reader
        self._copies = copies
        self._credentials = credentials
        self._base: dict[Place, Sink] = {
            (meta.NAMESPACE, EVERYTHING): namespaces,
            (DEFINITION, EVERYTHING): Definitions(on_change=self._kinds_changed),
            (meta.SECRET, Selection(namespace=namespace, fields=f"type={token_type}")): Bell(tokens_changed),
        }
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
            self._follow("credentials", meta.SECRET, selection, self._credentials.sink(selection.namespace))

    def set_kinds(self, kinds: Mapping[GVK, frozenset[Selection]]) -> None:
        """Listen to the kinds that rules write."""
        wanted = {(kind.group, kind.kind): (kind, places) for kind, places in kinds.items()}
        for feed in self._copies.all_feeds():
            found = wanted.get((feed.kind.group, feed.kind.kind))
            if found is None or found != (feed.kind, frozenset(feed.streams)):
                for selection in feed.streams:
                    self._leave("copies", feed.kind, selection)
                self._copies.close(feed.kind.group, feed.kind.kind)
        for kind, places in wanted.values():
            if self._copies.feed(kind.group, kind.kind) is None:
                feed = LocalFeed(kind=kind, selections=places, copies=self._copies)
                self._copies.open(feed)
                for selection, stream in feed.streams.items():
                    self._follow("copies", kind, selection, stream)

    def _follow(self, purpose: str, kind: GVK, selection: Selection, sink: Sink) -> None:
        if self._scope is None or (purpose, (kind, selection)) in self._running:
            return
        reflector = Reflector(
            reader=self._reader,
            discovery=self.discovery,
            kind=kind,
            selection=selection,
            sink=sink,
            heard_from=_nothing,
        )
        task = self._scope.create_task(reflector.run(), name=f"reflect home {purpose} {kind} {selection}")
        self._running[(purpose, (kind, selection))] = (reflector, task)

    def _leave(self, purpose: str, kind: GVK, selection: Selection) -> None:
        found = self._running.pop((purpose, (kind, selection)), None)
        if found is not None:
            found[1].cancel()

    def _kinds_changed(self) -> None:
        self.discovery.forget()
        for reflector, _ in self._running.values():
            reflector.retry_now()


def _nothing() -> None:
    pass
