"""A token that is revoked, and new credentials that a person carries. P3, P7, O7."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from registry_controller.api import meta
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import NAMESPACE, READER
from tests.sim.cluster.transport import Fault


@pytest.mark.parametrize("wait_s", [0.0, 1.0, 2.0, 3.0, 4.0])
def test_credentials_that_a_person_carries_are_not_undone_by_what_was_heard_before(wait_s: float) -> None:
    """P7, O7: of how it is reached now, the owner that cannot be read says nothing. Some come while it is dialled."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group.fail("a", Fault.REFUSED)
        group["a"].create({"kind": "Namespace", "metadata": {"name": "new"}})
        group["a"].server.compact()  # so that the others list again: what they hear then they still hold
        group.fail("a", Fault.NONE)
        await group.settle()
        owner, here = group["a"], group["b"]
        old = here.get("Secret", "a", namespace=NAMESPACE)["data"]
        group.wire("b", "a").set(Fault.REFUSED)
        owner.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(30.0)
        group.wire("b", "a").set(Fault.NONE)
        await asyncio.sleep(30.0)
        new = owner.get("Secret", "a", namespace=NAMESPACE)["data"]
        assert here.get("Secret", "a", namespace=NAMESPACE)["data"] == old != new
        assert "carry the Secret over from its cluster again" in here.get("Cluster", "a")["status"]["message"]
        group.wire("b", "a").delay_s = (2.0, 2.0)
        await asyncio.sleep(10.0 + wait_s)
        here.apply({"kind": "Secret", "metadata": {"name": "a", "namespace": NAMESPACE}, "data": new})
        await group.settle()
        assert here.get("Secret", "a", namespace=NAMESPACE)["data"] == new
        assert here.get("Cluster", "a")["status"]["state"] == "Ready"

    simulate(scenario, n=2)


def test_who_missed_a_rotation_gets_the_new_credentials_through_another_member() -> None:
    """P3, O4, O7."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here = group["a"], group["b"]
        group.wire("b", "a").set(Fault.REFUSED)
        owner.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(120.0)
        group.wire("b", "a").set(Fault.NONE)
        await group.settle()
        new = owner.get("Secret", "a", namespace=NAMESPACE)["data"]
        assert here.get("Secret", "a", namespace=NAMESPACE)["data"] == new
        assert here.get("Cluster", "a")["status"]["state"] == "Ready"

    simulate(scenario, n=3)


def test_who_missed_a_rotation_in_a_short_break_asks_the_others_within_seconds() -> None:
    """P3, P5, O4: the connection counts as up, but whatever is asked over it is refused; so it is looked at at once."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here = group["a"], group["b"]
        group.wire("b", "a").set(Fault.REFUSED)
        owner.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(2.0)
        group.wire("b", "a").set(Fault.NONE)
        await asyncio.sleep(8.0)
        new = owner.get("Secret", "a", namespace=NAMESPACE)["data"]
        assert here.get("Secret", "a", namespace=NAMESPACE)["data"] == new
        assert here.get("Cluster", "a")["status"]["state"] == "Ready"

    simulate(scenario, n=3)


def test_nobody_else_says_where_a_member_is_to_be_reached() -> None:
    """O4: an endpoint on its Cluster stands for the server in its Secret; it is its own to change."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here, relay = group.members
        group.wire("b", "a").set(Fault.REFUSED)
        group.wire("c", "a").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await relay.stop()
        held = relay.get("Cluster", "a")
        notes = held["metadata"]["annotations"]
        said = json.loads(notes[meta.PROVENANCE])
        said["source"]["resourceVersion"] = "99999999"
        notes = {**notes, meta.PROVENANCE: json.dumps(said)}
        spec = {**held["spec"], "kubernetesApiEndpoints": [{"serverAddress": "https://evil.sim:6443"}]}
        relay.replace({**held, "spec": spec, "metadata": {**held["metadata"], "annotations": notes}})
        await asyncio.sleep(60.0)
        assert here.get("Cluster", "a")["spec"] == held["spec"]
        owner.replace({**owner.get("Cluster", "a"), "spec": {**held["spec"], "kubernetesApiEndpoints": [
            {"clientNetwork": "vpn", "serverAddress": "https://elsewhere.sim:6443"}]}})  # fmt: skip
        group.wire("b", "a").set(Fault.NONE)
        await group.settle()
        assert here.get("Cluster", "a")["spec"] == owner.get("Cluster", "a")["spec"] != held["spec"]

    simulate(scenario, n=3)


def test_nobody_else_brings_a_second_cluster_of_a_members_id() -> None:
    """O4, P1: it would be read in its place, or make two of one member. Without the first one it comes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        _, here, relay = group.members
        for name in ("b", "c"):
            group.wire(name, "a").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        await relay.stop()
        held = relay.get("Cluster", "a")
        relay.create({**held, "metadata": {"name": "aaa", "annotations": {meta.OWNER: group["a"].id}}})
        await asyncio.sleep(30.0)
        await here.restart()
        await group.settle()
        assert here.find("Cluster", "aaa") is None
        relay.delete("Cluster", "a")
        here.delete("Cluster", "a")
        await group.settle()
        assert here.find("Cluster", "aaa") is not None

    simulate(scenario, n=3)


