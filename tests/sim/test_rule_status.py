"""A rule that copies nothing, or not all, does not say that all is well. R2, S1, S3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.dry_run import plan
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.transport import Fault

LABELS = {"sync": "yes"}
WANTED: dict[str, Any] = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
AS_GADGETS = {**WANTED, "mutations": {"groupVersionKind": {"group": "sim.example", "kind": "Gadget"}}}


def _told(group: SimGroup, name: str, kind: str) -> tuple[str, str, str]:
    found = group["a"].condition("ResourceSyncRule", name, kind)
    return found["status"], found["reason"], found["message"]


def _entry(group: SimGroup, name: str) -> dict[str, Any]:
    status = group["a"].get("ResourceSyncRule", name).get("status", {})
    return next((entry for entry in status.get("clusters", []) if entry["clusterID"] == group["b"].id), {})


def _widget(name: str) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": name, "namespace": "default", "labels": LABELS}, "spec": {"a": 1}}


AS_UNHEARD = pytest.mark.parametrize("trouble", ["not served", "may not be listed"])


def _set(group: SimGroup, trouble: str, *, on: bool) -> None:
    server = group["a"].server
    if trouble == "not served":
        server.change_served("Gadget", served=not on)
    else:
        (server.unreadable.add if on else server.unreadable.discard)("Gadget")


@AS_UNHEARD
def test_a_rule_whose_copies_are_of_a_kind_that_is_not_heard_here_says_so_until_it_is(trouble: str) -> None:
    """R2, S3: the kind of the copies counts, whatever the kind of the sources; nothing of it is silent."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        _set(group, trouble, on=True)
        for name in ("one", "two"):
            owner.create(_widget(name))
        here.create(rule("as-gadgets", {"group": "sim.example", "version": "v1", "kind": "Widget"}, AS_GADGETS))
        here.create(rule("as-they-are", {"group": "sim.example", "version": "v1", "kind": "Widget"}, WANTED))
        await asyncio.sleep(90.0)
        status, reason, words = _told(group, "as-gadgets", "Synced")
        assert (status, reason) == ("False", "Waiting")
        assert words.startswith("2 waiting; here: Gadget: ")
        status, reason, words = _told(group, "as-gadgets", "Stalled")
        assert (status, reason) == ("True", "ActionNeeded")
        if trouble == "not served":
            assert "Gadget" in words
            assert "not served here" in words
        else:
            assert "gadgets" in words
            assert 'controller-aggregated: "true" here' in words
        entry = _entry(group, "as-gadgets")
        assert (entry["matched"], entry["synced"]) == (2, 0)
        assert {failure["reason"] for failure in entry["failures"]} == {"LocalNotHeard"}
        assert _told(group, "as-they-are", "Synced")[:2] == ("True", "Synced")
        found = await plan(group, "a", here.get("ResourceSyncRule", "as-gadgets"), wait_s=20.0)
        assert any("Gadget" in words for words in found.problems), found.problems
        assert {(row.action.value, row.owner, row.reason) for row in found.rows} == {
            ("wait", owner.id, "LocalNotHeard")
        }
        _set(group, trouble, on=False)
        await group.settle()
        assert len(here.list("Gadget")) == 2
        assert _told(group, "as-gadgets", "Synced")[:2] == ("True", "Synced")
        assert _told(group, "as-gadgets", "Stalled")[:2] == ("False", "NotStalled")

    simulate(scenario, n=2)


def test_what_another_rule_may_not_read_is_not_said_of_a_rule_that_has_all() -> None:
    """S3: rules for one kind ask for different objects of it, and rights may be for some of them only."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.server.unreadable.add("ConfigMap more=yes")
        owner.create(config_map("one", {"a": "1"}, labels=LABELS))
        here.create(rule("maps", CONFIG_MAP, WANTED))
        here.create(rule("more", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"more": "yes"}}]}]}))
        await asyncio.sleep(90.0)
        assert _told(group, "more", "Stalled")[:2] == ("True", "ActionNeeded")
        assert _told(group, "maps", "Synced")[:2] == ("True", "Synced")
        assert _told(group, "maps", "Stalled")[:2] == ("False", "NotStalled")

    simulate(scenario, n=2)


def test_a_source_that_says_it_is_not_kept_back_and_is_is_warned_of() -> None:
    """W5: any value counts, and "false" is not what it looks like; what is meant is not said at all."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        for name, value in (("doubted", "false"), ("meant", "true")):
            owner.create(config_map(name, {"a": "1"}, labels=LABELS, annotations={SYNC_DISABLED: value}))
        owner.create(config_map("left-alone", {"a": "1"}, labels=LABELS))
        here.create(rule("maps", CONFIG_MAP, WANTED))
        await group.settle()
        for value, count in (("false", 2), ("true", 1)):
            annotated = {"name": "left-alone", "namespace": "default", "annotations": {SYNC_DISABLED: value}}
            here.apply({"kind": "ConfigMap", "metadata": annotated})
            await group.settle()
            entry = _entry(group, "maps")
            assert (entry["matched"], entry["skipped"]) == (3, 3)
            said = {failure["object"]: failure["message"] for failure in entry["failures"]}
            assert len(said) == count
            assert all('counts with any value, "false" too: remove it' in words for words in said.values())
        assert list(said) == ["ConfigMap default/doubted"]
        assert _told(group, "maps", "Synced") == (
            "True", "Synced", f"3 skipped; ConfigMap default/doubted: {said['ConfigMap default/doubted']}"
        )  # fmt: skip
        found = await plan(group, "a", here.get("ResourceSyncRule", "maps"))
        told = {row.target.name: row.message for row in found.rows}
        assert ('"false" too' in told["doubted"], '"false" too' in told["meant"]) == (True, False)
        owner.apply({"kind": "ConfigMap", "metadata": {
            "name": "doubted", "namespace": "default", "annotations": {SYNC_DISABLED: None}
        }})  # fmt: skip
        await group.settle()
        entry = _entry(group, "maps")
        assert (entry["synced"], entry["skipped"], entry.get("failures")) == (1, 2, None)
        assert here.find("ConfigMap", "doubted", namespace="default") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("own", ["none", "two"])
