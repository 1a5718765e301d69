"""The credentials with which a peer is read: what its Cluster names, and what else is here of it. P7, P8."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from registry_controller.api import meta
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import held, share


def _names(member: Member, secret: str, *, cluster: str = "") -> None:
    """Let the own Cluster of a member, or another one here, name another Secret."""
    found = member.get("Cluster", cluster or member.name)
    auth = {"secretRef": {"name": secret, "namespace": NAMESPACE}}
    member.replace({**found, "spec": {**found["spec"], "authInfo": auth}})


def _secret(name: str, data: dict[str, Any]) -> dict[str, Any]:
    info = {"name": name, "namespace": NAMESPACE}
    return {"kind": "Secret", "metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "data": data}


def _is_read(here: Member, name: str) -> bool:
    """Report whether a member is read, as its Cluster here says, and as the daemon finds."""
    assert here.daemon is not None
    peers = here.daemon.engine.clusters.peers.values()
    is_connected = any(peer.name == name and peer.is_connected for peer in peers)
    return is_connected and here.get("Cluster", name)["status"]["state"] == "Ready"


def _other_way(here: Member, name: str) -> str:
    """Return what the condition says of a peer that is read over another way; empty without it."""
    conditions = here.get("Cluster", name)["status"].get("conditions") or ()
    return next((found["message"] for found in conditions if found["type"] == "AuthInfoNotUsed"), "")


def _broken(data: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    text = base64.b64decode(data[meta.KUBECONFIG_KEY]).decode()
    assert old in text
    return {meta.KUBECONFIG_KEY: base64.b64encode(text.replace(old, new).encode()).decode()}


@pytest.mark.clause("P7")
@pytest.mark.parametrize("first", ["Cluster", "Secret"])
@pytest.mark.parametrize("apart_s", [0.0, 5.0, 200.0])
@pytest.mark.parametrize("drops_old", [False, True])
def test_a_member_that_names_another_secret_is_read_without_a_break(
    first: str, apart_s: float, drops_old: bool
) -> None:
    """The two writes come in any order; a restart in between breaks nothing."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        there.options["MANAGE_LOCAL_CLUSTER_SECRET"] = "false"
        await there.restart()
        data = there.get("Secret", "b", namespace=NAMESPACE)["data"]
        steps = [lambda: _names(there, "b-new"), lambda: there.create(_secret("b-new", data))]
        steps = steps if first == "Cluster" else steps[::-1]
        steps[0]()
        if drops_old:
            there.delete("Secret", "b", namespace=NAMESPACE)
        await asyncio.sleep(apart_s)
        assert _is_read(here, "b")
        if apart_s > 100.0:
            assert bool(_other_way(here, "b")) == (first == "Cluster")
            await here.restart()
            await asyncio.sleep(30.0)
            assert _is_read(here, "b")
        steps[1]()
        await group.settle()
        there.create(config_map("late", {"at": "b"}, labels={"keep": "stays"}))
        await group.settle()
        assert "late" in held(here)
        assert here.get("Secret", "b-new", namespace=NAMESPACE)["data"] == data
        assert here.get("Cluster", "b")["spec"] == there.get("Cluster", "b")["spec"]
        assert _is_read(here, "b")
        assert not _other_way(here, "b")
        assert not drops_old or here.find("Secret", "b", namespace=NAMESPACE) is None

    simulate(scenario, n=2)


