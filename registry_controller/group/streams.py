"""The objects of one kind and selection at one member, and the consumers of their changes.

Laws: an object stays known while its member is silent · a consumer that comes later gets the same objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from registry_controller.api.errors import Forbidden, RegistryError, Unreachable
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.api.selectors import parse_selector
from registry_controller.group.objects import (
    EventType,
    Object,
    ObjectOrigin,
    is_known_state,
    is_same_state,
    read_object,
    without_body,
)
from registry_controller.kube.object import PartialObject
from registry_controller.report.logs import get_logger
from registry_controller.report.reasons import describe_read_grant, with_remedy
from registry_controller.watch.event_handler import EventHandler

log = get_logger(__name__)


class StreamRequest(NamedTuple):
    """The objects of a stream: `resource` is the word of the user, which each member resolves."""

    resource: str
    selection: Selection
    metadata_only: bool

    def shows(self, other: StreamRequest) -> bool:
        """Return whether this stream shows all objects of another request.

        A field selector is evaluated by servers alone.
        """
        mine, theirs = self.selection, other.selection
        has_bodies = other.metadata_only or not self.metadata_only
        is_wider = not (mine.labels or mine.fields or theirs.fields) and mine.namespace in ("", theirs.namespace)
        return self.resource == other.resource and has_bodies and (mine == theirs or is_wider)

    def is_whole(self, namespace: str) -> bool:
        """Return whether all objects of a namespace are selected; empty means all namespaces."""
        mine = self.selection
        return not (mine.labels or mine.fields) and mine.namespace in ("", namespace)


class Consumer(Protocol):
    """Receives the changes of streams. A call is cheap and never fails.

    `reads_caches` is true for one that acts on what `Member.get` returns. That may come from any stream of the kind, so
    the consumer receives the changes of all of them.
    """

    @property
    def reads_caches(self) -> bool: ...

    def on_change(self, member: str, old: Object | None, new: Object | None, *, is_relisted: bool) -> None:
        """An object changed; `old` is None for a new one, `new` for a deleted one."""

    def on_state(self, member: str, state: EventType, *, reason: str = "", is_relisted: bool = False) -> None:
        """The stream is complete and current, stale, or over."""


class MemberStream(EventHandler):
    """One stream. `kind` is None until the member has resolved the resource; `problem` is why it is stale.

    `by_context` is true where the member is read with the rights of the user, and not of its reader. `origin` is the
    cluster that the objects are read from. `others` returns the other streams of the same resource there. `refused` is
    called when the right to read all of this one is missing.
    """

    def __init__(
        self,
        member: str,
        request: StreamRequest,
        *,
        by_context: bool,
        origin: ObjectOrigin | None = None,
        others: Callable[[MemberStream], Iterable[MemberStream]],
        refused: Callable[[MemberStream], None],
    ) -> None:
        self.request = request
        self._origin = origin
        self._by_context = by_context
        self._others = others
        self._refused = refused
        self.is_refused = False
        self.kind: GVK | None = None
        self.is_namespaced = True
        self.is_complete = False
        self.problem = ""
        self._member = member
        self._objects: dict[ObjectKey, Object] = {}
        self._consumers: dict[Consumer, StreamRequest] = {}
        self._unconfirmed: set[ObjectKey] = set()
        self._is_relisting = False
        self._doubted_after: float = math.inf

    @property
    def selection(self) -> Selection:
        """Return the selection of the list and watch: a kind without namespaces has none in it."""
        asked = self.request.selection
        return asked if self.is_namespaced else asked._replace(namespace="")

    @property
    def objects(self) -> Mapping[ObjectKey, Object]:
        """Return the known objects."""
        return self._objects

    @property
    def consumers(self) -> Mapping[Consumer, StreamRequest]:
        """Return the consumers, each with the objects that it asked for."""
        return self._consumers

    @property
    def is_current(self) -> bool:
        """Return whether all its objects are known as they are now."""
        return self.is_complete and not self.problem

    def attach(self, consumer: Consumer, request: StreamRequest) -> None:
        """Report everything that is known to a consumer, and each change from now on."""
        self._consumers[consumer] = request
        for obj in self._objects.values():
            consumer.on_change(self._member, None, obj, is_relisted=False)
        self._tell_state(consumer)

    def _tell_state(self, consumer: Consumer) -> None:
        if self.problem:
            consumer.on_state(self._member, EventType.STALE, reason=self.problem)
        elif self.is_complete:
            consumer.on_state(self._member, EventType.SYNCED)

    def detach(self, consumer: Consumer) -> None:
        """Report nothing more to a consumer."""
        self._consumers.pop(consumer, None)

    def take_over(self, consumer: Consumer, other: MemberStream) -> None:
        """Take a consumer that knows the objects of another stream, and report where this one differs.

        A new stream begins with these objects, and as complete as they are: its first list shows the differences.
        """
        request = other._consumers.pop(consumer)
        known = other._select(request)
        if not self._consumers and not self._objects:
            self._begin_with(other)
        self._consumers[consumer] = request
        for key in known.keys() | self._objects.keys():
            old, new = known.get(key), self._objects.get(key)
            if not is_same_state(old, new):
                consumer.on_change(self._member, old, new, is_relisted=True)
        if (self.is_complete, self.problem) != (other.is_complete, other.problem):
            self._tell_state(consumer)

    def _begin_with(self, other: MemberStream) -> None:
        """Take the objects of a wider stream; not its word that they are current, where that may not be read."""
        mine = other._select(self.request)
        if self.request.metadata_only:
            mine = {key: without_body(obj) for key, obj in mine.items()}
        self._objects |= mine
        self._unconfirmed |= mine.keys()
        self._doubted_after = other._doubted_after
        if self.kind is None:
            self.kind, self.is_namespaced = other.kind, other.is_namespaced
        self.is_complete = other.is_current and not other.is_refused

    def _select(self, request: StreamRequest) -> dict[ObjectKey, Object]:
        """Return the known objects of a request that has no other field selector."""
        labels = parse_selector(request.selection.labels)
        return {
            key: obj
            for key, obj in self._objects.items()
            if request.selection.includes(obj.namespace) and labels.matches(obj.labels)
        }

    def drop_objects(self) -> None:
        """Report the deletion of each object: the member has left."""
        gone, self._objects = list(self._objects.values()), {}
        self._report(((obj, None) for obj in gone), is_relisted=False)

    def end(self, reason: str) -> None:
        """Report that the member has left, and why. Later events of its connection reach no consumer."""
        consumers, self._consumers = list(self._consumers), {}
        for consumer in consumers:
            consumer.on_state(self._member, EventType.LEFT, reason=reason)

    def mark_stale(self, reason: str) -> None:
        """Note that the objects may be out of date."""
        if reason != self.problem:
            self.problem = reason
            for consumer in list(self._consumers):
                consumer.on_state(self._member, EventType.STALE, reason=reason)

    # Events of the reflector.

    def on_list(self) -> None:
        """Note that a list begins."""
        self._is_relisting = self.is_complete

    def on_object(self, obj: PartialObject) -> None:
        """Take an object's present state, unless it is the known one."""
        assert self.kind is not None
        self._unconfirmed.discard(obj.key)
        old = self._objects.get(obj.key)
        if is_known_state(old, obj, kind=self.kind) and obj.revision <= self._doubted_after:
            return
        new = read_object(obj, kind=self.kind, metadata_only=self.request.metadata_only, origin=self._origin)
        self._objects[obj.key] = new
        self._report(((old, new),), is_relisted=self._is_relisting)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take the deletion of an object."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._report(((old, None),), is_relisted=obj is None)

    def on_reset(self) -> None:
        """Note that the history of the member is another one: an object of a known revision may differ."""
        self._doubted_after = -1

    def on_doubt(self, revision: int) -> None:
        """Note that objects of later revisions may lack fields, which the next list shows."""
        self._doubted_after = min(revision, self._doubted_after)

    def on_synced(self, revision: int) -> None:
        """Note that a list is complete."""
        unconfirmed, self._unconfirmed = self._unconfirmed, set()
        for key in unconfirmed:
            self.on_delete(key, None)
        self._doubted_after = math.inf
        self.is_refused = False
        is_relisted, self._is_relisting = self._is_relisting, False
        self.is_complete = True
        self._mark_current(is_relisted=is_relisted)

    def on_error(self, error: RegistryError) -> None:
        """Note that the objects may be out of date; the connection logs a member that does not answer."""
        reason = self.explain(error)
        if reason != self.problem and not isinstance(error, Unreachable):
            log.warning("objects cannot be read", member=self._member, resource=self.request.resource, error=reason)
        if isinstance(error, Forbidden) and error.lacks_right:
            self.is_refused = True
            self._refused(self)
        self.mark_stale(reason)

    def explain(self, error: RegistryError) -> str:
        """Return the message of an error of the member; for a right that is missing, with what grants it."""
        grant = "grant it there to the account of this program" if self._by_context else describe_read_grant()
        return with_remedy(error, grant)

    def on_recovered(self) -> None:
        """Note that the objects are current again; after a list that was reported already."""
        if self.problem and self.is_complete:
            self.is_refused = False
            self._mark_current(is_relisted=False)

    def _mark_current(self, *, is_relisted: bool) -> None:
        self.problem = ""
        for consumer in list(self._consumers):
            consumer.on_state(self._member, EventType.SYNCED, is_relisted=is_relisted)

    def _report(self, changes: Iterable[tuple[Object | None, Object | None]], *, is_relisted: bool) -> None:
        consumers = list(self._consumers)
        for other in self._others(self):
            consumers += (one for one in other.consumers if one.reads_caches and one not in self._consumers)
        for old, new in changes:
            for consumer in consumers:
                consumer.on_change(self._member, old, new, is_relisted=is_relisted)
