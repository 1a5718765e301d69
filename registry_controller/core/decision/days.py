"""Decides whether the day of the local clock counts (O6, W3).

Law: nothing expires while no live member agrees about the day.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

AHEAD: Final = timedelta(days=7)
"""The greatest difference of clocks."""


def is_day_agreed(today: date, *, there: Iterable[date]) -> bool:
    """Report whether the clock of a live member agrees with the local one; `there` are the days at live members."""
    return any(abs(day - today) <= AHEAD for day in there)
