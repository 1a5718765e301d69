"""A cluster that comes back under its old name, with another ID. P11."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.cluster.group import CONFIG_MAP, SimGroup, carry_over, config_map, hand_over, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault


@pytest.mark.parametrize("seed", range(3))
def test_a_rebuilt_cluster_takes_its_name_back_with_one_swap(seed: int) -> None:
    """P11, O4, O9: also at a member with which nobody swapped; what it owns now replaces what it had owned."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        a.create(rule("all", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
        for name in ("both", "once"):
            b.create(config_map(name, {"at": "old b"}, labels={"sync": "yes"}))
        await group.settle()
        old = b.id
        group.rebuild("b")
        assert b.id != old
        b.create(config_map("both", {"at": "new b"}, labels={"sync": "yes"}))
        b.start()
        await asyncio.sleep(60.0)
        assert c.get("Cluster", "b")["spec"]["clusterID"] == old
        carry_over(b, a)
        carry_over(a, b)
        await group.settle()
        for member in (a, c):
            assert member.get("Cluster", "b")["spec"]["clusterID"] == b.id, member.name
            assert member.condition("Cluster", "b", "Ready").get("status") == "True", member.name
            assert member.get("ConfigMap", "both", namespace="default")["data"] == {"at": "new b"}
            assert member.get("ConfigMap", "once", namespace="default")["data"] == {"at": "old b"}
        assert {item["metadata"]["name"] for item in b.list("Cluster")} == {"a", "b", "c"}
        assert not await group.writes_within(60.0)

    simulate(scenario, n=3, seed=seed)


@pytest.mark.clause("W4")
def test_a_rebuilt_cluster_takes_its_name_back_while_no_more_of_its_copies_may_go() -> None:
    """P11: its Cluster is deleted here to be made again; that is neither held nor counted."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        c.create(rule("all", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
        for number in range(60):
            b.create(config_map(f"m-{number:02}", {"at": "old b"}, labels={"sync": "yes"}))
        await group.settle()
        for number in range(52):
            b.delete("ConfigMap", f"m-{number:02}", namespace="default")
            await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
        kept = [item["metadata"]["name"] for item in c.list("ConfigMap") if item["metadata"]["name"][:2] == "m-"]
        assert len(kept) == 60 - 50
        assert c.condition("ResourceSyncRule", "all", "DeletionHalted").get("status") == "True"
        before = c.get("Cluster", "b")
        group.rebuild("b")
        b.start()
        await asyncio.sleep(20.0)
        carry_over(b, a)
        carry_over(a, b)
        await asyncio.sleep(60.0)
        found = c.get("Cluster", "b")
        assert found["spec"]["clusterID"] == b.id
        assert found["metadata"]["uid"] != before["metadata"]["uid"]
        assert "delete" in [write.verb for write in c.writes if (write.kind, write.key.name) == ("Cluster", "b")]
        for item in c.list("ResourceSyncRule"):
            for entry in (item.get("status") or {}).get("clusters") or []:
                assert "counted" not in entry.get("deletions", {}), item["metadata"]["name"]
        await group.settle()
        assert c.condition("Cluster", "b", "Ready").get("status") == "True"
        left = [item["metadata"]["name"] for item in c.list("ConfigMap") if item["metadata"]["name"][:2] == "m-"]
        assert left == kept

    simulate(scenario, n=3)


def test_another_id_under_a_name_is_not_believed_without_proof() -> None:
    """P11, O4: while the old one is alive, or the credentials that are offered lead nowhere or elsewhere."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        own = b.id
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        a.apply(
            {
                "kind": "Cluster",
                "metadata": {"name": "b"},
                "spec": {"clusterID": "0badc0de-0000-4000-8000-000000000000"},
            }
        )
        await asyncio.sleep(120.0)
        assert c.get("Cluster", "b")["spec"]["clusterID"] == own
        wire = group.wire("c", "b")
        wire.set(Fault.NONE)
        await asyncio.sleep(120.0)
        assert c.get("Cluster", "b")["spec"]["clusterID"] == own
        assert c.condition("Cluster", "b", "Ready").get("status") == "True"

    simulate(scenario, n=3)


def test_of_two_live_clusters_with_one_name_each_member_keeps_the_one_that_it_knows() -> None:
    """P11, O4, O5: what a person puts in the place of the other stays there, is said, and costs no copy."""

    def known(member: Member) -> str:
        return str(member.get("Cluster", "b")["spec"]["clusterID"])

    async def scenario(group: SimGroup) -> None:
        a, b, c, twin = group.members
        twin.options = {"PROVISION_LOCAL_CLUSTER": "b"}
        group.start()
        await group.settle()
        group.swap_all(among="abc")
        await group.settle()
        matching = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
        a.create(rule("all", CONFIG_MAP, matching, deletionPolicy="Delete"))
        for member in group.members:
            member.create(config_map(f"of-{member.name}", {"at": member.name}, labels={"sync": "yes"}))
        await group.settle()
        carry_over(twin, c, called="b")
        carry_over(c, twin)
        await group.settle()
        assert [known(member) for member in group.members] == [b.id, b.id, twin.id, twin.id]
        assert {item["metadata"]["name"] for item in c.list("ConfigMap")} >= {"of-a", "of-b", "of-c", "of-d"}
        for member in (a, b, twin):
            said = member.condition("Cluster", "c" if member is not twin else "a", "ClustersSynced")
            assert (said["status"], said["message"]) == ("False", "does not know cluster b"), member.name
        carry_over(b, c)
        await c.restart()
        await group.settle()
        assert [known(member) for member in (a, b, c)] == [b.id] * 3
        assert c.condition("Cluster", "b", "Ready").get("status") == "True"
        assert a.condition("Cluster", "c", "ClustersSynced").get("status") == "True"
        assert not await group.writes_within(120.0)

    simulate(scenario, n=4)


@pytest.mark.clause("O2")
def test_a_restored_cluster_with_a_new_id_takes_its_name_back_from_its_earlier_self() -> None:
    """The members were restored with it, and show it the Cluster of its earlier ID before it has one of its own."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        old, core = a.id, a.list("ResourceSyncRule")
        group.rebuild("a")
        assert a.id != old
        for member in (b, c):
            hand_over(member, a)
        for found in core:
            info = {
                name: found["metadata"][name] for name in ("name", "labels", "annotations") if name in found["metadata"]
            }
            a.create({"kind": "ResourceSyncRule", "metadata": info, "spec": found["spec"]})
        a.start()
        await asyncio.sleep(60.0)
        assert a.get("Cluster", "a")["spec"]["clusterID"] == a.id
        assert a.find("Secret", "a", namespace=NAMESPACE) is not None
        carry_over(a, b)
        await group.settle()
        for member in group.members:
            assert member.get("Cluster", "a")["spec"]["clusterID"] == a.id
            assert member.get("Cluster", "a")["status"]["state"] == "Ready"

    simulate(scenario, n=3)
