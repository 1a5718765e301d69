"""The brake on deletions, in a group. W4."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from registry_controller.api.meta import ALLOW_DELETIONS
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.play import play
from tests.sim.schedule.schedule import Schedule
from tests.sim.schedule.stage import Step

WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}


async def copied(group: SimGroup, count: int, **spec: Any) -> tuple[Member, Member]:
    """Let b have copies of so many objects of a's."""
    await group.join()
    a, b = group.members
    b.create(rule("many", CONFIG_MAP, WANTED, **spec))
    for number in range(count):
        a.create(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "yes"}))
    await group.settle()
    assert left(b) == count
    return a, b


def left(member: Member) -> int:
    return sum(item["metadata"]["name"].startswith(("m-", "x-")) for item in member.list("ConfigMap"))


async def lost(group: SimGroup, *, count: int) -> None:
    """Let a lose objects while b does not listen: b hears of all of them at once."""
    a = group["a"]
    group.fail("a", Fault.REFUSED)
    for number in range(count):
        a.delete("ConfigMap", f"m-{number:03}", namespace="default")
    await asyncio.sleep(1.0)
    a.server.compact()
    group.fail("a", Fault.NONE)
    await group.settle()


class Reads:
    """Counts the reads by name of another member's objects, by their path."""

    def __init__(self, member: Member, *, by: str) -> None:
        self._answer, self._by = member.server.answer, by
        self.count = Counter[str]()
        patch.object(member.server, "answer", self._count).start()

    def _count(self, method: str, path: str, body: bytes | None, *, who: str, accept: str = "") -> Any:
        name = path.partition("?")[0].rpartition("/configmaps/")[2]
        if method == "GET" and who == self._by and name.startswith("m-"):
            self.count[name] += 1
        return self._answer(method, path, body, who=who, accept=accept)


def moment(member: Member) -> str:
    (entry,) = member.get("ResourceSyncRule", "many")["status"]["clusters"]
    return str(entry.get("deletions", {}).get("haltedAt", ""))


def halted(member: Member) -> bool:
    return member.condition("ResourceSyncRule", "many", "DeletionHalted").get("status") == "True"


def test_a_set_that_is_too_large_is_halted_whole_until_its_moment_is_named() -> None:
    """W4, A1: over a restart, too, which writes nothing."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120)
        await lost(group, count=61)
        assert (left(a), left(b)) == (59, 120)
        assert halted(b)
        since = moment(b)
        await b.restart()
        assert not await group.writes_within(60.0)
        assert (left(b), moment(b)) == (120, since)
        await asyncio.sleep(600.0)
        assert left(b) == 120
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert left(b) == 59
        assert not halted(b)
        assert not moment(b)

    simulate(scenario, n=2)


@pytest.mark.clause("W4")
@pytest.mark.parametrize(
    ("minutes", "restarts"), [(6, False), (-6, False), (100_000, False), (-6, True), (-100_000, True)]
)
def test_a_clock_that_is_set_between_two_sets_ends_no_window(minutes: int, restarts: bool) -> None:
    """Over a restart, too, if it is set back: nothing shows a new process that it was set forward."""

    async def scenario(group: SimGroup) -> None:
        group["b"].options["STABILIZATION_WINDOW_SECONDS"] = "0"
        a, b = await copied(group, 90, deletionPolicy="Delete")
        for number in range(80):
            if number == 40:
                await asyncio.sleep(10.0)
                b.server.clock_ahead = timedelta(minutes=minutes)
                if restarts:
                    await b.restart()
            a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
        await asyncio.sleep(60.0)
        assert (left(b), halted(b)) == (50, True)
        await asyncio.sleep(600.0)
        assert (left(b), halted(b)) == (50, True)

    with virtual_clocks():
        simulate(scenario, n=2)


@pytest.mark.clause("W4")
@pytest.mark.parametrize("runs", [False, True], ids=["while no daemon runs", "just before the daemon ends"])
def test_a_halt_outlasts_that_its_rule_is_created_again(runs: bool) -> None:
    """As `kubectl replace --force` does: the new rule has no status. It is said until a person names its moment."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120)
        for number in range(100):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
            await asyncio.sleep(1.0)
        await group.settle()
        kept, since = left(b), moment(b)
        assert (kept > 20, bool(since)) == (True, True)
        await asyncio.sleep(600.0)
        again = rule("many", CONFIG_MAP, WANTED)
        if runs:
            b.replace_by_force(again)
        b.kill()
        if not runs:
            b.replace_by_force(again)
        b.start_again()
        await group.settle()
        assert (left(b), halted(b), moment(b)) == (kept, True, since)
        await b.restart()
        await group.settle()
        assert (left(b), halted(b), moment(b)) == (kept, True, since)
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert (left(b), halted(b)) == (20, False)
        assert "rules=" not in b.condition("Cluster", "a", "DeletionHalted")["message"]

    with virtual_clocks():
        simulate(scenario, n=2)


