"""W4 in a plan: deletions are counted as one set, and held beyond the limit."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import Target
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Delete, Hold, Reason
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.planner.plan import PlanAction, build_rows
from registry_controller.planner.planned_deletions import hold_halted_deletions, limit_deletions
from registry_controller.planner.recording_client import RecordedWrite
from registry_controller.sync.owner_limits import stored_limit
from tests.unit.planner.planned_results import COPY, DELETE, PEER, WIDGET, planned, state
from tests.unit.status.engine_parts import cluster, registry, rule

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HALTED_AT = "2026-05-01T11:00:00Z"
WRITE = RecordedWrite("delete", meta.GVR(WIDGET.group, WIDGET.version, "widgets", True), "default", "x")


def deletion(number: int, *, decision: Delete = DELETE, error: Any = None) -> PlannedResult:
    target = Target(WIDGET.group, WIDGET.kind, "default", f"x-{number}")
    return planned(decision, WRITE, view=state(target=target, current=COPY, rule="rule"), error=error)


def dry_run(*, present: int, percent: int = 10, held: Registry | None = None) -> DryRun:
    counts = Counter({("rule", PEER): present})
    parts: Any = SimpleNamespace(
        engine=SimpleNamespace(
            registry=held or registry(rules=[rule()]),
            copies=SimpleNamespace(count=counts.__getitem__, by_owner=Counter({PEER: present})),
        ),
        settings=SimpleNamespace(deletion_limit_percent=percent),
    )
    return cast(DryRun, parts)


def is_held(result: PlannedResult) -> bool:
    decision = result.result.decision
    return isinstance(decision, Hold) and decision.reason is Reason.DELETION_HALTED and not result.writes


@pytest.mark.parametrize(
    ("wanted", "present", "percent", "held"),
    [(5, 1000, 10, False), (100, 1000, 10, False), (101, 1000, 10, True), (101, 1000, 0, False)],
    ids=["a few", "as many as the limit", "one more", "no limit"],
)
def test_deletions_beyond_the_limit_are_held_all_together(wanted: int, present: int, percent: int, held: bool) -> None:
    results = limit_deletions(
        dry_run(present=present, percent=percent), [deletion(number) for number in range(wanted)], now=NOW
    )
    assert {is_held(result) for result in results} == {held}
    assert all(isinstance(result.judgment.decision, Delete) for result in results)


def test_a_rule_that_is_deleted_and_a_deletion_that_fails_do_not_count() -> None:
    ordered = Delete("u", 1, Reason.RULE_GONE, PEER)
    error = Forbidden("delete: 403 Forbidden", status=403)
    results = [
        *(deletion(number, decision=ordered) for number in range(60)),
        *(deletion(number, error=error) for number in range(60, 120)),
    ]
    assert not any(map(is_held, limit_deletions(dry_run(present=120), results, now=NOW)))


@pytest.mark.parametrize(("allowed", "held"), [("", True), (HALTED_AT, False), ("2026-05-01T10:00:00Z", True)])
def test_deletions_that_the_daemon_has_halted_are_held_until_the_annotation_allows_them(
    allowed: str, held: bool
) -> None:
    deletions = {"windowStart": "2026-05-01T10:59:00Z", "baseline": 100, "haltedAt": HALTED_AT}
    manifest = rule(status={"clusters": [{"clusterID": PEER, "deletions": deletions}]})
    manifest["metadata"]["annotations"] = {meta.ALLOW_DELETIONS: allowed} if allowed else {}
    (result,) = hold_halted_deletions(registry(rules=[manifest]), [deletion(1)])
    assert is_held(result) is held


def halted_cluster(*, allowed: str = "") -> dict[str, Any]:
    """Build the Cluster of the owner, whose limit over all rules has halted its deletions."""
    counts = f"windowStart=2026-05-01T10:59:00Z baseline=100 deleted=55 haltedAt={HALTED_AT}"
    condition = {"type": "DeletionHalted", "status": "True", "message": f"halted; counts: {counts}"}
    made = cluster()
    made["metadata"]["annotations"] = {meta.ALLOW_DELETIONS: allowed} if allowed else {}
    return {**made, "status": {"conditions": [condition]}}


@pytest.mark.parametrize("allowed", ["", HALTED_AT], ids=["halted", "allowed"])
def test_a_halt_of_an_owner_holds_few_deletions_too_in_plan_and_explain_alike(allowed: str) -> None:
    """S1: other rules' deletions made the halt, and the plan of one rule does not know them."""
    held = registry(rules=[rule()], clusters=[halted_cluster(allowed=allowed)])
    assert stored_limit(held, PEER) is not None
    planned_ones = [deletion(number) for number in range(10)]
    for results in (
        limit_deletions(dry_run(present=100, held=held), planned_ones, now=NOW),
        hold_halted_deletions(held, planned_ones),
    ):
        assert {is_held(result) for result in results} == {not allowed}
        for row in (row for result in results if not allowed for row in build_rows(result, name_of=str)):
            assert (row.action, row.reason) == (PlanAction.WAIT, "DeletionHalted")
            assert row.message.endswith(f"clusters.{meta.GROUP} b {meta.ALLOW_DELETIONS}={HALTED_AT}")
            assert "rule" not in row.message.replace("over all rules", "")


@pytest.mark.parametrize(("is_order", "held"), [(False, True), (True, False)], ids=["its rule is gone", "it has left"])
def test_a_halt_of_an_owner_holds_the_copies_of_a_deleted_rule_and_no_order(is_order: bool, held: bool) -> None:
    """W4: while the owner's deletions are halted, a rule that is deleted counts as one that was deleted before."""
    decision = Delete("u", 1, Reason.RULE_GONE, PEER, is_order=is_order)
    planned_ones, known = [deletion(1, decision=decision)], registry(clusters=[halted_cluster()])
    for results in (
        limit_deletions(dry_run(present=100, held=known), planned_ones, now=NOW),
        hold_halted_deletions(known, planned_ones),
    ):
        assert [is_held(result) for result in results] == [held]
    assert not is_held(hold_halted_deletions(registry(), planned_ones)[0])


def test_a_halt_that_a_plan_foresees_names_the_rule_and_no_moment() -> None:
    results = limit_deletions(dry_run(present=1000), [deletion(number) for number in range(101)], now=NOW)
    (row,) = build_rows(results[0], name_of=str)
    assert "copies of rule rule would go" in row.message
    assert row.message.endswith("the condition DeletionHalted of ResourceSyncRule rule will have")


def test_without_a_halt_nothing_is_held() -> None:
    (result,) = hold_halted_deletions(registry(rules=[rule()]), [deletion(1)])
    assert not is_held(result)
