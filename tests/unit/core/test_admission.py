"""Which Clusters may be stored."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry_controller.core.admission import admit_cluster

OURS, THEIRS = "5b9e8f4e-0000-4000-8000-00000000000a", "5b9e8f4e-0000-4000-8000-00000000000b"


def cluster(name: str, cluster_id: str, kind: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterID": cluster_id}, "status": {"type": kind} if kind else {}}


LOCAL, PEER = cluster("a", OURS, "Local"), cluster("b", THEIRS, "Peer")
HERE = [PEER, LOCAL]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[Any], bool]] = {
    "another name for this cluster": (cluster("c", OURS), None, HERE, False),
    "another name that says Local": (cluster("c", OURS, "Local"), None, HERE, False),
    "another name that says Peer": (cluster("c", OURS, "Peer"), None, HERE, True),
    "the first one": (cluster("a", OURS), None, [PEER], True),
    "the local one itself": (LOCAL, LOCAL, HERE, True),
    "the local one, made again": (cluster("a", OURS), None, HERE, True),
    "another cluster": (cluster("c", "5b9e8f4e-0000-4000-8000-00000000000c"), None, HERE, True),
    "a second name for a peer": (cluster("c", THEIRS), None, HERE, True),
    "the ID of a local one that is disabled": (cluster("c", OURS), None, [cluster("a", OURS, "Peer")], True),
    "a change to our ID": (cluster("c", OURS), cluster("c", THEIRS), HERE, False),
    "a change of what is in conflict already": (cluster("c", OURS, "Local"), cluster("c", OURS, "Local"), HERE, True),
    "without an ID": (cluster("c", ""), None, [cluster("a", "", "Local")], True),
    "an object that makes no sense": ({"metadata": [], "spec": {"clusterID": OURS}}, None, HERE, True),
    "beside an object that makes no sense": (cluster("c", OURS), None, [{"spec": 1}, LOCAL], False),
}


@pytest.mark.parametrize(("new", "old", "here", "allowed"), CASES.values(), ids=CASES)
def test_only_a_second_name_for_this_cluster_is_refused(
    new: dict[str, Any], old: dict[str, Any] | None, here: list[Any], allowed: bool
) -> None:
    before = copy.deepcopy((new, old, here))
    answer = admit_cluster(new, old=old, here=here)
    assert answer.allowed is allowed
    assert (new, old, here) == before
    assert bool(answer.message) is not allowed


def test_a_refusal_says_who_stands_for_the_cluster_and_what_to_do() -> None:
    assert admit_cluster(cluster("c", OURS), old=None, here=HERE).message == (
        "Cluster c: spec.clusterID is the ID of this cluster, for which Cluster a stands already; "
        "give c the ID of the cluster that it is for, or delete a first"
    )
