"""The deletion limiter in a plan: which of the planned deletions the daemon would halt, or has halted (W4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Apply, Delete, Halt, Hold, Reason, owner_of
from registry_controller.core.decision.deletion_limit import LimitVerdict, Window, count_absent, judge
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.sync.deletion_budget import allowed_moment, stored_halt, stored_window
from registry_controller.sync.deletion_limiter import is_limited
from registry_controller.sync.owner_limits import (
    cluster_name,
    has_cluster,
    known_limit,
    moment_allowed,
    stored_owner_halt,
)
from registry_controller.sync.reconciler import Result


def limit_deletions(dry_run: DryRun, planned: Sequence[PlannedResult], *, now: datetime) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the deletion limiter would halt if all of them were wanted together."""
    copies, registry, percent = dry_run.engine.copies, dry_run.engine.registry, dry_run.settings.deletion_limit_percent
    created = Counter(origin for result in planned if (origin := _get_created_origin(result)) is not None)
    limited = [origin for result in planned if (origin := _get_limited_origin(result)) is not None]
    wanted, halts = Counter(limited), dict[RuleAndOwner, Halt]()
    anew = {_get_limited_origin(result) for result in planned if _is_anew(result)}
    for origin, count in wanted.items():
        window, present = stored_window(registry, origin), copies.count(origin)
        allowed, is_anew = allowed_moment(registry, origin[0]), origin in anew
        if _halts(window, present + created[origin], count, now=now, percent=percent, allowed=allowed, is_anew=is_anew):
            halts[origin] = stored_halt(registry, origin) or Halt(meta.RULE, origin[0], "")
    of_owner = Counter(origin[1] for origin in limited if origin not in halts)
    made = Counter[ClusterUID]()
    for (_, owner), count in created.items():
        made[owner] += count
    for owner, count in of_owner.items():
        window, allowed = known_limit(registry, copies, owner, now=now), moment_allowed(registry, owner)
        present, is_anew = (
            copies.by_owner[owner] + made[owner],
            any(one is not None and one[1] == owner for one in anew),
        )
        halt = stored_owner_halt(registry, owner) if percent else None  # other rules' deletions made it
        if has_cluster(registry, owner) and _halts(
            window, present, count, now=now, percent=percent, allowed=allowed, is_anew=is_anew
        ):
            halt = halt or Halt(meta.CLUSTER, cluster_name(registry, owner), "")
        if halt is not None:
            halts |= {origin: halt for origin in wanted if origin[1] == owner and origin not in halts}

    def find_halt(result: PlannedResult) -> Halt | None:
        origin = _get_limited_origin(result)
        if origin is not None:
            return halts.get(origin)
        return _find_repeated(registry, result) if percent else None

    return [_hold(result, find_halt(result)) for result in planned]


def hold_halted_deletions(registry: Registry, planned: Sequence[PlannedResult]) -> Sequence[PlannedResult]:
    """Hold the planned deletions that the daemon's deletion limiter has halted already."""
    return [_hold(result, _find_halt(registry, result)) for result in planned]


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


def _find_halt(registry: Registry, planned: PlannedResult) -> Halt | None:
    origin = _get_limited_origin(planned)
    if origin is None:
        return _find_repeated(registry, planned)
    return stored_halt(registry, origin) or stored_owner_halt(registry, origin[1])


def _find_repeated(registry: Registry, planned: PlannedResult) -> Halt | None:
    """Return the halt of the owner of a copy whose rule is gone; None for any other result.

    While that halt stands, the daemon takes the deletion of the rule for a second one, which counts for the owner.
    """
    decision = planned.result.decision
    if planned.error is not None or not isinstance(decision, Delete) or decision.reason is not Reason.RULE_GONE:
        return None
    return None if decision.is_order else stored_owner_halt(registry, decision.owner)


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


def _hold(planned: PlannedResult, halt: Halt | None) -> PlannedResult:
    """Return a planned deletion as held by a halt; without one as it is."""
    if halt is None:
        return planned
    decision = Hold(Reason.DELETION_HALTED, owner_of(planned.result.decision), halt)
    return replace(planned, result=Result(decision), writes=())
