"""The calls of one handler in kopf's style: its filters, its keyword arguments, and the types of its events.

Law: the type of an event is from the handler's own calls: the first is ADDED, until one has ended without an error.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import kopf

from registry_controller.api.errors import InvalidObject
from registry_controller.group.controller import Delay, key_of_object, name_function
from registry_controller.group.objects import Event, EventType, Key, Object, type_of_change
from registry_controller.report.logs import get_logger
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_WORKERS: Final = 4
_THREADS: Final = ThreadPoolExecutor(1000, thread_name_prefix="handler")
"""The loop's own threads are few, and look up the addresses of members: handlers that block would stop that."""

Handler = Callable[..., Any]
Filter = Mapping[str, Any]
"""Texts, functions, kopf.PRESENT or kopf.ABSENT, by the names of labels or annotations."""


class Latest(NamedTuple):
    """The latest event of an object, or of the state of a member, and the memo of the object."""

    event: Event
    memo: kopf.Memo


@dataclass(slots=True)
class RegisteredHandler:
    """A handler, and the state of its objects; with `is_of_state`, of the members that have them."""

    resource: str
    namespace: str
    labels: Filter
    annotations: Filter
    when: Callable[..., bool] | None
    call: Handler
    is_of_state: bool = False
    queue: WorkQueue[Key] = field(default_factory=lambda: WorkQueue[Key](at_once=_WORKERS))
    latest: dict[Key, Latest] = field(default_factory=dict)
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


async def handle(one: RegisteredHandler, key: Key) -> Delay | None:
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
        calls = functools.partial(contextvars.copy_context().run, _call_in_thread, call, given)
        result = await asyncio.get_running_loop().run_in_executor(_THREADS, calls)
        if inspect.isawaitable(result):
            await result


def _call_in_thread(call: Handler, given: Mapping[str, Any]) -> Any:
    """Call a function; RuntimeError for a StopIteration, which no future can carry."""
    try:
        return call(**given)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


def _describe(one: RegisteredHandler, key: Key, event: Event, memo: kopf.Memo) -> Mapping[str, Any]:
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


def check_filter(path: str, wanted: Filter) -> None:
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
