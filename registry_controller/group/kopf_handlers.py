"""Handlers in kopf's style for the events of all members, beside the ordinary handlers of a kopf operator.

kopf connects to one cluster, and its public API takes no events from elsewhere. So these handlers are called here, with
kopf's keyword arguments; `patch` is missing, because nothing is written to members.

Laws: the events of one object never run twice at once · after an error of a handler its latest event comes again, later
each time · a handler gets the latest state of an object, not each one · the group ends before kopf, which waits at its
end for all tasks that were started while it ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import kopf

from registry_controller.api.selection import Selection
from registry_controller.group.arguments import check_resource, check_selection
from registry_controller.group.collector_run import CollectedGroup
from registry_controller.group.controller import Watched, call_with_keys, name_function
from registry_controller.group.kopf_calls import Filter, Handler, Latest, RegisteredHandler, check_filter, handle
from registry_controller.group.objects import Event, EventType
from registry_controller.report.lines import describe
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_H = TypeVar("_H", bound=Handler)


class RunnableGroup(Watched, CollectedGroup, Protocol):
    """The part of a group that the handlers need."""

    @property
    def is_running(self) -> bool:
        """Return whether the members are engaged."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class KopfHandlers:
    """The handlers of a group. They are called while `run`, or an operator with `install`, runs.

    A function that is not async runs in a thread. After `kopf.TemporaryError` the latest event comes again after its
    delay, and after `kopf.PermanentError` not again.
    """

    def __init__(self, group: RunnableGroup) -> None:
        self._group = group
        self._registered: list[RegisteredHandler] = []
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
            check_filter(path, wanted)

        def register(function: _H) -> _H:
            self._registered.append(RegisteredHandler(resource, namespace, *filters, when, function))
            return function

        return register

    def on_state(self, resource: str, *, namespace: str = "") -> Callable[[_H], _H]:
        """Call a function when the objects of a kind in a member are all known, stale, or gone with the member.

        The keyword arguments are `type` (SYNCED, STALE or LEFT), `reason`, `cluster`, `logger` and `memo`.
        InvalidObject for a wrong argument.
        """
        _check_kind(resource, namespace)

        def register(function: _H) -> _H:
            self._registered.append(RegisteredHandler(resource, namespace, {}, {}, None, function, is_of_state=True))
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
        """Engage the members at the start of an operator that runs otherwise, as with `kopf run`, until it ends.

        An error of the group ends the operator with an error: kopf stops as after SIGTERM. In a process without a
        handler for SIGTERM, as where kopf runs in a thread, kopf goes on, and the log has the error.
        """
        service = _Service(self._serving, failed=_stop_operator)

        @kopf.on.startup(registry=registry)
        async def start(**_: Any) -> None:
            try:
                await service.start(asyncio.get_running_loop().create_task)
            except Exception as error:  # kopf would call it again, and a group is entered once
                raise kopf.PermanentError(f"the members cannot be engaged: {_name_cause(error)}") from error

        @kopf.on.cleanup(registry=registry)
        async def end(**_: Any) -> None:
            await service.end()
            if service.error is not None:
                raise kopf.PermanentError(f"the group has ended: {_name_cause(service.error)}") from service.error

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
                        call_with_keys(one.queue, functools.partial(handle, one), name=name_function(one.call)),
                    )
                ]
                yield
                for task in tasks:
                    task.cancel()

    async def _take(self, one: RegisteredHandler) -> None:
        watch = self._group.watch(
            one.resource, namespace=one.namespace, label_selector="", field_selector="", metadata_only=one.is_of_state
        )
        async with watch:
            async for event in watch:
                for key in one.keys_of(event):
                    if one.selects(event.object):
                        one.latest[key] = Latest(event, self._memo_of(event))
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
    """The serving of handlers, in a task of its own from `start` to `end`.

    `failed` is called where it ends with `error` after its start.
    """

    def __init__(
        self,
        serving: Callable[[], AbstractAsyncContextManager[None]],
        *,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self.error: BaseException | None = None
        self._serving = serving
        self._failed = failed
        self._has_started = False
        self._started, self._ending = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, create_task: Callable[..., asyncio.Task[None]]) -> None:
        """Engage the members, and return then; raises what prevents that."""
        task = self._task = create_task(self._serve(), name="group")
        task.add_done_callback(self._note_end)
        await self._started.wait()
        if task.done():
            await task
        self._has_started = True

    async def end(self, **_: Any) -> None:
        """Disengage the members, and return then."""
        self._ending.set()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._started.set()
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("handlers of the group have ended", error=_name_cause(error))
        if self._has_started:
            self.error = error
            self._failed()

    async def _serve(self) -> None:
        async with self._serving():
            self._started.set()
            await self._ending.wait()


def _name_cause(error: BaseException) -> str:
    """Describe the first error inside of groups, which is the cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return describe(error)


def _stop_operator() -> None:
    """Stop kopf by the signal for which it has a handler, unless the process would be killed by it."""
    if callable(signal.getsignal(signal.SIGTERM)):
        signal.raise_signal(signal.SIGTERM)


def _check_kind(resource: str, namespace: str) -> None:
    check_resource(resource)
    check_selection(Selection(namespace))
