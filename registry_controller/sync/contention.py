"""Copies that somebody here keeps changing, or deleting (A5).

Law: the first few repairs are made at once; after them, there is one a minute until the other side has rested. Only
what was brought before is a repair: what the owner or a rule changes is brought at once.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeVar

from registry_controller.api.meta import Target

AT_ONCE: Final = 5
PAUSE_S: Final = 60.0
_RESTED_S: Final = 5 * PAUSE_S
_REMEMBERED: Final = 10_000

_T = TypeVar("_T")


class Repair(enum.Enum):
    """What somebody here does to a copy, and what is done about it."""

    CHANGES = "{} keeps changing it here; it is put back once a minute"
    DELETES = "{} keeps deleting it here; it is made again once a minute"


class _Contended(NamedTuple):
    repairs: int
    last_s: float
    deed: Repair
    managers: tuple[str, ...]


class Contention:
    """How often each copy was put back lately, and what was brought last. Times are the loop's, in seconds."""

    def __init__(self) -> None:
        self._fights: dict[Target, _Contended] = {}
        self._brought: dict[Target, bytes] = {}

    def brought(self, target: Target, digest: bytes) -> None:
        """Remember what a copy was left as."""
        _remember(self._brought, target, digest)

    def has_brought(self, target: Target, digest: bytes) -> bool:
        """Say whether a copy was left as this, and nothing has been heard since that explains another state."""
        return self._brought.get(target) == digest

    def let_go(self, target: Target) -> None:
        """Hear that a copy is not there for a good reason: we delete it, or it is not to be made now."""
        self._brought.pop(target, None)

    def repaired(self, target: Target, deed: Repair, managers: tuple[str, ...] = (), *, now: float) -> None:
        """Remember that a copy was put back, and whose changes were undone; who deletes is never known."""
        held = self._fights.get(target)
        repairs = held.repairs + 1 if held is not None and now - held.last_s < _RESTED_S else 1
        _remember(self._fights, target, _Contended(repairs, now, deed, managers or (held.managers if held else ())))

    def pause_s(self, target: Target, *, now: float) -> float:
        """Tell how long to leave a copy as it is; 0 for no longer."""
        held = self._fights.get(target)
        if held is None or held.repairs < AT_ONCE:
            return 0.0
        return max(0.0, held.last_s + PAUSE_S - now)

    def words(self, target: Target) -> str:
        """Say who it is, and what happens."""
        held = self._fights[target]
        known = held.managers if held.deed is Repair.CHANGES else ()
        return held.deed.value.format(", ".join(known) or "somebody")


def _remember(held: dict[Target, _T], target: Target, value: _T) -> None:
    """Remember something as the newest, and forget the oldest beyond the limit."""
    held.pop(target, None)
    held[target] = value
    if len(held) > _REMEMBERED:
        del held[next(iter(held))]
