"""The workqueue: keys that want a fresh look.

Laws: it carries keys, never events · a key never runs twice at once · a key that is added while it runs runs again,
so the last event is never lost · what failed comes back later each time · keys are taken in the order of their
tickets, so that one can tell when all that was wanted up to some moment has been looked at.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from registry_controller.api.meta import Target
from registry_controller.core.peer import backoff_s

BASE_S: Final = 0.05
CAP_S: Final = 60.0


class WorkQueue:
    """Keys in the order in which they were first added."""

    def __init__(self, *, chance: Callable[[], float] = random.random) -> None:
        self._ready: deque[Target] = deque()
        self._queued: dict[Target, tuple[float, int]] = {}
        self._running: dict[Target, int] = {}
        self._again: dict[Target, float] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timers: dict[Target, asyncio.TimerHandle] = {}
        self._failures: dict[Target, int] = {}
        self._embargoes: dict[Target, float] = {}
        self._chance = chance
        self.ticket = 0
        self.added = 0
        self.retried = 0

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """True when nothing is queued and nothing runs; what waits for its backoff does not count."""
        return not self._ready and not self._running

    @property
    def waiting(self) -> Collection[Target]:
        """List the keys that wait for a worker."""
        return self._queued.keys()

    @property
    def running(self) -> Collection[Target]:
        """List the keys that somebody looks at."""
        return self._running.keys()

    def has_passed(self, ticket: int) -> bool:
        """Say whether every key that was queued when `ticket` was the newest has been looked at."""
        first = self._queued[self._ready[0]][1] if self._ready else ticket + 1
        return min((first, *self._running.values())) > ticket

    def add(self, key: Target, *, now: float | None = None) -> None:
        """Want a fresh look at a key; `now` is the loop's time of the event, for measuring."""
        heard = asyncio.get_running_loop().time() if now is None else now
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self.added += 1
        wait_s = self._embargoes.get(key, 0.0) - asyncio.get_running_loop().time()
        if wait_s > 0:
            self.add_after(key, wait_s)
            return
        self._embargoes.pop(key, None)
        if key in self._running:
            self._again.setdefault(key, heard)
        elif key not in self._queued:
            self.ticket += 1
            self._queued[key] = (heard, self.ticket)
            self._ready.append(key)
            self._wake_one()

    def add_after(self, key: Target, delay_s: float) -> None:
        """Want a look after a while, unless one is wanted earlier."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + delay_s):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    def retry(self, key: Target, *, at_least_s: float = 0.0, embargo: bool = False) -> float:
        """Want another look after a failure; return the delay in seconds, which grows with each failure.

        With an embargo, no event brings the key back before `at_least_s` seconds are over (Retry-After).
        """
        if embargo:
            self._embargoes[key] = asyncio.get_running_loop().time() + at_least_s
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self.retried += 1
        delay_s = max(at_least_s, BASE_S / 2 + backoff_s(attempt, base=BASE_S, cap=CAP_S, chance=self._chance()))
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: Target) -> None:
        """Forget a key's failures: the next one starts from the beginning."""
        self._failures.pop(key, None)
        self._embargoes.pop(key, None)

    async def get(self) -> tuple[Target, float]:
        """Wait for a key; return it and when it was wanted. Every get is followed by a done."""
        while not self._ready:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
        key = self._ready.popleft()
        heard, self._running[key] = self._queued.pop(key)
        return key, heard

    def done(self, key: Target) -> None:
        """Give a key back; run it again if it was added meanwhile."""
        self._running.pop(key, None)
        heard = self._again.pop(key, None)
        if heard is not None:
            self.add(key, now=heard)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
