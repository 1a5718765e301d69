"""Deletes objects of the local cluster whose owners at members are gone, as the garbage collector does in one cluster.

Laws: an object goes only after its owner's member has answered that the owner is gone, in the moment before · an event
of an owner, also its DELETED, is only the occasion to ask · an object whose owner's member is silent, refuses, has left
or is not known is kept · an object is deleted only in the state in which its mark was read · at most half of the
objects of one cluster's owners go within five minutes, 50 are always free; beyond that a person allows it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.selection import Selection
from registry_controller.group.collection import Collection
from registry_controller.group.collection_limits import CollectionHalt, CollectionLimits
from registry_controller.group.engagements import Engagements
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.objects import Event, EventType, Key
from registry_controller.group.owned_objects import OwnedChange, OwnedHandler, OwnedObjects
from registry_controller.group.streams import StreamRequest
from registry_controller.group.watching import Watch
from registry_controller.report.logs import get_logger
from registry_controller.watch.reflector import Reflector, WatchScope
from registry_controller.watch.retry import RetryDelay, until_answered

log = get_logger(__name__)

_AGAIN_S: Final = 10.0


class _OwnedKind(NamedTuple):
    """A kind of objects that the operator owns, by its word, and where they are."""

    resource: str
    selection: Selection


class CollectedGroup(Protocol):
    """The part of a group that the collector needs."""

    def watch(
        self, resource: str, *, namespace: str, label_selector: str, field_selector: str, metadata_only: bool
    ) -> Watch:
        """Watch a kind in all members."""


class Collector:
    """The collector of a group. It runs while the group does."""

    def __init__(self, group: CollectedGroup, members: Engagements, access: LocalAccess) -> None:
        self._problems: dict[str, str] = {}
        self._group = group
        self._members = members
        self._access = access
        self._owned = OwnedObjects(operator=access.operator, changed=self._on_owned)
        self._limits = CollectionLimits(access, self._owned)
        self._kinds: dict[_OwnedKind, asyncio.Event] = {}
        self._owner_watches: dict[StreamRequest, Watch] = {}
        self._listeners: list[Callable[[Key], None]] = []
        self._scope: asyncio.TaskGroup | None = None
        self._is_loaded = asyncio.Event()
        self._collections: dict[ClusterUID, Collection] = {}

    @property
    def problem(self) -> str:
        """Return why objects that are to go may stay; empty without a problem."""
        return "; ".join(f"{what} cannot be read: {reason}" for what, reason in sorted(self._problems.items()))

    def _report(self, what: str, reason: str) -> None:
        if reason and self._problems.get(what) != reason:
            self._problems[what] = reason
            log.warning("collector cannot read", what=what, error=reason)
        elif not reason:
            self._problems.pop(what, None)

    @property
    def halts(self) -> Mapping[ClusterUID, CollectionHalt]:
        """Return the halts, by the ID of the cluster of the owners."""
        return {
            cluster: halt._replace(waiting=self._of(cluster).waiting) for cluster, halt in self._limits.halts.items()
        }

    @property
    def kept(self) -> Mapping[str, str]:
        """Return the objects whose owner may be gone and that are kept, each with the reason."""
        found = (kept for collection in self._collections.values() for kept in collection.kept.items())
        return {str(target): reason for target, reason in sorted(found)}

    def owns(
        self, resource: str, *, owners: Iterable[StreamRequest], namespace: str = "", label_selector: str = ""
    ) -> None:
        """Collect the marked objects of a kind; `owners` are watches that show their owners."""
        for request in owners:
            if request not in self._owner_watches:
                selection = request.selection
                watch = self._owner_watches[request] = self._group.watch(
                    request.resource, namespace=selection.namespace, label_selector=selection.labels,
                    field_selector=selection.fields, metadata_only=request.metadata_only,
                )  # fmt: skip
                if self._scope is not None:
                    self._scope.create_task(self._follow_owners(watch), name=f"owners {request.resource}")
        kind = _OwnedKind(resource, Selection(namespace, label_selector))
        if kind not in self._kinds:
            self._kinds[kind] = asyncio.Event()
            if self._scope is not None:
                self._scope.create_task(self._follow_owned(kind), name=f"owned {resource}")

    def on_owned(self, listener: Callable[[Key], None]) -> None:
        """Call a function with the key of the owner of each owned object that changes."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Collect until cancelled."""
        self._owned.cluster = await until_answered(self._access.cluster_id, what="the ID of the local cluster")
        async with asyncio.TaskGroup() as self._scope:
            for watch in self._owner_watches.values():
                self._scope.create_task(self._follow_owners(watch), name="owners")
            for kind in self._kinds:
                self._scope.create_task(self._follow_owned(kind), name=f"owned {kind.resource}")
            self._scope.create_task(self._load(), name="collector counts")

    async def _load(self) -> None:
        """Read the stored counts, however long that takes."""
        while not self._is_loaded.is_set():
            try:
                await self._limits.load()
            except RegistryError as error:
                self._report("the stored counts", str(error))
                await asyncio.sleep(_AGAIN_S)
            else:
                self._report("the stored counts", "")
                self._is_loaded.set()
        for halted in self._limits.halts:
            self._of(halted)  # nothing may wait for it any more

    # Occasions to ask.

    async def _follow_owned(self, kind: _OwnedKind) -> None:
        """Follow the objects of a kind in the local cluster."""
        delay = RetryDelay()
        while True:
            try:
                found, _ = await self._access.find(kind.resource)
                async with self._access.use() as connected:
                    reader, discovery = connected.writer, connected.discovery
                break
            except RegistryError as error:
                self._report(kind.resource, str(error))
                await delay.wait_after(error)
        report = functools.partial(self._report, kind.resource)
        handler = OwnedHandler(found, self._owned, synced=self._kinds[kind].set, report=report)
        scope = WatchScope(found, kind.selection)
        await Reflector(reader=reader, discovery=discovery, scope=scope, handler=handler).run()

    async def _follow_owners(self, watch: Watch) -> None:
        async with watch:
            async for event in watch:
                self._on_owner(event)

    def _on_owner(self, event: Event) -> None:
        """Check the objects of an owner that has changed; after a list, those whose owners it does not show."""
        cluster, obj = self._members.find_id(event.member), event.object
        if event.type is EventType.LEFT:
            for known in list(self._owned.clusters):
                self._of(known).ask_soon(self._owned.of_cluster(known))
        elif obj is not None and cluster:
            target = Target(obj.kind.group, obj.kind.kind, obj.namespace, obj.name)
            self._of(cluster).ask_soon(self._owned.of_owner(cluster, target))
        elif event.type is EventType.SYNCED and cluster:
            self._of(cluster).ask_soon(self._owned.of_cluster(cluster))

    def _on_owned(self, change: OwnedChange) -> None:
        target, before, now = change
        if before is not None and (now is None or now.uid != before.uid or now.mark.owner != before.mark.owner):
            self._of(before.mark.owner.cluster).note_gone(target)
        if now is not None:
            self._of(now.mark.owner.cluster).ask_soon((target,))
        for owner in {found.mark.owner for found in (before, now) if found is not None}:
            name = self._members.find_name(owner.cluster)
            for listener in self._listeners if name else ():
                listener(Key(name, owner.namespace, owner.name))

    def _of(self, cluster: ClusterUID) -> Collection:
        if cluster not in self._collections:
            collection = self._collections[cluster] = Collection(
                cluster,
                connection=functools.partial(self._members.find, cluster),
                access=self._access,
                owned=self._owned,
                limits=self._limits,
            )
            assert self._scope is not None  # owned objects are read in it
            self._scope.create_task(collection.run(self._until_ready), name=f"collector {cluster}")
        return self._collections[cluster]

    async def _until_ready(self) -> None:
        """Wait until the stored counts, and all owned objects, were read."""
        await self._is_loaded.wait()
        for is_listed in list(self._kinds.values()):
            await is_listed.wait()
