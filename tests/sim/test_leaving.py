"""Members that leave by the command, or are said to have left by another's. O6, O4."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import BadInput
from registry_controller.membership.leave import LeaveIncomplete
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import SimGroup, config_map, hand_over, simulate
from tests.sim.cluster.loop import running_loop
from tests.sim.cluster.member import NAMESPACE, READER
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import (
    TRUST_S,
    declare,
    die_and_be_declared,
    held,
    join_again,
    knows,
    leave,
    shared,
    stones,
)


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


@pytest.mark.parametrize("seed", range(3))
def test_who_leaves_is_gone_everywhere_and_knows_nobody(seed: int) -> None:
    """O6: by the command, here and there; its credentials are good no more; restarts change nothing."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b = group["b"]
        await leave(group, "b")
        for _ in range(2):
            await group.settle()
            for name in "ac":
                assert knows(group[name], "b") == (False, False), name
                assert held(group[name]) == {"stays"}, name
                assert knows(group[name], "a") == knows(group[name], "c") == (True, True)
                assert len(stones(group[name])) == 1
            assert [knows(b, name) for name in "abc"] == [(False, False)] * 3
            assert b.find("Secret", f"{READER}-token", namespace=NAMESPACE) is None
            assert held(b) == {"goes", "stays"}
            for member in group.members:
                await member.restart()

    simulate(scenario, n=3, seed=seed)


def test_a_farewell_counts_where_another_members_report_is_stored() -> None:
    """O6: a cannot reach b, and says that b has left; then b leaves itself. Both tombstones have one name at c."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        c = group["c"]
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        await group.settle()
        assert knows(c, "b") == (True, True)
        await leave(group, "b")
        assert knows(c, "b") == (False, False)
        assert held(c) == {"stays"}

    # Of two new tombstones of one name, c stores the one whose author has the higher ID.
    simulate(
        scenario, n=3, uids={"a": "f0000000-0000-4000-8000-000000000000", "b": "00000000-0000-4000-8000-000000000000"}
    )


def test_a_rule_that_is_suspended_deletes_nothing_of_who_leaves() -> None:
    """O6: nor does the Cluster of the leaver wait for that."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        goes = group["a"].get("ResourceSyncRule", "goes")
        group["a"].apply({**goes, "metadata": {"name": "goes"}, "spec": {**goes["spec"], "suspend": True}})
        await group.settle()
        await leave(group, "b")
        await group.settle()
        for name in "ac":
            assert knows(group[name], "b") == (False, False), name
            assert held(group[name]) == {"goes", "stays"}, name

    simulate(scenario, n=3)


def test_the_copies_of_a_cluster_that_leaves_follow_their_rules() -> None:
    """O6: those that it has of others, too."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        c = group["c"]
        await leave(group, "c")
        await group.settle()
        assert held(c) == {"stays"}
        assert held(group["a"]) == held(group["b"]) == {"goes", "stays"}
        await c.restart()
        await group.settle()
        assert held(c) == {"stays"}
        assert [knows(c, name) for name in "abc"] == [(False, False)] * 3

    simulate(scenario, n=3)


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_that_leaves_makes_no_copy_of_what_changes_meanwhile(seed: int) -> None:
    """O6: on a slow machine, a connection stays open for a moment when the Cluster of its member is gone."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b, c, loop = group["b"], group["c"], running_loop()

        async def work() -> None:
            for count in itertools.count():
                b.apply(config_map("goes", {"at": str(count)}, labels={"keep": "goes"}))
                await asyncio.sleep(0.003)

        since = len(c.server.journal)
        async with asyncio.TaskGroup() as scope:
            worker = scope.create_task(work())
            loop.turn_s = 0.002
            await leave(group, "c")
            loop.turn_s = 0.0
            worker.cancel()
        await group.settle()
        assert held(c) == {"stays"}
        assert not [write for write in c.server.journal[since:] if (write.verb, write.kind) == ("create", "ConfigMap")]

    simulate(scenario, n=3, seed=seed)


