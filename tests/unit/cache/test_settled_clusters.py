"""Tests of which Cluster of a member counts."""

from __future__ import annotations

from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.settled_clusters import SettledClusters

MEMBER = ClusterUID("a")


def cluster(name: str, **spec: str) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def test_another_name_counts_once_it_was_the_only_one_for_the_window() -> None:
    now_s = 0.0
    held = SettledClusters(window_s=30.0, now_s=lambda: now_s)
    assert held.settle(MEMBER, None) is None
    assert held.settle(MEMBER, cluster("one")) == cluster("one")
    assert held.due_s is None
    now_s = 10.0
    assert held.settle(MEMBER, cluster("two")) == cluster("one")
    assert held.due_s == 40.0
    now_s = 20.0
    assert held.settle(MEMBER, None) == cluster("one")  # both are here, or none
    assert held.settle(MEMBER, cluster("two")) == cluster("one")
    assert held.due_s == 50.0
    now_s = 50.0
    assert held.settle(MEMBER, cluster("two")) == cluster("two")
    assert held.get(MEMBER) == cluster("two")


def test_another_state_of_the_one_that_counts_counts_at_once() -> None:
    held = SettledClusters(window_s=30.0, now_s=lambda: 0.0)
    held.settle(MEMBER, cluster("one"))
    assert held.settle(MEMBER, cluster("one", a="b")) == cluster("one", a="b")


def test_the_oldest_member_is_forgotten_where_too_many_are_held() -> None:
    held = SettledClusters(window_s=30.0, now_s=lambda: 0.0, most=1)
    held.settle(MEMBER, cluster("one"))
    held.settle(ClusterUID("b"), cluster("two"))
    assert held.get(MEMBER) is None
    assert held.get(ClusterUID("b")) == cluster("two")


def test_a_moment_that_is_past_is_not_waited_for_again() -> None:
    """The member may have no connection then, and nobody asks for its Cluster: plans would follow without a pause."""
    now_s = 0.0
    held = SettledClusters(window_s=30.0, now_s=lambda: now_s)
    held.settle(MEMBER, cluster("one"))
    held.settle(MEMBER, cluster("two"))
    assert held.due_s == 30.0
    now_s = 30.0
    assert held.due_s is None
    assert held.settle(MEMBER, cluster("two")) == cluster("two")
