"""Make a schedule that fails as short as it can be in a given time: leave out steps for as long as it still fails."""

from __future__ import annotations

import time

from tests.sim.schedule.play import Outcome, play
from tests.sim.schedule.schedule import Schedule


def shrink(outcome: Outcome, *, within_s: float) -> Outcome:
    """Find a shorter schedule that breaks the same clause; `within_s` is real time."""
    until = time.monotonic() + within_s
    clause = outcome.broken[0].clause
    size = max(1, len(outcome.schedule.steps) // 2)
    while size and time.monotonic() < until:
        smaller = _leave_out(outcome, clause, size=size, until=until)
        if len(smaller.schedule.steps) == len(outcome.schedule.steps):
            size //= 2
        outcome = smaller
    return outcome


def _leave_out(outcome: Outcome, clause: str, *, size: int, until: float) -> Outcome:
    """Try to leave out every run of `size` steps, once."""
    start = 0
    while start < len(outcome.schedule.steps) and time.monotonic() < until:
        tried: Schedule = outcome.schedule.without(start, start + size)
        found = play(tried)
        if any(wrong.clause == clause for wrong in found.broken):
            outcome = found
        else:
            start += size
    return outcome
