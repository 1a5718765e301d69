"""Handlers in kopf's style for the events of all members, beside the ordinary handlers of a kopf operator.

kopf connects to one cluster, and its public API takes no events from elsewhere. So these handlers are called here, with
kopf's keyword arguments; `patch` is missing, because nothing is written to members.

Laws: the events of one object never run twice at once · after an error of a handler its latest event comes again, later
each time · a handler gets the latest state of an object, not each one, and its type is from the handler's own calls:
the first is ADDED, until one has ended without an error · the group ends before kopf, which waits at its end for all
tasks that were started while it ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import kopf

from registry_controller.api.errors import InvalidObject
from registry_controller.api.selection import Selection
from registry_controller.group.arguments import check_resource, check_selection
from registry_controller.group.controller import Delay, Watched, call_with_keys, key_of_object, name_function
from registry_controller.group.objects import Event, EventType, Key, Object, type_of_change
from registry_controller.group.watching import Watch
from registry_controller.report.lines import describe
from registry_controller.report.logs import get_logger
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_WORKERS: Final = 4

Handler = Callable[..., Any]
Filter = Mapping[str, Any]
"""Texts, functions, kopf.PRESENT or kopf.ABSENT, by the names of labels or annotations."""
_H = TypeVar("_H", bound=Handler)


class RunnableGroup(Watched, Protocol):
    """The part of a group that the handlers need."""

    def watch(
        self, resource: str, *, namespace: str, label_selector: str, field_selector: str, metadata_only: bool
    ) -> Watch:
        """Watch a kind in all members."""

    @property
    def is_running(self) -> bool:
        """Return whether the members are engaged."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Latest(NamedTuple):
    """The latest event of an object, or of the state of a member, and the memo of the object."""

    event: Event
    memo: kopf.Memo


@dataclass(slots=True)
class _Registered:
    """A handler, and the state of its objects; with `is_of_state`, of the members that have them."""

    resource: str
    namespace: str
    labels: Filter
    annotations: Filter
    when: Callable[..., bool] | None
    call: Handler
    is_of_state: bool = False
    queue: WorkQueue[Key] = field(default_factory=lambda: WorkQueue[Key](at_once=_WORKERS))
    latest: dict[Key, _Latest] = field(default_factory=dict)
    calls: dict[Key, bool] = field(default_factory=dict)
    """The objects that it was called with, and whether a call has ended without an error."""

    def keys_of(self, event: Event) -> Iterable[Key]:
        """Return the key of an event that is for this handler."""
        if self.is_of_state:
            return (Key(event.member, "", ""),) if event.object is None else ()
        return key_of_object(event)

    def type_of(self, key: Key, event: Event) -> EventType | None:
        """Return the type of an event for this handler; None for an object that is gone and was in no call."""
        if event.object is None:
            return event.type
        if event.type is EventType.DELETED:  # a call that failed may have done a part of its work
            return type_of_change(was_known=key in self.calls, exists=False)
        return type_of_change(was_known=self.calls.get(key, False), exists=True)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self.latest.pop(key, None)
        self.calls.pop(key, None)

    def selects(self, obj: Object | None, given: Mapping[str, Any] | None = None) -> bool:
        """Return whether an object passes the filters of labels and annotations; without `given`, no function is asked.

        The state of a member has neither.
        """
        return obj is None or (
            all(_passes(value, obj.labels.get(name), given) for name, value in self.labels.items())
            and all(_passes(value, obj.annotations.get(name), given) for name, value in self.annotations.items())
        )

    def wants(self, obj: Object | None, given: Mapping[str, Any]) -> bool:
        """Return whether an object passes all filters; `given` are the keyword arguments of the handler."""
        return self.selects(obj, given) and (self.when is None or bool(self.when(**given)))


