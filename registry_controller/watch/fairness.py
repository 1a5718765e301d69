"""Breath: who has much to do on the loop lets others run now and then.

A stream whose bytes are here already never waits by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Iterator
from typing import Final

_TURN_S: Final = 0.01
_PAUSE: Final = 0.25  # of the time that a piece took: a request of a probe, or the steps of a write, fit in
_LONGEST_S: Final = 1.0


class EvaluationLimiter:
    """Those of many tasks: after a piece of work that took longer than a turn, the loop is others' for a while.

    Tasks wait for it only with work of a sort (any value) whose last piece was long, one after the other: so however
    many tasks there are, no two long pieces follow each other at once, and what is quick waits for none. After a long
    piece of a sort that was quick before, all wait, each for itself: others may become long with it.
    """

    def __init__(self) -> None:
        self._long: set[Hashable] = set()
        self._is_surprised = False
        self._rests_until_s = 0.0
        self._gate = asyncio.Lock()

    @contextlib.contextmanager
    def measure(self, sort: Hashable) -> Iterator[None]:
        """Measure a piece of work, in which nobody is awaited."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            yield
        finally:
            ended_s = loop.time()
            if ended_s - began_s > _TURN_S:
                self._is_surprised = sort not in self._long
                self._long.add(sort)
                self._rests_until_s = ended_s + min(_PAUSE * (ended_s - began_s), _LONGEST_S)
            else:
                self._long.discard(sort)

    def drop_kind(self, sort: Hashable) -> None:
        """Forget how long pieces of that sort take."""
        self._long.discard(sort)

    async def wait(self, sort: Hashable) -> bool:
        """Wait until work of that sort may begin, which is to follow at once; say whether others may have run."""
        has_waited = False
        while sort not in self._long:
            if not self._is_surprised or not await self._rest():
                return has_waited
            has_waited = True
        async with self._gate:
            while await self._rest():
                pass
        return True

    async def _rest(self) -> bool:
        """Sleep until the end of the pause as it is known now; false when there is none."""
        pause_s = self._rests_until_s - asyncio.get_running_loop().time()
        if pause_s <= 0:
            return False
        await asyncio.sleep(pause_s)
        return True


class LoopYielder:
    """A stretch of one task's work, which began at a time of the loop: others have the loop after each turn of it."""

    def __init__(self, since_s: float = 0.0) -> None:
        self._since_s = since_s

    async def yield_if_due(self) -> None:
        """Let others run, if that is due."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since_s >= _TURN_S:
            await asyncio.sleep(0)
            self._since_s = loop.time()


class KindLimiter:
    """One task's, whose work is all of one sort. It lets others run after each turn, however short the pieces."""

    def __init__(self, turns: EvaluationLimiter, sort: Hashable) -> None:
        self._turns = turns
        self._sort = sort
        self._stint = LoopYielder()

    def measure(self) -> contextlib.AbstractContextManager[None]:
        """Measure a piece of work."""
        return self._turns.measure(self._sort)

    async def wait(self) -> None:
        """Let others run, if that is due, before a piece of work."""
        await self._stint.yield_if_due()
        await self._turns.wait(self._sort)
