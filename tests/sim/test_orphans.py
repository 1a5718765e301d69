"""Copies that nobody wants any more, where nobody was there to see it. W3."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api import meta
from registry_controller.clusters.orphans import SEARCH_PERIOD_S
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.play import play
from tests.sim.schedule.schedule import Schedule
from tests.sim.schedule.stage import Step

GOLD = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}


async def _with_a_rule_for_gold(group: SimGroup) -> tuple[Member, Member]:
    """Form a group of two: one has a rule for all, and one for who is gold; the other, who is not, has an object."""
    await group.join()
    here, owner = group.members
    here.create(rule("plain", CONFIG_MAP, deletionPolicy="Delete"))
    gold = [{"featureName": "gold"}]
    here.create(rule("wants-gold", CONFIG_MAP, deletionPolicy="Delete", clusterFeatureMatch=gold))
    owner.create(config_map("x", {"at": "b"}))
    await group.settle()
    return here, owner


@pytest.mark.parametrize("pause_s", [0.6, 30.0])
def test_a_kind_that_was_not_served_at_the_start_is_looked_through_later(pause_s: float) -> None:
    """W3: its copies of a rule that went meanwhile go when it is served again."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        b.create(rule("widgets", WIDGET, deletionPolicy="Delete"))
        a.create({"kind": "Widget", "metadata": {"name": "x", "namespace": "default"}, "spec": {"value": "v"}})
        await group.settle()
        assert b.find("Widget", "x", namespace="default")
        b.server.change_served("Widget", served=False)
        group.cut("b")
        b.delete("ResourceSyncRule", "widgets")
        b.kill()
        b.start_again()
        await asyncio.sleep(pause_s)
        b.server.change_served("Widget", served=True)
        await group.settle()
        assert b.find("Widget", "x", namespace="default") is None

    simulate(scenario, n=2)


def test_another_rule_of_that_name_which_stays_at_home_keeps_no_copies_elsewhere() -> None:
    """W3, W5: the rule that made them is gone, and the other one does not come."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        c.create(rule("maps", CONFIG_MAP, deletionPolicy="Delete"))
        b.create(config_map("x", {"at": "b"}))
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default")
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        c.delete("ResourceSyncRule", "maps")
        await asyncio.sleep(35.0)  # what is created again within 30 s was not deleted
        assert a.find("ResourceSyncRule", "maps") is None
        again = rule("maps", CONFIG_MAP)
        c.create({**again, "metadata": {**again["metadata"], "annotations": {meta.SYNC_DISABLED: "true"}}})
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default") is None
        assert c.find("ConfigMap", "x", namespace="default")

    simulate(scenario, n=3)


def test_a_list_from_before_a_copy_says_nothing_of_it() -> None:
    """W3, O3: while the own API server answers from the past, what is known to be there is waited for."""
    place = ("ConfigMap", "default", "y")
    steps = (
        Step(0.0, "reads from the past of", "c", ("c", 30, 20.0)),
        Step(0.0, "rules", "c", ("configmaps-1", ("ConfigMap", "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", "b", (place, "v864167", "sync")),
        Step(0.5, "drops", "b", (place,)),
        Step(0.0, "drops rule", "c", ("configmaps-1",)),
        Step(40.0, "puts", "b", (place, "v609674", "sync")),
    )
    assert not play(Schedule(seed=7863, count=3, joined=True, steps=steps)).broken


def test_a_copy_that_was_renamed_while_its_source_was_not_seen_goes_when_it_is() -> None:
    """W3: a rule gives it another name while what is read of its owner is from before it was made."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        a.create(rule("maps", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
        await group.settle()
        for value in ("1", "2", "3"):
            b.apply(config_map("x", {"at": value}, labels={"sync": "yes"}))
            await asyncio.sleep(1.0)
        assert a.find("ConfigMap", "x", namespace="default")
        wire = group.wire("a", "b")
        wire.lag, wire.behind_s = 3, 20.0  # before any of the three
        wire.cut()
        a.kill()
        a.start_again()
        await asyncio.sleep(2.0)
        override = {"type": "replace", "path": "/metadata/name", "value": "{{ .Object.GetName }}-of-b"}
        match = {"labels": [{"matchLabels": {"sync": "yes"}}], "namespaces": ["default"]}  # another watch, as late
        a.apply(rule("maps", CONFIG_MAP, {"match": [match], "mutations": {"overrides": [override]}}))
        await asyncio.sleep(5.0)
        assert a.find("ConfigMap", "x", namespace="default")
        wire.lag = 0
        await group.settle()
        assert a.find("ConfigMap", "x-of-b", namespace="default")
        assert a.find("ConfigMap", "x", namespace="default") is None

    simulate(scenario, n=2)


