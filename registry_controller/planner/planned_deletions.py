"""The deletion limiter in a plan: which of the planned deletions the daemon would halt, or has halted (W4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from registry_controller.api.meta import ClusterUID
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Apply, Delete, Hold, Reason, owner_of
from registry_controller.core.decision.deletion_limit import LimitVerdict, Window, count_absent, judge
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.sync.deletion_budget import allowed_moment, stored_window
from registry_controller.sync.deletion_limiter import is_limited
from registry_controller.sync.owner_limits import has_cluster, known_limit, moment_allowed, stored_limit
from registry_controller.sync.reconciler import Result


def limit_deletions(dry_run: DryRun, planned: Sequence[PlannedResult], *, now: datetime) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the deletion limiter would halt if all of them were wanted together."""
    copies, registry, percent = dry_run.engine.copies, dry_run.engine.registry, dry_run.settings.deletion_limit_percent
    created = Counter(origin for result in planned if (origin := _get_created_origin(result)) is not None)
    limited = [origin for result in planned if (origin := _get_limited_origin(result)) is not None]
    wanted, halted = Counter(limited), set[RuleAndOwner]()
    anew = {_get_limited_origin(result) for result in planned if _is_anew(result)}
    for origin, count in wanted.items():
        window, present = stored_window(registry, origin), copies.counts[origin] + copies.counts["", origin[1]]
        allowed, is_anew = allowed_moment(registry, origin[0]), origin in anew
        if _halts(window, present + created[origin], count, now=now, percent=percent, allowed=allowed, is_anew=is_anew):
            halted.add(origin)
    of_owner = Counter(origin[1] for origin in limited if origin not in halted)
    made = Counter[ClusterUID]()
    for (_, owner), count in created.items():
        made[owner] += count
    for owner, count in of_owner.items():
        window, allowed = known_limit(registry, copies, owner, now=now), moment_allowed(registry, owner)
        present, is_anew = (
            copies.by_owner[owner] + made[owner],
            any(one is not None and one[1] == owner for one in anew),
        )
        if has_cluster(registry, owner) and _halts(
            window, present, count, now=now, percent=percent, allowed=allowed, is_anew=is_anew
        ):
            halted |= {origin for origin in wanted if origin[1] == owner}
    return [_hold(result) if _get_limited_origin(result) in halted else result for result in planned]


def hold_halted_deletions(registry: Registry, planned: Sequence[PlannedResult]) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the daemon's deletion limiter has halted already."""
    return [_hold(result) if _is_halted(registry, _get_limited_origin(result)) else result for result in planned]


def _halts(
    window: Window | None, present: int, wanted: int, *, now: datetime, percent: int, allowed: str, is_anew: bool
) -> bool:
    absent = count_absent(window, present)
    _, verdict = judge(
        window,
        present=present,
        wanted=wanted,
        now=now,
        percent=percent,
        allowed=allowed,
        absent=absent,
        is_anew=is_anew,
    )
    return verdict is LimitVerdict.HALT and percent > 0


def _is_halted(registry: Registry, origin: RuleAndOwner | None) -> bool:
    if origin is None:
        return False
    window, limit = stored_window(registry, origin), stored_limit(registry, origin[1])
    is_halted = window is not None and bool(window.halted_at)
    if window is not None and is_halted and window.halted_at != allowed_moment(registry, origin[0]):
        return True
    return limit is not None and bool(limit.halted_at) and limit.halted_at != moment_allowed(registry, origin[1])


def _is_anew(planned: PlannedResult) -> bool:
    decision = planned.result.decision
    return isinstance(decision, Delete) and decision.is_anew


def _get_limited_origin(planned: PlannedResult) -> RuleAndOwner | None:
    """Return the rule and owner for which a planned deletion counts; None for a result that is not limited."""
    decision = planned.result.decision
    if planned.error is not None or not isinstance(decision, Delete) or not is_limited(decision):
        return None
    return (planned.judgment.state.origin.rule, decision.owner)


def _get_created_origin(planned: PlannedResult) -> RuleAndOwner | None:
    """Return the rule and owner of a copy that would be created; None for any other result."""
    decision = planned.result.decision
    if isinstance(decision, Apply) and planned.judgment.state.current is None and planned.error is None:
        return (decision.claim.rule, decision.claim.owner)
    return None


def _hold(planned: PlannedResult) -> PlannedResult:
    decision = Hold(Reason.DELETION_HALTED, owner_of(planned.result.decision))
    return replace(planned, result=Result(decision), writes=())
