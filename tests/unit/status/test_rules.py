"""The status of rules: results, watch problems and the local policy, as the reporter collects them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, InvalidObject, Unreachable
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.cache.registry import Registry
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.core.decision.decision import Halt
from registry_controller.core.rules.policy import RulePolicy
from registry_controller.status.rules import RuleStatusReporter
from registry_controller.sync.results import ReportedResult, ResultClass, Results, TargetResult
from tests.unit.status.engine_parts import (
    LOCAL,
    OTHER,
    PEER,
    WIDGET,
    FakeCache,
    FakeClusters,
    FakeCopies,
    FakePeer,
    FakeSources,
    IgnoredSummary,
    RecordedStatuses,
    cluster,
    registry,
    resolved,
    rule,
    stream,
)

FORBIDDEN = Forbidden("watch widgets.example.com/v1: 403 Forbidden", status=403)


class FakeLimiter:
    """A deletion limiter that records for which rules and owners nothing waits."""

    def __init__(self, halted: Mapping[ClusterUID, tuple[Halt, int]] | None = None) -> None:
        self.settled: list[tuple[str, ClusterUID]] = []
        self._halted = halted or {}

    def list_owners(self, rule: str) -> frozenset[ClusterUID]:
        return frozenset()

    def note_halts(self, rule: str) -> None:
        pass

    def nothing_waits(self, origin: tuple[str, ClusterUID]) -> None:
        self.settled.append(origin)

    def halted(self, name: str) -> Mapping[ClusterUID, tuple[Halt, int]]:
        return self._halted

    def stored_form(self, origin: tuple[str, ClusterUID]) -> None:
        return None


def report(
    held: Registry,
    *,
    sources: FakeSources | None = None,
    copies: FakeCopies | None = None,
    peers: tuple[FakePeer, ...] = (FakePeer(),),
    results: Results | None = None,
    limiter: FakeLimiter | None = None,
    is_idle: bool = True,
    lost: tuple[str, ...] = (),
    is_listed: bool = True,
) -> RecordedStatuses:
    writer = RecordedStatuses()
    clusters = FakeClusters(resolved(), peers=peers, rules=held.active_rules(LOCAL))
    clusters.selection = RuleSelection(registry=held, local=LOCAL)
    parts: dict[str, Any] = {
        "registry": held,
        "clusters": clusters,
        "sources": sources or FakeSources(FakeCache()),
        "copies": copies or FakeCopies(),
        "results": results or Results(on_change=lambda name: None),
        "deletion_limiter": limiter or FakeLimiter(),
        "definitions": SimpleNamespace(lost_of_rules=lost, is_listed=is_listed),
        "writer": writer,
        "summary": IgnoredSummary(),
        "is_idle": lambda: is_idle,
    }
    RuleStatusReporter(**cast(Any, parts)).report("rule")
    return writer


def condition(writer: RecordedStatuses, kind: str) -> tuple[str, str, str]:
    found = writer.condition("rule", kind)
    return found["status"], found["reason"], found["message"]


def with_result(result: ResultClass, *, reason: str = "R", message: str = "", owner: ClusterUID = PEER) -> Results:
    results = Results(on_change=lambda name: None)
    target = Target(WIDGET.group, WIDGET.kind, "default", "x")
    results.record(target, [ReportedResult(TargetResult("rule", owner, result, reason), message)])
    return results


def test_a_deleted_rule_has_no_status() -> None:
    assert report(registry()).wanted == {}


def test_a_rule_that_reads_a_complete_cache_is_synced_and_its_generation_is_written() -> None:
    writer = report(registry(rules=[rule()]))
    assert condition(writer, "Synced")[:2] == ("True", "Synced")
    assert writer.generations == {"rule": 3}


def test_an_invalid_rule_counts_no_peers() -> None:
    broken = rule(groupVersionKind={"version": "", "kind": ""})
    writer = report(registry(rules=[broken]))
    assert condition(writer, "Accepted")[:2] == ("False", "InvalidSpec")
    assert writer.wanted["rule"]["clusters"] == []


def test_a_suspended_rule_is_neither_synced_nor_stalled() -> None:
    writer = report(registry(rules=[rule(suspend=True)]))
    assert condition(writer, "Synced")[:2] == ("Unknown", "Suspended")
    assert condition(writer, "Stalled")[0] == "False"


def test_a_rule_whose_fields_the_crd_prunes_is_not_accepted() -> None:
    held = registry(rules=[rule()])
    held.set_pruned("rule", ("spec.suspend",))
    status, reason, message = condition(report(held), "Accepted")
    assert (status, reason) == ("False", "FieldsPruned")
    assert "spec.suspend" in message


def altered_rule() -> dict[str, Any]:
    """Build the copy of another cluster's rule with another spec than that cluster wrote."""
    made = rule()
    target = Target(meta.GROUP, meta.RULE.kind, "", "rule")
    provenance = Provenance(
        PEER, "core", LOCAL, "Orphan", meta.RULE, ObjectKey("", "rule"), "uid", "", 1, target, spec="another"
    )
    made["metadata"]["annotations"] = {meta.OWNER: PEER, meta.PROVENANCE: encode(provenance)}
    return made


