"""The time of day, as the limit on deletions measures it (W4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta


class SteadyClock:
    """The wall clock as it was at the start, advanced by the monotonic clock `now_s`.

    So the wall clock counts only between the windows of this process and those that an earlier one stored.
    """

    def __init__(self, began: datetime, *, now_s: Callable[[], float]) -> None:
        self._began = began
        self._now_s = now_s
        self._began_s = now_s()

    def now(self) -> datetime:
        """Return the time."""
        return self._began + timedelta(seconds=self._now_s() - self._began_s)
