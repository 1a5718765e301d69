"""Departures by absence: a live member that has had no Cluster of itself, in its own cluster, for long (O6).

Laws: a moment of absence proves nothing, however often it comes · an absence counts only while the member answers,
and after it answered for the stabilization window · a member without any Cluster has lost them all, and has not left.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnClusterFacts(NamedTuple):
    """The Clusters of a member in its own cluster, as they are known here.

    `is_heard` means that the member answers and its list is current, or that it does not serve Clusters. `has_own`
    means that a Cluster of the member itself is there, also one that is being deleted; `has_any` that any Cluster is.
    """

    is_heard: bool
    has_own: bool = False
    has_any: bool = False


class Absence(NamedTuple):
    """An absence of a member's own Cluster.

    It began at `since_s`, and was observed without a break since `heard_since_s`, None while the member is silent.
    """

    since_s: float
    heard_since_s: float | None
    has_any: bool


def observe_absence(
    facts: OwnClusterFacts, before: Absence | None, *, now_s: float, stored_since_s: float | None
) -> Absence | None:
    """Return the absence of a member's own Cluster; None where it is there, or nothing is known.

    `stored_since_s` is when the absence began according to an earlier process, None if that process knew of none.
    """
    if not facts.is_heard:
        return before._replace(heard_since_s=None) if before is not None else None
    if facts.has_own:
        return None
    if before is not None:
        # A member that had lost all its Clusters makes them again one by one, and its own is not the first.
        is_filling = facts.has_any and not before.has_any
        heard_since_s = now_s if before.heard_since_s is None or is_filling else before.heard_since_s
        return Absence(before.since_s, heard_since_s, facts.has_any)
    return Absence(now_s if stored_since_s is None else min(stored_since_s, now_s), now_s, facts.has_any)


def lasts_from_s(absence: Absence, *, lasts_s: float, window_s: float) -> float | None:
    """Return when an absence has lasted long enough; None while the member is silent.

    Then `leave NAME` may declare that the member has left.
    """
    if absence.heard_since_s is None:
        return None
    return max(absence.since_s + lasts_s, absence.heard_since_s + (min(window_s, lasts_s) if lasts_s else window_s))


def left_from_s(absence: Absence, *, lasts_s: float, window_s: float) -> float | None:
    """Return when an absence is a departure by itself; None for never, as it stands."""
    return lasts_from_s(absence, lasts_s=lasts_s, window_s=window_s) if lasts_s and absence.has_any else None
