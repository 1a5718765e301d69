"""Decides whether a set of deletions goes or is halted: the limit for a rule's copies from one owner (W4).

Laws: a set that is known at once is evaluated as a whole · a halt lasts until the rule's annotation has its moment,
however long · the annotation allows that set, and no later deletion · a restart never lowers the number of copies at
the window's start, because the window is stored first.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

ALWAYS: Final = 50
"""The number of deletions that are always allowed: a limit on small numbers would only disturb."""
LENGTH: Final = timedelta(minutes=5)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """The counts of one rule's copies from one owner, as in the rule's status.

    `baseline` is the highest number of copies since `start`, `deleted` the number that was let go, `allowed` how many
    of these the administrator allowed. `halted_at` is the beginning of a halt, empty without one. Moments are RFC 3339
    texts with seconds.
    """

    start: str
    baseline: int
    deleted: int = 0
    halted_at: str = ""
    allowed: int = 0


class LimitVerdict(enum.Enum):
    """The verdict on a set of deletions."""

    GO = "they may go"
    STORE = "they may go once the window is stored: a restart would begin to count again"
    HALT = "none may go until the administrator allows it"


def judge(
    window: Window | None, *, present: int, wanted: int, now: datetime, percent: int, allowed: str
) -> tuple[Window, LimitVerdict]:
    """Evaluate the deletion of `wanted` of the `present` copies as one set; return the new window and the verdict.

    `percent` is the part of the baseline that may go, `allowed` the moment in the rule's annotation, empty without one.
    """
    if window is None or (not window.halted_at and _is_over(window, now)):
        window = Window(spell(now), present)
    window = replace(window, baseline=max(window.baseline, present))
    gone = window.baseline - present + wanted
    if window.halted_at and window.halted_at == allowed:
        return Window(spell(now), window.baseline, deleted=gone, allowed=gone), LimitVerdict.GO
    if gone > window.allowed + max(ALWAYS, (window.baseline - window.allowed) * percent // 100):
        moment = spell(now) if spell(now) != allowed else spell(now + _SECOND)
        return replace(window, halted_at=window.halted_at or moment), LimitVerdict.HALT
    verdict = LimitVerdict.STORE if gone > ALWAYS else LimitVerdict.GO
    return replace(window, deleted=max(window.deleted, gone), halted_at=""), verdict


def joined(window: Window, stored: Window | None, *, now: datetime) -> Window:
    """Return a window with the counts that another daemon of this cluster has stored, unless that window is over.

    A halt is not joined: a daemon that has ended its halt must not read it again from an earlier status.
    """
    if stored is None or _is_over(stored, now):
        return window
    return replace(
        window,
        start=min(window.start, stored.start),
        baseline=max(window.baseline, stored.baseline),
        deleted=max(window.deleted, stored.deleted),
        allowed=max(window.allowed, stored.allowed),
    )


def _is_over(window: Window, now: datetime) -> bool:
    try:
        start = datetime.fromisoformat(window.start)
    except ValueError:
        return True
    return start.tzinfo is None or abs(now - start) >= LENGTH


def spell(moment: datetime) -> str:
    """Format a moment as RFC 3339 in UTC, with seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_of(stored: Mapping[str, Any] | None) -> Window | None:
    """Read a window from a status; None without a valid one."""
    start, baseline = (stored or {}).get("windowStart"), (stored or {}).get("baseline")
    if not isinstance(start, str) or not isinstance(baseline, int):
        return None
    deleted, halted_at, allowed = ((stored or {}).get(name) for name in ("deleted", "haltedAt", "allowed"))
    return Window(
        start,
        baseline,
        deleted if isinstance(deleted, int) else 0,
        halted_at if isinstance(halted_at, str) else "",
        allowed if isinstance(allowed, int) else 0,
    )


def stored_form(window: Window) -> Mapping[str, Any]:
    """Return a window's form in a status."""
    sometimes = {"haltedAt": window.halted_at, "allowed": window.allowed}
    form = {"windowStart": window.start, "baseline": window.baseline, "deleted": window.deleted}
    return form | {name: value for name, value in sometimes.items() if value}
