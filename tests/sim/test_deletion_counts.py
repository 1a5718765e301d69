"""What the limit on deletions counts, and the limit of an owner over all rules, in a group. W4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api.meta import ALLOW_DELETIONS
from registry_controller.core.decision.deletion_limit import window_of
from registry_controller.core.status.cluster import read_deletions
from registry_controller.planner.plan import PlanAction
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.dry_run import explained, plan
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member

LABELLED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
GOLD = {"clusterFeatureMatch": [{"featureName": "gold"}]}
FEATURE = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}


async def copied(group: SimGroup, count: int, *, window_s: int, **spec: Any) -> tuple[Member, Member]:
    """Let b have copies of so many objects of a's, which has the feature gold."""
    a, b = group.members
    b.options["STABILIZATION_WINDOW_SECONDS"] = str(window_s)
    await group.join()
    a.create(FEATURE)
    b.create(rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete", **spec))
    for number in range(count):
        a.create(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "yes"}))
    await group.settle()
    assert left(b) == count
    return a, b


def left(member: Member) -> int:
    return sum(item["metadata"]["name"].startswith("m-") for item in member.list("ConfigMap"))


def uids(member: Member) -> set[str]:
    return {item["metadata"]["uid"] for item in member.list("ConfigMap") if item["metadata"]["name"].startswith("m-")}


def count_deletions(member: Member) -> int:
    return sum(write.verb == "delete" and write.kind == "ConfigMap" and write.changed for write in member.writes)


def halted(member: Member) -> bool:
    return member.condition("ResourceSyncRule", "many", "DeletionHalted").get("status") == "True"


def halted_over_all(member: Member, owner: str) -> str:
    """Return since when the limit of an owner halts its deletions; empty for not."""
    window = window_of(read_deletions(member.get("Cluster", owner).get("status")))
    return window.halted_at if window is not None else ""


async def take_away_and_back(group: SimGroup, what: str, *, pause_s: float) -> None:
    """Take away what a rule selects by, and put it back."""
    a, b = group.members
    nothing = {"match": [{"labels": [{"matchLabels": {"sync": "no"}}]}]}
    match what:
        case "feature":
            a.delete("ClusterFeature", "gold")
            await asyncio.sleep(pause_s)
            a.create(FEATURE)
        case "selector":
            b.apply(rule("many", CONFIG_MAP, nothing, deletionPolicy="Delete"))
            await asyncio.sleep(pause_s)
            b.apply(rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete"))
        case "label":
            for number in range(45):
                a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
            await asyncio.sleep(pause_s)
            for number in range(45):
                a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "yes"}))
    await asyncio.sleep(pause_s)


@pytest.mark.parametrize("what", ["feature", "selector", "label"])
@pytest.mark.parametrize(("window_s", "pause_s"), [(0, 3.0), (30, 40.0)], ids=["no dwell", "longer than the dwell"])
def test_what_goes_and_comes_again_and_again_is_halted(what: str, window_s: int, pause_s: float) -> None:
    """W4: 45 copies, of which 50 may always go; before, twelve rounds deleted 540."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 45, window_s=window_s, **(GOLD if what == "feature" else {}))
        for _ in range(2):
            await take_away_and_back(group, what, pause_s=pause_s)
        assert count_deletions(b) == 45
        if pause_s < 30:
            for _ in range(10):
                await take_away_and_back(group, what, pause_s=pause_s)
            assert count_deletions(b) == 45
        await group.settle()
        assert left(b) == 45
        assert not halted(b)  # what was wanted again waits no more

    simulate(scenario, n=2)


def test_what_was_halted_is_said_and_a_restart_does_not_let_it_go() -> None:
    """W4."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 45, window_s=0, **GOLD)
        await take_away_and_back(group, "feature", pause_s=10.0)
        await b.restart()
        await asyncio.sleep(20.0)
        a.delete("ClusterFeature", "gold")
        await group.settle()
        assert (left(b), halted(b)) == (45, True)
        (entry,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        assert entry["deletions"]["counted"] == 45
        moment = entry["deletions"]["haltedAt"]
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: moment}}})
        await group.settle()
        assert left(b) == 0

    simulate(scenario, n=2)