def test_nobody_brings_a_cluster_that_names_anothers_secret() -> None:
    """O7: it would be nobody's then, and its member unread; the Cluster comes when it names its own."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        _, here, relay = group.members
        await relay.stop()
        names = {"clusterID": "99999999-0000-4000-8000-000000000000"}
        for secret in ("a", "nobody"):
            reference = {"secretRef": {"name": secret, "namespace": NAMESPACE}}
            relay.apply({"kind": "Cluster", "metadata": {"name": "nobody"}, "spec": {**names, "authInfo": reference}})
            await asyncio.sleep(60.0)
            assert (here.find("Cluster", "nobody") is not None) == (secret == "nobody")
            assert here.get("Cluster", "a")["status"]["state"] == "Ready"
        own = relay.get("Cluster", "c")
        reference = {"secretRef": {"name": "a", "namespace": NAMESPACE}}
        relay.replace({**own, "spec": {**own["spec"], "authInfo": reference}})
        await asyncio.sleep(60.0)
        assert here.get("Cluster", "a")["status"]["state"] == "Ready"
        here.delete("Cluster", "a")
        await asyncio.sleep(60.0)
        assert here.get("Cluster", "c")["spec"]["authInfo"] == reference

    simulate(scenario, n=3)


def test_what_a_peer_makes_of_a_members_secret_is_its_own_trouble() -> None:
    """O7, P3: a Cluster there that names it, too, keeps nobody here from the member's new credentials."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here, other = group.members
        reference = {"secretRef": {"name": "a", "namespace": NAMESPACE}}
        spec = {"clusterID": "99999999-0000-4000-8000-000000000000", "authInfo": reference}
        info = {"name": "nobody", "annotations": {meta.SYNC_DISABLED: "true"}}
        other.create({"kind": "Cluster", "metadata": info, "spec": spec})
        await group.settle()
        assert other.get("Cluster", "a")["status"]["state"] == "InvalidAuthInfo"
        owner.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await group.settle()
        new = owner.get("Secret", "a", namespace=NAMESPACE)["data"]
        assert here.get("Secret", "a", namespace=NAMESPACE)["data"] == new
        assert other.get("Secret", "a", namespace=NAMESPACE)["data"] != new
        assert here.get("Cluster", "a")["status"]["state"] == "Ready"

    simulate(scenario, n=3)


async def _refused_by_a_busy_member(group: SimGroup) -> AsyncIterator[str]:
    """Let the second of two refuse the first one, which asks it for something more, and change all the time: its state
    there, each second for a minute.
    """
    a, b = group.members
    a.create(rule("all", CONFIG_MAP))
    await group.settle()
    await b.stop()
    b.server.tokens.clear()
    a.create(rule("late", {"version": "v1", "kind": "Secret"}, {"match": [{"labels": [{"matchLabels": {"a": "b"}}]}]}))
    for number in range(60):
        b.apply(config_map("busy", {"number": str(number)}))
        await asyncio.sleep(1.0)
        yield a.get("Cluster", "b")["status"]["state"]


def test_who_refuses_us_is_not_well_because_it_still_sends_what_was_asked_for_before() -> None:
    """P3, P5, S3: watches outlive the token that they were opened with, and the state does not go back and forth."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        states = [state async for state in _refused_by_a_busy_member(group)]
        assert states == sorted(states, reverse=True)
        assert set(states[30:]) == {"Failed"}

    simulate(scenario, n=2)


def test_who_refused_us_for_a_moment_is_well_again_although_it_is_never_silent() -> None:
    """P5, S3: every event puts the regular probe off; the one that follows a refusal comes in any case."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        server = group.members[1].server
        known = set(server.tokens)
        states = []
        async for state in _refused_by_a_busy_member(group):
            states.append(state)
            if state == "Failed":
                server.tokens.update(known)
        assert "Failed" in states
        assert set(states[30:]) == {"Ready"}

    simulate(scenario, n=2)