@pytest.mark.parametrize(("lost", "reason"), [((), "NotAsWritten"), (("spec.suspend",), "FieldsPruned")])
def test_a_rule_that_is_not_as_its_owner_wrote_it_is_not_accepted(lost: tuple[str, ...], reason: str) -> None:
    held = registry(rules=[altered_rule()])
    assert not held.active_rules(LOCAL)
    found = condition(report(held, lost=lost), "Accepted")
    assert found[:2] == ("False", reason)
    assert ("spec.suspend" in found[2]) is bool(lost)


def test_why_a_rule_is_not_as_its_owner_wrote_it_is_reported_once_the_definitions_are_known() -> None:
    """A daemon that has just started would write another reason for a moment."""
    assert report(registry(rules=[altered_rule()]), is_listed=False).wanted == {}


def test_a_rule_of_another_cluster_that_the_policy_bars_is_unknown() -> None:
    held = Registry(local=LOCAL, on_change=lambda *_: None, allowance=RulePolicy(enabled=False))
    synced = rule()
    synced["metadata"]["annotations"] = {meta.OWNER: PEER}
    held.apply(meta.RULES.resource, None, synced)
    status, reason, message = condition(report(held), "Synced")
    assert (status, reason) == ("Unknown", "NotAllowedHere")
    assert message.startswith("SYNCED_RULES_ENABLED: ")


def test_a_rule_with_target_clusters_is_unclear_without_a_local_cluster() -> None:
    writer = report(registry(rules=[rule(targetClusters={"matchLabels": {"a": "b"}})]))
    assert condition(writer, "Synced")[:2] == ("Unknown", "LocalClusterUnclear")


def test_a_rule_that_asks_what_objects_name_is_unclear_without_a_local_cluster() -> None:
    writer = report(registry(rules=[rule(objectTargets="Required")]))
    status, reason, message = condition(writer, "Synced")
    assert (status, reason) == ("Unknown", "LocalClusterUnclear")
    assert message.startswith("spec.objectTargets: ")


def read_cluster_of(name: str, **annotations: str) -> dict[str, Any]:
    """Build the Cluster of a member that was read."""
    made = cluster(name)
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}, "status": {"version": "v1.30.0"}}