def test_a_rule_that_asks_for_a_feature_is_waited_for_before_anothers_copy_goes() -> None:
    """W3, O5: when the owner is back, what it has by now is heard before its copies are nobody's."""

    async def scenario(group: SimGroup) -> None:
        a, b = await _with_a_rule_for_gold(group)
        carried = b.get("Secret", "b", namespace=NAMESPACE)
        a.delete("Secret", "b", namespace=NAMESPACE)
        group.wire("a", "b").set(Fault.REFUSED)
        b.create(GOLD)
        await asyncio.sleep(20.0)
        a.delete("ResourceSyncRule", "plain")
        await asyncio.sleep(20.0)
        since = len(a.server.journal)
        info = {name: carried["metadata"][name] for name in ("name", "namespace")}
        a.apply({**carried, "metadata": info})
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default")
        assert not [write for write in a.server.journal[since:] if (write.verb, write.kind) == ("delete", "ConfigMap")]

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("fault", "away_s"), [(Fault.REFUSED, 8.0), (Fault.REFUSED, 40.0), (Fault.HUNG, 40.0), (Fault.HUNG, 200.0)]
)
def test_the_features_of_before_a_break_choose_no_rules_of_after_it(fault: Fault, away_s: float) -> None:
    """W3, O5: the connection to the owner was lost and is there again; nothing else was changed here."""

    async def scenario(group: SimGroup) -> None:
        a, b = await _with_a_rule_for_gold(group)
        b.create(config_map("y", {"at": "b"}))
        await group.settle()
        wire = group.wire("a", "b")
        wire.set(fault)
        if fault is Fault.REFUSED:
            wire.cut()
        b.create(GOLD)
        await asyncio.sleep(away_s / 2)
        since = len(a.server.journal)
        a.delete("ResourceSyncRule", "plain")
        await asyncio.sleep(away_s / 2)
        wire.set(Fault.NONE)
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default")
        assert not [write for write in a.server.journal[since:] if (write.verb, write.kind) == ("delete", "ConfigMap")]
        b.delete("ClusterFeature", "gold")
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default") is None

    simulate(scenario, n=2)


def test_what_waits_for_features_goes_when_they_are_heard_again() -> None:
    """W3: a rule that is gone, and an owner that has no feature that another rule asks for."""

    async def scenario(group: SimGroup) -> None:
        a, _ = await _with_a_rule_for_gold(group)
        group.wire("a", "b").set(Fault.REFUSED)
        group.wire("a", "b").cut()
        await asyncio.sleep(10.0)
        a.delete("ResourceSyncRule", "plain")
        await asyncio.sleep(10.0)
        assert a.find("ConfigMap", "x", namespace="default")
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert a.find("ConfigMap", "x", namespace="default") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize(("lag", "behind_s"), [(30, 1.0), (5, 20.0)])
def test_features_from_a_cache_that_is_late_deselect_nobody(lag: int, behind_s: float) -> None:
    """W3: a member turned gold, and its streams begin anew from before that."""
    steps = (
        Step(0.0, "rules", "b", ("widgets-2", ("Widget", "marking", "labels", "Delete", "gold makes"))),
        Step(0.01, "puts", "a", (("Widget", "default", "x"), "v1", "sync suffix")),
        Step(2.0, "turns gold", "a", ()),
        Step(2.0, "reads from the past of", "b", ("a", lag, behind_s)),
        Step(7.0, "hangs on", "c", ("b", 25.0)),
    )
    assert not play(Schedule(seed=1591, count=3, joined=True, steps=steps)).broken


