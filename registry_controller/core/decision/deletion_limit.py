"""The brake on deletions: how many of a rule's copies from one owner may go within five minutes (W4).

Laws: a set that is known at once is judged whole · what is halted stays halted until its moment is named, however
much time goes by · to name it allows that set, and nothing that is wanted later · what was here when the count began
never becomes less by a restart, because it is stored first.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

ALWAYS: Final = 50
"""So many may go in any case: a brake on small numbers would be in everybody's way."""
LENGTH: Final = timedelta(minutes=5)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """What is counted of one rule's copies from one owner, as the rule's status holds it.

    `baseline` is how many there were, at most, since `start`; `deleted` how many of them were let go, `allowed` how
    many because somebody said so. `halted_at` is since when no more may go, empty while some may. Moments are texts as
    Kubernetes spells them (RFC 3339, seconds).
    """

    start: str
    baseline: int
    deleted: int = 0
    halted_at: str = ""
    allowed: int = 0


class LimitVerdict(enum.Enum):
    """What is to be done about a set of deletions."""

    GO = "they may go"
    STORE = "they may go once the window is stored: a restart would begin to count anew"
    HALT = "none may go until somebody allows it"


def judge(
    window: Window | None, *, present: int, wanted: int, now: datetime, percent: int, allowed: str
) -> tuple[Window, LimitVerdict]:
    """Judge the deletion of `wanted` copies of the `present` ones that are here, as one set.

    `percent` is how many of the baseline may go, `allowed` the moment that the rule's annotation names, if any.
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
    """Count on with what another daemon of this cluster has stored of the same copies, unless its time is over.

    A halt is everyone's own: who has lifted his must not find it again in what was stored before.
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
    """Spell a moment as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_of(stored: Mapping[str, Any] | None) -> Window | None:
    """Read what a status holds; None for nothing, or nothing that can be used."""
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
    """Spell a window as a status holds it."""
    sometimes = {"haltedAt": window.halted_at, "allowed": window.allowed}
    form = {"windowStart": window.start, "baseline": window.baseline, "deleted": window.deleted}
    return form | {name: value for name, value in sometimes.items() if value}
