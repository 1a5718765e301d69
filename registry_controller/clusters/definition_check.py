"""Finds out whether the definition of one of our kinds at a peer is still there after objects of the kind went.

A definition that is deleted takes its objects with it, and a finalizer may keep it for long. No client deleted those
objects (W3).

Laws: a deletion counts only once the definition was seen to be there after it · a definition that goes does not come
back: the next one shows nothing about a deletion before it · no answer shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVK
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.kube.discover import Discovery
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_LEAST_S: Final = 1.0
"""The least time between an answer and the next read."""
_EARLY_S: Final = (0.25, 1.0, 4.0)
"""The times of the early reads after a deletion: a definition may be gone, and installed again, in a moment."""


class DefinitionCheck:
    """Reads discovery half a stabilization window after a deletion: by then it shows that the definition is going.

    Earlier reads only show that it goes, because discovery may lag behind. `on_answer` gets what discovery showed, and
    the loop's time in seconds until which that covers deletions. While the definition is being deleted, or nothing
    answers, the read is repeated.
    """

    def __init__(self, kind: GVK, *, window_s: float, on_answer: Callable[[DefinitionState, float], None]) -> None:
        self._kind = kind
        self._pause_s = window_s / 2
        self._on_answer = on_answer
        self._deleted_s = 0.0
        self._is_going = False
        self._is_due = asyncio.Event()

    def on_deleted(self) -> None:
        """Note that an object of the kind was deleted."""
        self._deleted_s = _now_s()
        self._is_due.set()

    async def run(self, discovery: Discovery) -> NoReturn:
        """Read over this connection, after each deletion. Never returns."""
        while True:
            await self._is_due.wait()
            until_s = _now_s()
            state = await self._look(discovery, until_s)
            if state.is_there and self._deleted_s <= until_s:
                self._is_due.clear()
            self._on_answer(state, until_s)
            if not state.is_there:
                await asyncio.sleep(_LEAST_S)

    async def _look(self, discovery: Discovery, since_s: float) -> DefinitionState:
        state = DefinitionState.UNKNOWN
        for after_s in (*(early_s for early_s in _EARLY_S if early_s < self._pause_s), self._pause_s):
            await asyncio.sleep(since_s + after_s - _now_s())
            state = await self._read(discovery)
            if state in (DefinitionState.GOING, DefinitionState.NEXT):
                break
        return state

    async def _read(self, discovery: Discovery) -> DefinitionState:
        try:
            is_there = await discovery.may_create(self._kind)
        except RegistryError as error:
            log.debug("cannot read whether a definition is there", kind=str(self._kind), error=str(error))
            return DefinitionState.UNKNOWN
        was_going, self._is_going = self._is_going, not is_there
        if not is_there:
            return DefinitionState.GOING
        return DefinitionState.NEXT if was_going else DefinitionState.THERE


def _now_s() -> float:
    return asyncio.get_running_loop().time()
