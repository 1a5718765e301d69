"""Departures by absence: a live member that has had no Cluster of itself, in its own cluster, for long (O6).

`left_after` returns which members have left, and which are back, after a decision on a Cluster.

Laws: a moment of absence proves nothing, however often it comes · an absence counts only while the member answers,
and after it answered for the stabilization window · a member without any Cluster has lost them all, and has not left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Apply, Decision, Reason, Skip, owner_of
from registry_controller.core.decision.state import TargetState

_PROVEN: Final = frozenset((Reason.OWNER_LEAVES, Reason.OWNER_LEFT))


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


def left_after(
    left: Mapping[ClusterUID, int],
    decision: Decision,
    state: TargetState,
    *,
    is_present: Callable[[ClusterUID], bool | None],
) -> Mapping[ClusterUID, int]:
    """Return the members that have left, each with the last known revision of its Cluster, after a decision on one.

    `is_present` returns whether a live member has a Cluster of itself; None while that is unknown.
    """
    if decision.reason in _PROVEN:
        member = owner_of(decision)
        is_gone = state.membership is not None and member in state.membership.gone
        if member is None or is_gone or (isinstance(decision, Skip) and member not in left):
            return left  # rests on a tombstone, which its author may withdraw
        known = state.current.marks.revision if state.current is not None else 0
        return {**left, member: max(known, left.get(member, 0))}
    member = state.current.natural if state.current is not None else owner_of(decision)
    if member is None or not (isinstance(decision, Apply) or is_present(member)):
        return left  # no proof: another Cluster with its ID, which a person created here, proves nothing
    return {known: revision for known, revision in left.items() if known != member}
