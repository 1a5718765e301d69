"""The work queue: keys to reconcile.

Laws: it carries keys, never events · a key never runs twice at once · a key that is added while it runs runs again,
so the last event is never lost · a key that failed comes back later each time, and an event that brings it back earlier
does not shorten the next wait · the keys of one flow are taken in the order of their sequence numbers, so that the
deletion limiter knows when every key that was added up to some moment was reconciled · flows take turns, and no flow
takes all workers, so that the events of one member do not make other members wait.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from registry_controller.core.backoff import backoff_s

K = TypeVar("K", bound=Hashable)

BASE_S: Final = 0.05
CAP_S: Final = 60.0


class _QueuedKey(NamedTuple):
    """A key that was added: the loop's time of its event, its sequence number and its flow."""

    queued_s: float
    sequence: int
    flow: str


class WorkQueue(Generic[K]):
    """Keys in flows: mostly one flow for each member's objects, and one for the rest.

    Of one flow at most `at_once` keys run at a time.
    """

    def __init__(self, *, at_once: int = sys.maxsize, chance: Callable[[], float] = random.random) -> None:
        self._at_once = at_once
        self._flows: OrderedDict[str, deque[K]] = OrderedDict()  # the next one to take from first
        self._busy: Counter[str] = Counter()
        self._queued: dict[K, _QueuedKey] = {}
        self._running: dict[K, _QueuedKey] = {}
        self._again: dict[K, float] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._not_before: dict[K, float] = {}
        self._chance = chance
        self.sequence = 0
        self.added = 0
        self.retried = 0

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def idle(self) -> bool:
        """True when nothing is queued and nothing runs; what waits for its backoff does not count."""
        return not self._queued and not self._running

    @property
    def waiting(self) -> Collection[K]:
        """List the keys that wait for a worker."""
        return self._queued.keys()

    @property
    def running(self) -> Collection[K]:
        """List the keys that workers reconcile now."""
        return self._running.keys()

    def has_passed(self, sequence: int) -> bool:
        """Report whether every key that was queued when `sequence` was the newest number was reconciled."""
        queued = (self._queued[keys[0]].sequence for keys in self._flows.values())
        running = (held.sequence for held in self._running.values())
        return all(number > sequence for number in itertools.chain(queued, running))

    def add(self, key: K, flow: str = "", *, now: float | None = None) -> None:
        """Add a key; `now` is the loop's time of the event, for measuring.

        A key that waits, or runs, stays in its flow.
        """
        time_s = asyncio.get_running_loop().time()
        queued_s = time_s if now is None else now
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self.added += 1
        wait_s = self._not_before.get(key, 0.0) - time_s
        if wait_s > 0:
            self.add_after(key, wait_s, flow)
            return
        if timer is not None and timer.when() > time_s and key in self._failures:
            self._failures[key] -= 1  # an event cut the wait short: the next one is as long
        self._not_before.pop(key, None)
        if key in self._running:
            self._again.setdefault(key, queued_s)
        elif key not in self._queued:
            self.sequence += 1
            self._queued[key] = _QueuedKey(queued_s, self.sequence, flow)
            self._flows.setdefault(flow, deque()).append(key)
            self._wake_one()

    def add_after(self, key: K, delay_s: float, flow: str = "") -> None:
        """Add a key after `delay_s` seconds, unless it comes back earlier."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + delay_s):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key, flow)

    def retry(self, key: K, *, at_least_s: float = 0.0, not_before: bool = False) -> float:
        """Add a key again after a failure; return the delay in seconds, which grows with each failure.

        With `not_before`, no event brings the key back before `at_least_s` seconds are over (Retry-After).
        """
        if not_before:
            self._not_before[key] = asyncio.get_running_loop().time() + at_least_s
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self.retried += 1
        delay_s = max(at_least_s, BASE_S / 2 + backoff_s(attempt, base=BASE_S, cap=CAP_S, chance=self._chance()))
        queued = self._running.get(key)
        self.add_after(key, delay_s, queued.flow if queued is not None else "")
        return delay_s

    def reset_backoff(self, key: K) -> None:
        """Forget a key's failures: the next one starts from the beginning."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    async def get(self) -> tuple[K, float]:
        """Wait for a key; return it and the loop's time of its event. A `done` follows every `get`."""
        while (key := self._next()) is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
        queued = self._running[key] = self._queued.pop(key)
        self._busy[queued.flow] += 1
        return key, queued.queued_s

    def done(self, key: K) -> None:
        """End the run of a key; add it again if it was added meanwhile."""
        queued = self._running.pop(key, None)
        if queued is None:
            return
        self._busy[queued.flow] -= 1
        if queued.flow in self._flows:
            self._wake_one()
        queued_s = self._again.pop(key, None)
        if queued_s is not None:
            self.add(key, queued.flow, now=queued_s)

    def _next(self) -> K | None:
        """Take the oldest key of the next flow; None where no key may run now."""
        for flow in self._flows:
            if self._busy[flow] < self._at_once:
                keys = self._flows[flow]
                key = keys.popleft()
                self._flows.move_to_end(flow)
                if not keys:
                    del self._flows[flow]
                return key
        return None

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
