"""What somebody here does to a member's Cluster and Secret, in a group of two: nobody else brings them back. A1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from registry_controller.api import meta
from tests.sim.farewells import held, knows, share
from tests.sim.group import SimGroup, config_map, simulate
from tests.sim.member import NAMESPACE, Member
from tests.sim.transport import Fault


def _forgets(member: Member) -> None:
    member.delete("Cluster", "b")


def _drops_credentials(member: Member) -> None:
    member.delete("Secret", "b", namespace=NAMESPACE)


def _forgets_all(member: Member) -> None:
    _forgets(member)
    _drops_credentials(member)


def _names_none(member: Member) -> None:
    cluster = member.get("Cluster", "b")
    member.replace({**cluster, "spec": {key: value for key, value in cluster["spec"].items() if key != "authInfo"}})


def _names_another(member: Member) -> None:
    cluster = member.get("Cluster", "b")
    reference = {"secretRef": {"name": "nobody", "namespace": NAMESPACE}}
    member.replace({**cluster, "spec": {**cluster["spec"], "authInfo": reference}})


def _empties(member: Member) -> None:
    member.replace({**member.get("Secret", "b", namespace=NAMESPACE), "data": {}})


@pytest.mark.parametrize(
    "spoil", [_forgets, _drops_credentials, _forgets_all, _names_none, _names_another, _empties]
)  # fmt: skip
@pytest.mark.parametrize("again", [1, 7])
def test_what_is_spoilt_here_of_a_live_member_is_put_back(spoil: Callable[[Member], None], again: int) -> None:
    """A1, O5: at once, or, for somebody who does it again and again, a minute later; no copy is touched for it."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here = group["a"]
        cluster, secret = here.get("Cluster", "b"), here.get("Secret", "b", namespace=NAMESPACE)
        before = len(here.server.journal)
        for _ in range(again):
            spoil(here)
            await asyncio.sleep(5.0)
            if again == 1:
                assert knows(here, "b") == (True, True)
            elif knows(here, "b") != (True, True):
                break
        await group.settle()
        assert here.get("Cluster", "b")["spec"] == cluster["spec"]
        assert here.get("Cluster", "b")["status"]["state"] == "Ready"
        assert here.get("Secret", "b", namespace=NAMESPACE)["data"] == secret["data"]
        assert not [write for write in here.server.journal[before:] if write.kind == "ConfigMap"]

    simulate(scenario, n=2)


def test_the_cluster_of_a_silent_member_stays_away() -> None:
    """O5: somebody here wanted that, and there was nobody who could have put it back; its copies stay."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here = group["a"]
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        _forgets(here)
        await group.settle()
        group.fail("b", Fault.NONE)
        await group.settle()
        assert knows(here, "b") == (False, True)
        assert held(here) == {"goes", "stays"}
        assert here.daemon is not None
        assert not here.daemon.engine.supervisor.links

    simulate(scenario, n=2)


@pytest.mark.parametrize("why", ["disputed", "frozen", "kept at home", "left"])
def test_whom_nothing_can_bring_back_is_read_no_more(why: str) -> None:
    """P3, O6: the connection ends at once where nothing is to be put back; what is born there stays there."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        match why:
            case "disputed":
                spec = {**here.get("Cluster", "b")["spec"], "clusterID": "99999999-0000-4000-8000-000000000000"}
                here.create({"kind": "Cluster", "metadata": {"name": "nobody"}, "spec": spec})
            case "frozen":
                info = {"name": "b", "namespace": NAMESPACE, "annotations": {meta.SYNC_DISABLED: "true"}}
                here.apply({"kind": "Secret", "metadata": info})
                await group.settle()
                _empties(here)
            case "kept at home":
                there.apply({"kind": "Cluster", "metadata": {"name": "b", "annotations": {meta.SYNC_DISABLED: "true"}}})
                await group.settle()
                _forgets(here)
            case _:
                _forgets(here)
                there.delete("Cluster", "b")
        await asyncio.sleep(10.0)
        assert here.daemon is not None
        assert not here.daemon.engine.supervisor.links
        there.create(config_map("late", {"at": "b"}, labels={"keep": "stays"}))
        await group.settle()
        assert "late" not in held(here)

    simulate(scenario, n=2)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("ahead_s", [-0.2, -0.02, 0.0, 0.02])
@pytest.mark.parametrize("forgets", [_forgets, _forgets_all])
def test_who_leaves_while_it_is_forgotten_here_has_left(
    size: int, ahead_s: float, forgets: Callable[[Member], None]
) -> None:
    """O6: whether it does so a moment before or after; its credentials go, and its copies follow their rules."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        if ahead_s <= 0:
            forgets(here)
            await asyncio.sleep(-ahead_s)
        there.delete("Cluster", "b")
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
            forgets(here)
        await asyncio.sleep(150.0)
        await group.settle()
        for name in "ac"[: size - 1]:
            assert knows(group[name], "b") == (False, False), name
            assert held(group[name]) == {"stays"}, name

    simulate(scenario, n=size)