@pytest.mark.parametrize(
    ("held", "spec", "is_warned"),
    [
        (read_cluster_of("b"), {"objectTargets": "Required"}, True),
        (read_cluster_of("b"), {}, False),
        (read_cluster_of("b", **{meta.DAEMON: '{"version": "0.1.0"}'}), {"objectTargets": "Required"}, False),
        ({**read_cluster_of("b"), "status": {}}, {"objectTargets": "Required"}, False),
    ],
    ids=["no daemon is known there", "the field is not used", "a daemon is known there", "it was not read yet"],
)
def test_a_member_that_may_run_the_original_is_named_where_it_would_lose_the_field(
    held: dict[str, Any], spec: dict[str, Any], is_warned: bool
) -> None:
    """W9, A8."""
    writer = report(registry(clusters=[held], rules=[rule(**spec)]))
    status, reason, message = condition(writer, "Accepted")
    assert (status, reason) == ("True", "Accepted")
    assert ("warning: spec.objectTargets: no daemon of this project is known in b: " in message) is is_warned


@pytest.mark.parametrize("features", [(), ({"featureName": "mesh"},)], ids=["any peer", "a feature"])
def test_a_rule_that_reads_no_peer_is_idle(features: tuple[Mapping[str, str], ...]) -> None:
    held = registry(rules=[rule(clusterFeatureMatch=list(features))])
    status, reason, message = condition(report(held, peers=()), "Synced")
    assert (status, reason) == ("True", "Idle")
    assert ("features" in message) is bool(features)


def test_results_are_counted_for_the_cluster_of_their_owner() -> None:
    results = with_result(ResultClass.FAILING, message="403 Forbidden")
    results.record_write(("rule", PEER), datetime(2026, 5, 1, tzinfo=UTC))
    writer = report(registry(rules=[rule()]), results=results)
    (entry,) = writer.wanted["rule"]["clusters"]
    assert (entry["clusterID"], entry["name"], entry["matched"], entry["failing"]) == (PEER, "b", 1, 1)
    assert entry["lastSyncTime"] == "2026-05-01T00:00:00Z"
    assert entry["failures"][0]["object"] == "Widget.example.com default/x"
    assert condition(writer, "Synced")[:2] == ("False", "Failing")


def test_held_copies_are_not_matched() -> None:
    writer = report(registry(rules=[rule()]), results=with_result(ResultClass.HELD))
    (entry,) = writer.wanted["rule"]["clusters"]
    assert (entry["matched"], entry["held"]) == (0, 1)


def test_an_owner_that_is_not_read_any_more_keeps_its_results() -> None:
    results = with_result(ResultClass.HELD, owner=OTHER)
    writer = report(registry(rules=[rule()]), results=results, peers=())
    assert [entry["clusterID"] for entry in writer.wanted["rule"]["clusters"]] == [OTHER]


def test_a_write_that_is_forbidden_here_needs_an_administrator() -> None:
    results = with_result(ResultClass.FAILING, reason="Forbidden", message="create widgets: 403 Forbidden")
    writer = report(registry(rules=[rule()]), results=results)
    status, _, message = condition(writer, "Stalled")
    assert (status, message) == ("True", "here: Widget.example.com default/x: create widgets: 403 Forbidden")


def test_a_kind_that_a_peer_forbids_to_watch_needs_an_administrator() -> None:
    sources = FakeSources(FakeCache(streams=[stream(is_complete=False, error=FORBIDDEN)]))
    writer = report(registry(rules=[rule()]), sources=sources)
    status, reason, message = condition(writer, "Stalled")
    assert (status, reason) == ("True", "ActionNeeded")
    assert message.startswith(f"peer b: Widget: cannot {FORBIDDEN}; ")


def test_a_peer_that_is_unreachable_is_not_read_and_needs_no_administrator() -> None:
    sources = FakeSources(FakeCache(streams=[stream(is_complete=False, error=Unreachable("no answer"))]))
    writer = report(registry(rules=[rule()]), sources=sources)
    assert condition(writer, "Stalled")[0] == "False"
    assert condition(writer, "Synced") == ("False", "Waiting", "not read: b")
    assert writer.wanted["rule"]["clusters"][0]["lastError"] == "no answer"


