"""Shares the event loop fairly: long work leaves time for other tasks.

A task that reads a stream whose bytes have arrived does not wait by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

TURN_S: Final = 0.01
_PAUSE: Final = 0.25  # part of the time that an evaluation took: enough for a probe, or for the steps of a write
_LONGEST_S: Final = 1.0


class EvaluationLimiter:
    """Rate-limits CPU-heavy evaluations by sort: after a long one, the loop idles for a part of its time.

    An evaluation is long when it takes over 10 ms; the pause is a quarter of its time, at most 1 s. A sort is any
    hashable value. Only tasks of a sort whose last evaluation was long wait, one after the other. So no two long
    evaluations follow each other without a pause, for any number of tasks, and quick sorts do not wait. After the
    first long evaluation of a quick sort, tasks of all sorts wait once, because their sorts may become long as well.
    `long_sorts` are the sorts whose last evaluation was long; `has_new_sort` is True after such a first one.
    """

    def __init__(self) -> None:
        self.long_sorts: set[Hashable] = set()
        self.has_new_sort = False
        self._rests_until_s = 0.0
        self._gate = asyncio.Lock()

    def measure(self, sort: Hashable) -> Measurement:
        """Measure an evaluation, which contains no await."""
        return Measurement(self, sort)

    def end_evaluation(self, sort: Hashable, *, began_s: float, ended_s: float) -> None:
        """Note an evaluation, which contained no await, from its start to its end in the loop's time."""
        if ended_s - began_s > TURN_S:
            self.has_new_sort = sort not in self.long_sorts
            self.long_sorts.add(sort)
            self._rests_until_s = ended_s + min(_PAUSE * (ended_s - began_s), _LONGEST_S)
        elif self.long_sorts:
            self.long_sorts.discard(sort)

    def drop_kind(self, sort: Hashable) -> None:
        """Drop a sort."""
        self.long_sorts.discard(sort)

    async def wait(self, sort: Hashable) -> bool:
        """Wait until an evaluation of a sort may start; return whether other tasks may have run."""
        has_waited = False
        while sort not in self.long_sorts:
            if not self.has_new_sort or not await self._rest():
                return has_waited
            has_waited = True
        async with self._gate:
            while await self._rest():
                pass
        return True

    async def _rest(self) -> bool:
        """Sleep until the present end of the pause; return False without a pause."""
        pause_s = self._rests_until_s - asyncio.get_running_loop().time()
        if pause_s <= 0:
            return False
        await asyncio.sleep(pause_s)
        return True


class Measurement:
    """Measures one evaluation, also when it fails."""

    __slots__ = ("_began_s", "_limiter", "_sort")

    def __init__(self, limiter: EvaluationLimiter, sort: Hashable) -> None:
        self._limiter = limiter
        self._sort = sort

    def __enter__(self) -> None:
        self._began_s = asyncio.get_running_loop().time()

    def __exit__(self, *_: object) -> None:
        ended_s = asyncio.get_running_loop().time()
        self._limiter.end_evaluation(self._sort, began_s=self._began_s, ended_s=ended_s)


class LoopYielder:
    """Yields to other tasks after each 10 ms of one task's work, which began at `since_s` of the loop's time."""

    def __init__(self, since_s: float = 0.0) -> None:
        self.since_s = since_s

    async def yield_if_due(self) -> None:
        """Yield to other tasks after 10 ms."""
        loop = asyncio.get_running_loop()
        if loop.time() - self.since_s >= TURN_S:
            await asyncio.sleep(0)
            self.since_s = loop.time()


class KindLimiter:
    """Limits the work of one task, all of one sort. It also yields after each 10 ms of short evaluations.

    A task that had no work for over 10 ms waited for its server, so that other tasks had their turn.
    """

    def __init__(self, turns: EvaluationLimiter, sort: Hashable) -> None:
        self._turns = turns
        self._sort = sort
        self._yielder = LoopYielder()
        self._worked_s = 0.0

    def measure(self) -> Measurement:
        """Measure an evaluation."""
        return self._turns.measure(self._sort)

    def end_evaluation(self, *, began_s: float) -> None:
        """End an evaluation, which began at `began_s` of the loop's time and contained no await."""
        turns, self._worked_s = self._turns, asyncio.get_running_loop().time()
        if turns.long_sorts or self._worked_s - began_s > TURN_S:
            turns.end_evaluation(self._sort, began_s=began_s, ended_s=self._worked_s)

    def must_wait(self) -> bool:
        """Return whether `wait` may have to wait or to yield; otherwise an evaluation may start at once."""
        turns, now_s = self._turns, asyncio.get_running_loop().time()
        if now_s - self._worked_s > TURN_S:
            self._yielder.since_s = now_s
        self._worked_s = now_s
        return turns.has_new_sort or self._sort in turns.long_sorts or now_s - self._yielder.since_s >= TURN_S

    async def wait(self) -> None:
        """Wait before an evaluation, and yield to other tasks when that is due."""
        await self._yielder.yield_if_due()
        await self._turns.wait(self._sort)
