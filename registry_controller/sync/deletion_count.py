"""Counts deletions within one window: of a rule's copies from one owner, or of all copies of an owner (W4).

Laws: a copy that went and counts each time is no loss beside that, however long it is missing · a halt that another
daemon of this cluster has stored holds here, too, and one that was evaluated here is not read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from registry_controller.api.meta import Target
from registry_controller.core.decision.deletion_limit import (
    LimitVerdict,
    Window,
    is_over,
    joined,
    judge,
    with_counted,
    without_one,
)

_STORED_AT_MOST_S: Final = 30.0
"""A CRD without the field drops the stored window; deletions go on then, counted in memory alone."""


class Judged(NamedTuple):
    """A window before and after a set was evaluated, the verdict, and whether the administrator has allowed the set."""

    before: Window | None
    window: Window
    verdict: LimitVerdict
    is_allowed: bool


class DeletionCount:
    """The counts of one window.

    `allowed` holds the copies that the administrator let go, `kept` counts how many of these stay. `is_recorded` is
    false while the window has no proven deletion: a status does not change for questions. `is_here` returns whether a
    copy is at a target.
    """

    def __init__(self, stored: Window | None, *, is_here: Callable[[Target], bool]) -> None:
        self.window = stored
        self.allowed: set[Target] = set()
        self.kept = 0
        self.is_recorded = True
        self._is_here = is_here
        self._missing: set[Target] = set()
        self._unnamed = stored.counted if stored is not None else 0
        self._evaluated = ""  # the beginning of the last halt under which a set was evaluated here
        self._storing_since_s: float | None = None

    @property
    def halted_at(self) -> str:
        """The beginning of the halt; empty without one."""
        return self.window.halted_at if self.window is not None else ""

    @property
    def shown(self) -> Window | None:
        """The window for a status, without the allowance of the copies that stay; None without a window."""
        return self._without_kept(self.window) if self.window is not None else None

    def judge(
        self,
        *,
        stored: Window | None,
        present: int,
        wanted: int,
        now: datetime,
        percent: int,
        allowed: str,
        is_anew: bool,
    ) -> Judged:
        """Evaluate a set; `keep` keeps the result."""
        before = self.window
        if stored is not None and before is not None and stored.halted_at == self._evaluated:
            stored = replace(stored, halted_at="", is_anew=False)
        if before is None or (is_over(before, now) and stored is not None and not is_over(stored, now)):
            before = stored
        before = before and joined(before, stored, now=now)
        window, verdict = judge(
            before and self._without_kept(before),
            present=present,
            wanted=wanted,
            now=now,
            percent=percent,
            allowed=allowed,
            absent=self._count_absent(before, present),
            is_anew=is_anew,
        )
        is_allowed = before is not None and bool(before.halted_at) and before.halted_at == allowed
        return Judged(before, window, verdict, is_allowed)

    def keep(self, found: Judged) -> bool:
        """Keep the result of an evaluation; return whether the status may differ."""
        if found.before is None or found.window.start != found.before.start or found.is_allowed:
            self.kept, self.allowed, self.is_recorded = 0, set(), found.is_allowed
        if not found.window.counted:
            self._missing, self._unnamed = set(), 0
        self.is_recorded = self.is_recorded or found.verdict is not LimitVerdict.GO
        was_halted_at = found.before.halted_at if found.before is not None else ""
        self._evaluated = found.window.halted_at or was_halted_at or self._evaluated
        self.window = replace(found.window, allowed=found.window.allowed + self.kept)
        if found.verdict is LimitVerdict.HALT:
            self._storing_since_s = None
        return self.window != found.before and self.is_recorded

    def must_store(self, stored: Window | None) -> bool:
        """Return whether deletions wait until the window is stored, for half a minute at most.

        The stored start and baseline suffice: after a restart the copies that are missing from the baseline count.
        """
        window, now_s = self.window, asyncio.get_running_loop().time()
        self._storing_since_s = now_s if self._storing_since_s is None else self._storing_since_s
        is_stored = (
            window is not None
            and stored is not None
            and stored.start == window.start
            and stored.baseline >= window.baseline
        )
        return not is_stored and now_s - self._storing_since_s < _STORED_AT_MOST_S

    def has_let_go(self) -> None:
        """Note that nothing waits for the status any more."""
        self._storing_since_s = None

    def count(self, target: Target, *, present: int, now: datetime) -> None:
        """Count the deletion of one of the `present` copies, which went and counts each time."""
        absent = self._count_absent(self.window, present)
        if is_over(self.window, now):
            self.kept, self.allowed = 0, set()
            self._missing, self._unnamed = set(), 0
        self.window = with_counted(self.window, present=present, absent=absent, now=now)
        self._missing.add(target)
        self.is_recorded = True

    def lower(self, *, present: int) -> None:
        """Note that one of the `present` copies goes and does not count."""
        if self.window is not None:
            self.window = without_one(self.window, present=present, absent=self._count_absent(self.window, present))

    def note_kept(self, target: Target) -> bool:
        """Note that a copy stays that the administrator allowed to go; return whether it was one."""
        if target not in self.allowed:
            return False
        self.kept += 1
        return True

    def end_halt(self) -> bool:
        """End a halt for which nothing waits any more; return whether there was one. Earlier deletions still count."""
        if self.window is None or not self.window.halted_at:
            return False
        self.window = replace(self.window, halted_at="", is_anew=False)
        return True

    def _without_kept(self, window: Window) -> Window:
        return replace(window, allowed=max(0, window.allowed - self.kept))

    def _count_absent(self, window: Window | None, present: int) -> int:
        """Count the copies that are missing now and whose deletion was counted.

        Of those that were counted before a restart only the number is known: as many of the missing copies as possible
        are taken for them.
        """
        self._missing = {target for target in self._missing if not self._is_here(target)}
        missing = window.baseline - present - len(self._missing) if window is not None else 0
        self._unnamed = max(0, min(self._unnamed, missing))
        return len(self._missing) + self._unnamed
