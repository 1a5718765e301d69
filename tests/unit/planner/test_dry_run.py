"""A dry run: the requests that its client may send, and how rules of a file replace stored rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Forbidden
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Hold, Reason
from registry_controller.kube.connect import READING
from registry_controller.kube.transport import is_allowed
from registry_controller.kube.writer import DRY_RUNNING, WRITING
from registry_controller.planner.dry_run import PlannedResult, merge_stored, stage_rule
from tests.unit.planner.planned_results import APPLY, PEER, planned

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
OWNED = {meta.OWNER: "somebody", "note": "old"}
HELD = {
    "metadata": {
        "name": "r", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2025-01-01T00:00:00Z", "generation": 3,
        "annotations": OWNED,
    },
    "spec": {"groupVersionKind": {"version": "v1", "kind": "Secret"}, "rules": [{}], "suspend": True},
    "status": {"clusters": []},
}  # fmt: skip


def rule(**info: Any) -> dict[str, Any]:
    spec = {"groupVersionKind": {"version": "v1", "kind": "Secret"}, "rules": [{"match": [{}]}]}
    return {"metadata": {"name": "r", **info}, "spec": spec}


@pytest.mark.parametrize(
    ("method", "path", "methods", "allowed"),
    [
        ("GET", "/api/v1/secrets", DRY_RUNNING, True),
        ("PUT", "/api/v1/namespaces/a/secrets/b?fieldManager=x&dryRun=All", DRY_RUNNING, True),
        ("PUT", "/api/v1/namespaces/a/secrets/b?fieldManager=x", DRY_RUNNING, False),
        ("PUT", "/api/v1/namespaces/a/secrets/dryRun=All", DRY_RUNNING, False),
        ("PUT", "/api/v1/namespaces/a/secrets/b?note=dryRun=All", DRY_RUNNING, False),
        ("PUT", "/api/v1/namespaces/a/secrets/b?dryRun=Alle", DRY_RUNNING, False),
        ("POST", "/api/v1/namespaces/a/secrets?dryRun=All", DRY_RUNNING, True),
        ("POST", "/api/v1/namespaces/a/secrets", DRY_RUNNING, False),
        ("DELETE", "/api/v1/namespaces/a/secrets/b?dryRun=All", DRY_RUNNING, False),
        ("PATCH", "/api/v1/namespaces/a/secrets/b?dryRun=All", DRY_RUNNING, False),
        ("PUT", "/api/v1/namespaces/a/secrets/b?dryRun=All", READING, False),
        ("PUT", "/api/v1/namespaces/a/secrets/b", WRITING, True),
    ],
)
def test_a_dry_run_may_read_and_send_dry_runs_of_writes_and_nothing_else(
    method: str, path: str, methods: frozenset[str], allowed: bool
) -> None:
    """S1: a plan is unable to write."""
    assert is_allowed(method, path, methods) is allowed


def test_a_new_rule_is_created_now() -> None:
    info = meta.metadata_of(merge_stored(rule(labels={"a": "1"}), None, now=NOW))
    assert info == {"name": "r", "creationTimestamp": "2026-05-01T12:00:00Z", "generation": 1, "labels": {"a": "1"}}


def test_an_edited_rule_keeps_its_identity_its_age_its_owner_and_its_status() -> None:
    made = merge_stored(rule(annotations={"note": "new"}), HELD, now=NOW)
    info = meta.metadata_of(made)
    assert {key: info[key] for key in ("uid", "resourceVersion", "creationTimestamp", "generation")} == {
        "uid": "u", "resourceVersion": "7", "creationTimestamp": "2025-01-01T00:00:00Z", "generation": 4,
    }  # fmt: skip
    assert info["annotations"] == {meta.OWNER: "somebody", "note": "new"}
    assert made["spec"] == rule()["spec"]
    assert made["status"] == {"clusters": []}


def test_a_rule_that_is_the_same_has_the_same_generation() -> None:
    same = {**rule(), "spec": HELD["spec"]}
    assert meta.metadata_of(merge_stored(same, HELD, now=NOW))["generation"] == 3


def test_a_staged_rule_stands_in_the_registry_in_the_place_of_the_other() -> None:
    registry = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    registry.apply(meta.RULES.resource, None, HELD)
    assert stage_rule(registry, rule(), now=NOW) == "r"
    held = registry.rules["r"]
    assert held.rule is not None
    assert (held.rule.suspend, held.rule.uid, held.marks.owner) == (False, "u", "somebody")


@pytest.mark.parametrize(
    ("planned", "is_stable"),
    [
        (planned(APPLY), True),
        (planned(APPLY, result=Hold(Reason.STALE_SOURCE, PEER)), False),
        (planned(APPLY, error=Conflict("changed", status=409)), False),
        (planned(APPLY, error=Forbidden("refused", status=403)), True),
        (planned(Hold(Reason.OWNER_SILENT, PEER)), True),
    ],
    ids=["a write", "a source that changed", "a conflict", "a refused write", "a hold"],
)
def test_a_result_is_stable_unless_something_changed_while_it_was_read(planned: PlannedResult, is_stable: bool) -> None:
    assert planned.is_stable is is_stable
