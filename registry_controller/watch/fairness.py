"""Shares the event loop fairly: long work leaves time for other tasks.

A task that reads a stream whose bytes have arrived does not wait by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Iterator
from typing import Final

_TURN_S: Final = 0.01
_PAUSE: Final = 0.25  # part of the time that an evaluation took: enough for a probe, or for the steps of a write
_LONGEST_S: Final = 1.0


class EvaluationLimiter:
    """Rate-limits CPU-heavy evaluations by sort: after a long one, the loop idles for a part of its time.

    An evaluation is long when it takes over 10 ms; the pause is a quarter of its time, at most 1 s. A sort is any
    hashable value. Only tasks of a sort whose last evaluation was long wait, one after the other. So no two long
    evaluations follow each other without a pause, for any number of tasks, and quick sorts do not wait. After the
    first long evaluation of a quick sort, tasks of all sorts wait once, because their sorts may become long as well.
    """

    def __init__(self) -> None:
        self._long: set[Hashable] = set()
        self._has_new_sort = False
        self._rests_until_s = 0.0
        self._gate = asyncio.Lock()

    @contextlib.contextmanager
    def measure(self, sort: Hashable) -> Iterator[None]:
        """Measure an evaluation, which contains no await."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            yield
        finally:
            ended_s = loop.time()
            if ended_s - began_s > _TURN_S:
                self._has_new_sort = sort not in self._long
                self._long.add(sort)
                self._rests_until_s = ended_s + min(_PAUSE * (ended_s - began_s), _LONGEST_S)
            else:
                self._long.discard(sort)

    def drop_kind(self, sort: Hashable) -> None:
        """Drop a sort."""
        self._long.discard(sort)

    async def wait(self, sort: Hashable) -> bool:
        """Wait until an evaluation of a sort may start; return whether other tasks may have run."""
        has_waited = False
        while sort not in self._long:
            if not self._has_new_sort or not await self._rest():
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


class LoopYielder:
    """Yields to other tasks after each 10 ms of one task's work, which began at `since_s` of the loop's time."""

    def __init__(self, since_s: float = 0.0) -> None:
        self._since_s = since_s

    async def yield_if_due(self) -> None:
        """Yield to other tasks after 10 ms."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since_s >= _TURN_S:
            await asyncio.sleep(0)
            self._since_s = loop.time()


class KindLimiter:
    """Limits the work of one task, all of one sort. It also yields after each 10 ms of short evaluations."""

    def __init__(self, turns: EvaluationLimiter, sort: Hashable) -> None:
        self._turns = turns
        self._sort = sort
        self._yielder = LoopYielder()

    def measure(self) -> contextlib.AbstractContextManager[None]:
        """Measure an evaluation."""
        return self._turns.measure(self._sort)

    async def wait(self) -> None:
        """Wait before an evaluation, and yield to other tasks when that is due."""
        await self._yielder.yield_if_due()
        await self._turns.wait(self._sort)
