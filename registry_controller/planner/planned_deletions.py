"""The deletion limiter in a plan: which of the planned deletions the daemon would halt, or has halted (W4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from registry_controller.cache.local_cache import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Apply, Delete, Hold, Reason, owner_of
from registry_controller.core.decision.deletion_limit import LimitVerdict, judge
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.sync.deletion_budget import allowed_moment, stored_window
from registry_controller.sync.deletion_limiter import is_limited
from registry_controller.sync.reconciler import Result


def limit_deletions(dry_run: DryRun, planned: Sequence[PlannedResult], *, now: datetime) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the deletion limiter would halt if all of them were wanted together."""
    wanted = Counter(origin for result in planned if (origin := _get_limited_origin(result)) is not None)
    created = Counter(origin for result in planned if (origin := _get_created_origin(result)) is not None)
    halted = {
        origin
        for origin, count in wanted.items()
        if _would_halt(dry_run, origin, wanted=count, created=created[origin], now=now)
    }
    return [_hold(result) if _get_limited_origin(result) in halted else result for result in planned]


def hold_halted_deletions(registry: Registry, planned: Sequence[PlannedResult]) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the daemon's deletion limiter has halted already."""
    return [_hold(result) if _is_halted(registry, _get_limited_origin(result)) else result for result in planned]


def _would_halt(dry_run: DryRun, origin: RuleAndOwner, *, wanted: int, created: int, now: datetime) -> bool:
    registry, counts = dry_run.engine.registry, dry_run.engine.copies.counts
    percent = dry_run.settings.deletion_limit_percent
    _, verdict = judge(
        stored_window(registry, origin),
        present=counts[origin] + counts["", origin[1]] + created,
        wanted=wanted,
        now=now,
        percent=percent,
        allowed=allowed_moment(registry, origin[0]),
    )
    return verdict is LimitVerdict.HALT and percent > 0


def _is_halted(registry: Registry, origin: RuleAndOwner | None) -> bool:
    window = stored_window(registry, origin) if origin is not None else None
    if origin is None or window is None or not window.halted_at:
        return False
    return window.halted_at != allowed_moment(registry, origin[0])


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
