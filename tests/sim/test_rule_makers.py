"""What made a copy is a rule, its owner and UID, and the kind that it reads; a namesake is another rule. W3, W4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault

MANY = 5
LABELS = {"sync": "yes"}
WANTED = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
FIRST = {"match": [{"objectKey": {"name": "m0"}}]}


def _rule(kind: dict[str, str], policy: str = "Delete", *, entry: dict[str, Any] | None = None) -> dict[str, Any]:
    made = rule("r", kind, WANTED if entry is None else entry, deletionPolicy=policy)
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


async def _synced(group: SimGroup, policy: str = "Delete") -> tuple[Member, Member]:
    """Let a have copies of b's ConfigMaps, and b have Secrets, too."""
    await group.join()
    here, owner = group["a"], group["b"]
    for number in range(MANY):
        owner.create(config_map(f"m{number}", {"a": "1"}, labels=LABELS))
        info = {"name": f"s{number}", "namespace": "default", "labels": LABELS}
        owner.create({"kind": "Secret", "metadata": info, "stringData": {"a": "1"}})
    here.create(_rule(CONFIG_MAP, policy))
    await group.settle()
    assert _names(here, "ConfigMap") == {f"m{number}" for number in range(MANY)}
    return here, owner


def _names(member: Member, kind: str) -> set[str]:
    return {
        item["metadata"]["name"]
        for item in member.list(kind)
        if marks_of(item).owner not in ("", member.id) and item["metadata"]["namespace"] == "default"
    }


def _makers(member: Member) -> set[str]:
    return {marks_of(item).provenance["ruleUID"] for item in member.list("ConfigMap") if marks_of(item).owner}


@pytest.mark.clause("W3")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_the_copies_of_a_kind_that_a_rule_reads_no_more_go_as_their_policy_says(policy: str, restarted: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _synced(group, policy)
        if restarted:
            await here.stop()
        here.apply(_rule(SECRET, policy))
        here.start_again()
        await group.settle()
        assert _names(here, "Secret") == {f"s{number}" for number in range(MANY)}
        assert _names(here, "ConfigMap") == (set() if policy == "Delete" else {f"m{number}" for number in range(MANY)})
        assert here.condition("ResourceSyncRule", "r", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_copies_of_another_kind_stay_while_their_owner_is_silent() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = await _synced(group)
        await owner.stop()
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(30.0)
        here.apply(_rule(SECRET))
        await asyncio.sleep(120.0)
        assert len(_names(here, "ConfigMap")) == MANY
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert not _names(here, "ConfigMap")

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_a_copy_that_another_rule_wants_is_taken_over_when_its_own_reads_another_kind() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _synced(group)
        other = _rule(CONFIG_MAP, entry=FIRST)
        other["metadata"]["name"] = "other"
        here.create(other)
        await group.settle()
        uid = here.get("ConfigMap", "m0", namespace="default")["metadata"]["uid"]
        here.apply(_rule(SECRET))
        await group.settle()
        assert _names(here, "ConfigMap") == {"m0"}
        found = here.get("ConfigMap", "m0", namespace="default")
        assert (found["metadata"]["uid"], marks_of(found).provenance["rule"]) == (uid, "other")

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("pause_s", [0.0, 10.0, 60.0])
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_an_heir_takes_over_what_it_wants_and_the_rest_goes_as_the_copies_say(policy: str, pause_s: float) -> None:
    """The heir's own policy is the other one. Where the rule was gone for longer, its copies went with it."""

    async def scenario(group: SimGroup) -> None:
        here, _ = await _synced(group, policy)
        uids = {found["metadata"]["name"]: found["metadata"]["uid"] for found in here.list("ConfigMap")}
        here.delete("ResourceSyncRule", "r")
        await asyncio.sleep(pause_s)
        here.create(_rule(CONFIG_MAP, "Delete" if policy == "Orphan" else "Orphan", entry=FIRST))
        await group.settle()
        assert _names(here, "ConfigMap") == ({"m0"} if policy == "Delete" else set(uids))
        found = here.get("ConfigMap", "m0", namespace="default")
        assert marks_of(found).provenance["ruleUID"] == here.get("ResourceSyncRule", "r")["metadata"]["uid"]
        assert (found["metadata"]["uid"] == uids["m0"]) is (policy == "Orphan" or pause_s < 30.0)

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_an_heir_takes_every_copy_over_in_one_write() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _ = await _synced(group)
        uids = {found["metadata"]["uid"] for found in here.list("ConfigMap")}
        here.delete("ResourceSyncRule", "r")
        written = len(here.server.journal)
        here.create(_rule(CONFIG_MAP))
        await group.settle()
        writes = [write for write in here.server.journal[written:] if write.kind == "ConfigMap"]
        assert [(write.verb, write.changed) for write in writes] == [("update", True)] * MANY
        assert {found["metadata"]["uid"] for found in here.list("ConfigMap")} == uids
        assert _makers(here) == {here.get("ResourceSyncRule", "r")["metadata"]["uid"]}

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_a_namesake_from_another_cluster_decides_about_each_copy_and_their_policy_counts() -> None:
    """A rule was made here, with Delete; then a member's rule of that name, with Orphan, has its place."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _synced(group)
        namesake = _rule(CONFIG_MAP, "Orphan", entry=FIRST)
        del namesake["metadata"]["annotations"]
        owner.create(namesake)
        await group.settle()
        assert len(_names(here, "ConfigMap")) == MANY
        here.delete("ResourceSyncRule", "r")
        await group.settle()
        assert _names(here, "ConfigMap") == {"m0"}
        found = here.get("ConfigMap", "m0", namespace="default")
        assert marks_of(found).provenance["ruleOwner"] == owner.id

    simulate(scenario, n=2)


@pytest.mark.clause("W3", "W4")
def test_the_copies_of_a_kind_that_a_rule_reads_no_more_are_counted() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        for number in range(120):
            owner.create(config_map(f"m{number}", {"a": "1"}, labels=LABELS))
        here.create(_rule(CONFIG_MAP))
        await group.settle()
        assert len(_names(here, "ConfigMap")) == 120
        here.apply(_rule(SECRET))
        await group.settle()
        assert len(_names(here, "ConfigMap")) == 120
        assert here.condition("ResourceSyncRule", "r", "Synced")["reason"] == "DeletionHalted"
        here.apply(_rule(CONFIG_MAP))
        await group.settle()
        assert here.condition("ResourceSyncRule", "r", "Synced")["reason"] == "Synced"

    simulate(scenario, n=2)
