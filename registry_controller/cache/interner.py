"""Values of which many objects have the same: one of them for all, so that each object has no more than the way to it.

Law: bounded. What is shared no more is equal all the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

MOST: Final = 1024
"""Rules, entries and members make a few dozen; where there are more, they are of no more than one object each."""

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """The values that were seen of late."""

    def __init__(self) -> None:
        self._held: dict[T, T] = {}

    def one(self, value: T) -> T:
        """Find the one for all that is equal to a value."""
        if len(self._held) >= MOST:
            self._held.clear()
        return self._held.setdefault(value, value)

    def __len__(self) -> int:
        return len(self._held)
