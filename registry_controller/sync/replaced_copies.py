"""Keeps each copy that the daemon deleted to make it again, until it is there: it has this cluster's values (A9).

Laws: a copy is kept in memory only, and is shown nowhere · beyond the limit the oldest ones are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from registry_controller.api.meta import Manifest, Target

_MOST_BYTES: Final = 8 * 1024 * 1024
_ENTRY_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Replaced:
    """The reason for which a copy is made again, and its former JSON text; empty where its rule leaves no place."""

    why: str
    text: bytes = field(repr=False)

    @property
    def manifest(self) -> Manifest | None:
        """Return the former copy; None where its rule leaves no place."""
        found: Manifest | None = orjson.loads(self.text) if self.text else None
        return found

    @property
    def size_bytes(self) -> int:
        return _ENTRY_BYTES + len(self.text)


class ReplacedCopies:
    """The copies that are to be made again."""

    def __init__(self) -> None:
        self._held: dict[Target, Replaced] = {}
        self._size_bytes = 0

    def __contains__(self, target: Target) -> bool:
        return target in self._held

    def __iter__(self) -> Iterator[Target]:
        return iter(self._held)

    def keep(self, target: Target, present: Manifest | None, *, why: str) -> None:
        """Keep a copy before its deletion."""
        self.forget(target)
        self._held[target] = held = Replaced(why, orjson.dumps(present) if present is not None else b"")
        self._size_bytes += held.size_bytes
        while self._size_bytes > _MOST_BYTES:
            self.forget(next(iter(self._held)))

    def get(self, target: Target) -> Replaced | None:
        """Return the copy whose place is empty since; None for none."""
        return self._held.get(target)

    def forget(self, target: Target) -> None:
        """Drop a copy: one is here, or none is wanted."""
        held = self._held.pop(target, None)
        if held is not None:
            self._size_bytes -= held.size_bytes