def test_who_has_left_may_join_again() -> None:
    """O6: with a new Cluster, of which no tombstone speaks."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        await leave(group, "b")
        await join_again(group)
        for member in group.members:
            assert [knows(member, name) for name in "abc"] == [(True, True)] * 3, member.name
            assert held(member) == {"goes", "stays"}, member.name

    simulate(scenario, n=3)


@pytest.mark.parametrize("seed", range(6))
def test_who_joins_again_soon_is_let_in_once(seed: int) -> None:
    """O6: what was judged of the membership before is not done to the new one."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c = group.members
        await leave(group, "b")
        for name in stones(b):
            b.delete("ClusterFeature", name)
        await asyncio.sleep(4.0)
        await b.restart()
        await asyncio.sleep(4.0)
        assert len(stones(a)) == len(stones(c)) == 1
        since = len(c.server.journal)
        hand_over(b, a)
        hand_over(a, b)
        await group.settle()
        assert [knows(c, name) for name in "abc"] == [(True, True)] * 3
        assert not [write for write in c.server.journal[since:] if (write.verb, write.kind) == ("delete", "Cluster")]

    simulate(scenario, n=3, seed=seed)


def test_a_member_that_does_not_hear_of_it_is_waited_for_and_may_be_left_out() -> None:
    """O6: nobody is left with credentials that it does not know to be void, unless it is said to be dead."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b = group["b"]
        group.fail("c", Fault.REFUSED)
        await asyncio.sleep(60.0)
        with pytest.raises(LeaveIncomplete, match="c: "):
            await leave(group, "b")
        assert knows(group["a"], "b") == (False, False)
        assert knows(b, "c") == (True, True)
        assert b.find("Secret", f"{READER}-token", namespace=NAMESPACE) is not None
        await leave(group, "b", without=("c",))
        assert b.find("Secret", f"{READER}-token", namespace=NAMESPACE) is None
        assert [knows(b, name) for name in "abc"] == [(False, False)] * 3
        group.fail("c", Fault.NONE)
        await asyncio.sleep(TRUST_S + 60.0)
        await group.settle()
        assert knows(group["c"], "b") == (False, False)
        assert held(group["c"]) == {"stays"}

    simulate(scenario, n=3)


@pytest.mark.parametrize("seed", range(3))
def test_a_dead_member_goes_by_the_word_of_another(seed: int) -> None:
    """O6: at once where it is said, elsewhere when it has been silent for long enough; it stays away."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, _, c = group.members
        await die_and_be_declared(group)
        assert knows(a, "b") == (False, False)
        await asyncio.sleep(60.0)
        assert knows(c, "b") == (True, True)
        assert c.get("Cluster", "b")["status"]["message"].endswith("; it has left the group, as reported by a")
        await asyncio.sleep(TRUST_S)
        await group.settle()
        for _ in range(2):
            for member in (a, c):
                assert knows(member, "b") == (False, False), member.name
                assert held(member) == {"stays"}, member.name
                assert len(stones(member)) == 1
            await a.restart()
            await c.restart()
            await group.settle()

    simulate(scenario, n=3, seed=seed)


def test_who_is_said_to_have_left_and_lives_is_a_member() -> None:
    """O6: a live member's own word is the one that counts, and a tombstone of it is taken away."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c = group.members
        with pytest.raises(BadInput, match="is Ready"):
            await declare(group, "b", at="a")
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        await asyncio.sleep(TRUST_S * 2)
        assert knows(a, "b") == (False, False)
        assert knows(c, "b") == (True, True)
        assert stones(c) == set()
        group.wire("a", "b").set(Fault.NONE)
        hand_over(b, a)
        await group.settle()
        for member in (a, c):
            assert knows(member, "b") == (True, True)
            assert held(member) == {"goes", "stays"}
            assert stones(member) == set()

    simulate(scenario, n=3)


def test_a_member_that_is_silent_for_a_moment_goes_on_nobodys_word() -> None:
    """O6: whoever lies about a member must find it silent for as long as this cluster's admin says."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, _, c = group.members
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        await asyncio.sleep(120.0)
        group.fail("b", Fault.NONE)
        await group.settle()
        assert knows(c, "b") == (True, True)
        assert held(c) == {"goes", "stays"}
        assert stones(c) == set()
        assert knows(a, "b") == (False, False)  # where it was said, it stands

    simulate(scenario, n=3)


