"""Shares equal values between objects, so that each object holds only a reference.

Law: bounded. A value that is no longer shared is still equal.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

MOST: Final = 1024
"""Rules, entries and members make a few dozen values; more than this many are not worth sharing."""

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """The values that were seen recently."""

    def __init__(self) -> None:
        self._held: dict[T, T] = {}

    def one(self, value: T) -> T:
        """Return the shared value that equals this value."""
        if len(self._held) >= MOST:
            self._held.clear()
        return self._held.setdefault(value, value)

    def __len__(self) -> int:
        return len(self._held)
