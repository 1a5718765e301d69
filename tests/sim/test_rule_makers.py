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
from tests.sim.test_rule_deletions import drop_definition, install_definition, missing

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


async def _synced_many(group: SimGroup) -> tuple[Member, Member]:
    """Let a have copies of 120 ConfigMaps of b: more than may be deleted at once."""
    await group.join()
    here, owner = group["a"], group["b"]
    for number in range(120):
        owner.create(config_map(f"m{number}", {"a": "1"}, labels=LABELS))
    here.create(_rule(CONFIG_MAP))
    await group.settle()
    assert len(_names(here, "ConfigMap")) == 120
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
        here, _ = await _synced_many(group)
        here.apply(_rule(SECRET))
        await group.settle()
        assert len(_names(here, "ConfigMap")) == 120
        assert here.condition("ResourceSyncRule", "r", "Synced")["reason"] == "DeletionHalted"
        here.apply(_rule(CONFIG_MAP))
        await group.settle()
        assert here.condition("ResourceSyncRule", "r", "Synced")["reason"] == "Synced"

    simulate(scenario, n=2)


@pytest.mark.clause("W3", "W4")
@pytest.mark.parametrize("heir", ["of this cluster", "of another cluster"])
def test_the_copies_that_an_heir_does_not_want_are_counted(heir: str) -> None:
    """What is halted stays, until a person allows it; to delete the rule alone is an order."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _synced_many(group)
        narrower = _rule(CONFIG_MAP, entry={"match": [{"objectKey": {"name": "none"}}]})
        if heir == "of another cluster":
            del narrower["metadata"]["annotations"]
            owner.create(narrower)
            await group.settle()
        here.delete("ResourceSyncRule", "r")
        if heir == "of this cluster":
            await asyncio.sleep(10.0)
            here.create(narrower)
        await group.settle()
        assert len(_names(here, "ConfigMap")) == 120
        assert here.condition("ResourceSyncRule", "r", "Synced")["reason"] == "DeletionHalted"
        assert here.get("ResourceSyncRule", "r")["spec"] == narrower["spec"]
        (entry,) = [one for one in here.get("ResourceSyncRule", "r")["status"]["clusters"] if one.get("deletions")]
        since = entry["deletions"]["haltedAt"]
        allowing = {meta.ALLOW_DELETIONS: since}
        here.apply({"kind": "ResourceSyncRule", "metadata": {"name": "r", "annotations": allowing}})
        await group.settle()
        assert not _names(here, "ConfigMap")

    simulate(scenario, n=2)


MAPS = {f"m{number}" for number in range(MANY)}


def _home(member: Member) -> str:
    """Return the cluster in which the rule of a member was created."""
    return marks_of(member.get("ResourceSyncRule", "r")).owner or member.id


def _uids(group: SimGroup) -> dict[str, dict[str, str]]:
    """Return the UIDs of the copies that the first two members have."""
    return {
        name: {found["metadata"]["name"]: found["metadata"]["uid"] for found in group[name].list("ConfigMap")}
        for name in "ab"
    }


async def _rivals(group: SimGroup, backups: list[Any] | None = None) -> dict[str, Any]:
    """Let a have a rule, which b and d copy, and c a younger and narrower one of that name; d has the ConfigMaps.

    Add a backup of a without the rule to `backups`.
    """
    await group.join()
    if backups is not None:
        backups.append(group["a"].server.store.backup())
    for name in MAPS:
        group["d"].create(config_map(name, {"a": "1"}, labels=LABELS))
    wide = rule("r", CONFIG_MAP, WANTED, deletionPolicy="Delete")
    group["a"].create(wide, born="2025-01-01T00:00:00Z")
    group["c"].create(rule("r", CONFIG_MAP, FIRST, deletionPolicy="Delete"), born="2025-06-01T00:00:00Z")
    await group.settle()
    assert [_names(group[name], "ConfigMap") for name in "abc"] == [MAPS, MAPS, {"m0"}]
    return wide


@pytest.mark.clause("W3")
@pytest.mark.parametrize("born", ["2025-01-01T00:00:00Z", ""], ids=["older", "younger"])
@pytest.mark.parametrize("pause_s", [0.05, 0.3, 5.0, 25.0])
def test_a_rule_that_is_replaced_keeps_its_name_and_its_copies_although_another_cluster_offers_one(
    pause_s: float, born: str
) -> None:
    async def scenario(group: SimGroup) -> None:
        wide = await _rivals(group)
        before, a = _uids(group), group["a"]
        a.delete("ResourceSyncRule", "r")
        await asyncio.sleep(pause_s)
        a.create(wide, born=born)
        await group.settle()
        assert _uids(group) == before
        assert [_home(group[name]) for name in "ab"] == [a.id, a.id if born else group["c"].id]

    simulate(scenario, n=4)


@pytest.mark.clause("W3")
def test_a_rule_of_another_cluster_takes_the_name_and_the_copies_that_it_wants_after_the_window() -> None:
    async def scenario(group: SimGroup) -> None:
        await _rivals(group)
        before = _uids(group)
        group["a"].delete("ResourceSyncRule", "r")
        await asyncio.sleep(25.0)
        assert _uids(group) == before
        await group.settle()
        assert _uids(group) == {name: {"m0": before[name]["m0"]} for name in "ab"}
        assert [_home(group[name]) for name in "ab"] == [group["c"].id] * 2

    simulate(scenario, n=4)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("restarts", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("how", ["definition", "restore"])
def test_a_rule_that_is_lost_leaves_nothing_to_a_rule_of_another_cluster(how: str, restarts: bool) -> None:
    """Nothing shows that it was deleted, so that it can be created again; or a person lets its copies go."""

    async def scenario(group: SimGroup) -> None:
        a, store = group["a"], group["a"].server.store
        wide = await _rivals(group, before := [])
        if how == "restore":
            group.cut("a")
            store.restore(before[0], bump=1000)
        else:
            drop_definition(group, "a")
            install_definition(group, "a")
        await group.settle()
        if restarts:
            await a.restart()
            await group.settle()
        assert [_names(group[name], "ConfigMap") for name in "ab"] == [MAPS, MAPS]
        assert all(missing(group[name], "a") for name in "ab")
        assert a.find("ResourceSyncRule", "r") is None
        uids = _uids(group)
        a.create(wide, born="2025-01-01T00:00:00Z")
        await group.settle()
        assert _uids(group) == uids
        assert not any(missing(group[name], "a") for name in "ab")

    simulate(scenario, n=4)


@pytest.mark.clause("W3")
def test_a_person_lets_a_rule_of_another_cluster_have_the_name_of_one_that_is_lost() -> None:
    async def scenario(group: SimGroup) -> None:
        await _rivals(group)
        drop_definition(group, "a")
        install_definition(group, "a")
        await group.settle()
        for name in "ab":
            found = missing(group[name], "a")
            assert found is not None
            group[name].apply({
                "kind": "Cluster",
                "metadata": {
                    "name": "a", "annotations": {meta.ALLOW_DELETIONS: found["message"].rpartition("=")[2]}
                },
            })  # fmt: skip
        await group.settle()
        assert [_names(group[name], "ConfigMap") for name in "ab"] == [{"m0"}] * 2
        assert [_home(group[name]) for name in "ab"] == [group["c"].id] * 2

    simulate(scenario, n=4)
