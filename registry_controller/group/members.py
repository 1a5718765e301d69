"""One member: its connection, the streams over this connection, and the public view of both."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Sequence
from typing import Any

from registry_controller.api.errors import RegistryError, Unreachable
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.api.selectors import parse_selector
from registry_controller.clusters.connection import PeerConnection
from registry_controller.clusters.dialer import Dialer
from registry_controller.group.arguments import check_scope
from registry_controller.group.dialers import ContextDialer
from registry_controller.group.objects import Object
from registry_controller.group.ownership import Owner, make_owner, read_owner
from registry_controller.group.shown_objects import find_object, list_objects, may_be_stale
from registry_controller.group.streams import Consumer, MemberStream, StreamRequest
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.watch.fairness import EvaluationLimiter
from registry_controller.watch.reflector import Reflector, WatchScope
from registry_controller.watch.retry import RetryDelay


class MemberConnection(PeerConnection[Dialer | ContextDialer]):
    """The connection to one member, and the reflectors that fill its streams. They outlive a connection."""

    def __init__(self, *, dialer: Dialer | ContextDialer, evaluations: EvaluationLimiter) -> None:
        super().__init__(dialer=dialer, status_changed=self._on_status_changed)
        self.dialer = dialer
        self.streams: dict[StreamRequest, MemberStream] = {}
        self._evaluations = evaluations
        self._reflectors: dict[StreamRequest, Reflector] = {}
        self._tasks: dict[StreamRequest, asyncio.Task[Any]] = {}
        self._scope: asyncio.TaskGroup | None = None

    def attach(self, consumer: Consumer, request: StreamRequest) -> None:
        """Report the objects of a request to a consumer, from a stream that shows them; open one where none does."""
        self._open(request).attach(consumer, request)

    def _open(self, request: StreamRequest, *, besides: MemberStream | None = None) -> MemberStream:
        for held in self.streams.values():
            is_fit = held.request == request or (held.request.shows(request) and not held.is_refused)
            if is_fit and held is not besides:
                return held
        by_context = isinstance(self.dialer, ContextDialer)
        stream = self.streams[request] = MemberStream(
            self.name,
            request,
            by_context=by_context,
            origin=self.dialer,
            others=self._others_of,
            refused=self._divide,
        )
        if not self.is_alive:
            stream.mark_stale(self.failure)
        self._follow(stream)
        return stream

    def _others_of(self, stream: MemberStream) -> Iterable[MemberStream]:
        """Return the other streams of a resource."""
        if len(self.streams) == 1:
            return ()
        return [
            one
            for request, one in self.streams.items()
            if one is not stream and request.resource == stream.request.resource
        ]

    def _divide(self, stream: MemberStream) -> None:
        """Move the consumers that asked for less than a stream shows to other streams, the widest requests first."""
        requests = list(stream.consumers.values())
        shown = {request: sum(request.shows(other) for other in requests) for request in requests}
        for consumer, request in sorted(stream.consumers.items(), key=lambda found: -shown[found[1]]):
            if request != stream.request:
                self._open(request, besides=stream).take_over(consumer, stream)
        self._drop_unused()

    def detach(self, consumer: Consumer) -> None:
        """Report nothing more to a consumer, and end the streams that it alone has asked for.

        A stream that shows more than the other consumers want is divided: it would hold all objects for a few of them.
        """
        for stream in self.streams.values():
            stream.detach(consumer)
        self._drop_unused()
        for stream in list(self.streams.values()):
            if stream.request not in stream.consumers.values():
                self._divide(stream)

    def _drop_unused(self) -> None:
        """End the streams without a consumer."""
        for request in [request for request, stream in self.streams.items() if not stream.consumers]:
            del self.streams[request]
            self._reflectors.pop(request, None)
            task = self._tasks.pop(request, None)
            if task is not None:
                task.cancel()

    def _start_reading(self, scope: asyncio.TaskGroup, reader: Reader, discovery: Discovery) -> None:
        self._scope = scope
        for reflector in self._reflectors.values():
            reflector.swap(reader, discovery)
        for stream in self.streams.values():
            self._follow(stream)

    def _stop_reading(self) -> Iterable[asyncio.Task[Any]]:
        tasks, self._tasks, self._scope = list(self._tasks.values()), {}, None
        if tasks and self.failure:  # not where the next connection is there already
            for reflector in self._reflectors.values():
                reflector.stall(Unreachable(self.failure))
        return tasks

    def _on_status_changed(self) -> None:
        if not self.is_alive:
            for stream in self.streams.values():
                stream.mark_stale(self.failure)

    def _follow(self, stream: MemberStream) -> None:
        if self._scope is not None and self.reader is not None and self.discovery is not None:
            name = f"follow {self.name} {stream.request.resource} {stream.request.selection}"
            work = self._read(stream, self.reader, self.discovery)
            self._tasks[stream.request] = self._scope.create_task(work, name=name)

    async def _read(self, stream: MemberStream, reader: Reader, discovery: Discovery) -> None:
        """Resolve the resource, and follow it forever, in any version that the member serves."""
        delay = RetryDelay()
        while stream.kind is None:
            try:
                await _find_scope(stream, discovery)
            except RegistryError as error:
                stream.on_error(error)
                await delay.wait_after(error)
        reflector = self._reflectors.get(stream.request)
        if reflector is None:
            reflector = self._reflectors[stream.request] = Reflector(
                reader=reader,
                discovery=discovery,
                scope=_scope_of(stream, stream.kind),
                handler=stream,
                observer=self,
                find=functools.partial(_find_scope, stream) if stream.kind.group else None,  # the core group has one
                turns=self._evaluations,
                prove=self.dialer.prove,
            )
        await reflector.run()


async def _find_scope(stream: MemberStream, discovery: Discovery) -> WatchScope:
    """Find the kind of a stream, from the second time on in its group alone; NotServed where it is not served."""
    word = stream.request.resource
    if stream.kind is not None and "." not in word:
        word = f"{word}.{stream.kind.group}"
    kind, gvr = await discovery.find(word)
    stream.is_namespaced, stream.kind = gvr.namespaced, kind  # a thread reads the kind first
    return _scope_of(stream, kind)


def _scope_of(stream: MemberStream, kind: GVK) -> WatchScope:
    metadata_only = stream.request.metadata_only
    return WatchScope(kind, stream.selection, metadata_only=metadata_only, awaits_present=True)


class Member:
    """A member of the group, and the objects there that are watched.

    Reading from the cache asks nothing of the member: it shows the kinds that a watch or a controller follows.
    """

    def __init__(self, connection: MemberConnection, *, is_local: bool) -> None:
        self._connection = connection
        self.is_local = is_local
        """True for the cluster that the group was read from."""

    def __repr__(self) -> str:
        return f"<Member {self.name}>"

    @property
    def name(self) -> str:
        """Return its name: of its Cluster, its context or its Secret."""
        return self._connection.name

    @property
    def cluster_id(self) -> ClusterUID:
        """Return the UID of its namespace kube-system; empty before it has answered, or where this may not be read."""
        return self._connection.dialer.cluster_id

    @property
    def is_alive(self) -> bool:
        """Return false once two probes in a row went unanswered, until it answers again."""
        return self._connection.is_alive

    @property
    def is_connected(self) -> bool:
        """Return whether it is being read."""
        return self._connection.is_connected

    @property
    def problem(self) -> str:
        """Return why it is not read; empty without a problem."""
        return self._connection.failure

    @property
    def silence_s(self) -> float | None:
        """Return for how many seconds it has sent nothing; None before it has answered."""
        return self._connection.silence_s

    def as_owner(self, obj: Object) -> Owner:
        """Return an object of this member as an owner of local objects.

        LookupError while the ID of the member is not known, ValueError for an object of another cluster.
        """
        return make_owner(obj, cluster=self.cluster_id, member=self.name, is_local=self.is_local)

    def owner_of(self, obj: Object) -> Owner | None:
        """Return the owner that an operator at this member gave to an object there; None without one."""
        return read_owner(obj, cluster=self.cluster_id)

    def get(self, resource: str, name: str, *, namespace: str = "") -> Object | None:
        """Return a watched object; None where it does not exist.

        LookupError for one that no watch shows. InvalidObject without a namespace where the kind has them, and for a
        namespace where it has none; a member that has not answered yet does not show which.
        """
        streams = self._find(resource, namespace)
        for stream in streams:
            if stream.kind is not None:
                check_scope(namespace, is_namespaced=stream.is_namespaced, kind=stream.kind)
        return find_object(streams, ObjectKey(namespace, name))

    def list(self, resource: str, *, namespace: str = "", label_selector: str = "") -> Sequence[Object]:
        """List watched objects by namespace and name; LookupError for a kind that no watch shows there."""
        streams = self._find(resource, namespace)
        return list_objects(streams, namespace=namespace, labels=parse_selector(label_selector))

    def is_stale(self, resource: str, *, namespace: str = "") -> bool:
        """Return whether the objects of a watched kind may be out of date; LookupError for one that no watch shows.

        Without `namespace` this is so as well where another watch of the kind may not show its objects.
        """
        return may_be_stale(self._find(resource, namespace), namespace=namespace)

    def _find(self, resource: str, namespace: str) -> Sequence[MemberStream]:
        known = tuple(self._connection.streams.items())  # a handler may run in a thread
        found = [
            stream
            for request, stream in known
            if request.resource == resource and request.selection.includes(namespace)
        ]
        if not found:
            place = f" in the namespace {namespace}" if namespace else ""
            words = ", ".join(sorted({request.resource for request, _ in known})) or "nothing"
            raise LookupError(
                f"{resource}{place} is not watched: watch it, or give it to the controller, and use the same word "
                f"here; watched: {words}"
            )
        return found
