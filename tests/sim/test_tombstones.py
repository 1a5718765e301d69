"""Tombstones that lie, are late, or are lost, and members that slept through everything. O6, O4."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS
from tests.sim.cluster.clock import today, virtual_clocks
from tests.sim.cluster.group import SimGroup, carry_over, hand_over, simulate
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault, Wire
from tests.sim.schedule.leaving import TRUST_S, declare, held, join_again, knows, leave, says, shared, stones

NOBODY = "99999999-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


async def dies(group: SimGroup, name: str) -> None:
    """Let a member fall silent for all, and let all notice."""
    await group[name].stop()
    group.fail(name, Fault.REFUSED)
    await asyncio.sleep(60.0)


def wakes(group: SimGroup, name: str) -> None:
    """Let a member be there again."""
    group.fail(name, Fault.NONE)
    group[name].start()


# Lies.


@pytest.mark.parametrize("seed", range(4))
def test_who_hears_nobody_lets_go_of_nobody(seed: int) -> None:
    """O6: being deaf oneself is no silence of others, however long it lasts."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c = group.members
        await a.stop()
        says(a, b)
        await group.settle()
        for name in "ab":
            group.wire("c", name).set(Fault.REFUSED)
        await asyncio.sleep(TRUST_S + 60.0)
        for name in "ab":
            group.wire("c", name).set(Fault.NONE)
        await asyncio.sleep(30.0)
        assert held(c) == {"goes", "stays"}
        assert knows(c, "b") == (True, True)

    simulate(scenario, n=3, seed=seed)


