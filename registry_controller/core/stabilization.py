"""Stabilizes observations that may be lost for a moment.

Laws: an observation that is true counts at once · one that is lost counts as true for the window · it counts as false
only after it was false for the whole window, and never while it is unknown · of several things that come and go one
after the other, none that was there for a moment takes the place of the one that was there before.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

_T = TypeVar("_T")


class Stabilized(NamedTuple):
    """A stabilized observation. Times are in seconds of the caller's clock.

    `value` is None while nothing may rest on the observation. `lost_at_s` is when it was true no longer, None while it
    is true or was never true. `false_since_s` is since when it is false, None while it is true or unknown. `due_s` is
    when time alone changes the value, None for never.
    """

    value: bool | None
    lost_at_s: float | None = None
    false_since_s: float | None = None
    due_s: float | None = None


def stabilize(
    observed: bool | None, before: Stabilized | None, *, now_s: float, window_s: float, unchanged_since_s: float
) -> Stabilized:
    """Return an observation with its history.

    `before` is its last result, None for a question that is asked for the first time: then the facts behind it are the
    same since `unchanged_since_s`.
    """
    if observed:
        return Stabilized(value=True)
    was_true = before is not None and before.value is True and before.lost_at_s is None
    lost_at_s = now_s if was_true else before.lost_at_s if before is not None else None
    false_since_s = None
    if observed is False:
        first_s = now_s if before is not None else unchanged_since_s
        false_since_s = before.false_since_s if before is not None and before.false_since_s is not None else first_s
    due_s = [at_s + window_s for at_s in (lost_at_s, false_since_s) if at_s is not None and at_s + window_s > now_s]
    if lost_at_s is not None and now_s < lost_at_s + window_s:
        value: bool | None = True
    else:
        value = False if false_since_s is not None and now_s >= false_since_s + window_s else None
    return Stabilized(value, lost_at_s, false_since_s, min(due_s, default=None))


@dataclass(frozen=True, slots=True)
class Settled(Generic[_T]):
    """The thing that counts, with its identity. Times are in seconds of the caller's clock.

    `heir` is another one that was seen in its place without a break since `heir_since_s`. `due_s` is when time alone
    changes which one counts, None for never.
    """

    value: _T
    identity: Hashable
    heir: Hashable = None
    heir_since_s: float = 0.0
    due_s: float | None = None


def settle(
    value: _T | None, identity: Hashable, before: Settled[_T] | None, *, now_s: float, window_s: float
) -> Settled[_T] | None:
    """Return the thing that counts; `value` is the one that is there, None while there is none, or more than one.

    The first one counts at once, and so does every state of the one that counts. Another one counts once it was the
    only one for the window.
    """
    if value is None:
        return Settled(before.value, before.identity) if before is not None else None
    if before is None or identity == before.identity:
        return Settled(value, identity)
    since_s = before.heir_since_s if before.heir == identity else now_s
    if now_s >= since_s + window_s:
        return Settled(value, identity)
    return Settled(before.value, before.identity, identity, since_s, since_s + window_s)
