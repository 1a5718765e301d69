"""Copies that somebody here keeps changing (A5).

Law: the first few repairs are made at once; after them, there is one a minute until the other side has rested.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from registry_controller.api.meta import Target

AT_ONCE: Final = 5
PAUSE_S: Final = 60.0
_RESTED_S: Final = 5 * PAUSE_S
_REMEMBERED: Final = 10_000


class _Fight(NamedTuple):
    repairs: int
    last_s: float
    managers: tuple[str, ...]


class Fights:
    """How often each copy was put back lately. Times are the loop's, in seconds."""

    def __init__(self) -> None:
        self._fights: dict[Target, _Fight] = {}

    def repaired(self, target: Target, managers: tuple[str, ...], *, now: float) -> None:
        """Remember that a copy was put back, and whose changes were undone."""
        held = self._fights.pop(target, None)
        repairs = held.repairs + 1 if held is not None and now - held.last_s < _RESTED_S else 1
        self._fights[target] = _Fight(repairs, now, managers or (held.managers if held is not None else ()))
        if len(self._fights) > _REMEMBERED:
            del self._fights[next(iter(self._fights))]

    def pause_s(self, target: Target, *, now: float) -> float:
        """Tell how long to leave a copy as it is; 0 for no longer."""
        held = self._fights.get(target)
        if held is None or held.repairs < AT_ONCE:
            return 0.0
        return max(0.0, held.last_s + PAUSE_S - now)

    def words(self, target: Target) -> str:
        """Say who it is."""
        held = self._fights.get(target)
        names = ", ".join(held.managers) if held is not None and held.managers else "somebody"
        return f"{names} keeps changing it here; it is put back once a minute"
