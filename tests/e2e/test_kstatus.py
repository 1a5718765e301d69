"""kstatus itself judges rules and Clusters, for every reason of docs/reasons.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.meta import ClusterUID
from registry_controller.core.status.cluster import ClusterFacts, KnownCluster, OwnCluster, build_cluster_status
from registry_controller.core.status.missing_rules import RulesMissing
from registry_controller.core.status.rule import PeerCounts, build_rule_status
from tests.oracle.kstatus_oracle import judge

ROOT = Path(__file__).resolve().parents[2]
REASONS = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
OF_RULES, OF_CLUSTERS = (
    set(
        re.findall(
            r"^\|[^|`]*`(\w+)` \|", REASONS.partition(f"## Of a {kind}'s conditions")[2].partition("\n## ")[0], re.M
        )
    )
    for kind in ("rule", "Cluster")
)
NOW = "2026-01-01T00:00:00Z"
B = ClusterUID("id-b")
CURRENT, IN_PROGRESS, FAILED = "Current", "InProgress", "Failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of validating a rule."""

    accepted: bool = True
    reason: str = "Accepted"
    message: str = ""
    warnings: Sequence[str] = ()


def counts(**fields: Any) -> PeerCounts:
    return PeerCounts(B, "b", **fields)


def rule(verdict: Verdict | None = None, **facts: Any) -> dict[str, Any]:
    """Write a rule with the status that the daemon computes of these facts."""
    status = build_rule_status(generation=2, verdict=verdict or Verdict(), **facts)
    return written("ResourceSyncRule", status)


