"""What a later version of the daemon wrote is left alone, and delays nobody. A11, O6, O7."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.api.meta import OWNER, PROVENANCE, SYNC_DISABLED
from registry_controller.api.tombstone import Tombstone, tombstone_manifest, withdrawal_manifest
from registry_controller.core.decision.tombstones import LASTS
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.habits import Habit
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault

ALL = {"match": [{"objectKey": {"namespace": "default"}}]}
pytestmark = pytest.mark.clause("A11")


def _rule(**spec: Any) -> dict[str, Any]:
    """Write a rule that stays in its cluster."""
    made = rule("maps", CONFIG_MAP, ALL, **spec)
    made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


def _find(member: Member, name: str = "x") -> dict[str, Any]:
    return member.get("ConfigMap", name, namespace="default")


def _set_format(member: Member, manifest: dict[str, Any], number: object) -> None:
    info = manifest["metadata"]
    text = json.dumps({**json.loads(info["annotations"][PROVENANCE]), "format": number})
    member.replace({**manifest, "metadata": {**info, "annotations": {**info["annotations"], PROVENANCE: text}}})


async def _copied(group: SimGroup) -> None:
    """Let a hold a copy of b's object, under a's own rule with the policy Delete."""
    await group.join()
    group["a"].create(_rule(deletionPolicy="Delete"))
    group["b"].create(config_map("x", {"a": "1"}))
    await group.settle()
    assert _find(group["a"])["data"] == {"a": "1"}


@pytest.mark.parametrize("act", ["edit", "delete", "drop rule", "leave"])
def test_a_copy_of_a_later_version_stays_as_it_is(act: str) -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a, b = group["a"], group["b"]
        _set_format(a, _find(a), 2)
        held = _find(a)
        match act:
            case "edit":
                b.replace(config_map("x", {"a": "2"}))
            case "delete":
                b.delete("ConfigMap", "x", namespace="default")
            case "drop rule":
                a.delete("ResourceSyncRule", "maps")
            case "leave":
                own = b.get("Cluster", "b")["metadata"]["uid"]
                b.create(tombstone_manifest(Tombstone(b.id, own, b.id, datetime.now(UTC).date() + LASTS), ordered=True))
                b.delete("Cluster", "b")
        await group.settle()
        assert _find(a) == held
        await a.restart()
        await group.settle()
        assert _find(a) == held
        if act == "edit":
            status = a.get("ResourceSyncRule", "maps")["status"]
            assert "a later version of the daemon wrote its marks" in json.dumps(status)
            counted = next(one for one in status["clusters"] if one["clusterID"] == b.id)
            assert (counted["matched"], counted["synced"]) == (1, 0)
            assert a.condition("ResourceSyncRule", "maps", "Synced")["status"] == "False"
            _set_format(a, _find(a), 1)
            await group.settle()
            assert _find(a)["data"] == {"a": "2"}
        if act in ("delete", "drop rule"):
            _set_format(a, _find(a), 1)
            await group.settle()
            assert a.find("ConfigMap", "x", namespace="default") is None
        if act == "leave":
            assert a.find("Cluster", "b") is None

    simulate(play, n=3)


@pytest.mark.parametrize("number", ["2", 2.0, [2], {"major": 2}, None, True], ids=str)
def test_a_format_that_this_version_does_not_know_is_a_later_one_however_it_is_written(number: object) -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a, b = group["a"], group["b"]
        _set_format(a, _find(a), number)
        held = _find(a)
        b.replace(config_map("x", {"a": "2"}))
        await group.settle()
        assert _find(a) == held

    simulate(play, n=2)


@pytest.mark.parametrize("length", [1, 60_000])
def test_fields_that_a_later_version_added_are_kept_when_the_copy_is_written(length: int) -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a, b = group["a"], group["b"]
        info = (found := _find(a))["metadata"]
        added = {"revision": "7", "is": ["x" * length]}
        text = json.dumps({**json.loads(info["annotations"][PROVENANCE]), "later": added})
        a.replace({**found, "metadata": {**info, "annotations": {**info["annotations"], PROVENANCE: text}}})
        revision = _find(a)["metadata"]["resourceVersion"]
        await group.settle()
        assert _find(a)["metadata"]["resourceVersion"] == revision
        b.replace(config_map("x", {"a": "2"}))
        await group.settle()
        assert _find(a)["data"] == {"a": "2"}
        assert json.loads(_find(a)["metadata"]["annotations"][PROVENANCE])["later"] == added
        b.delete("ConfigMap", "x", namespace="default")
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default") is None

    simulate(play, n=2)


@pytest.mark.clause("A1", "A10")
def test_fields_that_a_later_version_added_cause_no_write_of_a_field_that_is_not_stored() -> None:
    """The source has a later revision than the copy names, because its status changed."""

    async def play(group: SimGroup) -> None:
        await group.join()
        a, b = group["a"], group["b"]
        a.server.habits.add("Widget", Habit.PRUNES, "spec", "tier")
        info = {"name": "x", "namespace": "default"}
        b.create({"kind": "Widget", "metadata": info, "spec": {"value": "one", "tier": "gold"}})
        widget = {"group": "sim.example", "version": "v1", "kind": "Widget"}
        a.create(rule("widgets", widget, {"match": [{}], "mutations": {"syncStatus": True}}))
        await group.settle()
        b.replace({**b.get("Widget", "x", namespace="default"), "status": {"ready": 1}}, subresource="status")
        await group.settle()
        found = a.get("Widget", "x", namespace="default")
        text = json.dumps({**json.loads(found["metadata"]["annotations"][PROVENANCE]), "later": "added"})
        found["metadata"]["annotations"][PROVENANCE] = text
        a.replace(found)
        revision = a.get("Widget", "x", namespace="default")["metadata"]["resourceVersion"]
        await group.settle()
        assert a.get("Widget", "x", namespace="default")["metadata"]["resourceVersion"] == revision

    simulate(play, n=2)


def test_membership_of_a_later_version_is_kept_up_to_date_without_a_fight() -> None:
    async def play(group: SimGroup) -> None:
        await group.join()
        a, b = group["a"], group["b"]
        _set_format(a, a.get("Cluster", "b"), 2)
        _set_format(a, a.get("Secret", "b", namespace=NAMESPACE), 2)
        await group.settle()
        assert '"format": 2' in a.get("Cluster", "b")["metadata"]["annotations"][PROVENANCE]
        cluster = b.get("Cluster", "b")
        b.replace({**cluster, "metadata": {**cluster["metadata"], "labels": {"region": "north"}}})
        await group.settle()
        found = a.get("Cluster", "b")
        assert found["metadata"]["labels"]["region"] == "north"
        assert found["metadata"]["annotations"][OWNER] == b.id
        assert found["status"]["state"] == "Ready"

    simulate(play, n=2)


def test_a_cluster_with_a_farewell_of_a_later_format_makes_no_cluster_and_members_do_not_obey_it() -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a, b = group["a"], group["b"]
        stone = tombstone_manifest(
            Tombstone(b.id, b.get("Cluster", "b")["metadata"]["uid"], b.id, datetime.now(UTC).date() + LASTS)
        )
        stone["metadata"]["labels"][meta.LEFT_FORMAT] = "2"
        b.create(stone)
        await group.settle()
        assert b.get("Cluster", "b")["status"]["state"] == "Ready"
        for member in (a, b):
            assert _says(member, "b", f"ClusterFeature {stone['metadata']['name']};")
        b.delete("Cluster", "b")
        await group.settle(quiet_s=100.0)
        assert b.find("Cluster", "b") is None
        assert a.find("Cluster", "b") is not None
        assert _find(a)["data"] == {"a": "1"}
        b.delete("ClusterFeature", stone["metadata"]["name"])
        await group.settle()
        assert b.find("Cluster", "b") is not None
        assert not _says(a, "b", "")

    simulate(play, n=2)


def _says(member: Member, cluster: str, words: str) -> bool:
    """Say whether the status of a Cluster names what a later version wrote there, with what to do."""
    message = str(member.condition("Cluster", cluster, "LaterFormat").get("message", ""))
    return words in message and "upgrade the daemon here" in message


def test_a_withdrawal_of_a_later_format_stays_and_withdraws_nothing() -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a, c = group["a"], group["c"]
        stone = Tombstone(c.id, c.get("Cluster", "c")["metadata"]["uid"], a.id, datetime.now(UTC).date() + LASTS)
        group.fail("c", Fault.REFUSED)
        await group.settle()
        a.create(tombstone_manifest(stone, ordered=True))
        back = withdrawal_manifest(stone)
        back["metadata"]["labels"][meta.LEFT_FORMAT] = "2"
        a.create(back)
        await group.settle()
        assert a.find("Cluster", "c") is None
        held = a.get("ClusterFeature", back["metadata"]["name"])
        assert held["metadata"]["labels"] == back["metadata"]["labels"]
        assert a.find("ClusterFeature", stone.name) is not None
        for member in (a, group["b"]):
            assert _says(member, "a", f"ClusterFeature {back['metadata']['name']};")

    simulate(play, n=3)


def test_what_a_later_version_added_to_a_tombstone_goes_with_it_from_member_to_member() -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        b, added = group["b"], {f"{meta.LEFT}added": "yes"}
        stone = Tombstone(b.id, b.get("Cluster", "b")["metadata"]["uid"], b.id, datetime.now(UTC).date() + LASTS)
        b.create(tombstone_manifest(stone, secret=f"{NAMESPACE}/b", ordered=True, further=added))
        b.delete("Cluster", "b")
        await group.settle()
        for name in "ac":
            held = group[name].get("ClusterFeature", stone.name)["metadata"]
            assert held["labels"].items() >= added.items()
            assert meta.LEFT_SECRET not in held["annotations"]

    simulate(play, n=3)


def test_a_record_of_deleted_rules_of_a_later_format_is_not_rewritten() -> None:
    async def play(group: SimGroup) -> None:
        await _copied(group)
        a = group["a"]
        record = {
            "kind": "ClusterFeature",
            "metadata": {
                "name": names.DELETED_RULES_OBJECT,
                "labels": {meta.CORE_RESOURCE: "true"},
                "annotations": {meta.DELETED_RULES: '{"format":2,"rules":{}}'},
            },
            "spec": {"featureName": names.DELETED_RULES_FEATURE},
        }
        a.create(record)
        a.create({**_rule(), "metadata": {"name": "other"}})
        await group.settle()
        a.delete("ResourceSyncRule", "other")
        await group.settle()
        found = a.get("ClusterFeature", names.DELETED_RULES_OBJECT)
        assert found["metadata"]["annotations"] == record["metadata"]["annotations"]
        for member in group.members:
            assert _says(member, "a", f"ClusterFeature {names.DELETED_RULES_OBJECT};")
            assert not _says(member, "b", "")

    simulate(play, n=2)


def test_members_see_the_version_of_each_daemon() -> None:
    async def play(group: SimGroup) -> None:
        await group.join()
        shown = {
            json.loads(one.get("Cluster", other.name)["metadata"]["annotations"][meta.DAEMON])["formats"]["provenance"]
            for one in group.members
            for other in group.members
        }
        assert shown == {1}

    simulate(play, n=2)
