"""A cluster that has left, and whose own tombstone was lost: it comes back from members, unless that is an act. O6."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from registry_controller.api import meta
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS
from tests.sim.cluster.clock import today, virtual_clocks
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import (
    TRUST_S,
    bid_farewell,
    die_and_be_declared,
    held,
    join_again,
    knows,
    leave,
    share,
    shared,
    stones,
)

pytestmark = pytest.mark.clause("O6")


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


def set_between_b_and_c(group: SimGroup, fault: Fault) -> None:
    """Let b and c not reach each other, or reach each other again."""
    for one, other in (("b", "c"), ("c", "b")):
        group.wire(one, other).set(fault)


def records(member: Member) -> set[str]:
    """Name the tombstones that a cluster has withdrawn."""
    found = {item["metadata"]["name"] for item in member.list("ClusterFeature")}
    return {name for name in found if name.startswith("back-")}


def lose_features(group: SimGroup, name: str, *, away_s: float = 10.0) -> None:
    """Delete the definition of ClusterFeatures, and all of them with it, and install it again."""
    server, member = group[name].server, group[name]
    server.change_served("ClusterFeature", served=True)
    member.delete("CustomResourceDefinition", f"{meta.FEATURES.resource}.{meta.GROUP}")
    for found in member.list("ClusterFeature"):
        member.delete("ClusterFeature", found["metadata"]["name"])
    group.cut(name)
    asyncio.get_running_loop().call_later(away_s, lambda: server.change_served("ClusterFeature", served=True))


@pytest.mark.parametrize("seed", range(6))
def test_a_farewell_that_is_lost_while_the_daemon_is_down_comes_back_from_the_members(seed: int) -> None:
    """The cluster makes no Cluster of itself, and lets go of its members, whatever it hears first."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, c = group.members
        await b.stop()
        bid_farewell(b)
        await group.settle()
        assert knows(a, "b") == knows(c, "b") == (False, False)
        lost = stones(b)
        for name in lost:
            b.delete("ClusterFeature", name)
        made: list[str] = []
        b.server.store.listeners.append(
            lambda change: (
                made.append(change.key.name) if change.kind.kind == "Cluster" and change.old is None else None
            )
        )
        b.start()
        await group.settle()
        assert (stones(b), made) == (lost, [])
        assert knows(b, "a") == knows(b, "c") == (False, False)
        assert knows(a, "b") == knows(c, "b") == (False, False)

    simulate(scenario, n=3, seed=seed)


