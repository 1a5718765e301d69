"""Members that were proven to have left, and the copies that are removed before their Cluster. O6."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.members import cluster_target
from registry_controller.core.decision.decision import Apply, Hold, Reason, Skip
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.state import MembershipState
from registry_controller.membership.departures import Departures

B, C = ClusterUID("id-b"), ClusterUID("id-c")
MAP, NAMESPACES = GVK("", "v1", "ConfigMap"), GVK("", "v1", "Namespace")
COPY = Target("", "ConfigMap", "default", "one")


class Observer:
    """Records the effects."""

    def __init__(self) -> None:
        self.departures: list[ClusterUID] = []
        self.due: list[tuple[Target, str]] = []

    def on_departure(self, member: ClusterUID) -> None:
        self.departures.append(member)

    def on_cluster_due(self, target: Target, flow: str) -> None:
        self.due.append((target, flow))


class Cache:
    """The copies of one kind here."""

    def __init__(self, kind: GVK, records: dict[ObjectKey, Any]) -> None:
        self.kind, self.records = kind, records

    def find(self, is_wanted: Any) -> list[ObjectKey]:
        return [key for key, record in self.records.items() if is_wanted(SimpleNamespace(owner=record.marks.owner))]

    def target(self, key: ObjectKey) -> Target:
        return Target(self.kind.group, self.kind.kind, *key)


def copy(owner: ClusterUID | None = B, *, frozen: bool = False, deleting: bool = False, natural: Any = None) -> Any:
    marks = Marks(owner, None, sync_disabled=frozen, go_written=False)
    return SimpleNamespace(marks=marks, deleting=deleting, kind_type="", natural=natural)


def make(
    *caches: Cache,
    presence: dict[ClusterUID, bool] | None = None,
    deletes: bool = True,
    is_barred: bool = False,
) -> tuple[Departures, Observer]:
    by_kind = {(cache.kind.group, cache.kind.kind): cache for cache in caches}
    copies: Any = SimpleNamespace(all_caches=lambda: caches, cache_of=lambda group, kind: by_kind.get((group, kind)))
    barrier = "closed" if is_barred else None
    states: Any = SimpleNamespace(
        deletes_unwanted=lambda provenance: deletes, barrier=lambda target, provenance, secret_type: barrier
    )
    observer = Observer()
    absences: Any = SimpleNamespace(is_present=(presence or {}).get)
    return Departures(copies=copies, absences=absences, rule_states=states, observer=observer), observer


ONE = ObjectKey("default", "one")


@pytest.mark.parametrize(
    ("cache", "options", "is_behind"),
    [
        (Cache(MAP, {ONE: copy()}), {}, True),
        (Cache(MAP, {ONE: copy(C)}), {}, False),
        (Cache(MAP, {ONE: copy(None)}), {}, False),
        (Cache(MAP, {ONE: copy(frozen=True)}), {}, False),
        (Cache(MAP, {ONE: copy(deleting=True)}), {}, False),
        (Cache(MAP, {ONE: copy()}), {"deletes": False}, False),
        (Cache(MAP, {ONE: copy()}), {"is_barred": True}, False),
        (Cache(NAMESPACES, {ObjectKey("", "one"): copy()}), {}, False),
        (Cache(meta.CLUSTER, {ObjectKey("", "b"): copy()}), {}, False),
    ],
    ids=[
        "a copy of the member",
        "a copy of another member",
        "a native object",
        "frozen",
        "being deleted already",
        "its rule keeps it",
        "its rule may not change it",
        "a container goes once it is empty, and needs no Cluster for that",
        "the Cluster itself goes last",
    ],
)
def test_o6_which_copies_are_removed_before_the_cluster(
    cache: Cache, options: dict[str, bool], is_behind: bool
) -> None:
    made, _ = make(cache, **options)
    assert made.leaves_behind(B) == is_behind


def test_o6_the_cluster_is_due_when_the_copy_that_it_waits_for_has_changed() -> None:
    clusters = Cache(meta.CLUSTER, {ObjectKey("", "b"): copy(C, natural=B), ObjectKey("", "c"): copy(C, natural=C)})
    made, observer = make(Cache(MAP, {ONE: copy()}), clusters)
    made.on_copy_changed(COPY)
    assert observer.due == []  # no Cluster waits
    assert made.leaves_behind(B)
    made.on_copy_changed(COPY._replace(name="other"))
    assert observer.due == []
    made.on_copy_changed(COPY)
    assert observer.due == [(cluster_target("b"), C)]
    made.on_copy_changed(COPY)
    assert len(observer.due) == 1  # until the next question


def state(
    *, revision: int | None = 7, gone: frozenset[ClusterUID] = frozenset(), natural: ClusterUID | None = B
) -> Any:
    """Build the facts on b's Cluster; without a revision it is not here."""
    current = None if revision is None else SimpleNamespace(marks=SimpleNamespace(revision=revision), natural=natural)
    return SimpleNamespace(current=current, membership=MembershipState(gone=gone))


LEAVES, LEFT = Hold(Reason.OWNER_LEAVES, B), Skip(Reason.OWNER_LEFT, B)


def test_o6_a_proven_departure_is_recorded_with_the_revision_of_the_cluster_and_reported_once() -> None:
    made, observer = make()
    made.record_decision(LEAVES, state())
    assert (made.left, observer.departures) == ({B: 7}, [B])
    made.record_decision(LEAVES, state(revision=5))
    assert (made.left, observer.departures) == ({B: 7}, [B])
    made.record_decision(LEFT, state(revision=9))
    assert (made.left, observer.departures) == ({B: 9}, [B])


def test_o6_a_tombstone_alone_is_no_proof() -> None:
    made, observer = make()
    made.record_decision(LEAVES, state(gone=frozenset({B})))
    made.record_decision(LEFT, state())
    assert (made.left, observer.departures) == ({}, [])


@pytest.mark.parametrize(
    ("decision", "presence", "current", "is_back"),
    [
        (Apply(SimpleNamespace(owner=B), Reason.CREATE), {}, state(revision=None), True),  # type: ignore[arg-type]
        (Skip(Reason.IN_SYNC, B), {B: True}, state(), True),
        (Skip(Reason.IN_SYNC, B), {B: False}, state(), False),
        (Skip(Reason.IN_SYNC, B), {}, state(), False),
        (Skip(Reason.HAND_CARRIED), {}, state(natural=None), False),
    ],
    ids=["its Cluster is written", "it has a Cluster again", "it has none", "it is not engaged", "of no member"],
)
def test_o6_a_member_is_back_once_that_is_proven(
    decision: Any, presence: dict[ClusterUID, bool], current: Any, is_back: bool
) -> None:
    made, observer = make(presence=presence)
    made.record_decision(LEAVES, state())
    made.record_decision(decision, current)
    assert (B not in made.left) == is_back
    assert observer.departures == ([B, B] if is_back else [B])