class KopfHandlers:
    """The handlers of a group. They are called while `run`, or an operator with `install`, runs.

    A function that is not async runs in a thread. After `kopf.TemporaryError` the latest event comes again after its
    delay, and after `kopf.PermanentError` not again.
    """

    def __init__(self, group: RunnableGroup) -> None:
        self._group = group
        self._registered: list[_Registered] = []
        self._memos = WeakValueDictionary[tuple[str, str], kopf.Memo]()

    def on_event(
        self,
        resource: str,
        *,
        namespace: str = "",
        labels: Filter | None = None,
        annotations: Filter | None = None,
        when: Callable[..., bool] | None = None,
    ) -> Callable[[_H], _H]:
        """Call a function with the events of a kind in all members, as `kopf.on.event` does in one cluster.

        The keyword arguments are kopf's (`type`, `event`, `body`, `meta`, `spec`, `status`, `labels`, `annotations`,
        `name`, `namespace`, `uid`, `logger`, `memo`), and `cluster`, the name of the member. InvalidObject for a wrong
        argument: a value of a filter is a text, `kopf.PRESENT`, `kopf.ABSENT` or a function.

        The first `type` of an object is ADDED, until a call has ended without an error. Then it is MODIFIED, also for
        an object that was made again before a call for DELETED has ended so. An object that is gone before the first
        call gives none.
        """
        _check_kind(resource, namespace)
        filters = labels or {}, annotations or {}
        for path, wanted in zip(("labels", "annotations"), filters, strict=True):
            _check_filter(path, wanted)

        def register(function: _H) -> _H:
            self._registered.append(_Registered(resource, namespace, *filters, when, function))
            return function

        return register

    def on_state(self, resource: str, *, namespace: str = "") -> Callable[[_H], _H]:
        """Call a function when the objects of a kind in a member are all known, stale, or gone with the member.

        The keyword arguments are `type` (SYNCED, STALE or LEFT), `reason`, `cluster`, `logger` and `memo`.
        InvalidObject for a wrong argument.
        """
        _check_kind(resource, namespace)

        def register(function: _H) -> _H:
            self._registered.append(_Registered(resource, namespace, {}, {}, None, function, is_of_state=True))
            return function

        return register

    async def run(self, **arguments: Any) -> None:
        """Engage the members, and run a kopf operator with these arguments of `kopf.operator` to its end."""
        service = _Service(self._serving)
        kopf.on.cleanup(registry=arguments.get("registry"))(service.end)
        async with asyncio.TaskGroup() as scope:
            await service.start(scope.create_task)
            await kopf.operator(**arguments)
            await service.end()

    def install(self, registry: kopf.OperatorRegistry | None = None) -> None:
        """Engage the members at the start of an operator that runs otherwise, as with `kopf run`, until it ends."""
        service = _Service(self._serving)

        @kopf.on.startup(registry=registry)
        async def start(**_: Any) -> None:
            await service.start(asyncio.get_running_loop().create_task)

        kopf.on.cleanup(registry=registry)(service.end)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """Engage the members, where they are not yet, and call the handlers."""
        async with contextlib.AsyncExitStack() as stack:
            if not self._group.is_running:
                await stack.enter_async_context(self._group)
            async with asyncio.TaskGroup() as scope:
                tasks = [
                    scope.create_task(task, name=f"kopf handler {one.resource}")
                    for one in self._registered
                    for task in (
                        self._take(one),
                        call_with_keys(one.queue, functools.partial(_handle, one), name=name_function(one.call)),
                    )
                ]
                yield
                for task in tasks:
                    task.cancel()

    async def _take(self, one: _Registered) -> None:
        watch = self._group.watch(
            one.resource, namespace=one.namespace, label_selector="", field_selector="", metadata_only=one.is_of_state
        )
        async with watch:
            async for event in watch:
                for key in one.keys_of(event):
                    if one.selects(event.object):
                        one.latest[key] = _Latest(event, self._memo_of(event))
                        one.queue.add(key, key.member)
                    elif event.type is EventType.DELETED:
                        one.forget(key)
                    else:
                        one.latest.pop(key, None)

    def _memo_of(self, event: Event) -> kopf.Memo:
        """Return the memo of an object, which all handlers share while one of them knows the object."""
        place = event.member, event.object.uid if event.object is not None else ""
        memo = self._memos.get(place)
        if memo is None:
            memo = self._memos[place] = kopf.Memo()
        return memo


