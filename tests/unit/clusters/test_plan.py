"""The plan of the group as a table: Clusters, credentials and peers in, engagements and probes out. P1, P6, P11, A1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from registry_controller.api.cluster import Cluster
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.cache.members import MemberRecord, cluster_target, secret_target
from registry_controller.clusters.plan import (
    ClusterPlan,
    Engagement,
    PeerSnapshot,
    PlanInputs,
    RebuiltCluster,
    find_missing,
    plan_members,
)
from registry_controller.clusters.resolver import Resolution, ResolvedCluster
from tests.unit.clusters.builders import LOCAL, NAMESPACE, cluster, credentials, record, snapshot

B, C = ClusterUID("id-b"), ClusterUID("id-c")


def resolution(*resolved: ResolvedCluster) -> Resolution:
    """Sort resolved Clusters by their names."""
    return Resolution({found.cluster.name: found for found in resolved}, clone_probes={})


def read(name: str, server: str = "", **fields: Any) -> ResolvedCluster:
    """Build a Cluster that is read, with credentials for a server of its name."""
    return ResolvedCluster(cluster(name, **fields), credentials=credentials(server or name))


def unread(name: str, cluster_id: str = "", **reason: Any) -> ResolvedCluster:
    """Build a Cluster that is not read."""
    return ResolvedCluster(cluster(name, cluster_id=cluster_id), **reason)


def plan(
    *resolved: ResolvedCluster,
    peers: Mapping[ClusterUID, PeerSnapshot] | None = None,
    in_grace: Sequence[ClusterUID] = (),
) -> ClusterPlan:
    """Plan from resolved Clusters, engaged peers and peers in their grace period."""
    return plan_members(PlanInputs(NAMESPACE, resolution(*resolved), peers or {}, frozenset(in_grace)))


WAITING = unread("b", waiting=True)
FAILED = unread("b", auth_problem="broken")


@pytest.mark.parametrize(
    ("resolved", "is_engaged", "in_grace", "engaged", "retained"),
    [
        ([], False, [], {}, set()),
        ([read("b")], False, [], {B: Engagement("b", credentials("b"))}, set()),
        ([read("b")], True, [], {B: Engagement("b", credentials("b"))}, set()),
        ([read("other", cluster_id="id-b")], True, [], {B: Engagement("other", credentials("other"))}, set()),
        ([WAITING], False, [], {}, set()),
        ([WAITING], True, [], {}, {B}),
        ([FAILED], True, [], {}, set()),
        ([FAILED], True, [B], {}, {B}),
        ([], True, [B], {}, {B}),
        ([], True, [], {}, set()),
        ([], False, [B], {}, set()),
        ([unread("b", disabled=True)], True, [], {}, set()),
        ([unread("b", conflict="clones")], True, [], {}, set()),
        ([read("b"), unread("z", "id-b", alias_of="b")], True, [], {B: Engagement("b", credentials("b"))}, set()),
        ([unread("own", LOCAL)], False, [], {}, set()),
    ],
    ids=[
        "nothing",
        "a new peer is engaged",
        "an engaged peer stays engaged",
        "an engaged peer gets its new name and credentials",
        "a new peer waits until its Secret is listed",
        "an engaged peer stays while its Secret is not listed",
        "an engaged peer without usable credentials is disengaged",
        "an engaged peer stays during its grace period",
        "a deleted Cluster's peer stays during its grace period",
        "a deleted Cluster's peer is disengaged",
        "a grace period engages no peer",
        "a disabled peer is disengaged",
        "a clone is disengaged",
        "an alias engages no peer",
        "the local cluster is no peer",
    ],
)
def test_which_peers_are_engaged(
    resolved: list[ResolvedCluster],
    is_engaged: bool,
    in_grace: list[ClusterUID],
    engaged: Mapping[ClusterUID, Engagement],
    retained: set[ClusterUID],
) -> None:
    made = plan(*resolved, peers={B: snapshot("b")} if is_engaged else {}, in_grace=in_grace)
    assert (made.engaged, made.retained) == (engaged, retained)


@pytest.mark.parametrize(
    ("clusters", "namespaces"),
    [
        ([], ("registry",)),
        ([cluster("b")], ("registry",)),
        (
            [cluster("b", spec={"authInfo": {"secretRef": {"name": "b", "namespace": "a"}}})],
            ("a", "registry"),
        ),
        ([cluster("b", secret=None)], ("registry",)),
    ],
    ids=["always the daemon's own", "the same", "another one", "no Secret is named"],
)
def test_secrets_are_watched_in_the_namespaces_that_clusters_name(
    clusters: list[Cluster], namespaces: tuple[str, ...]
) -> None:
    """A disabled Cluster's too: its status says whether it has credentials."""
    made = plan(*(ResolvedCluster(found, disabled=True) for found in clusters))
    assert made.secret_namespaces == namespaces


