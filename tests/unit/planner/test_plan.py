"""Rows of a plan: the action, the reason and the rule, read from planned results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import GVR, ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Hold, Reason, Skip
from registry_controller.core.rules.policy import RulePolicy
from registry_controller.planner.dry_run import PlannedResult
from registry_controller.planner.plan import (
    PlanAction,
    PlanRow,
    add_failure,
    build_rows,
    explain_row,
    find_idle_reason,
    get_action,
    get_reason,
)
from registry_controller.planner.recording_client import RecordedWrite
from tests.unit.planner.planned_results import (
    APPLY,
    COPY,
    DELETE,
    OTHER,
    PEER,
    TARGET,
    WIDGET,
    claim,
    engine,
    planned,
    state,
)
from tests.unit.status.engine_parts import FakeClusters, registry, resolved, rule

WIDGETS = GVR(WIDGET.group, WIDGET.version, "widgets", True)
CREATE, UPDATE, REMOVE = (RecordedWrite(verb, WIDGETS, "default", "x") for verb in ("create", "update", "delete"))
STATUS = RecordedWrite("update", WIDGETS, "default", "x", "status")
NAMESPACE = RecordedWrite("create", meta.NAMESPACES, "", "")
ERROR = Forbidden("create: 403 Forbidden", status=403)


@pytest.mark.parametrize(
    ("result", "action"),
    [
        (planned(APPLY, CREATE), PlanAction.CREATE),
        (planned(APPLY, NAMESPACE, CREATE), PlanAction.CREATE),
        (planned(APPLY, CREATE, STATUS), PlanAction.UPDATE),
        (planned(APPLY, REMOVE, CREATE), PlanAction.UPDATE),
        (planned(APPLY, result=Skip(Reason.IN_SYNC, PEER)), PlanAction.SKIP),
        (planned(DELETE, REMOVE), PlanAction.DELETE),
        (planned(Hold(Reason.OWNER_SILENT, PEER)), PlanAction.WAIT),
        (planned(Skip(Reason.LOCAL_OBJECT_EXISTS, PEER)), PlanAction.CONFLICT),
        (planned(Skip(Reason.SYNC_DISABLED, PEER)), PlanAction.SKIP),
        (planned(APPLY, CREATE, error=ERROR), PlanAction.FAIL),
    ],
)
def test_the_action_is_that_of_the_writes_or_else_of_the_decision(result: PlannedResult, action: PlanAction) -> None:
    assert get_action(result) is action


def test_the_reason_is_that_of_the_decision_or_of_the_error() -> None:
    assert get_reason(planned(APPLY, CREATE))[0] == "Create"
    assert get_reason(planned(APPLY, REMOVE, CREATE))[1].endswith("; it is deleted and created again")
    reason, message = get_reason(planned(APPLY, error=ERROR))
    assert (reason, message) == ("Forbidden", "create: 403 Forbidden")


def test_the_first_row_is_for_the_rule_that_gets_the_object_and_the_next_for_those_that_lose_it() -> None:
    winner, loser = claim(rule="older"), claim(OTHER, rule="younger", created="2026-02-01")
    result = planned(APPLY.__class__(winner, Reason.CREATE), CREATE, view=state(winner, loser))
    first, second = build_rows(result, name_of=str)
    assert (first.action, first.rule, first.owner, first.source) == (PlanAction.CREATE, "older", PEER, winner.source)
    assert (second.action, second.rule, second.owner) == (PlanAction.CONFLICT, "younger", OTHER)


def test_the_row_of_a_copy_without_a_source_has_the_rule_that_made_it() -> None:
    (row,) = build_rows(planned(DELETE, REMOVE, view=state(current=COPY, rule="rule")), name_of=str)
    assert (row.action, row.rule, row.owner, row.source) == (PlanAction.DELETE, "rule", PEER, None)


def idle_reason(held: Registry) -> str:
    return str(find_idle_reason(engine(held), held.rules["rule"]) or "")


def test_a_rule_that_does_nothing_here_has_one_reason() -> None:
    assert idle_reason(registry(rules=[rule()])) == ""
    assert idle_reason(registry(rules=[rule(suspend=True)])) == "spec.suspend: it is suspended"
    invalid = registry(rules=[rule(groupVersionKind={"version": "", "kind": "Widget"})])
    assert idle_reason(invalid) == "spec: it is not accepted: spec.groupVersionKind.version: is required"
    pruned = registry(rules=[rule()])
    pruned.set_pruned("rule", ("spec.suspend",))
    assert "spec.suspend" in idle_reason(pruned)
    unselected = registry(rules=[rule(targetClusters={"matchLabels": {"a": "b"}})])
    assert idle_reason(unselected).startswith("spec.targetClusters: ")


def test_a_rule_of_another_cluster_is_idle_when_the_policy_bars_it() -> None:
    held = Registry(local=ClusterUID("local"), on_change=lambda *_: None, allowance=RulePolicy(enabled=False))
    synced = rule()
    synced["metadata"]["annotations"] = {meta.OWNER: PEER}
    held.apply(meta.RULES.resource, None, synced)
    assert idle_reason(held).startswith("SYNCED_RULES_ENABLED: ")


def test_a_copy_that_is_no_longer_wanted_names_its_disabled_owner_or_its_idle_rule() -> None:
    row = PlanRow(PlanAction.SKIP, TARGET, "rule", PEER, Reason.NO_LONGER_WANTED.value, "m")
    held = registry(rules=[rule(suspend=True)])
    assert explain_row(engine(held), row).message == (
        "its rule does nothing here: spec.suspend: it is suspended; the copy stays"
    )
    disabled = engine(held, clusters=FakeClusters(resolved(disabled=True)))
    assert explain_row(disabled, row).message.startswith("its owner is disabled here (")
    assert explain_row(engine(registry(rules=[rule()])), row) == row


def test_the_message_of_any_other_reason_stays() -> None:
    row = PlanRow(PlanAction.SKIP, TARGET, "rule", PEER, Reason.IN_SYNC.value, "m")
    assert explain_row(engine(registry(rules=[rule(suspend=True)])), row) == row


def test_a_planned_write_names_the_failure_in_the_rules_status() -> None:
    failure = {"object": str(TARGET), "reason": "Forbidden", "message": "create: 403"}
    manifest = rule(status={"clusters": [{"clusterID": PEER, "failures": [failure]}]})
    held = engine(registry(rules=[manifest]))
    create = PlanRow(PlanAction.CREATE, TARGET, "rule", PEER, "Create", "m")
    assert add_failure(held, create).failed == ("Forbidden", "create: 403")
    assert add_failure(held, replace(create, action=PlanAction.WAIT)).failed is None