def written(kind: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Write an object with a computed status, as the daemon stores it: with times, and without what is None."""
    conditions = [
        {"lastTransitionTime": NOW, **found} for found in status.get("conditions", ()) if found["status"] is not None
    ]
    kept = {name: value for name, value in status.items() if value is not None}
    return {
        "apiVersion": meta.API_VERSION,
        "kind": kind,
        "metadata": {"name": "one", "generation": 2},
        "status": {**kept, "conditions": conditions},
    }


SYNCED = counts(matched=1, synced=1)
REFUSED = ("InvalidSpec", "FieldsPruned", "UnknownFields", "NotAsWritten", "LaterFormat")
# (reasons of the conditions that the object shows, the object, what kstatus is to say; several where either will do)
RULES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Synced": (rule(peers=[SYNCED]), (CURRENT,)),
    "Idle": (rule(idle=["no member has the feature"]), (CURRENT,)),
    "Suspended": (rule(suspended=True), (IN_PROGRESS,)),
    **{
        reason: (rule(Verdict(accepted=False, reason=reason, message="spec.rules: is wrong")), (FAILED,))
        for reason in REFUSED
    },
    "Failing": (rule(peers=[counts(matched=1, failing=1)]), (IN_PROGRESS,)),
    "Conflict": (rule(peers=[counts(matched=1, conflicting=1)]), (IN_PROGRESS, FAILED)),
    "Waiting": (rule(peers=[counts(matched=1)]), (IN_PROGRESS,)),
    "held": (rule(peers=[counts(matched=1, synced=1, held=1)]), (IN_PROGRESS,)),
    "not read": (rule(peers=[counts(last_error="no answer")]), (IN_PROGRESS,)),
    "ActionNeeded": (rule(problems=["peer b: cannot watch secrets.v1: forbidden"]), (FAILED,)),
    "DeletionHalted": (rule(peers=[SYNCED], halted="60 copies would be deleted"), (FAILED,)),
    "halted by owner": (rule(peers=[SYNCED], halted_by_owner="Cluster b"), (FAILED,)),
    "HistoryRestored": (rule(peers=[SYNCED], restored="a source went back"), (CURRENT,)),
    **{
        reason: (rule(barred=(reason, "this cluster does not allow it")), (IN_PROGRESS, FAILED))
        for reason in ("LocalClusterUnclear", "NotAllowedHere", "ClosedHere")
    },
}


def shown_reasons(manifest: Mapping[str, Any]) -> set[str]:
    return {found["reason"] for found in manifest["status"]["conditions"]}


def test_every_reason_of_a_rules_conditions_is_judged() -> None:
    shown = {reason for manifest, _ in RULES.values() for reason in shown_reasons(manifest)}
    assert OF_RULES
    assert shown >= OF_RULES


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_current_only_when_everything_is_in_step(name: str) -> None:
    manifest, expected = RULES[name]
    assert judge([manifest])[0] in expected


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_was_edited_a_moment_ago_is_in_progress(name: str) -> None:
    manifest, _ = RULES[name]
    edited = manifest | {"metadata": {"name": "one", "generation": 3}}
    assert judge([edited]) == [IN_PROGRESS]


READ = {"connected": True, "known_there": (KnownCluster(B, "b", ready=True),), "metadata": {"version": "v1.36.3"}}


def peer_facts(**facts: Any) -> ClusterFacts:
    return ClusterFacts(is_local=False, generation=2, **{**READ, **facts})


CLUSTERS: dict[str, tuple[ClusterFacts, bool]] = {
    "a peer that is read": (ClusterFacts(is_local=False, generation=2, **READ), True),
    "the local Cluster": (ClusterFacts(is_local=True, generation=2, connected=True, metadata={"version": "v1"}), True),
    "a peer that has not answered yet": (ClusterFacts(is_local=False, generation=2), False),
    "a peer that does not answer": (ClusterFacts(is_local=False, generation=2, failure="no answer"), False),
    "a disabled one": (ClusterFacts(is_local=False, generation=2, disabled=True), False),
    "one without credentials": (ClusterFacts(is_local=False, generation=2, missing_auth=True), False),
    "one with wrong credentials": (ClusterFacts(is_local=False, generation=2, auth_problem="data: is missing"), False),
    "one in conflict": (ClusterFacts(is_local=False, generation=2, conflict="two servers have its ID"), False),
    "an alias": (ClusterFacts(is_local=False, generation=2, alias_of="b"), False),
    "a local one whose objects cannot be written": (
        ClusterFacts(is_local=True, generation=2, local_problem="forbidden"), False
    ),
    "a local one with a namesake": (ClusterFacts(is_local=True, generation=2, conflict="two have its ID"), False),
    "a peer that lacks one": (peer_facts(known_here=(KnownCluster(ClusterUID("id-c"), "c", ready=True),)), True),
    "one whose version is not known": (peer_facts(metadata=None, metadata_problem="forbidden"), False),
    "one that lacks rules": (peer_facts(missing_rules=RulesMissing(("greetings",), NOW), name="b"), True),
    "one without a Cluster of itself": (peer_facts(own_cluster=OwnCluster.MISSING, absence_s=600), True),
    "one without it for long": (peer_facts(own_cluster=OwnCluster.MISSING_FOR_LONG, absence_s=600), True),
    "one that is read with other credentials": (peer_facts(unused_auth="401"), True),
    "one with a later daemon": (peer_facts(later=("ResourceSyncRule greetings",)), True),
    "one whose copies' deletions are counted": (peer_facts(deletions={"hour": "3"}), True),
    "one whose copies' deletions are halted": (peer_facts(deletions={"haltedAt": NOW}, deletions_waiting=60), True),
}  # fmt: skip


def test_every_reason_of_a_clusters_conditions_is_judged() -> None:
    built = [written("Cluster", build_cluster_status(facts)) for facts, _ in CLUSTERS.values()]
    assert OF_CLUSTERS
    assert {reason for manifest in built for reason in shown_reasons(manifest)} >= OF_CLUSTERS


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_is_current_exactly_when_it_is_ready(name: str) -> None:
    facts, is_current = CLUSTERS[name]
    manifest = written("Cluster", build_cluster_status(facts))
    assert (manifest["status"].get("state") == State.READY.value) is is_current
    assert (judge([manifest]) == [CURRENT]) is is_current


def test_kstatus_is_asked_for_real() -> None:
    """An object without conditions is `Current` for kstatus, and one with `Ready=False` is not: so it was asked."""
    bare = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "metadata": {"name": "one"}}
    condition = {"type": "Ready", "status": "False", "reason": "No", "message": "", "lastTransitionTime": NOW}
    assert judge([bare, bare | {"status": {"conditions": [condition]}}]) == [CURRENT, IN_PROGRESS]
    with pytest.raises(ValueError, match="Kind"):
        judge([{}])