class _Service:
    """The serving of handlers, in a task of its own from `start` to `end`."""

    def __init__(self, serving: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._serving = serving
        self._started, self._ending = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, create_task: Callable[..., asyncio.Task[None]]) -> None:
        """Engage the members, and return then; raises what prevents that."""
        task = self._task = create_task(self._serve(), name="group")
        task.add_done_callback(self._note_end)
        await self._started.wait()
        if task.done():
            await task

    async def end(self, **_: Any) -> None:
        """Disengage the members, and return then."""
        self._ending.set()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._started.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("handlers of the group have ended", error=describe(error))

    async def _serve(self) -> None:
        async with self._serving():
            self._started.set()
            await self._ending.wait()


async def _handle(one: _Registered, key: Key) -> Delay | None:
    """Call a handler with the latest event of an object; forget an object whose deletion it has seen."""
    latest = one.latest.get(key)
    if latest is None:
        return None
    kind = one.type_of(key, latest.event)
    if kind is None:
        one.forget(key)
        return None
    given = _describe(one, key, latest.event._replace(type=kind), latest.memo)
    was_called = False
    try:
        if one.wants(latest.event.object, given):
            was_called = True
            one.calls.setdefault(key, False)
            await _call(one.call, given)
    except kopf.TemporaryError as error:
        if error.delay is None:
            raise
        log.info(
            "handler asks to be called later", handler=name_function(one.call), member=key.member,
            namespace=key.namespace, name=key.name, reason=str(error), afterS=error.delay,
        )  # fmt: skip
        return error.delay
    except kopf.PermanentError as error:
        log.warning(
            "handler has failed for good", handler=name_function(one.call), member=key.member,
            namespace=key.namespace, name=key.name, reason=str(error),
        )  # fmt: skip
    if kind in (EventType.DELETED, EventType.LEFT):
        one.calls.pop(key, None)
        if one.latest.get(key) is latest:
            del one.latest[key]
    elif was_called and key in one.calls:
        one.calls[key] = True
    return None


async def _call(call: Handler, given: Mapping[str, Any]) -> None:
    if inspect.iscoroutinefunction(inspect.unwrap(call)):
        await call(**given)
    else:
        result = await asyncio.to_thread(_call_in_thread, call, given)
        if inspect.isawaitable(result):
            await result


def _call_in_thread(call: Handler, given: Mapping[str, Any]) -> Any:
    """Call a function; RuntimeError for a StopIteration, which no future can carry."""
    try:
        return call(**given)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


def _describe(one: _Registered, key: Key, event: Event, memo: kopf.Memo) -> Mapping[str, Any]:
    """Return the keyword arguments of a handler."""
    return {
        "type": event.type.value,
        "cluster": key.member,
        "logger": logging.getLogger(one.call.__module__),
        "memo": memo,
        **({"reason": event.reason} if event.object is None else _describe_object(event, event.object)),
    }


def _describe_object(event: Event, obj: Object) -> dict[str, Any]:
    body = kopf.Body(cast(kopf.RawBody, obj.manifest))
    return {
        "event": {"type": event.type.value, "object": dict(body)},
        "body": body,
        "meta": body.metadata,
        "spec": body.spec,
        "status": body.status,
        "labels": body.metadata.labels,
        "annotations": body.metadata.annotations,
        "name": obj.name,
        "namespace": obj.namespace or None,
        "uid": obj.uid,
    }


def _check_kind(resource: str, namespace: str) -> None:
    check_resource(resource)
    check_selection(Selection(namespace))


def _check_filter(path: str, wanted: Filter) -> None:
    for name, value in wanted.items():
        if not (isinstance(value, str) or value in (kopf.PRESENT, kopf.ABSENT) or callable(value)):
            raise InvalidObject(f"{path}.{name}", "must be a text, kopf.PRESENT, kopf.ABSENT or a function")


def _passes(wanted: Any, found: str | None, given: Mapping[str, Any] | None) -> bool:
    """Return whether a label or annotation passes a filter, as in kopf; without `given`, a function is not asked."""
    if wanted is kopf.PRESENT or wanted is kopf.ABSENT:
        return (found is None) is (wanted is kopf.ABSENT)
    if callable(wanted):
        return given is None or bool(wanted(found, **given))
    return bool(found == wanted)
