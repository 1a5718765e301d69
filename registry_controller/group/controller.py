"""A controller over all members: keys from events, one reconciliation a key at a time, again after a failure.

Laws: level-based, a key is reconciled from the caches and carries no event · a key never runs twice at once · the keys
of one member never wait for the keys of another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, NoReturn, Protocol, Self

from registry_controller.api.errors import InvalidObject, InvalidOption, RegistryError
from registry_controller.api.selection import Selection
from registry_controller.group.arguments import read_delay
from registry_controller.group.collector import Collector
from registry_controller.group.objects import Event, Key
from registry_controller.group.streams import StreamRequest
from registry_controller.group.watching import Watch
from registry_controller.report.lines import describe
from registry_controller.report.logs import get_logger
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

KeysOf = Callable[[Event], Iterable[Key]]
"""The keys that an event concerns."""

Delay = float | timedelta
"""Seconds, or a timedelta; 0 or more."""

Call = Callable[[Key], Awaitable[Delay | None]]
"""A function of the user. It returns the delay after which its key comes again, or None."""


class Watched(Protocol):
    """The part of a group that a controller needs."""

    async def wait_known(self) -> None:
        """Wait until it is known which members there are."""

    @property
    def collector(self) -> Collector:
        """Return the collector of the group."""

    def __iter__(self) -> Iterator[str]: ...


def key_of_object(event: Event) -> Iterable[Key]:
    """Return the key of an event's object; none for the state of a member."""
    return () if event.object is None else (Key(event.member, event.object.namespace, event.object.name),)


class Controller:
    """Calls `reconcile` with keys. It returns None, or the delay after which the key comes again; after an error, or
    another value, the log has the reason, and the key comes again later each time (50 ms to 60 s).
    """

    def __init__(
        self, group: Watched, reconcile: Call, *, workers: int, follow: Callable[[StreamRequest], Watch]
    ) -> None:
        self._group = group
        self._follow = follow
        self._reconcile = reconcile
        self._queue = WorkQueue[Key](at_once=workers)
        self._sources: list[tuple[Watch, KeysOf]] = []
        self._requests: list[StreamRequest] = []
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._has_run = False

    def watches(
        self,
        resource: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        keys: KeysOf = key_of_object,
    ) -> Self:
        """Add a kind whose events give keys; returns the controller. The arguments are as for `Group.watch`.

        InvalidOption once the controller runs.
        """
        self._refuse_once_run(f"watches({resource!r})")
        request = StreamRequest(resource, Selection(namespace, label_selector, field_selector), metadata_only)
        self._sources.append((self._follow(request), keys))
        self._requests.append(request)
        return self

    def owns(self, resource: str, *, namespace: str = "", label_selector: str = "") -> Self:
        """Add a kind of local objects that `group.local.apply` gives to owners which this controller watches.

        A change of such an object gives the key of its owner. Objects whose owners are gone are deleted: see
        `Collector`. InvalidOption before `watches`, once the controller runs, and for a group without an operator.
        """
        self._refuse_once_run(f"owns({resource!r})")
        if not self._requests:
            raise InvalidOption(f"owns({resource!r}): call watches first, for the kind of the owners")
        collector = self._group.collector
        collector.owns(resource, owners=self._requests, namespace=namespace, label_selector=label_selector)
        collector.on_owned(self.add, resource=resource, owners=self._requests)
        return self

    def add(self, key: Key, *, after_s: Delay = 0.0) -> None:
        """Add a key, now or later. InvalidObject for another key or delay.

        Neither an event of the key nor a reconciliation puts a later time off. Of several times the earliest counts.
        """
        if not isinstance(key, Key):
            raise InvalidObject("key", "must be a Key, with a member, a namespace and a name")
        delay_s = read_delay(after_s, path="after_s")
        if delay_s == 0:
            self._queue.add(key, key.member)
            return
        loop, timer = asyncio.get_running_loop(), self._timers.get(key)
        if timer is None or loop.time() + delay_s < timer.when():
            if timer is not None:
                timer.cancel()
            self._timers[key] = loop.call_later(delay_s, self._add_due, key)

    def _add_due(self, key: Key) -> None:
        del self._timers[key]
        self._queue.add(key, key.member)

    def _refuse_once_run(self, call: str) -> None:
        if self._has_run:
            raise InvalidOption(f"{call}: the controller runs already: call it before run, or make another controller")

    async def run(self) -> None:
        """Reconcile until cancelled, or until the group ends; the first keys once each member was read, or is known to
        be silent.

        InvalidOption without a kind to watch, at the second run, and while the members of the group are not engaged.
        """
        if self._has_run:
            raise InvalidOption("a controller runs once: make another one")
        if not self._sources:
            raise InvalidOption("a controller needs a kind that gives it keys: call watches first")
        await self._group.wait_known()
        self._has_run = True
        async with asyncio.TaskGroup() as scope:
            read = [asyncio.Event() for _ in self._sources]
            calls = scope.create_task(self._call(read), name="controller")
            for (watch, keys), is_read in zip(self._sources, read, strict=True):
                source = scope.create_task(self._take(watch, keys, is_read), name="controller source")
                source.add_done_callback(lambda _: calls.cancel())  # the group has ended, and closed the watch

    async def _call(self, read: Iterable[asyncio.Event]) -> None:
        for is_read in read:
            await is_read.wait()
        await call_with_keys(self._queue, self._reconcile, name=name_function(self._reconcile))

    async def _take(self, watch: Watch, keys: KeysOf, is_read: asyncio.Event) -> None:
        """Add the keys of a watch's events; `is_read` is set once the watch has reported the state of each member."""
        waits_for = set(self._group)
        if not waits_for:
            is_read.set()
        async with watch:
            async for event in watch:
                for key in _read_keys(keys, event):
                    self.add(key)
                if event.object is None:
                    waits_for.discard(event.member)
                    if not waits_for:
                        is_read.set()