def test_half_goes_and_what_comes_after_it_is_kept() -> None:
    """W4: one after the other, with a restart between."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 140)
        for number in range(100):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
            await asyncio.sleep(0.5)
            if number in (40, 55, 60, 69):
                await b.restart()
                await asyncio.sleep(20.0)
        await group.settle()
        assert left(b) == 70
        assert halted(b)
        for number in range(70, 100):
            a.create(config_map(f"m-{number:03}", {"n": "2"}, labels={"sync": "yes"}))
        await group.settle()
        assert left(b) == 70
        assert not halted(b)

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_heard", [True, False], ids=["as events", "in a list"])
@pytest.mark.parametrize(("count", "gone"), [(40, 40), (200, 100)])
def test_the_owner_is_asked_once_for_each_deletion(count: int, gone: int, is_heard: bool) -> None:
    """O5: and it is asked for each."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, count)
        reads = Reads(a, by="b")
        if is_heard:
            for number in range(gone):
                a.delete("ConfigMap", f"m-{number:03}", namespace="default")
            await group.settle()
        else:
            await lost(group, count=gone)
        assert left(b) == count - gone
        assert reads.count == Counter(f"m-{number:03}" for number in range(gone))

    simulate(scenario, n=2)


def test_of_a_set_that_is_halted_nobody_is_asked_before_it_is_allowed() -> None:
    """W4, O5: and then once."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120)
        reads = Reads(a, by="b")
        await lost(group, count=61)
        assert halted(b)
        await asyncio.sleep(2 * 3600.0)  # everything is looked at again once an hour
        assert (left(b), halted(b), reads.count) == (120, True, Counter())
        since = moment(b)
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: since}}})
        await group.settle()
        assert left(b) == 59
        assert reads.count == Counter(f"m-{number:03}" for number in range(61))

    simulate(scenario, n=2)


def test_what_no_longer_matches_and_stays_is_no_deletion() -> None:
    """W3, W4: neither when its rule is edited, nor after a restart; and it does not hold up what is deleted."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120)
        few = {"match": [{"labels": [{"matchLabels": {"sync": "yes", "few": "yes"}}]}]}
        for number in (118, 119):
            labels = {"sync": "yes", "few": "yes"}
            a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels=labels))
        await group.settle()
        b.apply(rule("many", CONFIG_MAP, few))
        await group.settle()
        assert (left(b), halted(b)) == (120, False)
        await b.restart()
        await group.settle()
        assert (left(b), halted(b)) == (120, False)
        await asyncio.sleep(2 * 3600.0)
        assert (left(b), halted(b)) == (120, False)
        a.delete("ConfigMap", "m-119", namespace="default")
        await group.settle()
        assert (left(b), halted(b)) == (119, False)

    simulate(scenario, n=2)


def test_copies_that_stay_are_asked_about_without_a_write() -> None:
    """A1, W4: at a restart, and once an hour."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 160)
        for number in range(70):
            a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
        await group.settle()
        await b.restart()
        reads = Reads(a, by="b")
        assert not await group.writes_within(60.0)
        assert len(reads.count) == 70
        assert not await group.writes_within(2 * 3600.0)
        assert (left(b), halted(b)) == (160, False)
        assert min(reads.count.values()) >= 2

    with virtual_clocks():
        simulate(scenario, n=2)


def test_what_was_allowed_to_go_and_is_still_there_allows_nothing_later() -> None:
    """W4: the owner has what was thought to be gone, under labels that no rule asks for."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 120)
        group.fail("a", Fault.REFUSED)
        for number in range(70):
            a.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
        await asyncio.sleep(1.0)
        a.server.compact()
        group.fail("a", Fault.NONE)
        await group.settle()
        assert (left(b), halted(b)) == (120, True)
        since = moment(b)
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: since}}})
        await asyncio.sleep(30.0)
        assert (left(b), halted(b)) == (120, False)
        for number in range(70, 120):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await asyncio.sleep(30.0)
        assert (left(b), halted(b)) == (70, False)
        for number in range(20):
            a.delete("ConfigMap", f"m-{number:03}", namespace="default")
        b.apply(rule("many", CONFIG_MAP, {**WANTED, "mutations": {"labels": {"add": {"by": "many"}}}}))
        await asyncio.sleep(120.0)
        assert (left(b), halted(b)) == (70, True)

    simulate(scenario, n=2)


@pytest.mark.parametrize(("count", "gone"), [(50, 50), (120, 60)])
def test_what_may_go_goes_at_once(count: int, gone: int) -> None:
    """W4, O5."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, count)
        await lost(group, count=gone)
        assert left(b) == count - gone
        assert not halted(b)

    simulate(scenario, n=2)


def test_a_rule_that_asks_for_much_less_is_braked_and_one_that_is_deleted_is_not() -> None:
    """W4, W3."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 120, deletionPolicy="Delete")
        nothing = {"match": [{"labels": [{"matchLabels": {"sync": "no"}}]}]}
        b.apply(rule("many", CONFIG_MAP, nothing, deletionPolicy="Delete"))
        await group.settle()
        assert left(b) == 120
        assert halted(b)
        b.apply(rule("many", CONFIG_MAP, WANTED, deletionPolicy="Delete"))
        await group.settle()
        assert not halted(b)
        b.delete("ResourceSyncRule", "many")
        await group.settle()
        assert left(b) == 0

    simulate(scenario, n=2)


