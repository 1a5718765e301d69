"""Handlers in kopf's style for the events of all members, beside the ordinary handlers of a kopf operator.

kopf connects to one cluster, and its public API takes no events from elsewhere. So these handlers are called here, with
kopf's keyword arguments; `patch` is missing, because nothing is written to members.

Laws: the events of one object never run twice at once · after an error of a handler its latest event comes again, later
each time · a handler gets the latest event of an object, not each one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

import kopf

from registry_controller.api.errors import InvalidObject
from registry_controller.group.controller import Watched, key_of_object, work
from registry_controller.group.objects import Event, EventType, Key
from registry_controller.sync.workqueue import WorkQueue

_WORKERS: Final = 4

Handler = Callable[..., Any]
_H = TypeVar("_H", bound=Handler)


class RunnableGroup(Watched, Protocol):
    """The part of a group that the handlers need."""

    @property
    def is_running(self) -> bool:
        """Return whether the members are engaged."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(slots=True)
class _Registered:
    """A handler, and the state of its objects."""

    resource: str
    namespace: str
    labels: str
    when: Callable[..., bool] | None
    call: Handler
    queue: WorkQueue[Key] = field(default_factory=lambda: WorkQueue[Key](at_once=_WORKERS - 1))
    latest: dict[Key, Event] = field(default_factory=dict)
    memos: dict[Key, kopf.Memo] = field(default_factory=dict)


class KopfHandlers:
    """The handlers of a group. They are called while `run`, or an operator with `install`, runs."""

    def __init__(self, group: RunnableGroup) -> None:
        self._group = group
        self._registered: list[_Registered] = []

    def on_event(
        self,
        resource: str,
        *,
        namespace: str = "",
        labels: Mapping[str, Any] | None = None,
        when: Callable[..., bool] | None = None,
    ) -> Callable[[_H], _H]:
        """Call a function with the events of a kind in all members, as `kopf.on.event` does in one cluster.

        The keyword arguments are kopf's (`type`, `event`, `body`, `meta`, `spec`, `status`, `labels`, `annotations`,
        `name`, `namespace`, `uid`, `logger`, `memo`), and `cluster`, the name of the member. A function that is not
        async runs in a thread. InvalidObject for a filter of labels that no server can apply.
        """
        selector = _spell_labels(labels or {})

        def register(function: _H) -> _H:
            self._registered.append(_Registered(resource, namespace, selector, when, function))
            return function

        return register

    async def run(self, **arguments: Any) -> None:
        """Engage the members, and run a kopf operator with these arguments of `kopf.operator` to its end."""
        async with self._serving():
            await kopf.operator(**arguments)

    def install(self, registry: kopf.OperatorRegistry | None = None) -> None:
        """Engage the members at the start of an operator that runs otherwise, as with `kopf run`, until it ends."""
        ending, served = asyncio.Event(), list[asyncio.Task[None]]()

        async def serve(started: asyncio.Event) -> None:
            async with self._serving():
                started.set()
                await ending.wait()

        @kopf.on.startup(registry=registry)
        async def start(**_: Any) -> None:
            started = asyncio.Event()
            served.append(asyncio.get_running_loop().create_task(serve(started), name="group"))
            await started.wait()

        @kopf.on.cleanup(registry=registry)
        async def stop(**_: Any) -> None:
            ending.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*served)

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
                    for task in (self._take(one), *_list_workers(one))
                ]
                yield
                for task in tasks:
                    task.cancel()

    async def _take(self, one: _Registered) -> None:
        watch = self._group.watch(
            one.resource, namespace=one.namespace, label_selector=one.labels, field_selector="", metadata_only=False
        )
        async with watch:
            async for event in watch:
                for key in key_of_object(event):
                    one.latest[key] = event
                    one.queue.add(key, key.member)


def _list_workers(one: _Registered) -> Iterator[Coroutine[Any, Any, NoReturn]]:
    return (work(one.queue, functools.partial(_handle, one)) for _ in range(_WORKERS))


async def _handle(one: _Registered, key: Key) -> None:
    """Call a handler with the latest event of an object; forget an object whose deletion it has seen."""
    event = one.latest[key]
    await _call(one, key, event)
    if event.type is EventType.DELETED and one.latest.get(key) is event:
        del one.latest[key]
        one.memos.pop(key, None)


async def _call(one: _Registered, key: Key, event: Event) -> None:
    assert event.object is not None
    body = kopf.Body(cast(kopf.RawBody, event.object.manifest))
    given: dict[str, Any] = {
        "type": event.type.value,
        "event": {"type": event.type.value, "object": dict(body)},
        "body": body,
        "meta": body.metadata,
        "spec": body.spec,
        "status": body.status,
        "labels": body.metadata.labels,
        "annotations": body.metadata.annotations,
        "name": key.name,
        "namespace": key.namespace or None,
        "uid": event.object.uid,
        "logger": logging.getLogger(one.call.__module__),
        "memo": one.memos.setdefault(key, kopf.Memo()),
        "cluster": key.member,
    }
    if one.when is not None and not one.when(**given):
        return
    if inspect.iscoroutinefunction(one.call):
        await one.call(**given)
    else:
        await asyncio.to_thread(one.call, **given)


def _spell_labels(labels: Mapping[str, Any]) -> str:
    """Return kopf's filter of labels as a selector of Kubernetes."""
    parts = []
    for name, value in labels.items():
        if value is kopf.PRESENT:
            parts.append(name)
        elif value is kopf.ABSENT:
            parts.append(f"!{name}")
        elif isinstance(value, str):
            parts.append(f"{name}={value}")
        else:
            raise InvalidObject(f"labels.{name}", "must be a text, kopf.PRESENT or kopf.ABSENT; use `when` for more")
    return ",".join(parts)