@pytest.mark.parametrize("is_behind", [False, True], ids=["", "and its watch is behind"])
def test_a_farewell_that_goes_with_the_definition_of_features_stands_again(is_behind: bool) -> None:
    """The member that did not read it before does then."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, c = group.members
        set_between_b_and_c(group, Fault.REFUSED)
        await asyncio.sleep(60.0)
        bid_farewell(b)
        await asyncio.sleep(60.0)
        assert knows(a, "b") == (False, False)
        assert knows(b, "c")[0], "it does not answer"
        lost = stones(b)
        group.wire("b", "b").stuck = frozenset({"customresourcedefinitions"} if is_behind else ())
        lose_features(group, "b")
        await asyncio.sleep(60.0)
        group.wire("b", "b").stuck = frozenset()
        await asyncio.sleep(60.0 if is_behind else 0.0)
        assert (stones(b), records(b), b.find("Cluster", "b")) == (lost, set(), None)
        set_between_b_and_c(group, Fault.NONE)
        await group.settle()
        assert knows(c, "b") == (False, False)
        assert held(c) == {"stays"}

    simulate(scenario, n=3)


@pytest.mark.parametrize(
    ("away_s", "is_heeded"), [(0.3, True), (90.0, False)], ids=["all have let go", "one does not trust it yet"]
)
@pytest.mark.parametrize("how", ["", "its watch is behind", "its daemon is down", "its daemon starts meanwhile"])
def test_what_was_said_of_a_dead_member_outlasts_the_definition_of_features_at_its_author(
    how: str, away_s: float, is_heeded: bool
) -> None:
    """The dead member comes back nowhere, no copy goes or comes, and its author has the tombstone again in the end."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, _, c = group.members
        await die_and_be_declared(group)
        await asyncio.sleep(TRUST_S + 120.0 if is_heeded else 60.0)
        said = stones(a)
        assert stones(c) == said
        assert (knows(a, "b"), held(a)) == ((False, False), {"stays"})
        assert (knows(c, "b"), held(c)) == (
            ((False,) * 2, {"stays"}) if is_heeded else ((True,) * 2, {"goes", "stays"})
        )
        came: list[str] = []
        for member in (a, c):
            member.server.store.listeners.append(
                lambda change, at=member.name: (  # type: ignore[misc]
                    came.append(f"{change.key} at {at}")
                    if change.kind.kind in ("ConfigMap", "Cluster") and None in (change.old, change.new)
                    else None
                )
            )
        group.wire("a", "a").stuck = frozenset({"customresourcedefinitions"} if "behind" in how else ())
        if "down" in how:
            await a.stop()
        lose_features(group, "a", away_s=away_s)
        if "starts" in how:
            await a.restart()
        await asyncio.sleep(away_s + 30.0)
        group.wire("a", "a").stuck = frozenset()
        if "down" in how:
            a.start()
        await asyncio.sleep(60.0)
        assert (stones(c), records(a), came) == (said, set(), [])
        await asyncio.sleep(TRUST_S)
        await group.settle()
        assert (stones(a), stones(c), records(a)) == (said, said, set())
        assert knows(a, "b") == knows(c, "b") == (False, False)
        assert held(a) == held(c) == {"stays"}
        assert [where for where in came if where.endswith("a")] == []

    simulate(scenario, n=3)


def test_a_farewell_is_taken_back_by_an_act_that_is_kept() -> None:
    """It is deleted while the daemon runs, although a member still shows it; a restart changes nothing about that."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, _ = group.members
        set_between_b_and_c(group, Fault.REFUSED)
        await asyncio.sleep(60.0)
        bid_farewell(b)
        await asyncio.sleep(60.0)
        (name,) = stones(b)
        assert name in stones(a)
        b.delete("ClusterFeature", name)
        await asyncio.sleep(60.0)
        assert (stones(b), len(records(b)), b.find("Cluster", "b") is not None) == (set(), 1, True)
        await b.stop()
        b.delete("Cluster", "b")
        b.start()
        await asyncio.sleep(90.0)
        assert (stones(b), b.find("Cluster", "b") is not None) == (set(), True)

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_earlier_farewell_ends_no_later_membership(restarts: bool) -> None:
    """A member again, whose Cluster is missing, is that: what the others still show is about another Cluster."""

    async def scenario(group: SimGroup) -> None:
        await shared(group, trust_s=0)
        await leave(group, "b")
        await join_again(group)
        a, b, c = group.members
        assert stones(a), "of the earlier membership"
        if restarts:
            await b.stop()
        b.delete("Cluster", "b")
        if restarts:
            b.start()
        await group.settle()
        assert b.find("Cluster", "b") is not None
        assert not stones(b)
        for member in (a, c):
            assert knows(member, "b") == (True, True)
            assert held(member) == {"goes", "stays"}

    simulate(scenario, n=3)


def test_a_member_that_makes_a_farewell_up_ends_no_membership() -> None:
    """O2: while another member has the Cluster, and does not show it; the own Cluster is missing meanwhile."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c = group.members
        uid = b.get("Cluster", "b")["metadata"]["uid"]
        await b.stop()
        a.create(tombstone_manifest(Tombstone(b.id, uid, b.id, today() + LASTS)))
        b.delete("Cluster", "b")
        b.start()
        await group.settle()
        assert b.find("Cluster", "b") is not None
        assert not stones(b)
        assert held(c) == {"goes", "stays"}

    simulate(scenario, n=3)