def test_secrets_of_cluster_api_are_watched_where_a_cluster_names_one() -> None:
    named = cluster("b", spec={"authInfo": {"secretRef": {"name": "b-kubeconfig", "namespace": "a"}}})
    assert plan(ResolvedCluster(named)).cluster_api_namespaces == ("a",)
    assert plan(ResolvedCluster(cluster("b"))).cluster_api_namespaces == ()


def test_the_probes_for_clones_are_those_of_the_resolution() -> None:
    probes = {B: {"uid-b": credentials("b")}}
    made = plan_members(PlanInputs(NAMESPACE, Resolution({}, probes), {}))
    assert made.clone_probes == probes


OFFERED = record("b", cluster_id="id-new")


@pytest.mark.parametrize(
    ("offered", "old", "relay_is_alive", "found"),
    [
        (OFFERED, snapshot("b", is_alive=False), True, {RebuiltCluster("b", ClusterUID("id-new"), C)}),
        (OFFERED, snapshot("b"), True, set()),
        (OFFERED, None, True, set()),
        (OFFERED, snapshot("b", is_alive=False), False, set()),
        (record("b", cluster_id="id-new", secret=None), snapshot("b", is_alive=False), True, set()),
        (record("b"), snapshot("b", is_alive=False), True, set()),
        (record("b", cluster_id="id-c"), snapshot("b", is_alive=False), True, set()),
        (record("unknown", cluster_id="id-new"), snapshot("b", is_alive=False), True, set()),
    ],
    ids=[
        "another ID under the name of a silent peer",
        "the peer is alive",
        "the peer was never engaged",
        "the relay is silent",
        "without credentials",
        "the same ID",
        "an ID that is known here",
        "a name that is not known here",
    ],
)
def test_p11_which_offers_are_proven(
    offered: MemberRecord, old: PeerSnapshot | None, relay_is_alive: bool, found: set[RebuiltCluster]
) -> None:
    peers = {C: snapshot("c", offered, is_alive=relay_is_alive)} | ({B: old} if old is not None else {})
    assert plan(read("b"), read("c"), peers=peers).rebuilt_probes == found


def test_p11_what_a_disengaged_peer_offers_is_not_proven() -> None:
    peers = {C: snapshot("c", OFFERED), B: snapshot("b", is_alive=False)}
    assert plan(read("b"), unread("c", disabled=True), peers=peers).rebuilt_probes == frozenset()
    assert plan(unread("b", disabled=True), read("c"), peers=peers).rebuilt_probes == frozenset()


B_CLUSTER, B_SECRET = cluster_target("b"), secret_target(ObjectKey(NAMESPACE, "b"))


@pytest.mark.parametrize(
    ("resolved", "peer", "target"),
    [
        ([read("b")], snapshot("b"), None),
        ([WAITING], snapshot("b"), None),
        ([], snapshot("b"), B_CLUSTER),
        ([], snapshot("b", is_alive=False), None),
        ([read("b", cluster_id="id-other")], snapshot("b"), None),
        ([unread("b", disabled=True)], snapshot("b"), None),
        ([unread("b", conflict="clones")], snapshot("b"), None),
        ([FAILED], snapshot("b"), B_SECRET),
        ([FAILED], snapshot("b", record("b")), B_SECRET),
        ([FAILED], snapshot("b", record("b", secret="another")), B_CLUSTER),
        ([ResolvedCluster(cluster("b", secret=None), missing_auth=True)], snapshot("b"), B_CLUSTER),
        ([unread("a", "id-b", alias_of="b"), FAILED], snapshot("b"), B_SECRET),
    ],
    ids=[
        "a readable peer misses nothing",
        "a Secret that is not listed yet is not missing",
        "its Cluster is missing",
        "a silent peer restores nothing",
        "its name belongs to another cluster",
        "a disabled Cluster is meant",
        "a clone is not restored",
        "its Secret is broken",
        "its Secret is broken, and it names the same one",
        "its Cluster names another Secret",
        "its Cluster names no Secret",
        "an alias is skipped",
    ],
)
def test_a1_what_is_missing_for_reading_a_peer(
    resolved: list[ResolvedCluster], peer: PeerSnapshot, target: Target | None
) -> None:
    found = find_missing(resolution(*resolved).clusters, {B: peer})
    assert found == ({B: target} if target is not None else {})
