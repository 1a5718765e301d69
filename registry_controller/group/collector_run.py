"""Collects the marked objects of the local cluster, while that is the same cluster.

Laws: a mark counts in the cluster that it names, so everything that is known ends when the cluster is another one · a
kind that cannot be read here holds back no object of another kind, or for a minute where that may be for a moment.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from registry_controller.api.errors import Forbidden, NotServed, RegistryError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.selection import Selection
from registry_controller.group.collection import Collection
from registry_controller.group.collection_limits import CollectionHalt, CollectionLimits
from registry_controller.group.engagements import Engagements
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.objects import Event, EventType, Key
from registry_controller.group.owned_objects import OwnedChange, OwnedHandler, OwnedObjects
from registry_controller.group.owner_proof import streams_of
from registry_controller.group.ownership import Owner
from registry_controller.group.streams import StreamRequest
from registry_controller.group.watching import Watch
from registry_controller.kube.discover import Discovery
from registry_controller.report.logs import get_logger
from registry_controller.watch.reflector import Reflector, WatchScope
from registry_controller.watch.retry import RetryDelay, until_answered

log = get_logger(__name__)

_AGAIN_S: Final = 10.0
_HOLDS_BACK_S: Final = 60.0
"""An API server that starts fails for some kinds at first. All objects are to be counted together."""


class AnotherCluster(Exception):
    """The local cluster is another one."""


class OwnedKind(NamedTuple):
    """A kind of objects that the operator owns, by its word, and where they are."""

    resource: str
    selection: Selection


class Listener(NamedTuple):
    """A function that is called with the keys of the owners that watches show, for their objects of a kind."""

    call: Callable[[Key], None]
    resource: str
    owners: Sequence[StreamRequest]


class CollectedGroup(Protocol):
    """The part of a group that the collector needs."""

    def watch(
        self, resource: str, *, namespace: str, label_selector: str, field_selector: str, metadata_only: bool
    ) -> Watch:
        """Watch a kind in all members."""


class CollectorRun:
    """The collector of one local cluster. `listeners` get the keys of the owners of the owned objects that change."""

    def __init__(
        self,
        group: CollectedGroup,
        members: Engagements,
        access: LocalAccess,
        *,
        cluster: ClusterUID,
        listeners: Sequence[Listener],
    ) -> None:
        self.problems: dict[str, str] = {}
        self._group = group
        self._members = members
        self._access = access
        self._cluster = cluster
        self._scope = asyncio.TaskGroup()
        self._listeners = listeners
        self._found: dict[str, OwnedHandler] = {}
        self._owned = OwnedObjects(operator=access.operator, cluster=cluster, changed=self._on_owned)
        self._limits = CollectionLimits(access, self._owned)
        self._answered: dict[OwnedKind, asyncio.Event] = {}
        self._failing: set[OwnedKind] = set()
        self._is_loaded, self._is_doubted = asyncio.Event(), asyncio.Event()
        self._collections: dict[ClusterUID, Collection] = {}

    async def run(self, *, owners: Iterable[StreamRequest], kinds: Iterable[OwnedKind]) -> None:
        """Collect objects of these kinds until cancelled; AnotherCluster, in a group, once the cluster is another."""
        async with self._scope as scope:
            scope.create_task(self._load(), name="collector counts")
            scope.create_task(self._check_cluster(), name="collector cluster")
            for request in owners:
                self.follow_owners(request)
            for kind in kinds:
                self.follow_owned(kind)

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

    def follow_owners(self, request: StreamRequest) -> None:
        """Follow the owners that a watch shows."""
        selection = request.selection
        watch = self._group.watch(
            request.resource, namespace=selection.namespace, label_selector=selection.labels,
            field_selector=selection.fields, metadata_only=request.metadata_only,
        )  # fmt: skip
        self._scope.create_task(self._follow_owners(watch), name=f"owners {request.resource}")

    def follow_owned(self, kind: OwnedKind) -> None:
        """Follow and collect the objects of a kind in the local cluster."""
        self._answered[kind] = asyncio.Event()
        self._scope.create_task(self._follow_owned(kind), name=f"owned {kind.resource}")

    def _report(self, what: str, reason: str) -> None:
        if reason and self.problems.get(what) != reason:
            self.problems[what] = reason
            log.warning("collector cannot read", what=what, error=reason)
        elif not reason:
            self.problems.pop(what, None)

    def _report_kind(self, kind: OwnedKind, error: RegistryError | None) -> None:
        """Report why the objects of a kind may be out of date; None where they are not.

        Nothing waits for objects that the server does not serve, or refuses to show. After another error the
        other kinds wait for a minute: a conversion webhook that is broken fails each list of its kind.
        """
        self._report(kind.resource, str(error) if error is not None else "")
        answered = self._answered[kind]
        if isinstance(error, NotServed | Forbidden):
            answered.set()
        elif error is not None and kind not in self._failing:
            self._failing.add(kind)
            asyncio.get_running_loop().call_later(_HOLDS_BACK_S, answered.set)

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

    async def _check_cluster(self) -> None:
        """Read the ID of the cluster each time that its history is another one."""
        while True:
            await self._is_doubted.wait()
            self._is_doubted.clear()
            now = await until_answered(self._access.cluster_id, what="the ID of the local cluster")
            if now != self._cluster:
                raise AnotherCluster

    # Occasions to ask.

    async def _follow_owned(self, kind: OwnedKind) -> None:
        """Follow the objects of a kind in the local cluster, in any version that it serves."""
        delay = RetryDelay()
        while True:
            try:
                found, _ = await self._access.find(kind.resource)
                async with self._access.use() as connected:
                    reader, discovery = connected.writer, connected.discovery
                break
            except RegistryError as error:
                self._report_kind(kind, error)
                await delay.wait_after(error)
        handler = OwnedHandler(
            found,
            self._owned,
            synced=self._answered[kind].set,
            reset=self._is_doubted.set,
            report=functools.partial(self._report_kind, kind),
        )
        self._found[kind.resource] = handler
        find = functools.partial(_find_version, handler, kind.selection) if found.group else None
        scope = WatchScope(found, kind.selection)
        await Reflector(reader=reader, discovery=discovery, scope=scope, handler=handler, find=find).run()

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
            targets = self._owned.of_owner(cluster, target)
            self._of(cluster).note_owner(targets, is_gone=event.type is EventType.DELETED)
        elif event.type is EventType.SYNCED and cluster:
            self._of(cluster).ask_soon(self._owned.of_cluster(cluster))

    def _on_owned(self, change: OwnedChange) -> None:
        target, before, now = change
        if before is not None and (now is None or now.uid != before.uid or now.mark.owner != before.mark.owner):
            self._of(before.mark.owner.cluster).note_gone(target)
        if now is not None:
            collection = self._of(now.mark.owner.cluster)
            if before is None and now.is_deleting:
                collection.note_going(target)
            collection.ask_soon((target,))
        for owner in {found.mark.owner for found in (before, now) if found is not None}:
            self._report_owner(owner, target)

    def report_all(self) -> None:
        """Call the listeners with the keys of the owners of all objects."""
        for owner, target in self._owned.owners:
            self._report_owner(owner, target)

    def _report_owner(self, owner: Owner, target: Target) -> None:
        """Call the listeners for both kinds with the key of the owner of an object, where its cluster is a member.

        A member that has not resolved the word of the owners gives no key: its first list brings their keys.
        """
        for connection in self._members.find(owner.cluster)[:1]:
            words = {stream.request.resource for stream in streams_of(connection, owner)}
            for listener in self._listeners:
                found = self._found.get(listener.resource)
                is_owned = found is not None and (found.kind.group, found.kind.kind) == (target.group, target.kind)
                if is_owned and any(_may_show(request, owner, words) for request in listener.owners):
                    listener.call(Key(connection.name, owner.namespace, owner.name))

    def _of(self, cluster: ClusterUID) -> Collection:
        if cluster not in self._collections:
            collection = self._collections[cluster] = Collection(
                cluster,
                witnesses=functools.partial(self._members.find_witnesses, cluster),
                unidentified=lambda: self._members.unidentified,
                access=self._access,
                owned=self._owned,
                limits=self._limits,
            )
            self._scope.create_task(collection.run(self._until_ready), name=f"collector {cluster}")
        return self._collections[cluster]

    async def _until_ready(self) -> None:
        """Wait until the stored counts, and all owned objects that can be read, were read; see `_report_kind`."""
        await self._is_loaded.wait()
        for is_answered in list(self._answered.values()):
            await is_answered.wait()


def _may_show(request: StreamRequest, owner: Owner, words: Container[str]) -> bool:
    """Return whether a watch is of the kind and namespace of an owner; `words` name its kind."""
    return request.resource in words and request.selection.includes(owner.namespace)


async def _find_version(handler: OwnedHandler, selection: Selection, discovery: Discovery) -> WatchScope:
    """Find a kind in the version that is served now; NotServed where there is none."""
    handler.kind, _ = await discovery.find(f"{handler.kind.kind}.{handler.kind.group}")
    return WatchScope(handler.kind, selection)
