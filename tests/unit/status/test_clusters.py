"""The status of Clusters: which facts the reporter collects from the caches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import deleted_rules_manifest
from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import CLUSTER, ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.deletion_limit import Window, window_of
from registry_controller.core.decision.missing_rules import MissingRules
from registry_controller.core.status.cluster import OwnCluster, read_deletions, read_rules_missing
from registry_controller.status.clusters import ClusterStatusReporter
from registry_controller.sync.owner_limits import OwnerDeletions
from tests.unit.status.engine_parts import (
    LOCAL,
    OTHER,
    PEER,
    FakeCache,
    FakeClusters,
    FakePeer,
    FakeSources,
    IgnoredSummary,
    RecordedStatuses,
    cluster,
    registry,
    resolved,
    stream,
)


class PeerCluster(NamedTuple):
    """A Cluster at a peer."""

    cluster_id: ClusterUID
    state: str = "Ready"
    disabled: bool = False


def report(
    held: Registry,
    clusters: FakeClusters,
    *,
    sources: FakeSources | None = None,
    pending: dict[ClusterUID, frozenset[ClusterUID]] | None = None,
    quota: str = "",
    missing: dict[ClusterUID, MissingRules] | None = None,
    halts: dict[ClusterUID, OwnerDeletions] | None = None,
    problem: str = "",
    keeps_generation: bool = True,
) -> RecordedStatuses:
    writer = RecordedStatuses()
    parts: dict[str, Any] = {
        "registry": held,
        "clusters": clusters,
        "sources": sources or FakeSources(),
        "tombstones": SimpleNamespace(now=SimpleNamespace(pending=pending or {})),
        "deletions": SimpleNamespace(missing=missing or {}),
        "absences": SimpleNamespace(report=lambda member: OwnCluster.PRESENT, lasts_s=600),
        "quota": SimpleNamespace(problem=lambda peer: quota),
        "owner_limits": SimpleNamespace(
            report=lambda owner, **_: (halts or {}).get(owner),
            nothing_waits=lambda owner: None,
        ),
        "is_settled": lambda: True,
        "keeps_generation": lambda: keeps_generation,
        "local": SimpleNamespace(problem=problem),
        "local_metadata": SimpleNamespace(metadata={"provider": "kind"}, problem=""),
        "writer": writer,
        "summary": IgnoredSummary(),
    }
    ClusterStatusReporter(**cast(Any, parts)).report()
    return writer


def test_the_local_cluster_is_ready_and_has_its_metadata() -> None:
    held = registry(clusters=[cluster("a", LOCAL)])
    status = report(held, FakeClusters(resolved("a", LOCAL))).wanted["a"]
    assert (status["state"], status["type"], status["provider"]) == ("Ready", "Local", "kind")


def test_a_problem_of_the_local_cluster_is_reported_on_its_cluster() -> None:
    held = registry(clusters=[cluster("a", LOCAL)])
    status = report(held, FakeClusters(resolved("a", LOCAL)), problem="cannot create secrets.v1").wanted["a"]
    assert (status["state"], status["message"]) == ("Failed", "cannot create secrets.v1")


def test_a_cluster_that_cannot_be_read_fails_with_the_path_of_its_field() -> None:
    broken = cluster()
    broken["spec"]["clusterID"] = 7
    status = report(registry(clusters=[broken]), FakeClusters()).wanted["b"]
    assert status["state"] == "Failed"
    assert status["message"].startswith("spec.clusterID: ")


def test_a_cluster_whose_secret_was_not_listed_yet_keeps_its_status() -> None:
    held = registry(clusters=[cluster()])
    assert report(held, FakeClusters(resolved(waiting=True))).wanted == {}


def test_a_connected_peer_is_ready_and_no_generation_is_written() -> None:
    writer = report(registry(clusters=[cluster()]), FakeClusters(resolved(), peers=[FakePeer()]))
    assert (writer.wanted["b"]["state"], writer.wanted["b"]["type"]) == ("Ready", "Peer")
    assert writer.generations == {"b": 0}


def test_a_peer_is_synced_when_it_has_the_clusters_that_are_here() -> None:
    held = registry(clusters=[cluster("a", LOCAL), cluster()])
    own = resolved("a", LOCAL)
    known = {"a": PeerCluster(LOCAL), "b": PeerCluster(PEER)}
    synced = report(held, FakeClusters(own, resolved(), peers=[FakePeer(clusters=known)]))
    assert synced.condition("b", "ClustersSynced")["status"] == "True"
    lacking = report(held, FakeClusters(own, resolved(), peers=[FakePeer(clusters={"b": PeerCluster(PEER)})]))
    condition = lacking.condition("b", "ClustersSynced")
    assert (condition["status"], condition["message"]) == ("False", "does not know cluster a")


def test_a_disabled_cluster_and_an_alias_are_not_compared() -> None:
    held = registry(clusters=[cluster(), cluster("c", OTHER)])
    peer = FakePeer(clusters={"b": PeerCluster(PEER)})
    for choice in (resolved("c", OTHER, disabled=True), resolved("c", OTHER, alias_of="x")):
        writer = report(held, FakeClusters(resolved(), choice, peers=[peer]))
        assert writer.condition("b", "ClustersSynced")["status"] == "True"


def test_an_alias_is_not_read_by_its_own_name() -> None:
    held = registry(clusters=[cluster("alias")])
    status = report(held, FakeClusters(resolved("alias", alias_of="b"), peers=[FakePeer()])).wanted["alias"]
    assert status["state"] == "Failed"
    assert "cluster b, which is read instead" in status["message"]


def test_a_peer_without_credentials_reports_why() -> None:
    held = registry(clusters=[cluster()])
    choice = resolved(credentials=None, auth_problem="the Secret is missing")
    status = report(held, FakeClusters(choice, peers=[FakePeer()])).wanted["b"]
    assert (status["state"], status["message"]) == ("InvalidAuthInfo", "the Secret is missing")


def test_clusters_that_a_peer_does_not_let_list_are_a_problem() -> None:
    held = registry(clusters=[cluster()])
    error = Forbidden("list clusters: 403 Forbidden", status=403)
    sources = FakeSources(FakeCache(CLUSTER, streams=[stream(error=error)]))
    writer = report(held, FakeClusters(resolved(), peers=[FakePeer()]), sources=sources)
    condition = writer.condition("b", "ClustersSynced")
    assert (condition["status"], condition["message"]) == ("False", f"its Clusters cannot be listed: {error}")


def test_clusters_beyond_the_quota_are_a_problem() -> None:
    held = registry(clusters=[cluster()])
    writer = report(held, FakeClusters(resolved(), peers=[FakePeer()]), quota="too many")
    assert writer.condition("b", "ClustersSynced")["message"] == "too many"


def test_members_that_report_a_silent_peer_as_left_or_rebuilt_are_named() -> None:
    held = registry(clusters=[cluster()])
    silent = FakePeer(connected=False, alive=False, failure="no answer")
    clusters = FakeClusters(resolved(), peers=[silent, FakePeer(OTHER, "c")])
    clusters.rebuilt_by = frozenset((OTHER,))
    message = report(held, clusters, pending={PEER: frozenset((LOCAL, OTHER))}).wanted["b"]["message"]
    assert message.startswith("no answer; ")
    assert "reported by c and this cluster" in message
    assert message.endswith("reported by c")


@pytest.mark.clause("W4")
def test_the_limit_of_an_owner_is_stored_in_its_cluster_and_says_what_lifts_its_halt() -> None:
    held, peers = registry(clusters=[cluster()]), FakeClusters(resolved(), peers=[FakePeer()])
    window = Window("2026-01-02T03:00:00Z", 100, 60, "2026-01-02T03:04:05Z", counted=40, percent=50)
    found = report(held, peers, halts={PEER: OwnerDeletions(window, 7)}).condition("b", "DeletionHalted")
    assert (found["status"], found["reason"]) == ("True", "TooManyDeletions")
    assert found["message"].startswith("7 copies ")
    assert "clusters.clusterregistry.k8s.cisco.com b " in found["message"]
    assert "allow-deletions=2026-01-02T03:04:05Z;" in found["message"]
    assert window_of(read_deletions({"conditions": [{"type": "Ready"}, found]})) == window
    counts = replace(window, halted_at="")
    found = report(held, peers, halts={PEER: OwnerDeletions(counts, 0)}).condition("b", "DeletionHalted")
    assert (found["status"], found["reason"]) == ("False", "Counting")
    assert window_of(read_deletions({"conditions": [found]})) == counts
    assert report(held, peers).condition("b", "DeletionHalted")["status"] is None
    assert window_of(read_deletions({"conditions": [{**found, "message": "by somebody"}]})) is None


def test_w3_rules_that_are_missing_without_a_trace_are_named_with_what_lets_their_copies_go() -> None:
    held = registry(clusters=[cluster()])
    missing = MissingRules(dict.fromkeys("ba", "2026-01-02T03:04:05Z"))
    writer = report(held, FakeClusters(resolved(), peers=[FakePeer()]), missing={PEER: missing})
    found = writer.condition("b", "RulesMissing")
    assert (found["status"], found["reason"]) == ("True", "RulesMissing")
    assert "ResourceSyncRules a, b are missing in this cluster" in found["message"]
    assert found["message"].endswith("allow-deletions=2026-01-02T03:04:05Z")
    assert read_rules_missing({"conditions": [found]}).since == missing.since
    assert not read_rules_missing({"conditions": [{**found, "status": "False"}]}).since
    assert not read_rules_missing({"conditions": [1, {"type": "RulesMissing", "message": 1}]}).since
    assert not read_rules_missing(None).since


def test_w3_rules_whose_copies_may_go_are_named_apart() -> None:
    earlier, later = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
    missing = MissingRules({"b": earlier, "a": later}, earlier)
    held = registry(clusters=[cluster()])
    writer = report(held, FakeClusters(resolved(), peers=[FakePeer()]), missing={PEER: missing})
    found = writer.condition("b", "RulesMissing")
    assert "copies of ResourceSyncRules b, missing in this cluster, may go" in found["message"]
    assert "ResourceSyncRules a are missing in this cluster" in found["message"]
    assert found["message"].endswith(f"allow-deletions={later}")
    assert read_rules_missing({"conditions": [found]}) == (["a"], later, ["b"], earlier)


@pytest.mark.clause("A11")
def test_what_a_later_version_wrote_is_told_of_the_cluster_that_has_it() -> None:
    own = cluster("a", LOCAL)
    own["metadata"]["annotations"] = {meta.DAEMON: '{"format":2}'}
    held = registry(clusters=[own, cluster()])
    held.apply("clusterfeatures", None, deleted_rules(2))
    peer = FakePeer(later=["left-x", "left-y"])
    writer = report(held, FakeClusters(resolved("a", LOCAL), resolved(), peers=[peer]))
    assert (
        "ClusterFeature left-x; ClusterFeature left-y; the daemon here"
        in writer.condition("b", "LaterFormat")["message"]
    )
    words = f"the annotation {meta.DAEMON} of Cluster a; ClusterFeature {names.DELETED_RULES_OBJECT}; the daemon here"
    assert words in writer.condition("a", "LaterFormat")["message"]
    own["metadata"]["annotations"] = {}
    held = registry(clusters=[own, cluster()])
    held.apply("clusterfeatures", None, deleted_rules(1))
    writer = report(held, FakeClusters(resolved("a", LOCAL), resolved(), peers=[FakePeer()]))
    assert [writer.condition(name, "LaterFormat")["status"] for name in "ab"] == [None, None]


def deleted_rules(number: int) -> meta.Manifest:
    manifest = deleted_rules_manifest([])
    manifest["metadata"]["annotations"][meta.DELETED_RULES] = f'{{"format":{number},"rules":[]}}'
    return manifest
