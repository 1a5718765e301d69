"""Sends a request again where the API server asks to come later (429), as it does while it prepares a definition."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from registry_controller.api.errors import TooManyRequests

T = TypeVar("T")

MOST_TRIES: Final = 10
"""The number of tries of a command for one request, as client-go has it."""
_MIN_WAIT_S: Final = 0.2  # for a server that asks to come at once


async def patiently(request: Callable[[], Awaitable[T]], *, tries: int | None = MOST_TRIES) -> T:
    """Send a request, at most `tries` times; None stands for no limit. Raises TooManyRequests after the last try.

    It waits as long as the API server asks for before each further try.
    """
    for attempt in itertools.count(1):
        try:
            return await request()
        except TooManyRequests as error:
            if attempt == tries:
                raise
            await asyncio.sleep(max(error.retry_after_s, _MIN_WAIT_S))
    raise AssertionError("the loop has no end")