def name_function(function: Callable[..., Any]) -> str:
    """Return the name of a function of the user, for the log."""
    return str(getattr(function, "__qualname__", None) or repr(function))


def _read_keys(keys: KeysOf, event: Event) -> Iterable[Key]:
    """Return the keys of an event; TypeError for another value."""
    found = keys(event)
    listed = list(found) if isinstance(found, Iterable) else [found]
    if not all(isinstance(key, Key) for key in listed):
        raise TypeError(f"{name_function(keys)}, the `keys` of a controller, must return Keys, in a list for example")
    return listed


async def call_with_keys(queue: WorkQueue[Key], function: Call, *, name: str) -> NoReturn:
    """Call a function of the user with each key of a queue, forever; after an error its key comes back.

    The log has the traceback of an error, unless it is one of this library, which names the cure. The queue limits how
    many keys of one member run at once, so that no member takes the turns of another one.
    """
    caller = asyncio.current_task()
    assert caller is not None
    async with asyncio.TaskGroup() as scope:
        while True:
            key, _ = await queue.get()
            scope.create_task(_call_with_key(queue, function, key, name=name, caller=caller), name=f"{name} {key}")


async def _call_with_key(
    queue: WorkQueue[Key], function: Call, key: Key, *, name: str, caller: asyncio.Task[object]
) -> None:
    try:
        asked = await function(key)
        after_s = None if asked is None else read_delay(asked, path=f"the value that {name} returned")
    except (Exception, asyncio.CancelledError) as error:  # the other keys go on
        if isinstance(error, asyncio.CancelledError) and caller.cancelling():
            raise  # the calls end; a function that cancels its own task does not end them
        retry_s = round(queue.retry(key), 3)
        if isinstance(error, RegistryError):
            log.warning(
                "function has failed", function=name, member=key.member, namespace=key.namespace, name=key.name,
                error=describe(error), retryAfterS=retry_s,
            )  # fmt: skip
        else:
            log.exception(
                "function has failed", error=error, function=name, member=key.member, namespace=key.namespace,
                name=key.name, retryAfterS=retry_s,
            )  # fmt: skip
    else:
        queue.reset_backoff(key)
        if after_s is not None:
            queue.add_after(key, after_s, key.member)
    finally:
        queue.done(key)
