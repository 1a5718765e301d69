"""How long to wait before the next try, by what went wrong, and how often."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

from registry_controller.api.errors import Party, RegistryError, TooMuch

_BASE_S: Final = 0.2
_CAP_S: Final = 5.0
_PATIENT_CAP_S: Final = 60.0  # somebody must act first: grant a right, install a kind
_TOO_MUCH_S: Final = 30.0  # at least, before what was too much is asked for again


class RetryDelay:
    """Pauses that grow with every failure, with full jitter."""

    def __init__(self) -> None:
        self._failures = 0
        self._waits_for_somebody = False
        self._ended = asyncio.Event()

    def succeeded(self) -> None:
        """Begin counting anew."""
        self._failures = 0

    def end(self) -> None:
        """End the pause, or the next one: something has changed that the last failure may have been about."""
        self._failures = 0
        self._ended.set()

    async def wait_after(self, error: RegistryError) -> None:
        """Wait as long as that error's kind asks for."""
        was = self._waits_for_somebody
        self._waits_for_somebody = error.fault is Party.ADMINISTRATOR and not error.is_transient
        if self._waits_for_somebody and not was:
            self._failures = 0  # a server that has just come back refuses what it will grant in a moment
        asked_s = _TOO_MUCH_S if isinstance(error, TooMuch) else error.retry_after_s
        cap_s = _PATIENT_CAP_S if self._waits_for_somebody else _CAP_S
        await self._wait(cap_s, at_least_s=min(asked_s, _PATIENT_CAP_S))

    async def wait(self) -> None:
        """Wait after what was no error, and no success."""
        await self._wait(_CAP_S)

    async def _wait(self, cap_s: float, *, at_least_s: float = 0.0) -> None:
        delay_s = random.uniform(0, min(cap_s, _BASE_S * 2.0 ** min(self._failures, 20)))  # noqa: S311
        self._failures += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_least_s + delay_s):
                await self._ended.wait()
        self._ended.clear()
