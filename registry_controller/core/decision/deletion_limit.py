"""Decides whether a set of deletions goes or is halted: the limit for a rule's copies from one owner (W4).

The same limit holds for all copies of an owner. A deletion counts by its charge. Sources that their owner deleted count
by how much the copies have become fewer. Copies whose source may be there count each time, also when they come back.

Laws: a set that is known at once is evaluated as a whole · a halt lasts until the annotation has its moment, however
long · the annotation allows that set, and no later deletion · a restart never lowers the number of copies at the
window's start, because the window is stored first · a clock that is set back ends no window · of the counts and limits
of several daemons the stricter holds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from registry_controller.core.decision.decision import Delete, Reason
from registry_controller.core.decision.state import TargetState

ALWAYS: Final = 50
"""The number of deletions that are always allowed: a limit on small numbers would only disturb."""
LENGTH: Final = timedelta(minutes=5)
_SECOND: Final = timedelta(seconds=1)


class Charge(enum.Enum):
    """The way in which a deletion counts."""

    ORDER = "not at all: a person ordered it"
    MOVE = "not at all: another copy of its source is here"
    NET = "by how much the copies have become fewer: its owner deleted the source"
    GROSS = "each time: its source may be there, or the place was deleted before within the window"


def charge_of(deletion: Delete, *, stands: bool, is_repeated: bool, is_first_of_rule: bool) -> Charge:
    """Return how a deletion counts.

    `stands` means that another copy of its source is here, `is_repeated` that its place was deleted before within the
    window, and `is_first_of_rule` that no rule of that name was deleted before within the window.
    """
    if deletion.is_order or (deletion.reason is Reason.RULE_GONE and is_first_of_rule):
        return Charge.ORDER
    if deletion.reason is Reason.MOVED and stands:
        return Charge.MOVE
    is_net = deletion.reason is Reason.SOURCE_DELETED and not is_repeated
    return Charge.NET if is_net else Charge.GROSS


def may_be_there(state: TargetState) -> bool:
    """Report whether the source of an unwanted copy may be there, while its owner is to be asked.

    This daemon has not seen the rule, as it is now, match the source: the rule may have been edited.
    """
    return state.origin.deletes_unwanted and not state.origin.saw_match


@dataclass(frozen=True, slots=True)
class Window:
    """The counts of one rule's copies from one owner, as in the rule's status, or of all copies of an owner.

    `baseline` is the highest number of copies since `start`, `deleted` the number that was let go, `allowed` how many
    of these the administrator allowed. `counted` is the number of deletions that went and count each time. `halted_at`
    is the beginning of a halt, empty without one. Moments are RFC 3339 texts with seconds. `percent` is the lowest
    limit by which a daemon of this cluster evaluates the window. `is_anew` means that no number is always allowed, and
    that the halt lasts while any deletion is wanted.
    """

    start: str
    baseline: int
    deleted: int = 0
    halted_at: str = ""
    allowed: int = 0
    counted: int = 0
    percent: int = 100
    is_anew: bool = False


class LimitVerdict(enum.Enum):
    """The verdict on a set of deletions."""

    GO = "they may go"
    STORE = "they may go once the window is stored: a restart would begin to count again"
    HALT = "none may go until the administrator allows it"


def judge(
    window: Window | None,
    *,
    present: int,
    wanted: int,
    now: datetime,
    percent: int,
    allowed: str,
    absent: int = 0,
    is_anew: bool = False,
) -> tuple[Window, LimitVerdict]:
    """Evaluate the deletion of `wanted` of the `present` copies as one set; return the new window and the verdict.

    `percent` is the part of the baseline that may go, `allowed` the moment in the annotation, empty without one.
    `absent` is how many copies are missing now whose deletion is `counted`. `is_anew` takes the number away that is
    always allowed: the deletions follow a definition that was installed again, or another history of the owner.
    """
    if is_over(window, now):
        window, absent = Window(spell(now), present), 0
    assert window is not None
    percent, here = min(window.percent, percent), present + absent
    start = window.start if window.halted_at else min(window.start, spell(now))
    window = replace(window, start=start, baseline=max(window.baseline, here), percent=percent)
    gone = window.counted + window.baseline - here + wanted
    if window.halted_at and window.halted_at == allowed:
        window = replace(window, start=spell(now), halted_at="", deleted=gone, allowed=gone, is_anew=False)
        return window, LimitVerdict.GO
    lasts = window.is_anew and bool(window.halted_at)  # the sources may come back one by one
    is_anew = is_anew or lasts
    always = 0 if is_anew else ALWAYS
    if lasts or gone > window.allowed + max(always, (window.baseline - window.allowed) * percent // 100):
        moment = spell(now) if spell(now) != allowed else spell(now + _SECOND)
        return replace(window, halted_at=window.halted_at or moment, is_anew=is_anew), LimitVerdict.HALT
    verdict = LimitVerdict.STORE if gone > ALWAYS else LimitVerdict.GO
    return replace(window, deleted=max(window.deleted, gone), halted_at="", is_anew=False), verdict


def count_absent(window: Window | None, present: int) -> int:
    """Return for how many of the missing copies a counted deletion may stand, while their names are not known."""
    return max(0, min(window.counted, window.baseline - present)) if window is not None else 0


def with_counted(window: Window | None, *, present: int, absent: int, now: datetime) -> Window:
    """Return a window in which one of the `present` copies goes and counts each time."""
    if window is None or is_over(window, now):
        window, absent = Window(spell(now), present), 0
    counted = window.counted + 1
    return replace(
        window,
        start=min(window.start, spell(now)),
        baseline=max(window.baseline, present + absent),
        counted=counted,
        deleted=max(window.deleted, counted),
    )


def without_one(window: Window, *, present: int, absent: int) -> Window:
    """Return a window in which one of the `present` copies goes and does not count."""
    return replace(window, baseline=max(window.baseline, present + absent) - 1)


def joined(window: Window, stored: Window | None, *, now: datetime) -> Window:
    """Return a window with the halt of another daemon of this cluster, which stored it, and its counts unless over.

    `stored` is without a halt that this daemon has ended: it must not read that again from an earlier status.
    """
    if stored is None:
        return window
    if stored.halted_at and not window.halted_at:
        window = replace(window, halted_at=stored.halted_at, is_anew=stored.is_anew)
    if _is_past(stored, now):
        return window
    return replace(
        window,
        start=min(window.start, stored.start),
        baseline=max(window.baseline, stored.baseline),
        deleted=max(window.deleted, stored.deleted),
        allowed=max(window.allowed, stored.allowed),
        counted=max(window.counted, stored.counted),
        percent=min(window.percent, stored.percent),
    )


def sum_windows(windows: Iterable[tuple[Window, int]], *, present: int, now: datetime) -> Window | None:
    """Return an owner's window as the windows of its rules show it, each with the number of copies that are here.

    `present` is the number of the owner's copies. Deletions that the annotation of a rule allowed do not count. None
    where all windows are over.
    """
    found = [(window, here) for window, here in windows if not _is_past(window, now)]
    if not found:
        return None
    gone = [max(0, window.deleted - window.allowed) for window, _ in found]
    missing = sum(
        max(0, min(number, window.baseline - here)) for number, (window, here) in zip(gone, found, strict=True)
    )
    return Window(
        min(window.start for window, _ in found),
        present + missing,
        sum(gone),
        counted=sum(max(0, window.counted - window.allowed) for window, _ in found),
        percent=min(window.percent for window, _ in found),
    )


def is_notable(window: Window) -> bool:
    """Report whether a window has to be stored beside the windows of its rules, which are lost with their rules."""
    return bool(window.halted_at) or window.deleted > 0 or window.counted > 0


def is_over(window: Window | None, now: datetime) -> bool:
    """Report whether a window is over, or there is none. A halt never ends by time."""
    return window is None or (not window.halted_at and _is_past(window, now))


def _is_past(window: Window, now: datetime) -> bool:
    """Report whether a window began long ago. One that begins later has the whole of its time before it.

    The clock was set back since an earlier process stored that window.
    """
    start = _read_moment(window.start)
    return start is None or now - start >= LENGTH


def is_within(moment: str, *, now: datetime) -> bool:
    """Return whether a moment, in RFC 3339, is less than a window away; False for another text."""
    found = _read_moment(moment)
    return found is not None and abs(now - found) < LENGTH


def _read_moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def spell(moment: datetime) -> str:
    """Format a moment as RFC 3339 in UTC, with seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_of(stored: Mapping[str, Any] | None) -> Window | None:
    """Read a window from a status; None without a valid one."""
    start, baseline = (stored or {}).get("windowStart"), (stored or {}).get("baseline")
    if not isinstance(start, str) or not isinstance(baseline, int):
        return None
    found = stored or {}
    halted_at, percent = found.get("haltedAt"), found.get("percent")
    deleted, allowed, counted = (
        value if isinstance(value := found.get(name), int) else 0 for name in ("deleted", "allowed", "counted")
    )
    return Window(
        start,
        baseline,
        deleted,
        halted_at if isinstance(halted_at, str) else "",
        allowed,
        counted,
        percent if isinstance(percent, int) else 100,
        has_no_minimum(found),
    )


def has_no_minimum(stored: Mapping[str, Any] | None) -> bool:
    """Return whether a status holds that no number of deletions is always allowed, in a window or without one."""
    return (stored or {}).get("withoutMinimum") in (True, "True")


def stored_form(window: Window | None, *, is_anew: bool = False) -> Mapping[str, Any]:
    """Return a window's form in a status. `is_anew` means that no number of deletions to come is always allowed."""
    anew = {"withoutMinimum": True} if is_anew or (window is not None and window.is_anew) else {}
    if window is None:
        return anew
    sometimes = {"haltedAt": window.halted_at, "allowed": window.allowed, "counted": window.counted}
    form: dict[str, Any] = {"windowStart": window.start, "baseline": window.baseline, "deleted": window.deleted}
    form |= {name: value for name, value in sometimes.items() if value}
    form |= anew
    return form if window.percent >= 100 else form | {"percent": window.percent}
