"""Pauses between tries: after failures of a watch, and until the local API server answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from registry_controller.api.errors import ApiError, Forbidden, NotServed, RegistryError, TooMuch
from registry_controller.core.backoff import backoff_s
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_BASE_S: Final = 0.2
_CAP_S: Final = 5.0
_REFUSED_CAP_S: Final = 60.0  # a person must act first: grant a right, install a kind
_TOO_MUCH_S: Final = 30.0  # the least pause before an answer that was too large is requested again
_LOCAL_LEAST_S: Final = 0.2
_LOCAL_BASE_S: Final = 0.5

_T = TypeVar("_T")


class RetryDelay:
    """Pauses that grow with every failure, with full jitter."""

    def __init__(self) -> None:
        self._failures = 0
        self._was_refused = False
        self._ended = asyncio.Event()

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self._failures = 0

    def end(self) -> None:
        """End the pause, or the next pause: the cause of the last failure may be gone."""
        self._failures = 0
        self._ended.set()

    async def wait_after(self, error: RegistryError) -> None:
        """Wait as long as the class of an error requires."""
        before, self._was_refused = self._was_refused, isinstance(error, Forbidden | NotServed)
        if self._was_refused and not before:
            self._failures = 0  # a server that has just started refuses requests that it accepts a moment later
        least_s = error.retry_after_s if isinstance(error, ApiError) else 0.0
        if isinstance(error, TooMuch):
            least_s = _TOO_MUCH_S
        cap_s = _REFUSED_CAP_S if self._was_refused else _CAP_S
        await self._wait(cap_s, least_s=min(least_s, _REFUSED_CAP_S))

    async def wait(self) -> None:
        """Wait after an attempt that neither failed nor succeeded."""
        await self._wait(_CAP_S)

    async def _wait(self, cap_s: float, *, least_s: float = 0.0) -> None:
        delay_s = least_s + backoff_s(self._failures, base=_BASE_S, cap=cap_s, chance=random.random())  # noqa: S311
        self._failures += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._ended.wait()
        self._ended.clear()


async def until_answered(ask: Callable[[], Awaitable[_T]], *, what: str) -> _T:
    """Call `ask` until the local API server answers, with pauses of at most about 5 s; `what` is for the log."""
    attempt = 0
    while True:
        try:
            return await ask()
        except RegistryError as error:
            log.warning("local API server is needed, retrying", request=what, error=str(error))
            pause_s = backoff_s(attempt, base=_LOCAL_BASE_S, cap=_CAP_S, chance=random.random())  # noqa: S311
            await asyncio.sleep(_LOCAL_LEAST_S + pause_s)
            attempt += 1
