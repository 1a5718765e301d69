"""The Lease of each daemon: who keeps it, and what somebody else does to it. S5."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from registry_controller.api.daemon_lease import RENEWAL_S, DaemonLease, lease_name, read_lease
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import DAEMON_LEASE, DAEMON_REPORT
from tests.sim.cluster.clock import VirtualDatetime, virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import leave

_LATE_S = RENEWAL_S + 10.0


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


def leases(member: Member) -> dict[str, DaemonLease]:
    found = dict[str, DaemonLease]()
    for item in member.list("Lease", namespace=NAMESPACE):
        with contextlib.suppress(InvalidObject):
            found[item["metadata"]["name"]] = read_lease(item)
    return found


def lease(member: Member) -> dict[str, Any]:
    return member.get("Lease", lease_name(member.name), namespace=NAMESPACE)


async def begin(group: SimGroup) -> None:
    for member in group.members:
        member.holds_leases = True
    await group.join()


def reported(member: Member) -> dict[str, str]:
    """Read the states of the other members as a Lease reports them, by name."""
    report = read_lease(lease(member)).report
    assert report is not None
    return {peer.name: peer.state for peer in report.peers if peer.name != member.name}


def test_each_daemon_keeps_one_lease_that_names_its_peers() -> None:
    """S5: once a minute while nothing changes, and nothing else is written."""

    async def scenario(group: SimGroup) -> None:
        await begin(group)
        a = group["a"]
        before = len(a.server.renewals)
        assert await group.writes_within(600.0) == []
        renewals = a.server.renewals[before:]
        assert 9 <= len(renewals) <= 11
        assert {(write.verb, write.key.name) for write in renewals} == {("update", lease_name("a"))}
        for member in group.members:
            (found,) = leases(member).values()
            assert found.is_current(VirtualDatetime.now())
            assert reported(member) == {other.name: "Ready" for other in group.members if other is not member}

    simulate(scenario, n=3)


def test_a_lease_tells_soon_that_a_member_cannot_be_read() -> None:
    async def scenario(group: SimGroup) -> None:
        await begin(group)
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(45.0)
        assert reported(group["a"]) == {"b": "Failed", "c": "Ready"}
        assert reported(group["c"]) == {"a": "Ready", "b": "Ready"}
        group.wire("a", "b").set(Fault.NONE)
        await asyncio.sleep(45.0)
        assert reported(group["a"]) == {"b": "Ready", "c": "Ready"}

    simulate(scenario, n=3)


def test_a_lease_names_a_rule_that_went_for_some_seconds_at_most() -> None:
    async def scenario(group: SimGroup) -> None:
        await begin(group)
        a = group["a"]
        a.create(rule("maps", CONFIG_MAP, {"match": [{}]}))
        await group.settle()
        assert "maps" in {one.name for one in read_lease(lease(a)).report.rules}
        a.delete("ResourceSyncRule", "maps")
        await asyncio.sleep(10.0)
        assert "maps" not in {one.name for one in read_lease(lease(a)).report.rules}

    simulate(scenario, n=3)


def test_a_lease_that_somebody_deletes_or_edits_is_written_again() -> None:
    """S5: by its own daemon, and no other reads it."""

    async def scenario(group: SimGroup) -> None:
        await begin(group)
        a = group["a"]
        a.delete("Lease", lease_name("a"), namespace=NAMESPACE)
        await asyncio.sleep(_LATE_S)
        assert leases(a)[lease_name("a")].is_current(VirtualDatetime.now())
        found = lease(a)
        marks = {"labels": {DAEMON_LEASE: "true"}, "annotations": {DAEMON_REPORT: "{"}}
        spec = {**found["spec"], "holderIdentity": "somebody", "renewTime": "2020-01-01T00:00:00.000000Z"}
        a.replace({**found, "metadata": {**found["metadata"], **marks}, "spec": spec})
        await asyncio.sleep(_LATE_S)
        held = leases(a)[lease_name("a")]
        assert (held.holder, held.is_current(VirtualDatetime.now())) == ("a", True)
        assert reported(a) == {"b": "Ready"}

    simulate(scenario, n=2)


def test_a_daemon_that_may_write_no_leases_syncs_all_the_same() -> None:
    """S5: nothing waits for a Lease, and no peer reads one."""

    async def scenario(group: SimGroup) -> None:
        for member in group.members:
            group.wire(member.name, member.name).unallowed = {"leases"}
        await begin(group)
        a, b = group.members
        assert leases(a) == leases(b) == {}
        a.create(rule("maps", CONFIG_MAP, {"match": [{}]}))
        b.create(config_map("x", {"at": "b"}))
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default") is not None
        a.home.unallowed = set()
        await asyncio.sleep(_LATE_S)
        assert reported(a) == {"b": "Ready"}

    simulate(scenario, n=2)


def test_two_daemons_of_a_cluster_have_a_lease_each() -> None:
    """S5: that of a killed one is not renewed any more."""

    async def scenario(group: SimGroup) -> None:
        for member in group.members:
            member.has_pods = True
        await begin(group)
        a = group["a"]
        second = a.start_second()
        await asyncio.sleep(_LATE_S)
        names = {lease_name(a.first.pod), lease_name(second.pod)}
        assert leases(a).keys() == names
        second.kill()
        await asyncio.sleep(200.0)
        current = {name: found.is_current(VirtualDatetime.now()) for name, found in leases(a).items()}
        assert current == {lease_name(a.first.pod): True, lease_name(second.pod): False}

    simulate(scenario, n=2)


def test_a_rule_that_copies_leases_shows_no_daemon_twice() -> None:
    """S5: the copy of a Lease of a daemon is nobody's here."""

    async def scenario(group: SimGroup) -> None:
        await begin(group)
        a = group["a"]
        kind = {"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}
        a.create(rule("leases", kind, {"match": [{}]}))
        await asyncio.sleep(_LATE_S)
        names = {item["metadata"]["name"] for item in a.list("Lease", namespace=NAMESPACE)}
        assert names == {lease_name("a"), lease_name("b")}
        assert leases(a).keys() == {lease_name("a")}

    simulate(scenario, n=2)


def test_a_cluster_that_leaves_goes_on_keeping_its_lease() -> None:
    """S5: `status` and `version` show it until the chart is removed."""

    async def scenario(group: SimGroup) -> None:
        await begin(group)
        await leave(group, "b")
        await group.settle()
        b = group["b"]
        assert leases(b)[lease_name("b")].is_current(VirtualDatetime.now())
        assert reported(b) == {}
        assert reported(group["a"]) == {"c": "Ready"}

    simulate(scenario, n=3)