def test_whether_a_rule_is_for_a_cluster_that_does_not_know_its_own_cluster_is_not_known(own: str) -> None:
    """W1, S1: status and plan say the same of it, and nothing goes meanwhile."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.create(config_map("one", {"a": "1"}, labels=LABELS))
        made = rule("for-a", CONFIG_MAP, WANTED, targetClusters={"names": ["a"]}, deletionPolicy="Delete")
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        here.create(made)
        await group.settle()
        assert _told(group, "for-a", "Synced")[:2] == ("True", "Synced")
        cluster = here.get("Cluster", "a")
        if own == "two":
            here.create({"kind": "Cluster", "metadata": {"name": "again"}, "spec": cluster["spec"]})
        else:
            here.apply({"kind": "Cluster", "metadata": {"name": "a"}, "spec": {"clusterID": "another"}})
        await asyncio.sleep(20.0)
        assert _told(group, "for-a", "Synced")[1] != "LocalClusterUnclear", "it may be made again in a moment"
        await asyncio.sleep(20.0)
        status, reason, words = _told(group, "for-a", "Synced")
        assert (status, reason) == ("Unknown", "LocalClusterUnclear")
        assert (
            words
            == "spec.targetClusters: cannot be evaluated: there must be exactly one Cluster with this cluster's ID"
        )
        found = await plan(group, "a", here.get("ResourceSyncRule", "for-a"))
        assert f"rule for-a does nothing here: {words}" in found.notes
        assert here.find("ConfigMap", "one", namespace="default") is not None
        if own == "two":
            here.delete("Cluster", "again")
        else:
            here.apply({"kind": "Cluster", "metadata": {"name": "a"}, "spec": cluster["spec"]})
        await group.settle()
        assert _told(group, "for-a", "Synced")[:2] == ("True", "Synced")
        here.apply({**made, "spec": {**made["spec"], "targetClusters": {"names": ["b"]}, "deletionPolicy": "Orphan"}})
        await group.settle()
        assert _told(group, "for-a", "Synced") == (
            "True", "Idle", "spec.targetClusters: does not select this cluster"
        )  # fmt: skip

    simulate(scenario, n=2)


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.HUNG, Fault.BROKEN])
def test_a_peer_that_does_not_answer_is_waited_for_and_nobody_has_to_act(fault: Fault) -> None:
    """R2, S1: its Cluster says what is wrong, and the rule that it is not read."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(rule("maps", CONFIG_MAP, WANTED))
        owner.create(config_map("one", {"n": "1"}, labels=LABELS))
        await group.settle()
        group.fail("b", fault)
        stalled = set()
        for _ in range(90):
            await asyncio.sleep(1.0)
            stalled.add(_told(group, "maps", "Stalled")[:2])
        assert stalled == {("False", "NotStalled")}
        assert _told(group, "maps", "Synced") == ("False", "Waiting", "not read: b")

    simulate(scenario, n=2)


def test_a_younger_rule_is_not_in_step_while_the_older_one_fails_on_its_object() -> None:
    """W2, S1: what it wants is not there; when the older goes, it is."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        wrong = {"type": "replace", "path": "/data/none", "value": "x"}
        here.create(rule("older", CONFIG_MAP, {**WANTED, "mutations": {"overrides": [wrong]}}))
        await asyncio.sleep(2.0)
        here.create(rule("younger", CONFIG_MAP, {**WANTED, "mutations": {"labels": {"add": {"by": "younger"}}}}))
        owner.create(config_map("one", {"n": "1"}, labels=LABELS))
        await group.settle()
        assert here.find("ConfigMap", "one", namespace="default") is None
        assert _told(group, "older", "Synced")[:2] == ("False", "Failing")
        assert _told(group, "younger", "Synced")[:2] == ("False", "Conflict")
        assert "rule older, which is older, has this place" in _told(group, "younger", "Synced")[2]
        here.delete("ResourceSyncRule", "older")
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["metadata"]["labels"]["by"] == "younger"
        assert _told(group, "younger", "Synced")[:2] == ("True", "Synced")

    simulate(scenario, n=2)