@pytest.mark.parametrize("graceful", [True, False])
def test_a_window_is_stored_while_its_rule_reads_nobody(graceful: bool) -> None:
    """W4: the feature that the rule asks for comes and goes, and the daemon restarts each time that it is away."""

    async def scenario(group: SimGroup) -> None:
        feature = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}
        group["a"].create(feature)
        asked = {"clusterFeatureMatch": [{"featureName": "gold"}]}
        a, b = await copied(group, 45, deletionPolicy="Delete", **asked)
        gone = 0
        for _ in range(3):
            a.delete("ClusterFeature", "gold")
            await asyncio.sleep(3.0)
            if graceful:
                await b.restart()
            else:
                b.kill()
                b.start_again()
            await asyncio.sleep(35.0)
            gone += 45 - left(b)
            a.create(feature)
            await asyncio.sleep(10.0)
        assert gone == 45  # as many as may go in any case, and the second set is larger than half

    simulate(scenario, n=2)


def test_a_name_that_a_rule_gives_anew_is_no_loss() -> None:
    """W4, W3: the new copies are there before the old ones go."""

    async def scenario(group: SimGroup) -> None:
        _, b = await copied(group, 120)
        rename = {"type": "replace", "path": "/metadata/name", "value": "x-{{ .Object.GetName }}"}
        b.apply(rule("many", CONFIG_MAP, {**WANTED, "mutations": {"overrides": [rename]}}))
        await group.settle()
        assert left(b) == 120
        assert all(
            item["metadata"]["name"].startswith("x-") for item in b.list("ConfigMap") if item["metadata"].get("labels")
        )
        assert not halted(b)

    simulate(scenario, n=2)


def test_a_restored_backup_is_followed_but_its_deletions_are_braked() -> None:
    """O3, W4: the rule says that history went back, over a restart, too, until somebody edits it."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, 20)
        backup = a.server.store.backup()
        for number in range(20, 120):
            a.create(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "yes"}))
        a.apply(config_map("m-000", {"n": "2"}))
        await group.settle()
        assert left(b) == 120
        group.fail("a", Fault.REFUSED)
        a.server.store.restore(backup)
        await asyncio.sleep(20.0)
        group.fail("a", Fault.NONE)
        await group.settle()
        assert left(b) == 120
        assert b.get("ConfigMap", "m-000", namespace="default")["data"] == {"n": "1"}
        assert halted(b)
        await b.restart()
        assert not await group.writes_within(60.0)
        restored = b.condition("ResourceSyncRule", "many", "HistoryRestored")
        assert (restored.get("status"), restored.get("reason")) == ("True", "SourceWentBack")
        b.apply(rule("many", CONFIG_MAP, {**WANTED, "mutations": {"labels": {"add": {"by": "many"}}}}))
        await group.settle()
        assert not b.condition("ResourceSyncRule", "many", "HistoryRestored")

    simulate(scenario, n=2)


def test_a_halt_is_over_when_what_was_allowed_is_gone_and_its_kind_heard_no_more() -> None:
    """W4: the rule turns Widgets into Gadgets now, so that nobody follows Widgets here once the last copy is gone."""
    steps = (
        Step(0.0, "rules", "a", ("widgets-1", ("Widget", "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", "c", (("Widget", "default", "y"), "v1", "sync")),
        Step(0.0, "puts", "c", (("Widget", "default", "z"), "v2", "sync")),
        Step(7.0, "edits a rule", "a", ("widgets-2", ("Widget", "turning", "place", "Delete", ""))),
    )
    assert not play(Schedule(seed=983, count=3, joined=True, braked=True, steps=steps)).broken


def test_an_allowance_ends_although_one_copy_of_its_set_stays() -> None:
    """W4, W1: its source came back, and an override of the rule cannot be evaluated on it."""
    steps = (
        Step(0.0, "rules", "b", ("widgets-1", ("Widget", "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", "a", (("Widget", "default", "x"), "v166577", "sync")),
        Step(0.0, "puts", "a", (("Widget", "default", "z"), "v349158", "sync")),
        Step(7.0, "drops", "a", (("Widget", "default", "x"),)),
        Step(0.0, "drops", "a", (("Widget", "default", "z"),)),
        Step(0.01, "edits a rule", "b", ("widgets-2", ("Widget", "labelled", "labels", "Orphan", ""))),
        Step(0.3, "hears out of order from", "a", ("a", 0.3, 8.0)),
        Step(0.0, "puts", "a", (("Widget", "default", "x"), "v556402", "sync gold")),
    )
    assert not play(Schedule(seed=4464, count=3, joined=True, braked=True, steps=steps)).broken
