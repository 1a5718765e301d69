"""P1, P8, P9, P10: what a Cluster's status says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api.meta import ClusterUID
from registry_controller.core.status.cluster import (
    CONDITIONS,
    METADATA_FIELDS,
    ClusterFacts,
    KnownCluster,
    OwnCluster,
    build_cluster_status,
    find_sync_problems,
)
from registry_controller.core.status.merge import merge_status

METADATA = {"provider": "kind", "version": "v1.32.0"}
A, B, C = (ClusterUID(letter) for letter in "abc")


def view(cluster_id: ClusterUID, name: str = "", *, ready: bool = True, compared: bool = True) -> KnownCluster:
    return KnownCluster(cluster_id, name or cluster_id, ready, compared)


def local(**changes: Any) -> ClusterFacts:
    return ClusterFacts(**{"is_local": True, "connected": True, "metadata": METADATA, **changes})


def peer(**changes: Any) -> ClusterFacts:
    obj = {
        "connected": True,
        "metadata": METADATA,
        "known_here": (view(A), view(B)),
        "known_there": (view(A), view(B)),
    }
    return ClusterFacts(**{"is_local": False, **obj, **changes})


def said(status: Mapping[str, Any], kind: str) -> tuple[Any, Any] | None:
    for condition in status["conditions"]:
        if condition["type"] == kind:
            return condition["status"], condition.get("reason")
    return None


def test_a_local_cluster_that_is_well() -> None:
    status = build_cluster_status(local(generation=3))
    assert (status["state"], status["type"], status["message"]) == ("Ready", "Local", None)
    assert said(status, "LocalCluster") == ("True", "ClusterIsLocal")
    assert said(status, "LocalConflict") == ("False", "LocalClusterIsNotConflicting")
    assert said(status, "ClusterMetadataSet") == ("True", "ClusterMetadataSet")
    assert said(status, "Ready") == ("True", "ClusterIsReady")
    assert said(status, "ClustersSynced") == (None, None)
    assert status["provider"] == "kind"
    assert status["locality"] is None
    assert all(condition.get("observedGeneration", 3) == 3 for condition in status["conditions"])


def test_a_peer_that_is_well() -> None:
    status = build_cluster_status(peer())
    assert (status["state"], status["type"]) == ("Ready", "Peer")
    assert said(status, "LocalCluster") == ("False", "ClusterIsNotLocal")
    assert said(status, "LocalConflict") == (None, None)
    assert said(status, "ClustersSynced") == ("True", "ClustersAreSynced")


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (peer(missing_auth=True, connected=False), "MissingAuthInfo"),
        (peer(auth_problem="data.kubeconfig: is missing", connected=False), "InvalidAuthInfo"),
        (peer(failure="unreachable", connected=False), "Failed"),
        (peer(failure="is cluster x", connected=False), "Failed"),
        (peer(conflict="two clusters have this ID"), "Failed"),
        (peer(alias_of="b", connected=False), "Failed"),
        (peer(metadata=None, metadata_problem="node n: spec.providerID: is wrong"), "Failed"),
        (local(conflict="Cluster other has the same clusterID"), "Failed"),
        (local(local_problem="cannot create secrets.v1"), "Failed"),
        (local(metadata=None, metadata_problem="cannot list nodes.v1"), "Failed"),
        (local(missing_auth=True), "Ready"),
        (peer(disabled=True, missing_auth=True), "Disabled"),
        (local(disabled=True, conflict="x"), "Disabled"),
    ],
)
def test_what_is_wrong_decides_the_state_and_is_said_in_words(facts: ClusterFacts, state: str) -> None:
    status = build_cluster_status(facts)
    assert status["state"] == state
    if state != "Ready":
        assert status["message"]
    if state not in ("Ready", "Disabled"):
        assert said(status, "Ready") == ("False", "ClusterIsNotReady")


def test_a_disabled_local_cluster_is_a_peer_without_conditions_or_metadata() -> None:
    before = merge_status({}, build_cluster_status(local()), now="2026-01-01T00:00:00Z")
    status = build_cluster_status(local(disabled=True), current=before)
    assert status["type"] == "Peer"
    assert all(status[field] is None for field in METADATA_FIELDS)
    patch = merge_status(before, status, now="2026-01-01T00:00:01Z")
    assert patch is not None
    assert [(one["type"], one["status"], one["reason"]) for one in patch["conditions"]] == [
        ("Ready", "False", "ClusterIsDisabled")
    ]


def test_a_conflict_of_peers_is_said_and_taken_away_when_it_is_over() -> None:
    status = build_cluster_status(peer(conflict="both names are genuine"))
    assert said(status, "LocalConflict") == ("True", "ClusterIsConflicting")
    before = merge_status({}, status, now="2026-01-01T00:00:00Z")
    after = merge_status(before, build_cluster_status(peer(), current=before), now="2026-01-01T00:00:01Z")
    assert after is not None
    assert "LocalConflict" not in {condition["type"] for condition in after["conditions"]}


def test_a_restart_before_the_first_answer_writes_nothing() -> None:
    before = merge_status({}, build_cluster_status(peer()), now="2026-01-01T00:00:00Z")
    unheard = ClusterFacts(is_local=False)
    assert merge_status(before, build_cluster_status(unheard, current=before), now="2026-01-01T00:00:09Z") is None
    half = ClusterFacts(is_local=False, connected=True)
    assert merge_status(before, build_cluster_status(half, current=before), now="2026-01-01T00:00:09Z") is None


def test_a_new_peer_that_was_not_heard_has_no_state_yet() -> None:
    status = build_cluster_status(ClusterFacts(is_local=False))
    assert (status["state"], status["type"]) == (None, "Peer")
    assert said(status, "Ready") == ("Unknown", "Connecting")


def test_an_unreachable_peer_keeps_what_was_known_of_it() -> None:
    before = merge_status({}, build_cluster_status(peer()), now="2026-01-01T00:00:00Z")
    down = ClusterFacts(is_local=False, failure="unreachable since 10:00")
    status = build_cluster_status(down, current=before)
    assert status["provider"] == "kind"
    assert said(status, "ClustersSynced") == ("False", "ClustersAreNotSynced")


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([view(A), view(B), view(C)], []),
        ([view(B), view(C)], ["does not know cluster a"]),
        ([view(A, "x"), view(B), view(C)], ["knows cluster a by the name x"]),
        ([view(A, "x"), view(A), view(B), view(C)], []),
        ([view(A, ready=False), view(B), view(C)], ["does not find cluster a Ready"]),
        ([view(A), view(B, ready=False), view(C)], ["does not find cluster b Ready"]),
        ([view(A), view(B), view(C), view(ClusterUID("d"))], []),
        ([], ["does not know cluster a", "does not know cluster b", "does not know cluster c"]),
    ],
)
def test_a_peer_is_synced_when_it_knows_and_finds_ready_what_we_do(
    there: list[KnownCluster], expected: list[str]
) -> None:
    assert list(find_sync_problems([view(C), view(A), view(B)], there=there)) == expected


def test_a_dead_cluster_makes_only_its_own_condition_false() -> None:
    here = (view(A), view(B), view(C, ready=False))
    there = (view(A), view(B), view(C, ready=False))
    assert said(build_cluster_status(peer(known_here=here, known_there=there)), "ClustersSynced") == (
        "True",
        "ClustersAreSynced",
    )
    dead = peer(connected=False, failure="unreachable", known_here=here, known_there=None)
    assert said(build_cluster_status(dead), "ClustersSynced") == ("False", "ClustersAreNotSynced")


def test_who_says_of_a_silent_cluster_that_it_has_left_is_named() -> None:
    """O6: so that nobody wonders why it goes in a day."""
    dead = peer(connected=False, failure="unreachable", reported_left_by=("a", "this cluster"))
    assert (
        build_cluster_status(dead)["message"] == "unreachable; it has left the group, as reported by a and this cluster"
    )


def test_aliases_and_disabled_clusters_are_not_compared() -> None:
    here = [view(A), view(B, "old-b", ready=False, compared=False), view(C, compared=False)]
    assert find_sync_problems(here, there=[view(A)]) == []


def test_unsynced_leaves_the_state_alone_and_joins_the_problems() -> None:
    status = build_cluster_status(peer(known_there=()))
    assert status["state"] == "Ready"
    (condition,) = [each for each in status["conditions"] if each["type"] == "ClustersSynced"]
    assert condition["message"] == "does not know cluster a; does not know cluster b"


def test_a_peer_whose_clusters_cannot_be_read_is_not_synced() -> None:
    status = build_cluster_status(peer(known_there=None, known_problem="cannot list clusters: forbidden"))
    assert said(status, "ClustersSynced") == ("False", "ClustersAreNotSynced")


def test_every_condition_is_one_of_ours() -> None:
    for facts in (local(), peer(), peer(conflict="x"), local(disabled=True), ClusterFacts(is_local=False)):
        assert {condition["type"] for condition in build_cluster_status(facts)["conditions"]} <= set(CONDITIONS)


def test_a_clone_that_is_disabled_is_still_in_conflict() -> None:
    status = build_cluster_status(peer(disabled=True, conflict="both names are genuine"))
    assert status["state"] == "Disabled"
    assert said(status, "LocalConflict") == ("True", "ClusterIsConflicting")
    assert said(status, "Ready") == ("False", "ClusterIsDisabled")


@pytest.mark.clause("O6")
@pytest.mark.parametrize(
    ("own_cluster", "absence_s", "reason", "words"),
    [
        (OwnCluster.MISSING, 600, "Missing", "after 600 s without one it has left the group"),
        (OwnCluster.MISSING, 0, "Missing", "it has no Cluster of itself"),
        (OwnCluster.ALL_MISSING, 600, "Missing", "does not count as having left"),
        (OwnCluster.MISSING_FOR_LONG, 600, "MissingForLong", "run `registry-controller leave NAME` here"),
        (OwnCluster.ALL_MISSING_FOR_LONG, 600, "MissingForLong", "run `registry-controller leave NAME` here"),
    ],
)
def test_a_peer_without_a_cluster_of_itself_is_named(
    own_cluster: OwnCluster, absence_s: int, reason: str, words: str
) -> None:
    status = build_cluster_status(peer(own_cluster=own_cluster, absence_s=absence_s))
    assert said(status, "OwnClusterMissing") == ("True", reason)
    message = next(one["message"] for one in status["conditions"] if one["type"] == "OwnClusterMissing")
    assert words in message


@pytest.mark.clause("P7")
def test_a_peer_that_is_read_over_another_way_is_ready_and_says_so() -> None:
    status = build_cluster_status(peer(unused_auth="Secret x is missing"))
    assert (status["state"], said(status, "AuthInfoNotUsed")) == ("Ready", ("True", "OtherCredentialsUsed"))
    message = next(one["message"] for one in status["conditions"] if one["type"] == "AuthInfoNotUsed")
    assert "Secret x is missing" in message
    assert said(build_cluster_status(peer(unused_auth="x", connected=False)), "AuthInfoNotUsed") == (None, None)


@pytest.mark.clause("A11")
def test_what_a_later_version_wrote_in_a_cluster_is_named_with_what_to_do() -> None:
    status = build_cluster_status(peer(later=["ClusterFeature left-x"]))
    assert said(status, "LaterFormat") == ("True", "UpgradeNeeded")
    message = next(one["message"] for one in status["conditions"] if one["type"] == "LaterFormat")
    assert "ClusterFeature left-x" in message
    assert message.endswith("upgrade the daemon here")
    assert said(build_cluster_status(peer(later=[])), "LaterFormat") == (None, None)
    unknown = build_cluster_status(peer(later=None))
    assert "LaterFormat" not in {condition["type"] for condition in unknown["conditions"]}


@pytest.mark.clause("O6")
def test_what_is_not_known_of_a_peers_own_cluster_stays_as_it_was() -> None:
    assert said(build_cluster_status(peer()), "OwnClusterMissing") == (None, None)
    unknown = build_cluster_status(peer(own_cluster=OwnCluster.UNKNOWN))
    assert "OwnClusterMissing" not in {condition["type"] for condition in unknown["conditions"]}


@pytest.mark.clause("S4")
def test_a_status_names_the_generation_that_it_is_about_where_that_is_wanted() -> None:
    assert build_cluster_status(peer(generation=3))["observedGeneration"] == 3
    assert build_cluster_status(peer(disabled=True, generation=3))["observedGeneration"] == 3
    assert "observedGeneration" not in build_cluster_status(peer())


@pytest.mark.clause("S4")
def test_a_restart_keeps_the_stored_readiness_until_the_peer_answers() -> None:
    stored = {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterIsReady"}]}
    status = build_cluster_status(ClusterFacts(is_local=False), current=stored)
    assert said(status, "Ready") is None
