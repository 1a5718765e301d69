"""Members that leave, and come again. O6."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.cluster.group import SimGroup, config_map, hand_over, simulate
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import bid_farewell, held, knows, share, stones


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("trouble", ["none", "a restarts", "c is away"])
def test_who_bids_farewell_has_left_everywhere(trouble: str, seed: int) -> None:
    """O6, O4: its Cluster and its credentials go, its copies as their rules say; nobody brings it back."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        if trouble == "c is away":
            group.fail("c", Fault.REFUSED)
            await asyncio.sleep(30.0)
        bid_farewell(group["b"])
        if trouble == "a restarts":
            for _ in range(4):
                await asyncio.sleep(0.3)
                await group["a"].restart()
        await asyncio.sleep(60.0)
        group.fail("c", Fault.NONE)
        await group.settle()
        for name in "ac":
            assert knows(group[name], "b") == (False, False), name
            assert held(group[name]) == {"stays"}, name
            assert knows(group[name], "a") == knows(group[name], "c") == (True, True)
        assert held(group["b"]) == {"goes", "stays"}
        for member in group.members:
            await member.restart()
        await group.settle()
        for name in "ac":
            assert knows(group[name], "b") == (False, False), name
            assert held(group[name]) == {"stays"}, name

    simulate(scenario, n=3, seed=seed)


def test_who_left_may_come_again() -> None:
    """O6, O7, O9: and its orphans are its copies again."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        b = group["b"]
        bid_farewell(b)
        await group.settle()
        for name in stones(b):
            b.delete("ClusterFeature", name)
        await group.settle()
        hand_over(b, group["a"])
        await group.settle()
        for name in "ac":
            assert knows(group[name], "b") == (True, True), name
            assert held(group[name]) == {"goes", "stays"}, name
        b.apply(config_map("stays", {"at": "b again"}))
        await group.settle()
        for name in "ac":
            assert group[name].get("ConfigMap", "stays", namespace="default")["data"] == {"at": "b again"}

    simulate(scenario, n=3)


def test_a_cluster_that_is_merely_missing_has_not_left() -> None:
    """O6, O5: deleted by hand at another member, or renamed where it stands."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, c = group.members
        a.delete("Cluster", "b")
        await group.settle()
        for member in (a, c):
            assert knows(member, "b") == (True, True)
            assert held(member) == {"goes", "stays"}
        body = b.get("Cluster", "b")
        b.create({"kind": "Cluster", "metadata": {"name": "b2"}, "spec": body["spec"]})
        b.delete("Cluster", "b")
        await group.settle()
        for member in (a, c):
            assert held(member) == {"goes", "stays"}
            assert (member.find("Cluster", "b"), member.find("Cluster", "b2") is None) == (None, False)

    simulate(scenario, n=3)


def test_who_leaves_is_gone_also_where_it_has_a_second_cluster() -> None:
    """O6, P1: one that somebody carried here under another name is no sign that it stays, and nobody looks for ever."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, _ = group.members
        carried = b.get("Cluster", "b")
        a.create({"kind": "Cluster", "metadata": {"name": "bee"}, "spec": carried["spec"]})
        await group.settle()
        assert a.daemon is not None
        added = a.daemon.queue.added
        bid_farewell(b)
        await asyncio.sleep(30.0)
        assert a.daemon.queue.added - added < 500
        await group.settle()
        assert a.find("Cluster", "b") is None
        assert a.find("Cluster", "bee") is not None
        assert held(a) == {"stays"}

    simulate(scenario, n=3)


def test_a_member_that_left_is_forgotten_as_soon_as_its_last_copy_is() -> None:
    """O6: nobody waits for a timer, however many copies there were."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        for number in range(30):
            group["b"].create(config_map(f"many-{number}", {"at": "b"}, labels={"keep": "goes"}))
        await group.settle()
        group.wire("a", "a").delay_s = (2.0, 4.0)  # so that copies go one after the other, and it is looked often
        bid_farewell(group["b"])
        for _ in range(400):
            await asyncio.sleep(0.25)
            if held(group["a"]) == {"stays"}:
                break
        group.wire("a", "a").delay_s = (0.01, 0.02)
        await asyncio.sleep(5.0)  # what was sent before takes as long as it did
        assert knows(group["a"], "b") == (False, False)

    simulate(scenario, n=2)


@pytest.mark.parametrize("seed", [*range(4), 21, 23, 27, 33, 35])
def test_who_leaves_while_it_cannot_be_heard_is_gone_when_it_can(seed: int) -> None:
    """O6, R4: also when its features are heard first. What it showed of itself before the silence shows nothing."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        b, c = group["b"], group["c"]
        group.wire("c", "b").set(Fault.HUNG)
        await asyncio.sleep(60.0)
        bid_farewell(b)
        await asyncio.sleep(5.0)
        group.wire("c", "b").set(Fault.NONE)
        await asyncio.sleep(120.0)
        assert knows(c, "b") == (False, False)

    simulate(scenario, n=3, seed=seed)
