"""Breath: who has much to do on the loop lets others run now and then.

A stream whose bytes are here already never waits by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

_TURN_S: Final = 0.01
_LONGEST_S: Final = 1.0


class Breath:
    """One task's. What took longer than its turn is followed by a pause as long, but for one second at most."""

    def __init__(self) -> None:
        self._taken_at_s = 0.0
        self._owed_s = 0.0

    @contextlib.contextmanager
    def spent(self) -> Iterator[None]:
        """Measure a piece of work."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        yield
        took_s = loop.time() - began_s
        self._owed_s = min(took_s, _LONGEST_S) if took_s > _TURN_S else 0.0

    async def take(self) -> None:
        """Let others run, if that is due."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._taken_at_s >= _TURN_S:
            await asyncio.sleep(self._owed_s)
            self._taken_at_s = loop.time()