def test_with_no_trust_nobody_goes_on_anothers_word() -> None:
    """O6: for those who want to say it themselves."""

    async def scenario(group: SimGroup) -> None:
        await shared(group, trust_s=0)
        await group["b"].stop()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        await asyncio.sleep(7_200.0)
        assert knows(group["c"], "b") == (True, True)
        await declare(group, "b", at="c")
        assert knows(group["c"], "b") == (False, False)

    simulate(scenario, n=3)


def test_a_newcomer_does_not_learn_of_who_has_left() -> None:
    """O4, O6: neither from who still has its Cluster, nor while the one who said it is away."""

    async def scenario(group: SimGroup) -> None:
        for member in group.members:
            member.options["MEMBER_LEFT_TRUST_SECONDS"] = "0" if member.name == "c" else str(TRUST_S)
        group.start()
        await group.settle()
        group.swap_all(among="abc")
        await group.settle()
        await group["b"].stop()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        hand_over(group["c"], group["d"])
        hand_over(group["d"], group["c"])
        await group.settle()
        d = group["d"]
        assert knows(d, "a") == (True, True)
        for _ in range(10):  # c still has b, and a has said it
            await asyncio.sleep(10.0)
        assert knows(group["c"], "b") == (True, True)
        assert knows(d, "b") == (False, False)

    simulate(scenario, n=4)


@pytest.mark.parametrize("seed", range(4))
def test_credentials_do_not_come_back_by_a_pass_that_was_under_way(seed: int) -> None:
    """O6, P2: of a cluster that has left, nothing is published, whenever the keeper of it had looked."""

    async def scenario(group: SimGroup) -> None:
        group.start()
        await group.settle()
        a = group["a"]
        group.wire("a", "a").delay_s = (0.02, 0.3)
        group.wire("kubectl", "a").delay_s = (0.001, 0.01)
        found = a.get("Cluster", "a")
        a.replace({**found, "metadata": {**found["metadata"], "labels": {"x": "y"}}})
        await asyncio.sleep(0.1 + seed * 0.4)
        await leave(group, "a")
        await group.settle()
        assert not a.list("Secret", namespace=NAMESPACE)
        assert not a.list("Cluster")

    simulate(scenario, n=1, seed=seed)


def test_what_fails_for_a_while_is_tried_again() -> None:
    """O6: and somebody who writes to the Cluster does not stop it."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b = group["b"]
        group.wire("kubectl", "b").delay_s = (0.4, 0.5)
        group.fail("c", Fault.REFUSED)
        await asyncio.sleep(60.0)
        waits = asyncio.Event()

        def obj(words: str) -> None:
            if words.startswith("c: waits"):
                waits.set()

        async def trouble() -> None:
            for number in range(6):
                await asyncio.sleep(0.7)
                found = b.find("Cluster", "b")
                if found is not None:
                    b.replace({**found, "metadata": {**found["metadata"], "labels": {"n": str(number)}}})
            await waits.wait()
            assert b.find("Cluster", "b") is None
            group.wire("kubectl", "b").set(Fault.REFUSED)
            await asyncio.sleep(3.0)
            group.wire("kubectl", "b").set(Fault.NONE)

        troubling = group.scope.create_task(trouble())
        with pytest.raises(LeaveIncomplete, match="c: waits"):
            await leave(group, "b", wait_s=30.0, say=obj)
        await troubling
        assert knows(b, "a") == (False, False)

    simulate(scenario, n=3)


def test_a_cluster_that_is_kept_as_it_is_is_named() -> None:
    """O6, O7: the way out is said."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        b = group["b"]
        found = b.get("Cluster", "a")
        annotations = {**found["metadata"]["annotations"], meta.SYNC_DISABLED: "yes"}
        b.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
        with pytest.raises(LeaveIncomplete, match=f"a: the annotation {meta.SYNC_DISABLED} keeps its Cluster"):
            await leave(group, "b", wait_s=20.0)
        with pytest.raises(BadInput, match="--without nobody"):
            await leave(group, "b", without=("nobody",))
        await leave(group, "b", without=("a",))
        assert [knows(b, name) for name in "abc"] == [(False, False)] * 3

    simulate(scenario, n=3)
