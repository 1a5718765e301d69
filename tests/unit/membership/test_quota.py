"""The number of Clusters that are copied here. O4."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.cache.members import Members, cluster_target, secret_target
from registry_controller.membership import quota
from registry_controller.membership.quota import MemberQuota
from tests.unit.clusters.builders import NAMESPACE, cluster, record

C, D = ClusterUID("id-c"), ClusterUID("id-d")


class Stage:
    """A quota over the Clusters here (`here`, by name with their IDs) and those that peers hold."""

    def __init__(self, **here: str) -> None:
        self.here = {ObjectKey("", name): SimpleNamespace(natural=ClusterUID(found)) for name, found in here.items()}
        self.added: list[Target] = []
        self.members = Members(on_change=lambda target: None)
        cache = SimpleNamespace(records=self.here)
        copies: Any = SimpleNamespace(cache_of=lambda group, kind: cache)
        self.quota = MemberQuota(copies=copies, members=self.members, add=self.added.append)

    def offer(self, *names: str, cluster_id: str = "", peer: ClusterUID = C) -> None:
        for name in names:
            self.members.set_there(peer, name, record(name, cluster_id=cluster_id))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "MOST_OF_ONE", 2)
    monkeypatch.setattr(quota, "MOST_CLUSTERS", 4)


def test_o4_of_one_id_the_first_names_are_copied() -> None:
    stage = Stage()
    stage.offer("z", "a", "m", cluster_id="id-b")
    assert [stage.quota.has_room_for(C, name) for name in "amz"] == [True, True, False]
    assert stage.quota.problem(C) == (
        "1 of the Clusters that it holds are not copied here: no more than 2 of one ID; delete the unneeded ones"
    )


def test_o4_clusters_here_count_and_stay() -> None:
    stage = Stage(x="id-b", y="id-b", z="id-b")
    stage.offer("a", "x", cluster_id="id-b")
    assert [stage.quota.has_room_for(C, name) for name in "ax"] == [False, True]


def test_o4_there_is_a_limit_for_all_clusters_together() -> None:
    stage = Stage(x="id-x", y="id-y", z="id-z")
    stage.offer("a", "b")
    assert [stage.quota.has_room_for(C, name) for name in "ab"] == [True, False]
    assert "1 of the Clusters that it holds are not copied here: no more than 4 in all" in stage.quota.problem(C)


def test_o4_each_peer_has_the_whole_room() -> None:
    """Where several offer the same Clusters, the first write decides."""
    stage = Stage(x="id-x", y="id-y", z="id-z")
    stage.offer("a")
    stage.offer("b", peer=D)
    assert stage.quota.has_room_for(C, "a")
    assert stage.quota.has_room_for(D, "b")
    assert stage.quota.problem(C) == ""


def test_o4_a_secret_has_room_with_its_cluster() -> None:
    stage = Stage()
    stage.offer("a", "b", "c", cluster_id="id-b")
    keys = [ObjectKey(NAMESPACE, name) for name in "abc"]
    assert [stage.quota.has_room_for_secret(C, key) for key in keys] == [True, True, False]
    assert stage.quota.has_room_for_secret(C, ObjectKey(NAMESPACE, "of no Cluster"))
    stage.members.set_here("c", cluster("c"))
    assert stage.quota.has_room_for_secret(C, keys[2])


def test_o4_clusters_and_secrets_are_enqueued_once_there_is_room() -> None:
    stage = Stage(x="id-b", y="id-b")
    stage.offer("a", cluster_id="id-b")
    stage.quota.update()
    assert (stage.quota.has_surplus, stage.added) == (True, [])
    del stage.here[ObjectKey("", "x")]
    stage.quota.update()
    assert stage.added == [cluster_target("a"), secret_target(ObjectKey(NAMESPACE, "a"))]
    assert not stage.quota.has_surplus
    stage.quota.update()
    assert len(stage.added) == 2


def test_o4_a_cluster_that_is_no_longer_offered_is_not_enqueued() -> None:
    stage = Stage(x="id-b", y="id-b")
    stage.offer("a", cluster_id="id-b")
    stage.quota.update()
    stage.members.drop_peer(C)
    stage.quota.update()
    assert stage.added == []