def test_objects_that_are_born_and_gone_do_not_halt() -> None:
    """W4: 200 of them in 200 seconds, each with a name of its own."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 5, window_s=0)
        for number in range(200):
            a.create(config_map(f"m-{1000 + number}", {"n": "1"}, labels={"sync": "yes"}))
            await asyncio.sleep(0.5)
            a.delete("ConfigMap", f"m-{1000 + number}", namespace="default")
            await asyncio.sleep(0.5)
        await group.settle()
        assert (left(b), halted(b), count_deletions(b)) == (5, False, 200)
        assert not halted_over_all(b, "a")

    simulate(scenario, n=2)


def test_every_second_deletion_of_one_place_counts() -> None:
    """W4: an owner that deletes and makes the same objects again and again."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 20, window_s=0)
        for _ in range(6):
            for number in range(20):
                a.delete("ConfigMap", f"m-{number:03}", namespace="default")
            await asyncio.sleep(5.0)
            for number in range(20):
                if a.find("ConfigMap", f"m-{number:03}", namespace="default") is None:
                    a.create(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "yes"}))
            await asyncio.sleep(5.0)
        assert 40 <= count_deletions(b) <= 20 + 50
        await group.settle()
        assert left(b) == 20

    simulate(scenario, n=2)


def test_a_rule_that_is_deleted_once_is_an_order_and_the_second_time_counts() -> None:
    """W4, W3: 60 copies, and the limit of their owner."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 60, window_s=0)
        again = rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete")
        b.delete("ResourceSyncRule", "many")
        await asyncio.sleep(10.0)
        assert left(b) == 0
        b.create(again)
        await asyncio.sleep(10.0)
        assert left(b) == 60
        b.delete("ResourceSyncRule", "many")
        await asyncio.sleep(10.0)
        assert left(b) == 60
        since = halted_over_all(b, "a")
        assert since
        await asyncio.sleep(600.0)
        assert (left(b), halted_over_all(b, "a")) == (60, since)
        b.apply({"kind": "Cluster", "metadata": {"name": "a", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert left(b) == 0
        b.create(again)
        await asyncio.sleep(400.0)
        assert left(b) == 60
        b.delete("ResourceSyncRule", "many")
        await group.settle()
        assert left(b) == 0  # the last deletion is long ago

    simulate(scenario, n=2)


def test_the_halt_of_a_rule_ends_with_the_rule_whose_second_deletion_counts_for_the_owner() -> None:
    """W4: nobody could name the moment of a halt at a rule that is gone."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120, window_s=0)
        b.delete("ResourceSyncRule", "many")
        await asyncio.sleep(10.0)
        assert left(b) == 0
        b.create(rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete"))
        await asyncio.sleep(10.0)
        for number in range(70):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await asyncio.sleep(10.0)
        kept = left(b)
        assert kept > 50
        assert halted(b)
        b.delete("ResourceSyncRule", "many")
        await group.settle()
        since = halted_over_all(b, "a")
        assert (left(b), bool(since)) == (kept, True)
        b.apply({"kind": "Cluster", "metadata": {"name": "a", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert (left(b), halted_over_all(b, "a")) == (0, "")

    simulate(scenario, n=2)


def test_the_limit_of_a_rule_that_is_replaced_holds_meanwhile() -> None:
    """W4, W3: the limit of the owner of its copies, who has many more, would let them go."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 60, window_s=30)
        b.create(rule("more", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"part": "more"}}]}]}))
        for number in range(100):
            a.create(config_map(f"m-more-{number:03}", {"n": "1"}, labels={"part": "more"}))
        await group.settle()
        assert left(b) == 160
        b.delete("ResourceSyncRule", "many")
        await asyncio.sleep(1.0)
        for number in range(55):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await asyncio.sleep(5.0)
        b.create(rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete"))
        await group.settle()
        assert (left(b), halted(b), halted_over_all(b, "a")) == (160, True, "")

    simulate(scenario, n=2)


def _list_stalled(b: Member) -> list[str]:
    """List the rules that need a person for a halt."""
    every = [item["metadata"]["name"] for item in b.list("ResourceSyncRule")]
    stalled = [name for name in every if b.condition("ResourceSyncRule", name, "Stalled").get("status") == "True"]
    assert all(b.condition("ResourceSyncRule", name, "Synced")["reason"] == "DeletionHalted" for name in stalled)
    return stalled


async def _is_said_alike(group: SimGroup, since: str) -> bool:
    """S1: the rules whose copies a halt of their owner keeps, their plan, and the explanation name that halt."""
    b = group["b"]
    stalled = _list_stalled(b)
    assert stalled
    assert len(stalled) < 10  # the first ones had nothing left to delete
    for name in (stalled[0], stalled[-1]):
        assert (
            "see the condition DeletionHalted of Cluster a"
            in b.condition("ResourceSyncRule", name, "Stalled")["message"]
        )
        found = await plan(group, "b", b.get("ResourceSyncRule", name))
        rows = [row for row in found.rows if row.action in (PlanAction.WAIT, PlanAction.DELETE)]
        assert rows
        assert {(row.action, row.reason) for row in rows} == {(PlanAction.WAIT, "DeletionHalted")}
        assert all(f"cluster-registry.k8s.cisco.com/allow-deletions={since}" in row.message for row in rows)
        told, _ = await explained(group, "configmap", rows[0].target.name, at="b")
        assert [row.message for row in told.planned] == [rows[0].message]
    return True


def test_an_owner_has_a_limit_over_all_rules() -> None:
    """W4: ten rules with twenty copies each, which all are to go at once; a restart does not change that."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        for number in range(10):
            part = {"match": [{"labels": [{"matchLabels": {"part": str(number)}}]}]}
            b.create(rule(f"part-{number}", CONFIG_MAP, part))
            for other in range(20):
                a.create(config_map(f"m-{number}-{other:02}", {"n": "1"}, labels={"part": str(number)}))
        await group.settle()
        assert left(b) == 200
        for number in range(10):
            for other in range(15):
                a.delete("ConfigMap", f"m-{number}-{other:02}", namespace="default")
            await asyncio.sleep(2.0)
        await group.settle()
        since = halted_over_all(b, "a")
        assert since
        assert 50 <= count_deletions(b) <= 105
        kept = left(b)
        assert await _is_said_alike(group, since)
        await b.restart()
        assert not await group.writes_within(60.0)
        assert (left(b), halted_over_all(b, "a")) == (kept, since)
        assert await _is_said_alike(group, since)
        words = b.condition("Cluster", "a", "DeletionHalted")["message"]
        assert f"allow-deletions={since}" in words
        b.apply({"kind": "Cluster", "metadata": {"name": "a", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert (left(b), halted_over_all(b, "a")) == (50, "")
        assert _list_stalled(b) == []

    simulate(scenario, n=2)


@pytest.mark.parametrize("goes", ["source", "match"])
def test_a_restart_between_the_sets_of_two_rules_forgets_none_of_their_owner(goes: str) -> None:
    """W4: forty of each, which the owner's limit does not let go in five minutes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        for part in "xyz":
            wanted = {"match": [{"labels": [{"matchLabels": {"part": part}}]}]}
            b.create(rule(f"part-{part}", CONFIG_MAP, wanted, deletionPolicy="Delete"))
            for number in range(40):
                a.create(config_map(f"m-{part}-{number:02}", {"n": "1"}, labels={"part": part}))
        await group.settle()
        for part, stays in (("x", 80), ("y", 80)):
            for number in range(40):
                if goes == "source":
                    a.delete("ConfigMap", f"m-{part}-{number:02}", namespace="default")
                else:
                    a.apply(config_map(f"m-{part}-{number:02}", {"n": "1"}, labels={"part": "none"}))
            await asyncio.sleep(40.0)
            assert read_deletions(b.get("Cluster", "a").get("status"))
            await b.restart()
            await asyncio.sleep(40.0)
            assert left(b) == stays
        assert halted_over_all(b, "a")

    simulate(scenario, n=2)


@pytest.mark.parametrize("ends", ["stops", "is killed"])
def test_a_rule_that_is_replaced_while_no_daemon_runs_forgets_no_count_of_its_owner(ends: str) -> None:
    """W4: fifty each time, which the limit of the rule alone lets go for ever."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 200, window_s=5)
        for first in range(0, 200, 50):
            for number in range(first, first + 50):
                a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
            await asyncio.sleep(20.0)
            if ends == "stops":
                await b.stop()
            else:
                b.kill()
            b.delete("ResourceSyncRule", "many")
            b.create(rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete"))
            await asyncio.sleep(1.0)
            b.start()
            await asyncio.sleep(15.0)
        assert left(b) == 100
        assert halted_over_all(b, "a")

    simulate(scenario, n=2)


def test_a_rule_that_is_deleted_again_after_a_restart_is_no_second_order() -> None:
    """W4: a restart does not lift the halt either; the rule does, once it is there."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 120, window_s=1)
        b.delete("ResourceSyncRule", "many")
        await asyncio.sleep(45.0)
        assert left(b) == 0
        wanted = rule("many", CONFIG_MAP, LABELLED, deletionPolicy="Delete")
        for _ in range(2):
            b.create(wanted)
            await group.settle(quiet_s=10.0)
            assert (left(b), halted_over_all(b, "a")) == (120, "")
            await b.restart()
            await asyncio.sleep(10.0)
            b.delete("ResourceSyncRule", "many")
            for _ in range(2):
                await asyncio.sleep(45.0)
                assert left(b) == 120
                assert halted_over_all(b, "a")
                await b.restart()

    with virtual_clocks():
        simulate(scenario, n=2)


def test_what_a_rule_s_annotation_allows_does_not_count_for_its_owner() -> None:
    """W4: one confirmation is enough."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120, window_s=0)
        for number in range(110):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await group.settle()
        assert halted(b)
        (entry,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        moment = entry["deletions"]["haltedAt"]
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: moment}}})
        await group.settle()
        assert (left(b), halted_over_all(b, "a")) == (10, "")

    simulate(scenario, n=2)


def test_a_rename_back_and_forth_is_no_loss() -> None:
    """W4, W3: the new copies are there before the old ones go."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 60, window_s=0)
        rename = {"type": "replace", "path": "/metadata/name", "value": "m-x-{{ .Object.GetName }}"}
        for _ in range(3):
            for overrides in ([rename], []):
                b.apply(
                    rule(
                        "many",
                        CONFIG_MAP,
                        {**LABELLED, "mutations": {"overrides": overrides}},
                        deletionPolicy="Delete",
                    )
                )
                await asyncio.sleep(10.0)
                assert (left(b), halted(b), halted_over_all(b, "a")) == (60, False, "")

    simulate(scenario, n=2)


@pytest.mark.parametrize("fixed_by", ["owner", "rule"])
def test_copies_that_are_made_anew_are_no_loss(fixed_by: str) -> None:
    """W4, A2: twice within one window all of them, which is more than may go in a set. A restart knows that, too."""
    fix = {"type": "replace", "path": "/immutable?", "value": "true", "parseValue": True}
    by_rule = {**LABELLED, "mutations": {"overrides": [fix]}}

    def edit(a: Member, value: str) -> None:
        for number in range(60):
            made = config_map(f"m-{number:03}", {"n": value}, labels={"sync": "yes"})
            if fixed_by == "rule":
                a.apply(made)
            else:
                a.replace_by_force({**made, "immutable": True})

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 60, window_s=0)
        b.apply(rule("many", CONFIG_MAP, by_rule if fixed_by == "rule" else LABELLED, deletionPolicy="Delete"))
        edit(a, "2")  # those that were born mutable
        await asyncio.sleep(400.0)
        before, seen = count_deletions(b), uids(b)
        for value in "34":
            edit(a, value)
            await asyncio.sleep(20.0)
            assert {item["data"]["n"] for item in b.list("ConfigMap") if item.get("immutable")} == {value}
            assert not seen & uids(b)
            seen |= uids(b)
            assert (left(b), halted(b), halted_over_all(b, "a")) == (60, False, "")
        assert count_deletions(b) - before == 120
        assert b.condition("Cluster", "a", "DeletionHalted").get("status") != "True"
        await b.restart()
        await asyncio.sleep(20.0)
        for number in range(40):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await asyncio.sleep(20.0)
        assert (left(b), halted(b), halted_over_all(b, "a")) == (20, False, "")  # as many as always may go

    simulate(scenario, n=2)
