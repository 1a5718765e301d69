"""Scripts for `calls`: what becomes of some calls, and how often it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.faults.calls import Answer, Call


class Pass:
    """A Script that changes nothing."""

    async def before(self, call: Call) -> Answer | None:
        return None

    async def after(self, call: Call) -> None:
        return None

    async def part(self, call: Call, part: bytes) -> None:
        return None


class Count(Pass):
    """Count in how many parts of answers something is said."""

    def __init__(self, *words: bytes) -> None:
        self._words = words
        self.count = 0

    async def part(self, call: Call, part: bytes) -> None:
        self.count += any(word in part for word in self._words)


class Refuse(Pass):
    """Answer some calls instead of the API server, and count them."""

    def __init__(self, answer: Answer, *, which: Callable[[Call], bool] = lambda call: True) -> None:
        self._answer, self._which = answer, which
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        if not self._which(call):
            return None
        self.count += 1
        return self._answer


class Hang(Pass):
    """Hold some calls back before they arrive."""

    def __init__(self, seconds: float, *, which: Callable[[Call], bool] = lambda call: True) -> None:
        self._seconds, self._which = seconds, which
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        if self._which(call):
            self.count += 1
            await asyncio.sleep(self._seconds)
        return None