@pytest.mark.parametrize("lies", [False, True])
def test_a_liar_keeps_no_fresh_credentials_away(lies: bool) -> None:
    """O6, O4: who is a member here is kept fresh, whatever somebody says of it."""

    async def scenario(group: SimGroup) -> None:
        await shared(group, trust_s=0)
        a, b, c, d = group.members
        await d.stop()
        if lies:
            says(d, b)
        await group.settle()
        group.wire("c", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(30.0)
        fresh = b.get("Secret", "b", namespace=NAMESPACE)["data"]
        a.replace({**a.get("Secret", "b", namespace=NAMESPACE), "data": fresh})
        await asyncio.sleep(30.0)
        group.wire("c", "b").set(Fault.NONE)
        await group.settle()
        assert c.get("Cluster", "b")["status"]["state"] == "Ready"

    simulate(scenario, n=4)


@pytest.mark.parametrize("author", ["", NOBODY])
def test_what_was_said_can_be_taken_back(author: str) -> None:
    """O6: in the name of somebody whom nobody knows it does not count at all."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        _, b, c, d = group.members
        await d.stop()
        says(d, b, author=author)
        await group.settle()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(90.0)
        for name in stones(d):
            d.delete("ClusterFeature", name)
        await asyncio.sleep(TRUST_S + 60.0)
        assert knows(c, "b") == (True, True)

    simulate(scenario, n=4)


def test_two_daemons_that_see_differently_do_not_write_against_each_other() -> None:
    """O6, A7: a tombstone that was taken away is not put up again at once, whoever took it away."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        c = group["c"]
        twin = Member(group, "c2", chance=group.chance)
        twin.server, twin._store = c.server, c.server.store
        twin.options = {**c.options, "PROVISION_LOCAL_CLUSTER": "c"}
        group._wires["c2", "c2"] = Wire(c.server, chance=group.chance, who="c2")
        group.wire("c2", "b").set(Fault.REFUSED)
        twin.start()
        await group.settle()
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        before = len(c.server.journal)
        await asyncio.sleep(60.0)
        written = [write for write in c.server.journal[before:] if write.key.name.startswith("left-")]
        assert len(written) < 8
        twin.cancel()

    simulate(scenario, n=3)


async def joined_again(group: SimGroup) -> None:
    """Let b leave and join again: the tombstone of its older membership stays with the others."""
    await shared(group, trust_s=0)
    await leave(group, "b")
    await join_again(group)
    for member in group.members:
        assert held(member) == {"goes", "stays"}


def test_a_tombstone_of_an_older_membership_is_nothing_to_a_rebuilt_cluster() -> None:
    """O6, P11: nobody has said that it left: its copies stay."""

    async def scenario(group: SimGroup) -> None:
        await joined_again(group)
        a, c = group["a"], group["c"]
        group.rebuild("b")
        b = group["b"]
        b.start()
        await asyncio.sleep(120.0)
        a.apply({**b.get("Cluster", "b"), "metadata": {"name": "b"}})
        a.apply({**b.get("Secret", "b", namespace=NAMESPACE), "metadata": {"name": "b", "namespace": NAMESPACE}})
        hand_over(a, b)
        await group.settle()
        assert a.get("Cluster", "b")["spec"]["clusterID"] == b.id
        assert held(a) == held(c) == {"goes", "stays"}

    simulate(scenario, n=3)


@pytest.mark.parametrize("count", [2, 3])
def test_a_cluster_that_somebody_deletes_here_takes_no_copies_along(count: int) -> None:
    """O6, O5: whatever tombstones there are of its member."""

    async def scenario(group: SimGroup) -> None:
        await joined_again(group)
        a = group["a"]
        before = len(a.server.journal)
        a.delete("Cluster", "b")
        await group.settle()
        assert not [write for write in a.server.journal[before:] if write.kind == "ConfigMap"]
        assert knows(a, "b")[1]

    simulate(scenario, n=count)


@pytest.mark.parametrize("lies", [False, True])
def test_with_no_trust_a_tombstone_of_another_takes_nothing_along(lies: bool) -> None:
    """O6: when the admin here deletes the Cluster, to swap it anew, and whether that one has told the truth or not."""

    async def scenario(group: SimGroup) -> None:
        await shared(group, trust_s=0)
        a, b, c = group.members
        if lies:
            until = today() + LASTS
            c.create(tombstone_manifest(Tombstone(b.id, "made-up", c.id, until)))
            await group.settle()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        if not lies:
            await declare(group, "b", at="c")
        await group.settle()
        a.delete("Cluster", "b")
        await group.settle()
        assert held(a) == {"goes", "stays"}

    simulate(scenario, n=3)


def test_nobody_takes_the_name_of_a_tombstone() -> None:
    """O6: which is of the member and its membership."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b, c, d = group["b"], group["c"], group["d"]
        await d.stop()
        uid = b.get("Cluster", "b")["metadata"]["uid"]
        until = today() + LASTS
        d.create(tombstone_manifest(Tombstone(ClusterUID(NOBODY), uid, d.id, until)))
        await group.settle()
        await dies(group, "b")
        await declare(group, "b", at="a")
        await asyncio.sleep(TRUST_S * 2)
        assert knows(c, "b") == (False, False)

    simulate(scenario, n=4)


# What comes late.


@pytest.mark.parametrize("restarts", [False, True])
def test_an_older_membership_stays_over(restarts: bool) -> None:
    """O6: of a member that left, came again, and is dead; whoever slept through it all brings neither back."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, *_ = group.members
        await dies(group, "c")
        await leave(group, "b", without=("c",))
        await join_again(group)
        assert knows(a, "b") == (True, True)
        await dies(group, "b")
        await declare(group, "b", at="a")
        await group.settle()
        if restarts:
            await a.restart()
            await group.settle()
        wakes(group, "c")
        await group.settle()
        assert knows(a, "b") == (False, False)

    simulate(scenario, n=3)


@pytest.mark.parametrize("seed", range(6))
def test_who_slept_while_a_member_left_and_came_again_finds_it(seed: int) -> None:
    """O6, O7: with its new credentials, by the others, and without a restart."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c = group.members
        group.fail("c", Fault.REFUSED)
        for name in "ab":
            group.wire("c", name).set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        b.delete("Cluster", "b")
        await asyncio.sleep(60.0)
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(5.0)
        await b.restart()
        await asyncio.sleep(90.0)
        carry_over(b, a)
        carry_over(a, b)
        await asyncio.sleep(60.0)
        group.fail("c", Fault.NONE)
        for name in "ab":
            group.wire("c", name).set(Fault.NONE)
        await group.settle()
        assert c.get("Cluster", "b")["status"]["state"] == "Ready"
        assert held(c) == {"goes", "stays"}

    simulate(scenario, n=3, seed=seed)


def test_a_member_that_was_never_heard_here_stays_away_once_it_is_said_to_be_gone() -> None:
    """O6, O4: also where others know which membership it was."""

    async def scenario(group: SimGroup) -> None:
        a = group["a"]
        group.wire("a", "b").set(Fault.REFUSED)
        group.start()
        await group.settle()
        group.swap_all()
        await group.settle()
        assert meta.PROVENANCE not in a.get("Cluster", "b")["metadata"].get("annotations", {})
        await dies(group, "b")
        await declare(group, "b", at="a")
        await group.settle()
        assert knows(a, "b") == (False, False)

    simulate(scenario, n=3)


def test_a_newcomer_has_the_tombstones_of_those_whom_it_never_knew() -> None:
    """O6: so that who slept brings nobody back while the others are away."""

    async def scenario(group: SimGroup) -> None:
        a, _, _, d = group.members
        group.start()
        await group.settle()
        group.swap_all(among="abc")
        await group.settle()
        await dies(group, "c")
        await dies(group, "b")
        await declare(group, "b", at="a")
        hand_over(a, d)
        hand_over(d, a)
        await group.settle()
        assert knows(d, "c") == (True, True)
        group.fail("a", Fault.REFUSED)
        await asyncio.sleep(60.0)
        wakes(group, "c")
        await asyncio.sleep(30.0)
        assert knows(d, "b") == (False, False)
        group.fail("a", Fault.NONE)
        await group.settle()
        assert knows(d, "b") == (False, False)

    simulate(scenario, n=4)


def test_a_backup_that_is_restored_where_it_was_said_brings_nobody_back_elsewhere() -> None:
    """O6: what was done on another's word stays done, unless the member is Ready there."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, _, c = group.members
        await dies(group, "b")
        old: list[dict[str, Any]] = [a.get("Cluster", "b"), a.get("Secret", "b", namespace=NAMESPACE)]
        await declare(group, "b", at="a")
        await asyncio.sleep(TRUST_S + 60.0)
        await group.settle()
        assert knows(c, "b") == (False, False)
        await a.stop()
        for name in stones(a):
            a.delete("ClusterFeature", name)
        for manifest in old:
            kept = {
                key: manifest["metadata"][key]
                for key in ("name", "namespace", "annotations")
                if key in manifest["metadata"]
            }
            a.create({**manifest, "metadata": kept})
        a.start()
        await group.settle()
        assert knows(c, "b") == (False, False)

    simulate(scenario, n=3)


def test_credentials_of_who_has_left_come_from_nobody() -> None:
    """O6, O4: nor while the tombstone is only heard, and stands elsewhere."""

    async def scenario(group: SimGroup) -> None:
        c, d = group["c"], group["d"]
        group.start()
        await group.settle()
        group.swap_all(among="abc")
        await group.settle()
        c.options["MEMBER_LEFT_TRUST_SECONDS"] = "0"
        await c.restart()
        await dies(group, "b")
        await declare(group, "b", at="a")
        came: list[str] = []
        d.server.store.listeners.append(lambda change: came.append(change.key.name) if change.old is None else None)
        hand_over(c, d)
        hand_over(d, c)
        await group.settle()
        assert knows(c, "b") == (True, True)
        assert knows(d, "a") == (True, True)
        assert "b" not in came

    simulate(scenario, n=4)