@pytest.mark.clause("P7")
@pytest.mark.parametrize("address", ["https://nowhere.sim:6443", "not an address"])
def test_a_peer_whose_endpoint_does_not_work_is_read_at_the_address_in_its_secret(address: str) -> None:
    """Before and after a restart, and its Cluster here says so; the endpoint is used once it works."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        there.options["MANAGE_LOCAL_CLUSTER_SECRET"] = "false"
        await there.restart()
        found = there.get("Cluster", "b")
        spoilt = {**found["spec"], "kubernetesApiEndpoints": [{"serverAddress": address}]}
        there.replace({**found, "spec": spoilt})
        await asyncio.sleep(200.0)
        assert here.get("Cluster", "b")["spec"] == spoilt
        for _ in range(2):
            assert _is_read(here, "b")
            assert _other_way(here, "b")
            await here.restart()
            await asyncio.sleep(60.0)
        there.create(config_map("late", {"at": "b"}, labels={"keep": "stays"}))
        there.replace({**there.get("Cluster", "b"), "spec": found["spec"]})
        await group.settle()
        assert "late" in held(here)
        assert _is_read(here, "b")
        assert not _other_way(here, "b")

    simulate(scenario, n=2)


@pytest.mark.clause("P7")
@pytest.mark.parametrize("what", ["another token", "another address", "unusable"])
def test_a_peer_whose_new_credentials_do_not_work_is_read_with_the_earlier_ones(what: str) -> None:
    """Its Cluster here says so. What it publishes after that is heard."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        there.options["MANAGE_LOCAL_CLUSTER_SECRET"] = "false"
        await there.restart()
        data = there.get("Secret", "b", namespace=NAMESPACE)["data"]
        spoilt = {
            "another token": lambda: _broken(data, "token: ", "token: x"),
            "another address": lambda: _broken(data, "https://b.", "https://nowhere."),
            "unusable": lambda: {meta.KUBECONFIG_KEY: base64.b64encode(b"nothing").decode()},
        }[what]()
        there.create(_secret("b-new", spoilt))
        _names(there, "b-new")
        await asyncio.sleep(200.0)
        assert _is_read(here, "b")
        assert _other_way(here, "b")
        await here.restart()
        await asyncio.sleep(60.0)
        assert _is_read(here, "b")
        assert _other_way(here, "b")
        there.apply(_secret("b-new", data))
        await group.settle()
        assert _is_read(here, "b")
        assert not _other_way(here, "b")

    simulate(scenario, n=2)


@pytest.mark.clause("P7")
def test_working_credentials_under_another_name_are_used_and_reported() -> None:
    """A person carried them here when those of the Cluster were revoked; without them the peer is read no more."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        group.wire("a", "b").set(Fault.REFUSED)
        there.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        await asyncio.sleep(30.0)
        group.wire("a", "b").set(Fault.NONE)
        info = {"name": "b", "namespace": NAMESPACE, "annotations": {meta.SYNC_DISABLED: "true"}}
        here.apply({"kind": "Secret", "metadata": info})  # so that the earlier credentials stay here
        await asyncio.sleep(60.0)
        assert here.get("Cluster", "b")["status"]["state"] == "Failed"
        data = there.get("Secret", "b", namespace=NAMESPACE)["data"]
        here.create(_secret("b-fresh", data))
        auth = {"secretRef": {"name": "b-fresh", "namespace": NAMESPACE}}
        here.create(
            {"kind": "Cluster", "metadata": {"name": "b-fresh"}, "spec": {"clusterID": there.id, "authInfo": auth}}
        )
        await asyncio.sleep(150.0)
        assert _is_read(here, "b")
        assert "401" in _other_way(here, "b")
        await here.restart()
        await asyncio.sleep(150.0)
        assert _is_read(here, "b")
        here.delete("Secret", "b-fresh", namespace=NAMESPACE)
        here.delete("Cluster", "b-fresh")
        await asyncio.sleep(60.0)
        assert not _is_read(here, "b")
        assert here.get("Cluster", "b")["status"]["state"] == "Failed"

    simulate(scenario, n=2)


@pytest.mark.clause("P7")
def test_a_peer_whose_credentials_are_refused_has_not_failed_while_another_way_works() -> None:
    """They are refused while the peer is connected; older watches stay open."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        data = there.get("Secret", "b", namespace=NAMESPACE)["data"]
        held = there.get("Secret", f"{READER}-token", namespace=NAMESPACE)["data"]["token"]
        there.server.tokens.add("fresh")
        here.create(_secret("b-fresh", _broken(data, base64.b64decode(held).decode(), "fresh")))
        auth = {"secretRef": {"name": "b-fresh", "namespace": NAMESPACE}}
        here.create(
            {"kind": "Cluster", "metadata": {"name": "b-fresh"}, "spec": {"clusterID": there.id, "authInfo": auth}}
        )
        info = {"name": "b", "namespace": NAMESPACE, "annotations": {meta.SYNC_DISABLED: "true"}}
        here.apply({"kind": "Secret", "metadata": info})  # so that the earlier credentials stay here
        await asyncio.sleep(30.0)
        there.delete("Secret", f"{READER}-token", namespace=NAMESPACE)
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert here.get("Cluster", "b")["status"]["state"] == "Ready"
        assert _is_read(here, "b")
        assert "401" in _other_way(here, "b")

    simulate(scenario, n=2)
