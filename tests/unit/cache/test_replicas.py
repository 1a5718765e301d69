"""A7: which of several daemons speaks of an object."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.errors import ApiError
from registry_controller.api.meta import ObjectKey
from registry_controller.cache.replicas import VERSION_LABEL, Replicas, chosen
from registry_controller.kube.object import PartialObject, decode_object

_pods = st.sets(st.text("abc-123", min_size=1, max_size=8), min_size=1, max_size=5)


@given(_pods, st.text(max_size=10))
def test_everyone_names_the_same_one(pods: set[str], subject: str) -> None:
    assert chosen(sorted(pods), subject) == chosen(sorted(pods, reverse=True), subject) in pods


@given(_pods, st.text(max_size=10))
def test_only_what_is_its_own_moves_when_one_goes(pods: set[str], subject: str) -> None:
    speaker = chosen(pods, subject)
    for gone in pods - {speaker}:
        assert chosen(pods - {gone}, subject) == speaker


def test_each_has_a_share() -> None:
    shares = Counter(chosen({"a", "b", "c"}, f"clusters/{number}") for number in range(300))
    assert min(shares[name] for name in "abc") > 60


class World:
    def __init__(self, own: str = "one", *, watches_pods: bool = False) -> None:
        self.changes = 0
        self.replicas = Replicas(own=own, changed=self._changed, watches_pods=watches_pods)

    def _changed(self) -> None:
        self.changes += 1

    def spoken_of(self) -> list[bool]:
        return [self.replicas.writes_status_of(meta.CLUSTERS, f"c{number}") for number in range(50)]


def _pod(name: str, *, ready: str = "True", deleting: bool = False) -> PartialObject:
    info = {"name": name, "namespace": "here", "uid": name, "resourceVersion": "5"}
    if deleting:
        info["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pod = {"metadata": info, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    return decode_object(json.dumps(pod).encode())


def test_who_is_alone_or_does_not_know_the_others_speaks_of_everything() -> None:
    world = World()
    assert all(world.spoken_of())
    world.replicas.on_object(_pod("one"))
    world.replicas.on_object(_pod("two"))
    assert all(world.spoken_of()), "the list is not complete"
    world.replicas.on_synced(5)
    assert not all(world.spoken_of())
    world.replicas.on_error(ApiError("no right"))
    assert all(world.spoken_of())
    world.replicas.on_recovered()
    assert not all(world.spoken_of())


def _limited(name: str, limit: str, *, phase: str = "Running") -> PartialObject:
    info = {
        "name": name,
        "namespace": "here",
        "uid": name,
        "resourceVersion": "5",
        "annotations": {meta.DELETION_LIMIT_PERCENT: limit},
    }
    return decode_object(json.dumps({"metadata": info, "status": {"phase": phase}}).encode())


@pytest.mark.clause("W4")
@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (50, [], 50),
        (50, ["100"], 50),
        (50, ["20", "30"], 20),
        (0, ["0"], 0),
        (0, ["40"], 40),
        (50, ["0"], 50),
        (50, ["-1", "101", "1e1", "\u0663", "", "7 "], 50),
    ],
)
def test_the_lowest_limit_of_all_replicas_holds(own: int, others: list[str], expected: int) -> None:
    replicas = World("one").replicas
    replicas.on_object(_limited("one", "1"))  # of this Pod the setting counts
    for number, limit in enumerate(others):
        replicas.on_object(_limited(f"other-{number}", limit))
    assert replicas.lowest_limit(own) == expected


@pytest.mark.clause("W4")
def test_the_limit_of_a_pod_that_has_ended_or_is_gone_does_not_hold() -> None:
    replicas = World("one").replicas
    for phase in ("Failed", "Succeeded"):
        replicas.on_object(_limited("two", "20"))
        assert replicas.lowest_limit(50) == 20
        replicas.on_object(_limited("two", "20", phase=phase))
        assert replicas.lowest_limit(50) == 50
    replicas.on_object(_limited("two", "20"))
    replicas.on_delete(ObjectKey("here", "two"), None)
    assert replicas.lowest_limit(50) == 50


def test_two_share_and_take_over_what_the_other_leaves() -> None:
    one, two = World("one"), World("two")
    for world in (one, two):
        for name in ("one", "two"):
            world.replicas.on_object(_pod(name))
        world.replicas.on_synced(5)
    assert [left != right for left, right in zip(one.spoken_of(), two.spoken_of(), strict=True)] == [True] * 50
    for gone in (_pod("two", ready="False"), _pod("two", deleting=True)):
        before = one.changes
        one.replicas.on_object(gone)
        assert all(one.spoken_of())
        assert one.changes == before + 1
        one.replicas.on_object(_pod("two"))
        assert not all(one.spoken_of())
    one.replicas.on_delete(ObjectKey("here", "two"), None)
    assert all(one.spoken_of())


def test_who_is_not_ready_leaves_it_to_those_who_are() -> None:
    world = World("one")
    for name, ready in (("one", "False"), ("two", "True")):
        world.replicas.on_object(_pod(name, ready=ready))
    world.replicas.on_synced(5)
    assert not any(world.spoken_of())


def test_nothing_new_of_a_pod_is_no_change() -> None:
    world = World()
    world.replicas.on_object(_pod("one"))
    world.replicas.on_object(_pod("one"))
    world.replicas.on_delete(ObjectKey("here", "three"), None)
    assert world.changes == 1


def _pod_of(name: str, version: str, *, ready: str = "True") -> PartialObject:
    info = {"name": name, "namespace": "here", "uid": name, "resourceVersion": "5"}
    info_labels = {"labels": {VERSION_LABEL: version}} if version else {}
    pod = {"metadata": {**info, **info_labels}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    return decode_object(json.dumps(pod).encode())


@pytest.mark.parametrize(
    ("own", "other", "writes"),
    [
        ("0.2.0", "0.10.0", False),
        ("0.10.0", "0.2.0", True),
        ("v1.0.0", "1.0.0-rc1", True),
        ("1.0.0-rc1", "v1.0.0", False),
        ("1.0.0", "", True),
        ("", "1.0.0", False),
        ("1.0.0", "latest", True),
    ],
)
def test_the_newest_ready_replica_writes_the_version(own: str, other: str, writes: bool) -> None:
    replicas = World().replicas
    replicas.on_synced(5)
    assert replicas.writes_version("1.0.0", "1.0.0")
    replicas.on_object(_pod_of("one", own))
    replicas.on_object(_pod_of("two", other))
    assert replicas.writes_version("1.0.0", "1.0.0") is writes
    replicas.on_object(_pod_of("two", other, ready="False"))
    assert replicas.writes_version("1.0.0", "1.0.0")


@pytest.mark.parametrize(
    ("own", "over", "writes"),
    [("2.0.0", "1.0.0", True), ("1.0.0", "2.0.0", False), ("1.0.0", "1.0.0", False), ("1.0.0", "", True)],
)
def test_a_replica_that_does_not_know_the_pods_writes_over_an_earlier_version_only(
    own: str, over: str, writes: bool
) -> None:
    """A11: a later one may be ready, and would write its own again."""
    world = World(watches_pods=True)
    world.replicas.on_object(_pod_of("one", own))
    assert world.replicas.writes_version(own, over) is writes
    world.replicas.on_synced(5)
    assert world.replicas.writes_version(own, over)
    world.replicas.on_error(ApiError("403"))
    assert world.replicas.writes_version(own, over) is writes
    assert world.changes == 3


def test_of_equal_versions_one_replica_writes_it() -> None:
    writers = 0
    for own in ("one", "two", "three"):
        replicas = World(own).replicas
        replicas.on_synced(5)
        for name in ("one", "two", "three"):
            replicas.on_object(_pod_of(name, "1.0.0"))
        writers += replicas.writes_version("1.0.0", "1.0.0")
    assert writers == 1


def test_a_replica_that_is_not_ready_leaves_the_version_to_the_others() -> None:
    replicas = World().replicas
    replicas.on_synced(5)
    replicas.on_object(_pod_of("one", "2.0.0", ready="False"))
    replicas.on_object(_pod_of("two", "1.0.0"))
    assert not replicas.writes_version("1.0.0", "1.0.0")
