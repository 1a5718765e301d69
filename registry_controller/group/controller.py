"""A controller over all members: keys from events, one reconciliation a key at a time, again after a failure.

Laws: level-based, a key is reconciled from the caches and carries no event · a key never runs twice at once · the keys
of one member never wait for the keys of another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NoReturn, Protocol, Self

from registry_controller.api.errors import InvalidOption
from registry_controller.api.selection import Selection
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


class Watched(Protocol):
    """The part of a group that a controller needs."""

    def watch(
        self, resource: str, *, namespace: str, label_selector: str, field_selector: str, metadata_only: bool
    ) -> Watch:
        """Watch a kind in all members."""

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
    """Calls `reconcile` with keys. It returns None, or the seconds after which the key comes again; an error is logged,
    and the key comes again later each time (50 ms to 60 s).
    """

    def __init__(self, group: Watched, reconcile: Callable[[Key], Awaitable[float | None]], *, workers: int) -> None:
        self._group = group
        self._reconcile = reconcile
        self._workers = workers
        self._queue = WorkQueue[Key](at_once=max(1, workers - 1))
        self._sources: list[tuple[Watch, KeysOf]] = []
        self._requests: list[StreamRequest] = []

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
        """Add a kind whose events give keys; returns the controller. The arguments are as for `Group.watch`."""
        watch = self._group.watch(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )
        self._sources.append((watch, keys))
        self._requests.append(
            StreamRequest(resource, Selection(namespace, label_selector, field_selector), metadata_only)
        )
        return self

    def owns(self, resource: str, *, namespace: str = "", label_selector: str = "") -> Self:
        """Add a kind of local objects that `group.local.apply` gives to owners which this controller watches.

        A change of such an object gives the key of its owner. Objects whose owners are gone are deleted: see
        `Collector`. InvalidOption before `watches`, and for a group without an operator.
        """
        if not self._requests:
            raise InvalidOption(f"owns({resource!r}): call watches first, for the kind of the owners")
        collector = self._group.collector
        collector.owns(resource, owners=self._requests, namespace=namespace, label_selector=label_selector)
        collector.on_owned(self.add)
        return self

    def add(self, key: Key, *, after_s: float = 0.0) -> None:
        """Add a key, now or later."""
        if after_s > 0:
            self._queue.add_after(key, after_s, key.member)
        else:
            self._queue.add(key, key.member)

    async def run(self) -> None:
        """Reconcile until cancelled; the first keys once each member was read, or is known to be silent.

        InvalidOption without a kind to watch, and while the members of the group are not engaged.
        """
        if not self._sources:
            raise InvalidOption("a controller needs a kind that gives it keys: call watches first")
        await self._group.wait_known()
        async with asyncio.TaskGroup() as scope:
            read = [asyncio.Event() for _ in self._sources]
            for (watch, keys), is_read in zip(self._sources, read, strict=True):
                scope.create_task(self._take(watch, keys, is_read), name="controller source")
            for is_read in read:
                await is_read.wait()
            for number in range(self._workers):
                worker = work(self._queue, self._reconcile)
                scope.create_task(worker, name=f"controller worker {number}")

    async def _take(self, watch: Watch, keys: KeysOf, is_read: asyncio.Event) -> None:
        """Add the keys of a watch's events; `is_read` is set once the watch has reported the state of each member."""
        waits_for = set(self._group)
        if not waits_for:
            is_read.set()
        async with watch:
            async for event in watch:
                for key in keys(event):
                    self.add(key)
                if event.object is None:
                    waits_for.discard(event.member)
                    if not waits_for:
                        is_read.set()


async def work(queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[float | None]]) -> NoReturn:
    """Take keys from a queue, forever, and call a function of the user with each; after an error its key comes back."""
    while True:
        key, _ = await queue.get()
        try:
            after_s = await reconcile(key)
        except Exception as error:  # the other keys go on
            delay_s = queue.retry(key)
            log.warning(
                "reconciliation failed", member=key.member, namespace=key.namespace, name=key.name,
                error=describe(error), retryAfterS=round(delay_s, 3),
            )  # fmt: skip
        else:
            queue.reset_backoff(key)
            if after_s is not None:
                queue.add_after(key, after_s, key.member)
        finally:
            queue.done(key)
