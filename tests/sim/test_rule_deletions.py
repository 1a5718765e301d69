"""When a rule counts as deleted: only where something shows it, and not where it is merely missing. W3."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import read_deleted_rules
from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault

WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
MANY = 60
WINDOW_S = 30.0


def delete_rule(name: str = "r", **spec: Any) -> dict[str, Any]:
    return rule(name, CONFIG_MAP, WANTED, deletionPolicy="Delete", **spec)


def copies(member: Member) -> int:
    return sum(meta.OWNER in (found["metadata"].get("annotations") or {}) for found in member.list("ConfigMap"))


def recorded(member: Member) -> set[str]:
    found = member.find("ClusterFeature", names.DELETED_RULES_OBJECT)
    annotations = found["metadata"].get("annotations") or {} if found is not None else {}
    return {deleted.name for deleted in read_deleted_rules(annotations)}


def missing(member: Member, cluster: str) -> dict[str, Any] | None:
    """Return the condition of a Cluster that names missing rules."""
    conditions = (member.get("Cluster", cluster).get("status") or {}).get("conditions") or []
    return next((found for found in conditions if found["type"] == "RulesMissing"), None)


async def synced(group: SimGroup, *, home: str = "a", source: str = "c", count: int = MANY) -> None:
    """Let a rule of `home` copy objects of `source` to the other members."""
    await group.join()
    for number in range(count):
        group[source].create(config_map(f"m{number}", {"a": "1"}, labels={"sync": "yes"}))
    group[home].create(delete_rule())
    await group.settle()
    assert {member.name: copies(member) for member in group.members if member.name != source} == dict.fromkeys(
        (member.name for member in group.members if member.name != source), count
    )


def drop_definition(group: SimGroup, name: str) -> list[dict[str, Any]]:
    """Delete the definition of rules, with all rules and all watches of them; return the rules that were there."""
    member = group[name]
    rules = member.list("ResourceSyncRule")
    for found in rules:
        member.delete("ResourceSyncRule", found["metadata"]["name"])
    member.delete("CustomResourceDefinition", f"{meta.RULES.resource}.{meta.GROUP}")
    group.cut(name)
    member.server.compact()
    return rules


def delete_definition(group: SimGroup, name: str) -> None:
    """Delete the definition of rules, which takes a while, with all rules."""
    member = group[name]
    member.server.terminate("ResourceSyncRule")
    for gone in member.list("ResourceSyncRule"):
        member.delete("ResourceSyncRule", gone["metadata"]["name"])


def remove_definition(group: SimGroup, name: str, *, cuts: bool = True) -> None:
    """Remove the definition of rules, and end the watches of rules that other members have there, if `cuts`."""
    member = group[name]
    member.server.change_served("ResourceSyncRule", served=False)
    member.server.compact()
    for other in group.members:
        if cuts and other is not member:
            group.wire(other.name, name).cut()


def install_definition(group: SimGroup, name: str) -> None:
    group[name].server.change_served("ResourceSyncRule", served=True)


@pytest.mark.clause("O11")
@pytest.mark.parametrize("name", ["r", "mine"], ids=["over the rule itself", "under another name"])
def test_a_rule_that_was_made_from_the_yaml_of_a_rules_copy_is_its_clusters_own(name: str) -> None:
    """It is accepted with another spec, too, and its deletion is recorded for a member that is down. A8, W3."""

    async def scenario(group: SimGroup) -> None:
        await synced(group, home="a" if name == "r" else "b", count=3)
        a, b, c = (group[name] for name in "abc")
        found = b.get("ResourceSyncRule", "r") if name == "r" else a.get("ResourceSyncRule", "r")
        marks = found["metadata"]["annotations"]
        assert meta.PROVENANCE in marks
        c.create(config_map("other", {"a": "1"}, labels={"sync": "other"}))
        others = {"match": [{"labels": [{"matchLabels": {"sync": "other"}}]}]}
        made = rule(name, CONFIG_MAP, others, deletionPolicy="Delete", targetClusters={"names": ["b"]})
        a.apply({**made, "metadata": {**made["metadata"], "annotations": marks}})
        await group.settle()
        assert a.condition("ResourceSyncRule", name, "Accepted")["status"] == "True"
        assert b.find("ConfigMap", "other", namespace="default") is not None
        await b.stop()
        a.delete("ResourceSyncRule", name)
        await group.settle()
        assert recorded(a) == {name}
        b.start()
        await group.settle()
        assert b.find("ResourceSyncRule", name) is None
        assert b.find("ConfigMap", "other", namespace="default") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("loses_copy", [False, True], ids=["", "and the rule's copy is deleted here"])
def test_rules_go_with_a_definition_that_a_finalizer_keeps_for_long(loses_copy: bool) -> None:
    """Nobody deleted them: members hear the deletions, and discovery shows that the definition goes."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        delete_definition(group, "a")
        if loses_copy:
            b.delete("ResourceSyncRule", "r")
        await asyncio.sleep(5 * WINDOW_S)
        assert copies(b) == MANY
        remove_definition(group, "a")
        await asyncio.sleep(WINDOW_S)
        install_definition(group, "a")
        a.create(delete_rule())
        await group.settle()
        assert copies(b) == MANY
        a.delete("ResourceSyncRule", "r")
        await group.settle()
        assert copies(b) == 0

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("away_s", [0.3, WINDOW_S])
def test_the_next_definition_of_rules_confirms_no_deletion_of_the_former_one(away_s: float) -> None:
    """A member sees the next definition before it sees that its watch of rules ended with the former one."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        way = group.wire("b", "a")
        delete_definition(group, "a")
        await asyncio.sleep(2 * WINDOW_S)
        way.stuck = frozenset({meta.RULES.resource})
        remove_definition(group, "a", cuts=False)
        await asyncio.sleep(away_s)
        install_definition(group, "a")
        await asyncio.sleep(2 * WINDOW_S)
        assert copies(group["b"]) == MANY
        way.stuck = frozenset()
        way.cut()
        await group.settle()
        assert copies(group["b"]) == MANY
        assert missing(group["b"], "a") is not None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_a_rule_that_is_deleted_is_recorded_at_home_and_its_copies_go_everywhere() -> None:
    """Until the window is over the rule acts, and is here, in each member as if nothing had changed."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        group["a"].delete("ResourceSyncRule", "r")
        await asyncio.sleep(WINDOW_S / 2)
        group["c"].create(config_map("new", {"a": "1"}, labels={"sync": "yes"}))
        await asyncio.sleep(WINDOW_S / 2 - 2.0)
        assert [copies(group[name]) for name in "ab"] == [MANY + 1, MANY + 1]
        assert group["b"].find("ResourceSyncRule", "r") is not None
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [0, 0]
        assert recorded(group["a"]) == {"r"}
        assert not recorded(group["b"])
        assert group["b"].find("ResourceSyncRule", "r") is None
        assert missing(group["b"], "a") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_member_that_was_away_obeys_the_record(restarts: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        await synced(group)
        if restarts:
            group["b"].kill()
        else:
            group.wire("b", "a").set(Fault.REFUSED)
            group.wire("b", "a").cut()
        group["a"].delete("ResourceSyncRule", "r")
        await group.settle()
        group["a"].server.compact()
        assert copies(group["b"]) == MANY
        if restarts:
            group["b"].start_again()
        else:
            group.wire("b", "a").set(None)
        await group.settle()
        assert copies(group["b"]) == 0
        assert group["b"].find("ResourceSyncRule", "r") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_a_rule_that_is_deleted_while_no_daemon_runs_is_gone() -> None:
    """The copies at its home show it: they are younger than the definition of rules, so the rule was in this store."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        for name in "ab":
            group[name].kill()
        group["a"].delete("ResourceSyncRule", "r")
        group["a"].server.compact()
        await asyncio.sleep(60.0)
        for name in "ab":
            group[name].start_again()
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [0, 0]
        assert recorded(group["a"]) == {"r"}
        assert group["b"].find("ResourceSyncRule", "r") is None
        assert missing(group["b"], "a") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("skew_s", [0.0, -86400.0], ids=["in the same second", "the clock was set back"])
def test_a_definition_that_is_installed_again_while_no_daemon_runs_deletes_no_copy(skew_s: float) -> None:
    """W3: by its time the new definition is not younger than the rules that went with the one before."""

    async def scenario(group: SimGroup) -> None:
        a = group["a"]
        await synced(group)
        a.kill()
        if skew_s:
            a.server.skew_s += skew_s
        else:
            created = datetime.fromisoformat(a.get("ResourceSyncRule", "r")["metadata"]["creationTimestamp"])
            now = datetime.fromisoformat(a.create(config_map("now", {}))["metadata"]["creationTimestamp"])
            a.server.skew_s += (created - now).total_seconds()
        drop_definition(group, "a")
        install_definition(group, "a")
        a.start_again()
        await group.settle()
        assert not recorded(a)
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        a.create(delete_rule())
        await group.settle()
        for name in "ab":
            group[name].kill()
        a.delete("ResourceSyncRule", "r")
        a.server.compact()
        for name in "ab":
            group[name].start_again()
        await group.settle()
        assert recorded(a) == {"r"}
        assert [copies(group[name]) for name in "ab"] == [0, 0]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_a_rule_that_is_deleted_while_no_daemon_runs_is_gone_whatever_the_clock_says() -> None:
    """W3: a clock that was set back lets the definition look younger than the rule."""

    async def scenario(group: SimGroup) -> None:
        a = group["a"]
        a.server.skew_s -= 86400.0
        await synced(group)
        a.server.change_served("ResourceSyncRule", served=True)  # its definition is applied again, and stays the same
        await group.settle()
        await a.restart()
        await group.settle()
        group["c"].create(config_map("late", {"a": "1"}, labels={"sync": "yes"}))
        await group.settle()
        a.kill()
        a.delete("ResourceSyncRule", "r")
        a.server.compact()
        a.start_again()
        await group.settle()
        assert recorded(a) == {"r"}
        assert [copies(group[name]) for name in "ab"] == [0, 0]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_a_copy_that_was_made_before_the_definition_could_be_read_hides_no_deletion() -> None:
    async def scenario(group: SimGroup) -> None:
        a = group["a"]
        await synced(group)
        home = group.wire("a", "a")
        home.unallowed = {"customresourcedefinitions"}
        await a.restart()
        group["c"].create(config_map("a-first", {"a": "1"}, labels={"sync": "yes"}))
        await asyncio.sleep(10.0)
        assert copies(a) == MANY + 1
        a.kill()
        home.unallowed = set()
        a.delete("ResourceSyncRule", "r")
        a.server.compact()
        a.start_again()
        await group.settle()
        assert recorded(a) == {"r"}
        assert [copies(group[name]) for name in "ab"] == [0, 0]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("bump", [0, 1_000_000])
@pytest.mark.parametrize("how", ["a daemon that does not know yet", "a backup tool"])
def test_a_copy_that_came_after_a_restore_shows_no_deletion_of_a_rule_that_it_lost(how: str, bump: int) -> None:
    """It names the rule as if that had been in the restored store. The next daemon knows nothing else."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        before = a.server.store.backup()
        a.create(delete_rule())
        c.create(config_map("m", {"a": "1"}, labels={"sync": "yes"}))
        await group.settle()
        copied = a.get("ConfigMap", "m", namespace="default")
        if how != "a backup tool":
            c.create(config_map("late", {"a": "1"}, labels={"sync": "yes"}))
        group.cut("a")
        a.server.store.restore(before, bump=bump)
        if how == "a backup tool":
            kept = {part: copied["metadata"][part] for part in ("name", "namespace", "labels", "annotations")}
            a.create({"kind": "ConfigMap", "metadata": kept, "data": copied["data"]})
        await asyncio.sleep(0.5)
        a.kill()
        a.start()
        await asyncio.sleep(120.0)
        assert recorded(a) == set()
        assert copies(b) == (1 if how == "a backup tool" else 2)
        found = missing(b, "a")
        assert found is not None
        assert "ResourceSyncRules r are missing" in found["message"]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("restarts", [False, True], ids=["up", "restarted"])
def test_a_rule_that_a_restored_etcd_does_not_know_is_missing_and_no_copy_goes(restarts: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        for number in range(MANY):
            group["c"].create(config_map(f"m{number}", {"a": "1"}, labels={"sync": "yes"}))
        await group.settle()
        before = group["a"].server.store.backup()
        group["a"].create(delete_rule())
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        group.cut("a")
        group["a"].server.store.restore(before)
        await asyncio.sleep(10.0)
        assert copies(group["a"]) == MANY, "the rule acts for the window, also here"
        if restarts:
            await group["a"].restart()
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        assert group["b"].find("ResourceSyncRule", "r") is not None, "it stays, and acts"
        found = missing(group["b"], "a")
        assert found is not None
        assert "ResourceSyncRules r are missing" in found["message"]
        group["c"].create(config_map("late", {"a": "1"}, labels={"sync": "yes"}))
        await group.settle()
        assert copies(group["b"]) == MANY + 1

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("pause_s", [0.5, 60.0])
def test_a_definition_of_rules_that_is_installed_again_deletes_no_copy(pause_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        await synced(group)
        rules = drop_definition(group, "a")
        await asyncio.sleep(pause_s)
        install_definition(group, "a")
        await asyncio.sleep(60.0)
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        for found in rules:
            if found["metadata"]["name"] == "r":
                group["a"].create({"kind": "ResourceSyncRule", "metadata": {"name": "r"}, "spec": found["spec"]})
        await group.settle()
        uids = {found["metadata"]["uid"] for found in group["a"].list("ConfigMap")}
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        assert len(uids) == MANY
        assert missing(group["a"], "a") is None
        group["a"].delete("ResourceSyncRule", "r")
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [0, 0], (
            "the rule was taken over by the one that was created again"
        )

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("fault", ["stuck", "refused"])
@pytest.mark.parametrize("away_s", [0.5, 60.0])
def test_a_definition_that_goes_deletes_no_copy_although_its_watch_is_behind(fault: str, away_s: float) -> None:
    """The watch of rules shows that they went, and the watch of definitions shows nothing."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        home = group.wire("a", "a")
        if fault == "stuck":
            home.stuck = frozenset({"customresourcedefinitions"})
        else:
            home.unallowed = {"customresourcedefinitions"}
            home.cut()
        await asyncio.sleep(1.0)
        delete_definition(group, "a")
        await asyncio.sleep(20.0)
        assert not recorded(group["a"])
        remove_definition(group, "a")
        await asyncio.sleep(away_s)
        install_definition(group, "a")
        await asyncio.sleep(60.0)
        assert not recorded(group["a"])
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        home.stuck, home.unallowed = frozenset(), set()
        home.cut()
        await group.settle()
        assert not recorded(group["a"])
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        group["a"].create(delete_rule())
        await group.settle()
        group["a"].delete("ResourceSyncRule", "r")
        await group.settle()
        assert recorded(group["a"]) == {"r"}
        assert [copies(group[name]) for name in "ab"] == [0, 0]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_a_rule_that_is_deleted_while_the_daemons_are_down_is_shown_by_its_copies_at_home(policy: str) -> None:
    """Under any policy, so that the members hear of it. What is recorded is searched no more."""

    async def scenario(group: SimGroup) -> None:
        home, source, third = group["a"], group["b"], group["c"]
        await group.join()
        source.create(config_map("m", {"a": "1"}, labels={"sync": "yes"}))
        home.create(rule("r", CONFIG_MAP, WANTED, deletionPolicy=policy))
        await group.settle()
        await home.stop()
        await third.stop()
        home.delete("ResourceSyncRule", "r")
        for member in (home, third):
            member.start()
        await group.settle()
        assert recorded(home) == {"r"}
        assert third.find("ResourceSyncRule", "r") is None
        assert [copies(member) for member in (home, third)] == [int(policy == "Orphan")] * 2
        for _ in range(2):
            assert not [path for path in group.wire("a", "a").open_watches if "/configmaps" in path]
            written = len(home.server.journal)
            await home.restart()
            await group.settle()
            assert not [write for write in home.server.journal[written:] if write.kind == "ClusterFeature"]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_a_rule_that_is_deleted_while_no_definition_can_be_read_is_recorded_later() -> None:
    async def scenario(group: SimGroup) -> None:
        await synced(group)
        home = group.wire("a", "a")
        home.unallowed = {"customresourcedefinitions"}
        group["a"].delete("ResourceSyncRule", "r")
        await asyncio.sleep(2 * WINDOW_S)
        assert not recorded(group["a"])
        assert copies(group["a"]) == MANY
        home.unallowed = set()
        await group.settle()
        assert recorded(group["a"]) == {"r"}
        assert [copies(group[name]) for name in "ab"] == [0, 0]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_copies_of_missing_rules_go_when_a_person_allows_it() -> None:
    async def scenario(group: SimGroup) -> None:
        await synced(group)
        drop_definition(group, "a")
        install_definition(group, "a")
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [MANY, MANY]
        for name in "ab":
            found = missing(group[name], "a")
            assert found is not None
            moment = found["message"].rpartition("=")[2]
            cluster = group[name].get("Cluster", "a")
            annotations = {**(cluster["metadata"].get("annotations") or {}), meta.ALLOW_DELETIONS: moment}
            group[name].replace({**cluster, "metadata": {**cluster["metadata"], "annotations": annotations}})
        await group.settle()
        assert [copies(group[name]) for name in "ab"] == [0, 0]
        assert missing(group["b"], "a") is None

    simulate(scenario, n=3)


def restore(group: SimGroup, name: str, state: Any) -> None:
    """Put the etcd of a member back to an earlier state."""
    group.cut(name)
    group[name].server.store.restore(state)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("runs", [True, False], ids=["", "while no daemon runs"])
def test_an_allowance_for_missing_rules_lets_no_copies_of_a_later_one_go(runs: bool) -> None:
    """The copies of the first rule wait, because the owner of their sources is silent."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c, d = group.members
        before = a.server.store.backup()
        for number in range(MANY):
            c.create(config_map(f"first-{number}", {"a": "1"}, labels={"sync": "yes"}))
            d.create(config_map(f"second-{number}", {"a": "1"}, labels={"sync": "later"}))
        a.create(delete_rule("first"))
        await group.settle()
        restore(group, "a", before)
        await group.settle()
        group.wire("b", "c").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        found = missing(b, "a")
        assert found is not None
        moment = found["message"].rpartition("=")[2]
        b.apply({"kind": "Cluster", "metadata": {"name": "a", "annotations": {meta.ALLOW_DELETIONS: moment}}})
        await asyncio.sleep(60.0)
        before = a.server.store.backup()
        later = {"match": [{"labels": [{"matchLabels": {"sync": "later"}}]}]}
        a.create(rule("second", CONFIG_MAP, later, deletionPolicy="Delete"))
        await group.settle()
        assert copies(b) == 2 * MANY
        if not runs:
            await b.stop()
        restore(group, "a", before)
        await asyncio.sleep(20.0)
        if not runs:
            b.start()
        await group.settle()
        assert copies(b) == 2 * MANY
        found = missing(b, "a")
        assert found is not None
        assert (
            f"copies of ResourceSyncRules first, missing in this cluster, may go: {meta.ALLOW_DELETIONS}={moment}"
            in (found["message"])
        )
        assert "ResourceSyncRules second are missing in this cluster" in found["message"]
        assert found["message"].rpartition("=")[2] > moment

    simulate(scenario, n=4)


@pytest.mark.clause("W3")
def test_the_deletion_of_a_copy_of_a_rule_is_none_of_the_rule() -> None:
    async def scenario(group: SimGroup) -> None:
        await synced(group)
        uids = {found["metadata"]["uid"] for found in group["b"].list("ConfigMap")}
        group["b"].delete("ResourceSyncRule", "r")
        await group.settle()
        assert {found["metadata"]["uid"] for found in group["b"].list("ConfigMap")} == uids
        assert group["b"].find("ResourceSyncRule", "r") is not None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("is_wrong", ["before", "after"])
@pytest.mark.parametrize("days", [100, -100])
def test_a_wrong_clock_at_the_home_loses_no_recorded_deletion(days: int, is_wrong: str) -> None:
    """It is wrong while the rule is deleted, or for two hours after that; a member comes when it is right again."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        await b.stop()
        a.server.clock_ahead = timedelta(days=days if is_wrong == "before" else 0)
        await a.restart()
        await asyncio.sleep(60.0)
        a.delete("ResourceSyncRule", "r")
        await group.settle()
        a.server.clock_ahead = timedelta(days=days if is_wrong == "after" else 0)
        await a.restart()
        await asyncio.sleep(2 * 3600.0)
        a.server.clock_ahead = timedelta()
        await a.restart()
        await asyncio.sleep(2 * 3600.0)
        assert recorded(a) == {"r"}
        a.server.compact()
        b.start()
        await group.settle()
        assert copies(b) == 0

    with virtual_clocks():
        simulate(scenario, n=3)


def edit_policy(member: Member, policy: str) -> None:
    member.apply({"kind": "ResourceSyncRule", "metadata": {"name": "r"}, "spec": {"deletionPolicy": policy}})


@pytest.mark.clause("W3")
@pytest.mark.parametrize("pause_s", [0.0, 0.05, 1.0])
def test_copies_stay_when_the_last_policy_of_a_deleted_rule_keeps_them(pause_s: float) -> None:
    """The rule is deleted before all copies have its new policy."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        edit_policy(a, "Orphan")
        await asyncio.sleep(pause_s)
        a.delete("ResourceSyncRule", "r")
        await group.settle()
        assert [copies(a), copies(b)] == [MANY, MANY]

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("first", ["Delete", "Orphan"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_member_that_was_cut_off_keeps_copies_by_either_policy(first: str, restarts: bool) -> None:
    """It reads the last policy in the record of the rule's home."""
    last = "Orphan" if first == "Delete" else "Delete"

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        edit_policy(a, first)
        await group.settle()
        group.wire("b", "a").set(Fault.REFUSED)
        await asyncio.sleep(WINDOW_S)
        edit_policy(a, last)
        await asyncio.sleep(2 * WINDOW_S)
        a.delete("ResourceSyncRule", "r")
        await asyncio.sleep(2 * WINDOW_S)
        if restarts:
            await b.stop()
        group.wire("b", "a").set(Fault.NONE)
        if restarts:
            b.start()
        await group.settle()
        assert copies(b) == MANY
        assert copies(a) == (MANY if last == "Orphan" else 0)
        assert b.find("ResourceSyncRule", "r") is None
        assert missing(b, "a") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("lost", ["deleted", "with its definition"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_lost_record_is_written_again(lost: str, restarts: bool) -> None:
    """A GitOps tool prunes it, or the definition of features is installed again; a member comes after that."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        await b.stop()
        a.delete("ResourceSyncRule", "r")
        await group.settle()
        if restarts:
            await a.restart()
            await asyncio.sleep(WINDOW_S)
        a.delete("ClusterFeature", names.DELETED_RULES_OBJECT)
        if lost == "with its definition":
            a.server.change_served("ClusterFeature", served=False)
            await asyncio.sleep(WINDOW_S)
            a.server.change_served("ClusterFeature", served=True)
        await group.settle()
        assert recorded(a) == {"r"}
        a.server.compact()
        b.start()
        await group.settle()
        assert copies(b) == 0

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_lost_copy_of_a_rule_that_its_home_keeps_to_itself_deletes_nothing(restarts: bool) -> None:
    """The home gives no new copy; the copies of the rule stay until its deletion there is recorded."""

    async def scenario(group: SimGroup) -> None:
        await synced(group)
        a, b = group["a"], group["b"]
        a.apply({"kind": "ResourceSyncRule", "metadata": {"name": "r", "annotations": {SYNC_DISABLED: "true"}}})
        await group.settle()
        assert missing(b, "a") is None, "the copy of the rule is here, and stays in sync"
        b.delete("ResourceSyncRule", "r")
        if restarts:
            await b.restart()
        await group.settle()
        assert copies(b) == MANY
        assert "ResourceSyncRules r are missing" in (missing(b, "a") or {})["message"]
        a.delete("ResourceSyncRule", "r")
        await group.settle()
        assert copies(b) == 0
        assert missing(b, "a") is None

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("pause_s", [0.3, 10.0, 25.0])
def test_a_rule_and_its_feature_that_are_replaced_make_no_copy_anew(pause_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here = group["b"], group["a"]
        feature = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}
        owner.create(feature)
        for number in range(MANY):
            owner.create(config_map(f"m{number}", {"a": "1"}, labels={"sync": "yes"}))
        made = delete_rule(clusterFeatureMatch=[{"featureName": "gold"}])
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        here.create(made)
        await group.settle()
        uids = {found["metadata"]["uid"] for found in here.list("ConfigMap")}
        assert len(uids) == MANY
        here.delete("ResourceSyncRule", "r")
        await asyncio.sleep(pause_s)
        here.create(made)
        await group.settle()
        owner.delete("ClusterFeature", "gold")
        await asyncio.sleep(pause_s)
        owner.create(feature)
        await group.settle()
        assert {found["metadata"]["uid"] for found in here.list("ConfigMap")} == uids

    simulate(scenario, n=2)
