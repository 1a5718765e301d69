"""Ask our own API server for what we cannot go on without, until it answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from registry_controller.api.errors import RegistryError
from registry_controller.core.peer_health import backoff_s
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_FIRST_S: Final = 0.2
_BASE_S: Final = 0.5
_CAP_S: Final = 5.0

_T = TypeVar("_T")


async def until_answered(ask: Callable[[], Awaitable[_T]], *, what: str) -> _T:
    """Ask again, with growing pauses of at most some five seconds; `what` says in the log what cannot be had."""
    attempt = 0
    while True:
        try:
            return await ask()
        except RegistryError as error:
            log.warning("local API server is needed, retrying", request=what, error=str(error))
            await asyncio.sleep(_FIRST_S + backoff_s(attempt, base=_BASE_S, cap=_CAP_S, chance=random.random()))  # noqa: S311
            attempt += 1
