"""Members without a Cluster of themselves: what is heard, for how long, and what outlives a restart. O6."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.errors import NotServed, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.core.decision.absence import OwnClusterFacts, lasts_from_s, observe_absence
from registry_controller.core.status.cluster import OwnCluster
from registry_controller.membership.absences import Absences
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import cluster_manifest, record, registry

B = ClusterUID("id-b")
NOW = datetime(2026, 5, 1, tzinfo=UTC)
MISSING = {"type": "OwnClusterMissing", "status": "True"}


class Stage:
    """The absences, and the peer b that they observe."""

    def __init__(self, *, since: datetime | None = None, lasts_s: int = 600, time_there: datetime | None = NOW) -> None:
        self.changed: list[ClusterUID] = []
        condition = {**MISSING, "lastTransitionTime": since.isoformat().replace("+00:00", "Z")} if since else None
        status = {"status": {"conditions": [condition]}} if condition else {}
        self.stream = SimpleNamespace(error=None)
        self.peers: dict[ClusterUID, Any] = {}
        self.time_there = time_there
        self.set_peer(record("c"))
        sources: Any = SimpleNamespace(cache_of=lambda peer, kind: SimpleNamespace(streams={EVERYTHING: self.stream}))
        self.absences = Absences(
            lasts_s=lasts_s,
            window_s=30.0,
            registry=registry(cluster_manifest("b", **status)),
            sources=sources,
            peers=self.peers,
            now=lambda: NOW,
            observer=self,
        )

    def on_member_changed(self, member: ClusterUID) -> None:
        self.changed.append(member)

    def set_peer(self, *held: Any, is_alive: bool = True, is_connected: bool = True, is_current: bool = True) -> None:
        found = {one.name: one for one in held}
        clusters = SimpleNamespace(held=found, is_current=is_current)
        self.peers[B] = SimpleNamespace(
            is_alive=is_alive, is_connected=is_connected, clusters=clusters, time_there=self.time_there
        )

    async def after(self, duration_s: float) -> bool:
        await asyncio.sleep(duration_s)
        self.absences.update()
        return self.absences.has_left(B)


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(scenario)


@pytest.mark.clause("O6")
def test_an_absence_that_lasts_is_a_departure_and_is_reported_once() -> None:
    async def main() -> None:
        stage = Stage()
        assert not await stage.after(0.0)
        assert stage.absences.due_s == 600.0
        assert stage.absences.report(B) is OwnCluster.MISSING
        assert not await stage.after(599.0)
        assert await stage.after(1.0)
        assert stage.absences.report(B) is OwnCluster.MISSING_FOR_LONG
        assert stage.absences.lasting() == {B}
        assert stage.absences.due_s is None
        assert await stage.after(100.0)
        assert stage.changed == [B]
        stage.set_peer(record("b"))
        assert not stage.absences.has_left(B)  # at once
        assert not await stage.after(0.0)
        assert stage.changed == [B, B]
        assert stage.absences.report(B) is OwnCluster.PRESENT

    play(main)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("there", [NOW - timedelta(days=1), NOW - timedelta(seconds=590), None])
def test_an_absence_is_no_older_than_the_clock_of_a_live_member_shows(there: datetime | None) -> None:
    async def main() -> None:
        stage = Stage(since=NOW - timedelta(seconds=590), time_there=there)
        assert not await stage.after(0.0)
        assert not await stage.after(599.0)
        assert await stage.after(1.0)

    play(main)


def test_a_restart_goes_on_where_the_condition_began_once_it_has_heard_for_the_window() -> None:
    async def main() -> None:
        stage = Stage(since=NOW - timedelta(seconds=590))
        assert not await stage.after(0.0)
        assert not await stage.after(29.0)
        assert await stage.after(1.0)

    play(main)


@pytest.mark.clause("O6")
@pytest.mark.parametrize(
    ("peer", "error"),
    [
        ({"is_alive": False}, None),
        ({"is_connected": False}, None),
        ({"is_current": False}, None),
        ({}, Unreachable("x")),
    ],
    ids=["silent", "not connected", "not listed since the break", "its stream has failed"],
)
def test_who_is_not_heard_proves_nothing(peer: dict[str, bool], error: Any) -> None:
    async def main() -> None:
        stage = Stage()
        await stage.after(0.0)
        stage.set_peer(record("c"), **peer)
        stage.stream.error = error
        assert not await stage.after(1000.0)
        assert stage.absences.report(B) is OwnCluster.UNKNOWN
        assert stage.absences.is_present(B) is None
        stage.set_peer(record("c"))
        stage.stream.error = None
        assert not await stage.after(0.0)
        assert not await stage.after(29.0)
        assert await stage.after(1.0)

    play(main)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("is_served", [True, False])
def test_who_has_no_cluster_at_all_may_be_removed_by_a_person_only(is_served: bool) -> None:
    async def main() -> None:
        stage = Stage()
        stage.set_peer(*([] if is_served else [record("b")]))
        stage.stream.error = None if is_served else NotServed("x")
        assert not await stage.after(0.0)
        assert not await stage.after(1000.0)
        assert stage.absences.lasting() == {B}
        assert stage.absences.report(B) is OwnCluster.ALL_MISSING_FOR_LONG
        assert stage.absences.serves_none(B) is not is_served

    play(main)


@pytest.mark.clause("O6")
def test_without_a_duration_no_absence_is_a_departure() -> None:
    async def main() -> None:
        stage = Stage(lasts_s=0)
        await stage.after(0.0)
        assert not await stage.after(10_000.0)
        assert stage.absences.lasting() == {B}

    play(main)


def test_o6_a_member_that_makes_its_clusters_again_has_the_window_for_its_own() -> None:
    empty, filling = OwnClusterFacts(is_heard=True), OwnClusterFacts(is_heard=True, has_any=True)
    absence = None
    for now_s, facts in ((0.0, empty), (700.0, empty), (705.0, filling), (710.0, filling)):
        absence = observe_absence(facts, absence, now_s=now_s, stored_since_s=None)
    assert absence is not None
    assert lasts_from_s(absence, lasts_s=600.0, window_s=30.0) == 735.0


@pytest.mark.clause("O6")
def test_only_a_cluster_of_another_name_shows_that_the_member_has_another() -> None:
    async def main() -> None:
        stage = Stage()
        stage.set_peer(record("b"), record("c"))
        assert not stage.absences.has_another(B, "b")
        assert stage.absences.has_another(B, "b-0")
        stage.set_peer(record("b"), is_alive=False)
        assert not stage.absences.has_another(B, "b-0")
        assert not stage.absences.has_another(ClusterUID("nobody"), "b-0")

    play(main)
