"""The workqueue: keys that want a fresh look.

Laws: it carries keys, never events · a key never runs twice at once · a key that is added while it runs runs again,
so the last event is never lost · what failed comes back later each time, and what an event brought back earlier as
late as the last time · keys of one lane are taken in the order of their tickets, so that one can tell when all that was
wanted up to some moment has been looked at · lanes take turns, and none takes all the workers, so that one member's
flood does not make the others wait.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from registry_controller.api.meta import Target
from registry_controller.core.backoff import backoff_s

BASE_S: Final = 0.05
CAP_S: Final = 60.0


class _QueuedKey(NamedTuple):
    """That a key wants a look: since when, under which ticket, and in which lane."""

    queued_s: float
    sequence: int
    flow: str


class WorkQueue:
    """Keys, in lanes: those of one member's objects, mostly, and one for all the rest.

    Of one lane at most `at_once` keys run at a time.
    """

    def __init__(self, *, at_once: int = sys.maxsize, chance: Callable[[], float] = random.random) -> None:
        self._at_once = at_once
        self._lanes: OrderedDict[str, deque[Target]] = OrderedDict()  # the next one to take from first
        self._busy: Counter[str] = Counter()
        self._queued: dict[Target, _QueuedKey] = {}
        self._running: dict[Target, _QueuedKey] = {}
        self._again: dict[Target, float] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timers: dict[Target, asyncio.TimerHandle] = {}
        self._failures: dict[Target, int] = {}
        self._embargoes: dict[Target, float] = {}
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
    def waiting(self) -> Collection[Target]:
        """List the keys that wait for a worker."""
        return self._queued.keys()

    @property
    def running(self) -> Collection[Target]:
        """List the keys that somebody looks at."""
        return self._running.keys()

    def has_passed(self, ticket: int) -> bool:
        """Say whether every key that was queued when `ticket` was the newest has been looked at."""
        queued = (self._queued[keys[0]].sequence for keys in self._lanes.values())
        running = (wish.sequence for wish in self._running.values())
        return all(held > ticket for held in itertools.chain(queued, running))

    def add(self, key: Target, lane: str = "", *, now: float | None = None) -> None:
        """Want a fresh look at a key; `now` is the loop's time of the event, for measuring.

        A key that waits, or runs, stays in its lane.
        """
        time_s = asyncio.get_running_loop().time()
        queued_s = time_s if now is None else now
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self.added += 1
        wait_s = self._embargoes.get(key, 0.0) - time_s
        if wait_s > 0:
            self.add_after(key, wait_s, lane)
            return
        if timer is not None and timer.when() > time_s and key in self._failures:
            self._failures[key] -= 1  # an event cut the wait short: the next one is as long
        self._embargoes.pop(key, None)
        if key in self._running:
            self._again.setdefault(key, queued_s)
        elif key not in self._queued:
            self.sequence += 1
            self._queued[key] = _QueuedKey(queued_s, self.sequence, lane)
            self._lanes.setdefault(lane, deque()).append(key)
            self._wake_one()

    def add_after(self, key: Target, delay_s: float, lane: str = "") -> None:
        """Want a look after a while, unless one is wanted earlier."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + delay_s):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key, lane)

    def retry(self, key: Target, *, at_least_s: float = 0.0, not_before: bool = False) -> float:
        """Want another look after a failure; return the delay in seconds, which grows with each failure.

        With an embargo, no event brings the key back before `at_least_s` seconds are over (Retry-After).
        """
        if not_before:
            self._embargoes[key] = asyncio.get_running_loop().time() + at_least_s
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self.retried += 1
        delay_s = max(at_least_s, BASE_S / 2 + backoff_s(attempt, base=BASE_S, cap=CAP_S, chance=self._chance()))
        wish = self._running.get(key)
        self.add_after(key, delay_s, wish.flow if wish is not None else "")
        return delay_s

    def reset_backoff(self, key: Target) -> None:
        """Forget a key's failures: the next one starts from the beginning."""
        self._failures.pop(key, None)
        self._embargoes.pop(key, None)

    async def get(self) -> tuple[Target, float]:
        """Wait for a key; return it and when it was wanted. Every get is followed by a done."""
        while (key := self._next()) is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
        wish = self._running[key] = self._queued.pop(key)
        self._busy[wish.flow] += 1
        return key, wish.queued_s

    def done(self, key: Target) -> None:
        """Give a key back; run it again if it was added meanwhile."""
        wish = self._running.pop(key, None)
        if wish is None:
            return
        self._busy[wish.flow] -= 1
        if wish.flow in self._lanes:
            self._wake_one()
        queued_s = self._again.pop(key, None)
        if queued_s is not None:
            self.add(key, wish.flow, now=queued_s)

    def _next(self) -> Target | None:
        """Take the oldest key of the lane whose turn it is; None where none may be taken."""
        for lane in self._lanes:
            if self._busy[lane] < self._at_once:
                keys = self._lanes[lane]
                key = keys.popleft()
                self._lanes.move_to_end(lane)
                if not keys:
                    del self._lanes[lane]
                return key
        return None

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
