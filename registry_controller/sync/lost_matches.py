"""Keeps since when the rules of copies do not match the sources any more: for a moment, that proves nothing.

Law: a source counts as matching for the stabilization window after it last did · a rule that was edited is obeyed at
once · only copies whose rule does not match their source are held, and each is forgotten when that ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from registry_controller.api.meta import Target
from registry_controller.core.decision.deletion_limit import spell
from registry_controller.core.decision.state import LostMatch, TargetState
from registry_controller.core.stabilization import Stabilized, stabilize


class _Loss(NamedTuple):
    """A match that was lost, with its history, and the end of its window."""

    match: Stabilized
    until: LostMatch


class LostMatches:
    """The lost matches by target. `now_s` is the loop's clock, `now` the wall clock."""

    def __init__(self, *, window_s: float, now_s: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._window_s = window_s
        self._now_s = now_s
        self._now = now
        self.held: dict[Target, _Loss] = {}

    def observe(self, state: TargetState) -> LostMatch | None:
        """Observe a copy whose own source no claim stands for; return its lost match until the window is over."""
        target = state.target
        if not state.may_lose_match or not self._window_s:
            self.held.pop(target, None)
            return None
        before, now_s = self.held.get(target), self._now_s()
        match = stabilize(
            False,
            before.match if before is not None else None,
            now_s=now_s,
            window_s=self._window_s,
            unchanged_since_s=-math.inf if state.origin.is_edited else now_s,
        )
        if before is None:
            due_at = spell(self._now() + timedelta(seconds=self._window_s + 0.999))  # rounded up to seconds
            before = _Loss(match, LostMatch(now_s + self._window_s, due_at))
        self.held[target] = _Loss(match, before.until)
        return before.until if match.value is None else None

    def forget(self, target: Target) -> None:
        """Forget a copy that is gone, or whose source matches."""
        self.held.pop(target, None)
