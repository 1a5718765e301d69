"""What somebody here does to a member's Cluster and Secret, in a group of two: nobody else brings them back. A1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api import meta
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import bid_farewell, held, knows, share, stones


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


@pytest.mark.clause("A1")
@pytest.mark.parametrize("pause_s", [0.0, 0.3, 2.5])
@pytest.mark.parametrize("kind", ["Cluster", "Secret"])
def test_what_is_deleted_at_a_member_and_here_is_put_back(kind: str, pause_s: float) -> None:
    """O6: the member lacks it for a moment, and has not left."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        for member in (there, here):
            member.delete(kind, "b", namespace=NAMESPACE if kind == "Secret" else "")
            await asyncio.sleep(pause_s)
        await group.settle()
        assert (knows(here, "b"), knows(there, "b")) == ((True, True), (True, True))
        assert here.get("Cluster", "b")["status"]["state"] == "Ready"
        assert held(here) == {"goes", "stays"}

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
@pytest.mark.parametrize("away_s", [20.0, 200.0])
def test_the_definition_of_clusters_goes_in_every_cluster(away_s: float) -> None:
    """One after the other, while all daemons run; it is installed again at a first, and at b much later."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        for member in group.members:
            member.server.terminate("Cluster")
            for found in member.list("Cluster"):
                member.delete("Cluster", found["metadata"]["name"])
            await asyncio.sleep(0.1)
        for member in group.members:
            member.server.change_served("Cluster", served=False)
        for member in group.members:
            await asyncio.sleep(away_s)
            member.server.change_served("Cluster", served=True)
        await group.settle()
        for member in group.members:
            assert [knows(member, name) for name in "abc"] == [(True, True)] * 3

    simulate(scenario, n=3)


@pytest.mark.clause("A1")
def test_a_connection_ends_when_the_member_has_lacked_its_own_cluster_for_long() -> None:
    """O6: somebody forgot b here; nothing makes its Cluster there again, and the absence has lasted."""

    async def scenario(group: SimGroup) -> None:
        group["a"].options["MEMBER_ABSENCE_SECONDS"] = "300"
        await share(group)
        here, there = group["a"], group["b"]
        await there.stop()
        there.delete("Cluster", "b")
        await asyncio.sleep(1.0)
        _forgets(here)
        assert here.daemon is not None
        await asyncio.sleep(290.0)
        assert here.daemon.engine.clusters.peers
        await asyncio.sleep(120.0)
        assert not here.daemon.engine.clusters.peers
        assert held(here) == {"goes", "stays"}

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
def test_a_member_that_never_showed_its_own_cluster_is_read_no_more_once_it_is_forgotten() -> None:
    """P4: such a member has no daemon, or a server in bad hands; there is nothing that it could offer again."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        await there.stop()
        there.delete("Cluster", "b")
        await here.restart()
        await asyncio.sleep(20.0)
        assert here.daemon is not None
        assert here.daemon.engine.clusters.peers
        _forgets(here)
        await asyncio.sleep(10.0)
        assert not here.daemon.engine.clusters.peers
        assert held(here) == {"goes", "stays"}

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
        assert not here.daemon.engine.clusters.peers

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
                bid_farewell(there)
        await asyncio.sleep(10.0)
        assert here.daemon is not None
        assert not here.daemon.engine.clusters.peers
        there.create(config_map("late", {"at": "b"}, labels={"keep": "stays"}))
        await group.settle()
        assert "late" not in held(here)

    simulate(scenario, n=2)


def _anew(manifest: Any, *, cluster_id: str = "") -> dict[str, Any]:
    """Spell an object as a person does who makes it, with another ID if one is given."""
    info = {key: manifest["metadata"][key] for key in ("name", "namespace") if manifest["metadata"].get(key)}
    rest = {key: manifest[key] for key in ("kind", "type", "data", "spec") if key in manifest}
    if cluster_id:
        rest["spec"] = {**rest["spec"], "clusterID": cluster_id}
    return {"metadata": info, **rest}


@pytest.mark.parametrize("how", ["replaced", "called otherwise for a while", "given a wrong ID for a while"])
@pytest.mark.parametrize("away_s", [0.004, 0.4])
def test_whose_cluster_is_missing_at_both_sides_for_a_moment_has_not_left(how: str, away_s: float) -> None:
    """O5, O6: what a watch shows at one instant is no proof, nor is a Cluster that is missing here."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        before, own = len(here.server.journal), there.get("Cluster", "b")
        group.wire("a", "b").delay_s = (away_s, away_s + 0.1)
        await asyncio.sleep(1.0)
        _forgets(here)
        await asyncio.sleep(0.005)
        match how:
            case "replaced":
                there.delete("Cluster", "b")
                await asyncio.sleep(away_s)
                there.create(_anew(own))
            case "called otherwise for a while":
                there.delete("Cluster", "b")
                await asyncio.sleep(away_s)
                there.create({**_anew(own), "metadata": {"name": "other"}})
            case _:
                there.apply(_anew(own, cluster_id="99999999-0000-4000-8000-000000000000"))
                await asyncio.sleep(3.0)
                there.apply(_anew(own))
        await asyncio.sleep(150.0)
        await group.settle()
        assert not [write for write in here.server.journal[before:] if write.kind == "ConfigMap"]
        assert not stones(here)

    simulate(scenario, n=2)


@pytest.mark.parametrize("runs", [False, True])
def test_who_never_had_a_cluster_of_its_own_does_not_leave_by_being_forgotten(runs: bool) -> None:
    """O6: whether a daemon runs there or not; its copies stay, and are in step again when it is carried here anew."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        here, there = group["a"], group["b"]
        await here.stop()
        await there.stop()
        carried = [_anew(there.get("Cluster", "b")), _anew(there.get("Secret", "b", namespace=NAMESPACE))]
        for member in (here, there):
            member.delete("Cluster", "b")
            member.delete("Secret", "b", namespace=NAMESPACE)
        if runs:
            there.options["PROVISION_LOCAL_CLUSTER"] = ""
            there.start()
        for manifest in carried:
            here.create(manifest)
        here.start()
        await group.settle()
        assert here.get("Cluster", "b")["status"]["state"] == "Ready"
        assert held(here) == {"goes", "stays"}
        _forgets(here)
        await asyncio.sleep(150.0)
        assert knows(here, "b") == (False, True)
        assert held(here) == {"goes", "stays"}
        here.create(carried[0])
        there.create(config_map("late", {"at": "b"}, labels={"keep": "goes"}))
        await group.settle()
        assert held(here) == {"goes", "stays", "late"}

    simulate(scenario, n=2)
