"""Keeps since when rules do not ask for copies that are here: for a moment, that proves nothing.

Laws: a source counts as matching for the stabilization window after it last did · a rule that was edited is obeyed at
once · a copy that another client made here counts as asked for, for the same time: another daemon of this cluster may
have read a ClusterFeature, or our own Cluster, before this one (A7) · only copies that no rule asks for are held, and
each is forgotten when that ends.
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
        self.made: dict[Target, LostMatch] = {}

    def on_copy_made(self, target: Target) -> None:
        """Record that another client made a copy here."""
        now_s = self._now_s()
        self.made.pop(target, None)
        while self.made and next(iter(self.made.values())).due_s <= now_s:
            del self.made[next(iter(self.made))]
        self.made[target] = self._end_of_window(now_s)

    def observe(self, state: TargetState) -> LostMatch | None:
        """Observe a copy whose own source no claim stands for; return its lost match until the window is over."""
        target = state.target
        if not state.may_lose_match or not self._window_s:
            self.held.pop(target, None)
            until = self.made.get(target)
            return until if until is not None and state.is_unchosen and self._now_s() < until.due_s else None
        before, now_s = self.held.get(target), self._now_s()
        match = stabilize(
            False,
            before.match if before is not None else None,
            now_s=now_s,
            window_s=self._window_s,
            unchanged_since_s=-math.inf if state.origin.is_edited else now_s,
        )
        if before is None:
            before = _Loss(match, self._end_of_window(now_s))
        self.held[target] = _Loss(match, before.until)
        return before.until if match.value is None else None

    def _end_of_window(self, now_s: float) -> LostMatch:
        due_at = spell(self._now() + timedelta(seconds=self._window_s + 0.999))  # rounded up to seconds
        return LostMatch(now_s + self._window_s, due_at)

    def forget(self, target: Target) -> None:
        """Forget a copy that is gone, or whose source matches."""
        self.held.pop(target, None)
