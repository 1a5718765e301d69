"""Chooses the objects whose owners are asked about without an occasion: a few at a time, each once in a round.

Law: however many objects there are, no more than `AT_ONCE` are chosen in `AGAIN_S`; a round of more takes longer.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from registry_controller.api.meta import Target

AGAIN_S: Final = 10.0
ROUND_S: Final = 600.0
AT_ONCE: Final = 20


class Rounds:
    """The rounds of one cluster of owners; the first one begins `ROUND_S` after `now_s`, of the loop's time."""

    def __init__(self, *, now_s: float) -> None:
        self._share_at_s, self._round_at_s = now_s, now_s + ROUND_S
        self._left: list[Target] = []
        self._share = 0

    def take(self, find: Callable[[], Iterable[Target]], *, now_s: float) -> Sequence[Target]:
        """Return the next objects, none within `AGAIN_S`; `find` returns the objects of a new round."""
        if now_s < self._share_at_s:
            return ()
        self._share_at_s = now_s + AGAIN_S
        if not self._left and now_s >= self._round_at_s:
            self._round_at_s = now_s + ROUND_S
            self._left = sorted(find())
            self._share = min(AT_ONCE, math.ceil(len(self._left) * AGAIN_S / ROUND_S))
        taken, self._left = self._left[: self._share], self._left[self._share :]
        return taken


def next_after(last: Target | None, targets: Sequence[Target]) -> Sequence[Target]:
    """Return `AT_ONCE` of sorted objects: those after `last`, and then the first ones again."""
    start = bisect.bisect_right(targets, last) if last is not None else 0
    return (*targets[start:], *targets[:start])[:AT_ONCE]
