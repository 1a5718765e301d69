"""The pause before the next try: exponential, with jitter."""

from __future__ import annotations


def backoff_s(attempt: int, *, base: float, cap: float, chance: float) -> float:
    """Return the pause in seconds before try number `attempt`, where 0 is the first retry.

    `base` and `cap` are seconds; `chance` is random, from 0 to 1, and comes from the caller. The result is `chance` of
    min(cap, base * 2**attempt).
    """
    doublings = min(max(attempt, 0), 63)  # every base is over every cap before that
    return chance * min(cap, base * 2.0**doublings)