def test_an_object_on_which_the_rule_cannot_be_evaluated_is_a_problem() -> None:
    unclear = {"rule": {ObjectKey("default", "x"): InvalidObject("spec.rules[0]", "cannot be evaluated")}}
    writer = report(registry(rules=[rule()]), sources=FakeSources(FakeCache(unclear=unclear)))
    assert condition(writer, "Stalled")[2] == "peer b: Widget default/x: spec.rules[0]: cannot be evaluated"


def test_a_kind_that_is_not_watched_here_is_a_problem_or_pending_by_its_error() -> None:
    for error, stalled, message in (
        (FORBIDDEN, "True", f"here: Widget: cannot {FORBIDDEN}; "),
        (Unreachable("no answer"), "False", "not everything can be read; here: no answer"),
    ):
        copies = FakeCopies(FakeCache(streams=[stream(is_complete=False, error=error)]))
        writer = report(registry(rules=[rule()]), copies=copies)
        assert condition(writer, "Stalled")[0] == stalled
        assert message in condition(writer, "Synced")[2]


@pytest.mark.parametrize(
    ("is_idle", "is_complete", "alive", "settled"),
    [(True, True, True, True), (False, True, True, False), (True, False, True, False), (True, True, False, False)],
    ids=["all decided", "targets wait", "an incomplete cache", "a silent peer"],
)
def test_the_deletion_limiter_learns_that_nothing_waits_only_when_all_is_decided(
    is_idle: bool, is_complete: bool, alive: bool, settled: bool
) -> None:
    limiter, sources = FakeLimiter(), FakeSources(FakeCache(streams=[stream(is_complete=is_complete)]))
    peers = (FakePeer(alive=alive),)
    report(registry(rules=[rule()]), sources=sources, peers=peers, limiter=limiter, is_idle=is_idle)
    assert limiter.settled == ([("rule", PEER)] if settled else [])


def test_halted_deletions_name_the_cluster_the_count_and_the_command() -> None:
    limiter = FakeLimiter({PEER: (Halt(meta.RULE, "rule", "2026-05-01T00:00:00Z"), 12)})
    status, reason, message = condition(report(registry(rules=[rule()]), limiter=limiter), "DeletionHalted")
    assert (status, reason) == ("True", "TooManyDeletions")
    assert message.startswith("cluster b: 12 copies would be deleted")
    assert message.endswith(f"kubectl annotate --overwrite rsr rule {meta.ALLOW_DELETIONS}=2026-05-01T00:00:00Z")


@pytest.mark.parametrize("kind", ["Synced", "Stalled"])
def test_a_rule_whose_copies_the_halt_of_a_cluster_keeps_names_that_cluster(kind: str) -> None:
    """S1, W4: its own limit has halted nothing, so it has no condition DeletionHalted."""
    limiter = FakeLimiter({PEER: (Halt(meta.CLUSTER, "b", "2026-05-01T00:00:00Z"), 12)})
    writer = report(registry(rules=[rule()]), limiter=limiter)
    status, reason, message = condition(writer, kind)
    assert (status, reason) == (("True", "ActionNeeded") if kind == "Stalled" else ("False", "DeletionHalted"))
    assert "see the condition DeletionHalted of Cluster b" in message
    assert message.endswith(f"clusters.{meta.GROUP} b {meta.ALLOW_DELETIONS}=2026-05-01T00:00:00Z")
    assert writer.condition("rule", "DeletionHalted")["status"] is None


def test_a_restored_history_is_reported_for_its_rule_alone() -> None:
    results = Results(on_change=lambda name: None)
    results.record_history_restored(("rule", PEER), datetime(2026, 5, 1, tzinfo=UTC))
    results.record_history_restored(("another", OTHER), datetime(2026, 5, 1, tzinfo=UTC))
    message = condition(report(registry(rules=[rule()]), results=results), "HistoryRestored")[2]
    assert message.startswith("cluster b went back to an older state")
    assert message.endswith("2026-05-01T00:00:00Z")
    assert OTHER not in message
