"""docs/gitops.md and deploy/argocd: Argo CD's health checks decide on every reason, and the YAML is right."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from registry_controller.api import meta
from registry_controller.core.rules.validation import RuleVerdict
from registry_controller.core.status.rule import PeerCounts, build_rule_status
from tests.docs.documents import ROOT, blocks, table

PAGE, REASONS = ROOT / "docs" / "gitops.md", ROOT / "docs" / "reasons.md"
HEALTH = ROOT / "deploy" / "argocd" / "health.yaml"
CHECKS = yaml.safe_load(HEALTH.read_text(encoding="utf-8"))["data"]

RULE_REASONS = {
    ("Accepted", "Accepted"): "Healthy", ("Accepted", "Suspended"): "Suspended",
    ("Accepted", "InvalidSpec"): "Degraded", ("Accepted", "FieldsPruned"): "Degraded",
    ("Accepted", "UnknownFields"): "Degraded", ("Accepted", "NotAsWritten"): "Degraded",
    ("Accepted", "LaterFormat"): "Degraded",
    ("Synced", "Synced"): "Healthy", ("Synced", "Idle"): "Healthy", ("Synced", "Suspended"): "Suspended",
    ("Synced", "Failing"): "Degraded", ("Synced", "Conflict"): "Degraded", ("Synced", "Waiting"): "Progressing",
    ("Synced", "DeletionHalted"): "Degraded", ("Synced", "NotAccepted"): "Degraded",
    ("Synced", "LocalClusterUnclear"): "Degraded", ("Synced", "NotAllowedHere"): "Suspended",
    ("Synced", "ClosedHere"): "Suspended",
    ("Stalled", "ActionNeeded"): "Degraded", ("Stalled", "NotStalled"): "Healthy",
    ("DeletionHalted", "TooManyDeletions"): "Healthy", ("HistoryRestored", "SourceWentBack"): "Healthy",
}  # fmt: skip
"""The health of a rule that has this condition with this reason, and is in order otherwise."""

CLUSTER_REASONS = {
    ("LocalCluster", "ClusterIsLocal"): "Healthy", ("LocalCluster", "ClusterIsNotLocal"): "Healthy",
    ("LocalConflict", "LocalClusterIsConflicting"): "Degraded",
    ("LocalConflict", "LocalClusterIsNotConflicting"): "Healthy",
    ("LocalConflict", "ClusterIsConflicting"): "Degraded",
    ("ClusterMetadataSet", "ClusterMetadataSet"): "Healthy",
    ("ClusterMetadataSet", "ClusterMetadataIsNotSet"): "Degraded",
    ("Ready", "ClusterIsReady"): "Healthy", ("Ready", "ClusterIsNotReady"): "Degraded",
    ("Ready", "ClusterIsDisabled"): "Suspended", ("Ready", "Connecting"): "Progressing",
    ("ClustersSynced", "ClustersAreSynced"): "Healthy", ("ClustersSynced", "ClustersAreNotSynced"): "Progressing",
    ("RulesMissing", "RulesMissing"): "Degraded",
    ("OwnClusterMissing", "Missing"): "Degraded", ("OwnClusterMissing", "MissingForLong"): "Degraded",
    ("AuthInfoNotUsed", "OtherCredentialsUsed"): "Healthy", ("LaterFormat", "UpgradeNeeded"): "Healthy",
    ("DeletionHalted", "Counting"): "Healthy", ("DeletionHalted", "TooManyDeletions"): "Degraded",
}  # fmt: skip

FALSE = {
    "InvalidSpec", "FieldsPruned", "UnknownFields", "NotAsWritten", "LaterFormat", "Failing", "Conflict", "Waiting",
    "DeletionHalted", "NotAccepted", "NotStalled", "ClusterIsNotLocal", "LocalClusterIsNotConflicting",
    "ClusterMetadataIsNotSet", "ClusterIsNotReady", "ClusterIsDisabled", "Connecting", "ClustersAreNotSynced",
    "Counting",
}  # fmt: skip
STATES = {
    "ClusterIsNotReady": "Failed", "ClusterMetadataIsNotSet": "Failed", "LocalClusterIsConflicting": "Failed",
    "ClusterIsConflicting": "Failed", "ClusterIsDisabled": "Disabled", "Connecting": "",
}  # fmt: skip
"""The `status.state` of a Cluster with a condition of this reason; `Ready` with any other reason."""
UNKNOWN = {
    ("Synced", "Suspended"),
    ("Synced", "LocalClusterUnclear"),
    ("Synced", "NotAllowedHere"),
    ("Synced", "ClosedHere"),
}


def health(kind: str, manifest: dict[str, Any]) -> str:
    """Run the check of a kind as Argo CD does: Lua 5.1, with the object as `obj`."""
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    lua.globals().obj = lua.table_from(manifest, recursive=True)
    answer = lua.execute(CHECKS[f"resource.customizations.health.{meta.GROUP}_{kind}"])
    assert isinstance(answer["message"], str)
    return str(answer["status"])


def condition(kind: str, reason: str) -> dict[str, str]:
    status = "Unknown" if (kind, reason) in UNKNOWN else "False" if reason in FALSE else "True"
    return {"type": kind, "status": status, "reason": reason, "message": "the message"}


def listed(header: str) -> set[tuple[str, str]]:
    """List the pairs of condition and reason of a table of docs/reasons.md."""
    rows = table(REASONS, header=header)
    return {(kind, row[0].split("`")[1]) for row in rows for kind in re.findall(r"`(\w+)`", row[1])}


def test_every_reason_has_a_health() -> None:
    new = {"Ready", "Reconciling"}  # their reasons repeat the reasons of Accepted, Synced and Stalled
    assert {pair for pair in listed("reason of a rule's condition") if pair[0] not in new} == set(RULE_REASONS)
    assert listed("reason of a Cluster's condition") == set(CLUSTER_REASONS)


@pytest.mark.parametrize(("kind", "reason"), RULE_REASONS)
def test_the_health_of_a_rule(kind: str, reason: str) -> None:
    conditions = {"Accepted": condition("Accepted", "Accepted"), "Synced": condition("Synced", "Synced")}
    conditions[kind] = condition(kind, reason)
    manifest: dict[str, Any] = {
        "metadata": {"generation": 2}, "spec": {"suspend": (kind, reason) == ("Accepted", "Suspended")},
        "status": {"observedGeneration": 2, "conditions": list(conditions.values())},
    }  # fmt: skip
    assert health("ResourceSyncRule", manifest) == RULE_REASONS[kind, reason]
    manifest["metadata"]["generation"] = 3
    later = "Suspended" if manifest["spec"]["suspend"] else "Progressing"
    assert health("ResourceSyncRule", manifest) == later


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "Healthy"),
        ({"suspended": True}, "Suspended"),
        ({"idle": ["no other cluster is read now"]}, "Healthy"),
        ({"barred": ("NotAllowedHere", "SYNCED_RULES_ENABLED is false")}, "Suspended"),
        ({"pending": ["peer b: not listed yet"]}, "Progressing"),
        ({"problems": ["peer b: Secret: cannot list secrets"]}, "Degraded"),
        ({"halted": "12 copies would be deleted"}, "Degraded"),
        ({"peers": [PeerCounts(meta.ClusterUID("x"), "b", matched=3, synced=2, failing=1)]}, "Degraded"),
        ({"peers": [PeerCounts(meta.ClusterUID("x"), "b", matched=3, synced=2, conflicting=1)]}, "Degraded"),
        ({"peers": [PeerCounts(meta.ClusterUID("x"), "b", matched=3, synced=2)]}, "Progressing"),
        ({"peers": [PeerCounts(meta.ClusterUID("x"), "b", matched=3, synced=3)]}, "Healthy"),
        ({"verdict": RuleVerdict(False, "InvalidSpec", "spec.rules: is empty", ())}, "Degraded"),
    ],
)
def test_the_health_of_the_status_that_the_daemon_writes(facts: dict[str, Any], expected: str) -> None:
    status = build_rule_status(generation=1, **{"verdict": RuleVerdict(True, "Accepted", "", ()), **facts})
    stored = [entry for entry in status["conditions"] if entry["status"] is not None]
    manifest = {
        "metadata": {"generation": 1}, "spec": {"suspend": facts.get("suspended", False)},
        "status": {**status, "conditions": stored},
    }  # fmt: skip
    assert health("ResourceSyncRule", manifest) == expected


def test_a_rule_with_held_copies_is_progressing() -> None:
    conditions = [condition("Accepted", "Accepted"), condition("Synced", "Synced")]
    conditions.append({"type": "Ready", "status": "False", "reason": "Held", "message": "1 held"})
    manifest = {"metadata": {"generation": 1}, "spec": {}, "status": {"conditions": conditions}}
    assert health("ResourceSyncRule", manifest) == "Progressing"


@pytest.mark.parametrize("kind", ["ResourceSyncRule", "Cluster"])
def test_an_object_without_a_status_is_progressing(kind: str) -> None:
    assert health(kind, {"metadata": {"generation": 1}, "spec": {}}) == "Progressing"
    assert health("ClusterFeature", {"metadata": {"generation": 1}}) == "Healthy"


@pytest.mark.parametrize(("kind", "reason"), CLUSTER_REASONS)
def test_the_health_of_a_cluster(kind: str, reason: str) -> None:
    expected = CLUSTER_REASONS[kind, reason]
    state = STATES.get(reason, "Ready")
    status = {"state": state, "message": "", "conditions": [condition(kind, reason)]}
    assert health("Cluster", {"metadata": {}, "status": status}) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Ready", "Healthy"), ("Failed", "Degraded"), ("Disabled", "Suspended"), ("MissingAuthInfo", "Degraded"),
     ("InvalidAuthInfo", "Degraded")],
)  # fmt: skip
def test_the_health_of_a_clusters_state(state: str, expected: str) -> None:
    assert health("Cluster", {"metadata": {}, "status": {"state": state, "conditions": []}}) == expected


def test_the_page_names_the_field_manager_of_the_daemon() -> None:
    text = PAGE.read_text(encoding="utf-8")
    managers = set(
        re.findall(r"^\s+- ([a-z-]+)$", text.partition("managedFieldsManagers:")[2].partition("```")[0], re.MULTILINE)
    )
    assert managers == {meta.FIELD_MANAGER}


def test_the_resources_of_gitops_tools_are_yaml_of_known_kinds() -> None:
    found = [document for block in blocks(PAGE) if block.tag == "gitops" for document in yaml.safe_load_all(block.text)]
    kinds = {(document["apiVersion"].split("/")[0], document["kind"]) for document in found}
    assert kinds >= {
        ("argoproj.io", "Application"), ("helm.toolkit.fluxcd.io", "HelmRelease"),
        ("kustomize.toolkit.fluxcd.io", "Kustomization"),
    }  # fmt: skip


def test_the_page_names_the_only_hook_of_the_chart() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "helm").rglob("*.yaml")]
    assert [hook for text in texts for hook in re.findall(r"helm\.sh/hook: (\S+)", text)] == ["test"]
    assert "Pod of `helm test`, the chart's only hook" in PAGE.read_text(encoding="utf-8").replace("\n", " ")