@pytest.mark.parametrize("is_for_us", [True, False])
def test_a_rule_of_which_nobody_knows_for_whom_it_is_is_waited_for(*, is_for_us: bool) -> None:
    """W3: while a cluster does not know its own Cluster, another rule may be for it; then that is seen."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        a.create(rule("plain", CONFIG_MAP, deletionPolicy="Delete"))
        a.create(rule("for-some", CONFIG_MAP, targetClusters={"names": ["a" if is_for_us else "z"]}))
        b.create(config_map("x", {"at": "b"}))
        await group.settle()
        own = a.get("Cluster", "a")
        a.create({"kind": "Cluster", "metadata": {"name": "again"}, "spec": own["spec"]})
        await asyncio.sleep(60.0)
        since = len(a.server.journal)
        a.delete("ResourceSyncRule", "plain")
        await asyncio.sleep(30.0)
        assert a.find("ConfigMap", "x", namespace="default")
        a.delete("Cluster", "again")
        await group.settle()
        deleted = [one for one in a.server.journal[since:] if (one.verb, one.kind) == ("delete", "ConfigMap")]
        assert bool(deleted) is not is_for_us
        assert bool(a.find("ConfigMap", "x", namespace="default")) is is_for_us

    simulate(scenario, n=2)


def test_a_copy_that_is_stored_when_nobody_listens_any_more_is_found() -> None:
    """W3: the rule goes, and its kind has been looked through once more, while the copy is still on its way."""
    steps = (
        Step(0.0, "puts", "b", (("Widget", "team", "z"), "v736795", "sync gold suffix")),
        Step(0.0, "puts", "b", (("Secret", "team", "x"), "v111207", "sync gold suffix")),
        Step(0.0, "puts", "c", (("Region", "", "x"), "v356109", "sync gold")),
        Step(0.0, "puts", "a", (("Secret", "default", "y"), "v847659", "sync suffix")),
        Step(0.0, "puts", "a", (("ConfigMap", "default", "y"), "v546316", "sync suffix")),
        Step(0.0, "rules", "b", ("secrets-2", ("Secret", "moving", "name", "Delete", ""))),
        Step(0.0, "rules", "b", ("namespaces-1", ("Namespace", "marking", "place", "Delete", ""))),
        Step(0.01, "puts", "c", (("ConfigMap", "default", "x"), "v944787", "sync")),
        Step(0.0, "rules", "c", ("widgets-2", ("Widget", "marking", "labels", "Delete", "gold stays"))),
        Step(7.0, "edits a rule", "c", ("namespaces-2", ("Namespace", "plain", "labels", "Delete", "targets"))),
        Step(0.0, "declares left", "c", ("a",)),
        Step(2.0, "leaves a strangers copy", "a", (("Widget", "default", "z"), "p10237")),
        Step(7.0, "restarts", "a", ()),
        Step(2.0, "rules", "a", ("regions-1", ("Region", "plain", "content", "Orphan", "makes"))),
        Step(0.0, "drops one rule", "b", (474,)),
        Step(0.0, "disables", "a", ("c",)),
        Step(0.0, "puts", "a", (("Namespace", "", "x"), "v450316", "sync gold suffix")),
        Step(0.0, "rules", "a", ("widgets-1", ("Widget", "plain", "labels", "Delete", "stays"))),
        Step(0.0, "puts", "b", (("Widget", "default", "y"), "v479111", "sync")),
        Step(3.0, "is cut off from", "a", ("b", 60.0)),
    )
    assert not play(Schedule(seed=5835, count=3, joined=True, braked=True, closed="c", steps=steps)).broken


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_copy_that_a_backup_tool_restores_is_found_in_a_kind_that_nothing_watches(*, is_moved: bool) -> None:
    """W3: its rule was deleted before, or writes another kind by now; the daemon runs all the time."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group.members
        turned = {"mutations": {"groupVersionKind": {**WIDGET, "kind": "Gadget"}}}
        here.create(rule("widgets", WIDGET, turned, deletionPolicy="Orphan" if is_moved else "Delete"))
        owner.create({"kind": "Widget", "metadata": {"name": "x", "namespace": "default"}, "spec": {"value": "v"}})
        await group.settle()
        saved = here.get("Gadget", "x", namespace="default")
        if is_moved:
            here.apply(rule("widgets", WIDGET, {"match": [{"namespaces": ["default"]}]}, deletionPolicy="Orphan"))
        else:
            here.delete("ResourceSyncRule", "widgets")
        await group.settle()
        assert here.find("Gadget", "x", namespace="default") is None
        info = {name: saved["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
        here.create({**{part: saved[part] for part in ("kind", "spec")}, "metadata": info})
        await asyncio.sleep(SEARCH_PERIOD_S)
        await group.settle()
        assert here.find("Gadget", "x", namespace="default") is None

    simulate(scenario, n=2)
