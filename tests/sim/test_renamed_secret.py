"""A member that renamed its registry Secret while another one was cut off. O4, O6."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.member import NAMESPACE, READER
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import declare, held, join_again, knows, leave, share, stones


async def _rename_and_die(group: SimGroup) -> None:
    """Let b be cut off, then c rename its Secret, then c die."""
    await share(group)
    c = group["c"]
    for who, server in (("b", "c"), ("c", "b")):
        group.wire(who, server).set(Fault.REFUSED)
    own = c.get("Cluster", "c")
    auth = {"secretRef": {"name": "c-new", "namespace": NAMESPACE}}
    c.replace({**own, "spec": {**own["spec"], "authInfo": auth}})
    await asyncio.sleep(10.0)
    c.delete("Secret", "c", namespace=NAMESPACE)
    await asyncio.sleep(20.0)
    assert group["a"].find("Secret", "c", namespace=NAMESPACE) is None
    assert group["b"].find("Secret", "c", namespace=NAMESPACE) is not None
    await c.stop()
    group.fail("c", Fault.REFUSED)
    await asyncio.sleep(30.0)


@pytest.mark.clause("O4")
@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("drops_old", [False, True])
def test_who_missed_the_new_name_and_the_new_token_of_a_member_reads_it_again(drops_old: bool, is_down: bool) -> None:
    """Another member has both."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, b, relay = group.members
        if is_down:
            await here.stop()
        for server in "bc":
            group.wire("a", server).set(Fault.REFUSED)
        auth = {"secretRef": {"name": "b-new", "namespace": NAMESPACE}}
        b.apply({"kind": "Cluster", "metadata": {"name": "b"}, "spec": {"authInfo": auth}})
        await group.settle()
        b.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        if drops_old:
            b.delete("Secret", "b", namespace=NAMESPACE)
        await group.settle()
        assert (relay.find("Secret", "b", namespace=NAMESPACE) is None) is drops_old
        for server in "bc":
            group.wire("a", server).set(Fault.NONE)
        if is_down:
            here.start()
        await group.settle()
        assert here.condition("Cluster", "b", "Ready")["status"] == "True"
        assert here.get("Cluster", "b")["spec"] == b.get("Cluster", "b")["spec"]
        found = [member.get("Secret", "b-new", namespace=NAMESPACE)["data"] for member in (here, b)]
        assert found[0] == found[1]
        assert not await group.writes_within(120.0)

    simulate(scenario, n=3)


@pytest.mark.clause("O4")
def test_a_relayed_secret_comes_only_with_a_cluster_here_that_names_it() -> None:
    """After a restart nobody here remembers that the member deleted it."""

    async def scenario(group: SimGroup) -> None:
        await _rename_and_die(group)
        here = group["a"]
        await here.restart()
        await group.settle()
        assert here.find("Secret", "c", namespace=NAMESPACE) is None
        assert here.find("Secret", "c-new", namespace=NAMESPACE) is not None

    simulate(scenario, n=3)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("restarts", [False, True])
def test_the_departure_of_a_member_that_renamed_its_secret_ends(restarts: bool) -> None:
    """Whether the one that declares it was restarted or not; it ends at the others, too."""

    async def scenario(group: SimGroup) -> None:
        await _rename_and_die(group)
        here, there = group["a"], group["b"]
        if restarts:
            await here.restart()
            await group.settle()
        await declare(group, "c", at="a", wait_s=120.0)
        assert here.find("Cluster", "c") is None
        await asyncio.sleep(300.0)
        await group.settle()
        for member in (here, there):
            assert member.find("Cluster", "c") is None
            assert not [found for found in member.list("Secret") if found["metadata"]["name"] in ("c", "c-new")]

    simulate(scenario, n=3)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("restarts", [False, True])
def test_who_leaves_a_member_that_renamed_its_secret_reads_it_to_the_end(restarts: bool) -> None:
    """The credentials under the new name never came; those under the earlier one go after the Cluster that needs them.

    A copy cannot be deleted for a while, and the Cluster waits for it. Without credentials it would stay for ever.
    """

    async def scenario(group: SimGroup) -> None:
        await share(group)
        b, here = group["b"], group["c"]
        here.server.denied.add("Secret b-new")
        own = b.get("Cluster", "b")
        auth = {"secretRef": {"name": "b-new", "namespace": NAMESPACE}}
        b.replace({**own, "spec": {**own["spec"], "authInfo": auth}})
        await asyncio.sleep(10.0)
        if restarts:
            await here.restart()
            await asyncio.sleep(60.0)
        assert here.find("Secret", "b-new", namespace=NAMESPACE) is None
        here.server.denied.add("ConfigMap goes")
        asyncio.get_running_loop().call_later(20.0, here.server.denied.clear)
        await leave(group, "c", wait_s=300.0)
        await group.settle()
        assert not here.list("Cluster")
        assert knows(here, "b") == knows(b, "c") == (False, False)
        assert held(here) == {"stays"}

    simulate(scenario, n=3)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("forgets", [False, True])
def test_a_tombstone_covers_the_memberships_before_it(forgets: bool) -> None:
    """c heard nothing while b left and joined again; b died, and a declared it gone. c has the first membership.

    With `forgets` the daemon of a began after that, and met one membership only.
    """

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, b, old = group["a"], group["b"], group["c"]
        await old.stop()
        group.fail("c", Fault.REFUSED)
        await leave(group, "b", without=("c",), wait_s=300.0)
        await join_again(group)
        first = old.get("Cluster", "b")["metadata"]["annotations"]
        assert knows(here, "b") == (True, True)
        for name in stones(here):
            here.delete("ClusterFeature", name)
        if forgets:
            await here.restart()
            await group.settle()
        await b.stop()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a", wait_s=120.0)
        group.fail("c", Fault.NONE)
        old.start()
        await asyncio.sleep(300.0)
        await group.settle()
        assert first
        assert knows(here, "b") == (False, False)
        assert knows(old, "b") == (False, False)

    simulate(scenario, n=3)


@pytest.mark.clause("O7")
def test_a_cluster_that_names_the_secret_of_another_member_takes_nothing_from_it() -> None:
    """It says so, and all is as before once its Cluster names another Secret again."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        b = group["b"]
        for name in "cb":
            auth = {"secretRef": {"name": name, "namespace": NAMESPACE}}
            b.apply({"kind": "Cluster", "metadata": {"name": "b"}, "spec": {"authInfo": auth}})
            await group.settle()
            ready = b.condition("Cluster", "b", "Ready")
            assert ready["status"] == ("False" if name == "c" else "True")
            assert ("has the credentials of Cluster c" in ready["message"]) is (name == "c")
            for member in group["a"], group["c"]:
                assert member.condition("Cluster", "b", "Ready")["status"] == "True"
        for member in group.members:
            assert all(member.condition("Cluster", name, "Ready")["status"] == "True" for name in "abc")

    simulate(scenario, n=3)
