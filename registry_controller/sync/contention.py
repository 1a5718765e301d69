"""Counts the repairs of each copy, so that a fight with another writer here becomes rare writes (A5).

Law: the first few repairs are made at once, and after them one a minute, until no repair was needed for a while.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeVar

from registry_controller.api.meta import Target

_T = TypeVar("_T")

AT_ONCE: Final = 5
PAUSE_S: Final = 60.0
_RESTED_S: Final = 5 * PAUSE_S
_MOST: Final = 10_000


class Repair(enum.Enum):
    """The message about each cause of a repair; the placeholder is for the field managers."""

    CHANGES = "{} keeps changing it here; it is put back once a minute"
    DELETES = "{} keeps deleting it here; it is made again once a minute"
    CREATES = "{} keeps making it again here; it is deleted once a minute"


class _Contended(NamedTuple):
    repairs: int
    last_s: float
    cause: Repair
    managers: tuple[str, ...]


class Repairs:
    """The recent repairs of each copy. Times are the loop's, in seconds."""

    def __init__(self) -> None:
        self._contended: dict[Target, _Contended] = {}

    def record_repair(self, target: Target, cause: Repair, managers: tuple[str, ...] = (), *, now: float) -> None:
        """Record a repair, and the field managers of the undone changes; an undone deletion has none."""
        held = self._contended.pop(target, None)
        repairs = held.repairs + 1 if held is not None and now - held.last_s < _RESTED_S else 1
        self._contended[target] = _Contended(repairs, now, cause, managers or (held.managers if held else ()))
        if len(self._contended) > _MOST:
            del self._contended[next(iter(self._contended))]

    def pause_s(self, target: Target, *, now: float) -> float:
        """Return for how many more seconds a copy stays as it is; 0 where it may be repaired."""
        held = self._contended.get(target)
        if held is None or held.repairs < AT_ONCE:
            return 0.0
        return max(0.0, held.last_s + PAUSE_S - now)

    def message(self, target: Target) -> str:
        """Return the message about a copy that was repaired."""
        held = self._contended[target]
        known = held.managers if held.cause is not Repair.DELETES else ()
        return held.cause.value.format(", ".join(known) or "somebody")


class Contention(Repairs):
    """The repairs of each copy, and the state that was written, or the object that was deleted, last."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[Target, bytes] = {}
        self._statuses: dict[Target, bytes] = {}
        self._deleted: dict[Target, str] = {}

    def record_write(self, target: Target, digest: bytes, *, is_new: bool = False) -> None:
        """Record the digest of the state that was written; a new copy has no status yet."""
        _put(self._written, target, digest)
        if is_new:
            self._statuses.pop(target, None)

    def is_repair(self, target: Target, digest: bytes) -> bool:
        """Report whether this very state was written last, so that another state here needs a repair."""
        return self._written.get(target) == digest

    def record_status(self, target: Target, digest: bytes) -> None:
        """Record the digest of the status that was written."""
        _put(self._statuses, target, digest)

    def is_status_repair(self, target: Target, digest: bytes) -> bool:
        """Report whether this very status was written last to the copy that is here."""
        return self._statuses.get(target) == digest

    def record_absence(self, target: Target) -> None:
        """Record that a copy is rightly absent: we delete it, or no rule makes it now."""
        self._written.pop(target, None)

    def record_wanted(self, target: Target) -> None:
        """Record that a copy is wanted, so that its next deletion is not a repair."""
        self._deleted.pop(target, None)

    def record_deletion(self, target: Target, uid: str) -> None:
        """Record that we deleted an object."""
        _put(self._deleted, target, uid)

    def is_made_again(self, target: Target, uid: str) -> bool:
        """Report whether an object has the place of one that we deleted and that was not wanted since."""
        return self._deleted.get(target, uid) != uid


def _put(held: dict[Target, _T], target: Target, value: _T) -> None:
    """Keep a value as the newest, and drop the oldest beyond the limit."""
    held.pop(target, None)
    held[target] = value
    if len(held) > _MOST:
        del held[next(iter(held))]
