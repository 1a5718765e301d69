"""What a peer may cause here is limited by the administrator here, and nothing is lost by an option. W8, S1."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.api.meta import ObjectKey
from registry_controller.planner.explain import explain_object
from registry_controller.planner.plan import PlanAction
from registry_controller.planner.rule_fit import Fit
from registry_controller.sync import pace
from tests.sim.cluster.dry_run import open_dry_run, plan
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, config_map, rule, simulate
from tests.sim.schedule.leaving import bid_farewell

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
REGION = {"group": "sim.example", "version": "v1", "kind": "Region"}
LABELS = {"sync": "yes"}
WANTED = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
OFF = {"SYNCED_RULES_ENABLED": "false"}


def _moved(**to: str) -> dict[str, Any]:
    overrides = [{"type": "replace", "path": f"/metadata/{field}", "value": value} for field, value in to.items()]
    return {**WANTED, "mutations": {"overrides": overrides}}


def _map(name: str, *, namespace: str = "default", value: str = "1") -> dict[str, Any]:
    return config_map(name, {"a": value}, namespace=namespace, labels=LABELS)


def _widget(name: str) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": name, "namespace": "default", "labels": LABELS}, "spec": {"a": 1}}


def _kept_here(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


def _here(group: SimGroup, kind: str = "ConfigMap") -> set[str]:
    found = (
        item["metadata"] for item in group["a"].list(kind) if meta.OWNER in item["metadata"].get("annotations", {})
    )
    return {str(ObjectKey(info.get("namespace", ""), info["name"])) for info in found}


def _entry(group: SimGroup, name: str) -> dict[str, Any]:
    clusters = group["a"].get("ResourceSyncRule", name).get("status", {}).get("clusters", [])
    return next((entry for entry in clusters if entry["clusterID"] == group["b"].id), {})


async def _joined(group: SimGroup, **options: str) -> None:
    """Two clusters, with a namespace `other` in both; a's daemon has these options."""
    group["a"].options = options
    for member in group.members:
        member.create({"kind": "Namespace", "metadata": {"name": "other"}})
    await group.join()


async def _restarted(group: SimGroup, **options: str) -> None:
    group["a"].options = options
    await group["a"].restart()
    await group.settle()


def test_a_rule_from_a_peer_does_nothing_and_says_why_and_one_that_was_made_here_works() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group, **OFF)
        here, peer = group["a"], group["b"]
        peer.create(rule("from-b", CONFIG_MAP, WANTED))
        peer.create(_map("one"))
        await group.settle()
        assert _here(group) == set()
        accepted, synced = (here.condition("ResourceSyncRule", "from-b", kind) for kind in ("Accepted", "Synced"))
        assert accepted["status"] == "True"
        assert (synced["status"], synced["reason"]) == ("Unknown", "NotAllowedHere")
        assert "SYNCED_RULES_ENABLED" in synced["message"]
        async with open_dry_run(group, "a") as dry_run:
            kind, gvr = await dry_run.engine.discovery.find("configmap")
            (source,) = (await explain_object(dry_run, kind, gvr, ObjectKey("default", "one"))).sources
        (fit,) = source.fits
        assert (fit.fit, fit.path) == (Fit.IDLE, "SYNCED_RULES_ENABLED")
        found = await plan(group, "a", here.get("ResourceSyncRule", "from-b"))
        assert not found.rows
        assert any("SYNCED_RULES_ENABLED" in note for note in found.notes)
        here.create(_kept_here(rule("own", CONFIG_MAP, WANTED)))
        await group.settle()
        assert _here(group) == {"default/one"}

    simulate(scenario, n=2)


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_what_a_rule_had_made_stays_whatever_its_peer_does_once_it_is_no_longer_allowed(policy: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group)
        here, peer = group["a"], group["b"]
        peer.create(rule("from-b", CONFIG_MAP, WANTED, deletionPolicy=policy))
        for name in ("one", "two", "three"):
            peer.create(_map(name))
        await group.settle()
        copies = {"default/one", "default/two", "default/three"}
        assert _here(group) == copies
        await _restarted(group, **OFF)
        before = {name: here.get("ConfigMap", name, namespace="default") for name in ("one", "two", "three")}
        peer.apply(_map("one", value="2"))
        peer.delete("ConfigMap", "two", namespace="default")
        await group.settle()
        peer.delete("ResourceSyncRule", "from-b")
        await group.settle()
        await _restarted(group, **OFF)
        assert {name: here.get("ConfigMap", name, namespace="default") for name in before} == before
        bid_farewell(peer)
        await group.settle()
        assert here.find("Cluster", "b") is None  # it leaves, and nothing waits for what stays
        assert _here(group) == copies

    simulate(scenario, n=2)


def test_a_rule_that_is_allowed_again_goes_on_where_it_was() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group)
        here, peer = group["a"], group["b"]
        peer.create(rule("from-b", CONFIG_MAP, WANTED))
        for name in ("one", "two"):
            peer.create(_map(name))
        await group.settle()
        await _restarted(group, **OFF)
        peer.apply(_map("one", value="2"))
        peer.delete("ConfigMap", "two", namespace="default")
        await group.settle()
        await _restarted(group)
        assert _here(group) == {"default/one"}
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"a": "2"}
        assert here.condition("ResourceSyncRule", "from-b", "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_only_kinds_of_the_list_are_read_and_written() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group, SYNCED_RULES_KINDS="ConfigMap,Gadget.sim.example")
        here, peer = group["a"], group["b"]
        into_gadgets = {**WANTED, "mutations": {"groupVersionKind": {"kind": "Gadget"}}}
        into_widgets = {**WANTED, "mutations": {"groupVersionKind": {"group": "sim.example", "kind": "Widget"}}}
        peer.create(rule("listed", CONFIG_MAP, WANTED))
        peer.create(rule("reads", WIDGET, into_gadgets))
        peer.create(rule("writes", CONFIG_MAP, WANTED, into_widgets))
        peer.create(_map("one"))
        peer.create(_widget("two"))
        await group.settle()
        assert (_here(group), _here(group, "Widget"), _here(group, "Gadget")) == ({"default/one"}, set(), set())
        for name, verb in (("reads", "reads"), ("writes", "writes")):
            synced = here.condition("ResourceSyncRule", name, "Synced")
            assert synced["reason"] == "NotAllowedHere"
            assert f"SYNCED_RULES_KINDS: does not list Widget.sim.example, which the rule {verb}" in synced["message"]

    simulate(scenario, n=2)


@pytest.mark.parametrize("later", [False, True], ids=["from the start", "switched on later"])
def test_only_namespaces_of_the_list_are_written_into_by_the_names_that_copies_get(later: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        limited = {"SYNCED_RULES_NAMESPACES": "other"}
        await _joined(group, **({} if later else limited))
        here, peer = group["a"], group["b"]
        peer.create(rule("from-b", CONFIG_MAP, WANTED, deletionPolicy="Delete"))
        peer.create(rule("moving", WIDGET, _moved(namespace="other")))
        peer.create(rule("regions", REGION, {"match": [{}]}))
        peer.create(_map("in-default"))
        peer.create(_map("in-other", namespace="other"))
        peer.create(_widget("moved"))
        peer.create({"kind": "Region", "metadata": {"name": "somewhere"}, "spec": {}})
        await group.settle()
        if later:
            await _restarted(group, **limited)
            peer.apply(_map("in-default", value="2"))
            peer.delete("Region", "somewhere")
            await group.settle()
        assert _here(group) == ({"default/in-default", "other/in-other"} if later else {"other/in-other"})
        assert (_here(group, "Widget"), _here(group, "Region")) == ({"other/moved"}, {"somewhere"} if later else set())
        if later:
            assert here.get("ConfigMap", "in-default", namespace="default")["data"] == {"a": "1"}
        entry = _entry(group, "from-b")
        assert (entry["matched"], entry["synced"], entry["skipped"]) == (2, 1, 1)
        assert entry["failures"][0]["reason"] == "NotAllowedHere"
        synced = here.condition("ResourceSyncRule", "from-b", "Synced")
        assert synced["status"] == "True"
        assert "SYNCED_RULES_NAMESPACES" in synced["message"]
        found = await plan(group, "a", here.get("ResourceSyncRule", "from-b"))
        rows = {(row.action, row.target.name, row.reason) for row in found.rows}
        assert (PlanAction.SKIP, "in-default", "NotAllowedHere") in rows
        peer.delete("ConfigMap", "in-default", namespace="default")
        peer.delete("ConfigMap", "in-other", namespace="other")
        await group.settle()
        assert _here(group) == ({"default/in-default"} if later else set())

    simulate(scenario, n=2)


def test_a_rule_that_moves_its_copies_to_where_it_may_not_write_loses_none() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group, SYNCED_RULES_NAMESPACES="default")
        peer = group["b"]
        peer.create(rule("from-b", CONFIG_MAP, WANTED))
        peer.create(_map("one"))
        await group.settle()
        held = peer.get("ResourceSyncRule", "from-b")
        peer.apply({**held, "spec": {**held["spec"], "rules": [_moved(namespace="other")]}})
        await group.settle()
        assert _here(group) == {"default/one"}

    simulate(scenario, n=2)


def test_a_rule_that_was_made_here_is_not_in_the_shadow_of_an_older_one_that_may_not() -> None:
    """W2: the older one would win, and here it has no say."""

    async def scenario(group: SimGroup) -> None:
        await _joined(group, SYNCED_RULES_NAMESPACES="other")
        here, peer = group["a"], group["b"]
        labelled = {**WANTED, "mutations": {"labels": {"add": {"by": "b"}}}}
        peer.create(rule("from-b", CONFIG_MAP, labelled), born="2024-01-01T00:00:00Z")
        here.create(_kept_here(rule("own", CONFIG_MAP, WANTED)))
        peer.create(_map("one"))
        await group.settle()
        assert "by" not in here.get("ConfigMap", "one", namespace="default")["metadata"]["labels"]
        assert here.condition("ResourceSyncRule", "own", "Synced")["reason"] == "Synced"

    simulate(scenario, n=2)


def test_a_rule_from_a_peer_never_writes_what_is_the_registrys_own_whatever_is_allowed() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group)
        here, peer = group["a"], group["b"]
        retyped = [{"type": "replace", "path": "/type?", "value": meta.REGISTRY_SECRET_TYPE}]
        token = [{"type": "replace", "path": "/type?", "value": "kubernetes.io/service-account-token"}]
        feature = {"group": meta.GROUP, "version": meta.VERSION, "kind": meta.FEATURE.kind}
        peer.create(rule("features", feature, {"match": [{}]}))
        peer.create(rule("retyped", SECRET, {**WANTED, "mutations": {"overrides": retyped}}))
        peer.create(rule("tokens", SECRET, {**_moved(name="token"), "mutations": {
            "overrides": [*token, {"type": "replace", "path": "/metadata/name", "value": "token"}]}}))  # fmt: skip
        peer.create({"kind": "ClusterFeature", "metadata": {"name": "mine"}, "spec": {"featureName": "x"}})
        info = {"name": "plain", "namespace": "default", "labels": LABELS}
        peer.create({"kind": "Secret", "metadata": info, "type": "Opaque", "data": {"a": "MQ=="}})
        await group.settle()
        assert here.find("ClusterFeature", "mine") is None
        assert here.find("Secret", "plain", namespace="default") is None
        assert here.find("Secret", "token", namespace="default") is None
        reasons = {
            "features": here.condition("ResourceSyncRule", "features", "Synced")["reason"],
            "retyped": _entry(group, "retyped")["failures"][0]["reason"],
            "tokens": _entry(group, "tokens")["failures"][0]["reason"],
        }
        assert set(reasons.values()) == {"ReservedForThisCluster"}

    simulate(scenario, n=2)


def test_a_rule_from_a_peer_that_is_called_or_labelled_as_a_core_rule_gets_nothing_by_it() -> None:
    """Neither a name nor a label makes it one: what was made here has no mark of another cluster."""

    async def scenario(group: SimGroup) -> None:
        await _joined(group, **OFF)
        here, peer = group["a"], group["b"]
        core = here.get("ResourceSyncRule", names.RULES_SINK)
        mark = {meta.OWNER: peer.id}
        # What a peer serves under that name is not what the daemon of that cluster keeps there.
        peer.apply({"kind": "ResourceSyncRule", "metadata": {"name": names.RULES_SINK, "annotations": {"by": "b"}}})
        labelled = rule("labelled", CONFIG_MAP, WANTED)
        labelled["metadata"].update(labels={meta.CORE_RESOURCE: "true"}, annotations=mark)
        here.create(labelled)
        peer.create(rule("labelled", CONFIG_MAP, WANTED))
        peer.create(_map("one"))
        await group.settle()
        assert _here(group) == set()
        assert here.condition("ResourceSyncRule", "labelled", "Synced")["reason"] == "NotAllowedHere"
        assert here.get("ResourceSyncRule", names.RULES_SINK)["spec"] == core["spec"]
        # A core rule that somebody marked as a peer's is made one of ours again.
        here.apply({"kind": "ResourceSyncRule", "metadata": {"name": names.RULES_SINK, "annotations": mark}})
        await group.settle()
        kept = here.get("ResourceSyncRule", names.RULES_SINK)
        assert meta.OWNER not in kept["metadata"].get("annotations", {})
        peer.create(rule("later", CONFIG_MAP, WANTED))
        await group.settle()
        assert here.find("ResourceSyncRule", "later") is not None  # and so it still works

    simulate(scenario, n=2)


def test_nobody_takes_the_place_of_a_core_rule_while_it_is_gone() -> None:
    """A peer whose rule has that name, and not the label that would leave it out."""

    async def scenario(group: SimGroup) -> None:
        await _joined(group)
        here, peer = group["a"], group["b"]
        await peer.stop()
        peer.delete("ResourceSyncRule", names.CLUSTERS_SINK)
        peer.create(rule(names.CLUSTERS_SINK, CONFIG_MAP, WANTED))
        peer.create(_map("one"))
        await here.restart()
        await group.settle()
        (failure,) = _entry(group, names.RULES_SINK)["failures"]
        assert (failure["object"], failure["reason"]) == (
            f"ResourceSyncRule.{meta.GROUP} {names.CLUSTERS_SINK}", "ReservedForThisCluster",
        )  # fmt: skip
        here.delete("ResourceSyncRule", names.CLUSTERS_SINK)
        await group.settle()
        kept = here.get("ResourceSyncRule", names.CLUSTERS_SINK)
        assert (kept["spec"]["groupVersionKind"]["kind"], meta.OWNER in kept["metadata"].get("annotations", {})) == (
            "Cluster", False,
        )  # fmt: skip
        assert _here(group) == set()

    simulate(scenario, n=2)


def test_what_is_closed_is_written_by_no_rule_and_what_is_there_stays() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group)
        here, peer = group["a"], group["b"]
        here.create(_kept_here(rule("own", CONFIG_MAP, WANTED, deletionPolicy="Delete")))
        here.create(_kept_here(rule("widgets", WIDGET, WANTED)))
        peer.create(_map("early", namespace="other"))
        peer.create(_widget("early"))
        await group.settle()
        await _restarted(group, CLOSED_NAMESPACES="other", CLOSED_KINDS="*.sim.example")
        peer.create(_map("late", namespace="other"))
        peer.create(_map("late"))
        peer.create(_widget("late"))
        peer.delete("ConfigMap", "early", namespace="other")
        peer.delete("Widget", "early", namespace="default")
        await group.settle()
        assert (_here(group), _here(group, "Widget")) == ({"default/late", "other/early"}, {"default/early"})
        assert {failure["reason"] for failure in _entry(group, "own")["failures"]} == {"ClosedHere"}
        synced = here.condition("ResourceSyncRule", "widgets", "Synced")
        assert (synced["reason"], synced["message"].partition(":")[0]) == ("ClosedHere", "CLOSED_KINDS")
        here.delete("ResourceSyncRule", "own")
        await group.settle()
        assert _here(group) == {"other/early"}

    simulate(scenario, n=2)


def test_closing_everything_leaves_the_registry_itself_alone() -> None:
    async def scenario(group: SimGroup) -> None:
        await _joined(group, **OFF, CLOSED_KINDS=f"Secret,*.{meta.GROUP}")
        for member in group.members:
            for other in group.members:
                wanted = "Ready" if member is other else "ClustersSynced"
                assert member.condition("Cluster", other.name, wanted)["status"] == "True"

    simulate(scenario, n=3)


@pytest.mark.parametrize("deed", ["edits", "makes and deletes"])
def test_rules_that_others_change_without_pause_are_taken_together(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: each change has c listed anew, which takes seconds; c is heard to the end all the same, and it is said."""
    monkeypatch.setattr(pace, "AT_ONCE", 3)
    monkeypatch.setattr(pace, "PAUSE_S", 20.0)

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, changer, source = group["a"], group["b"], group["c"]
        here.create(rule("ours", CONFIG_MAP, WANTED, deletionPolicy="Delete"))
        for name in ("m0", "m1"):
            source.create(_map(name))
        await group.settle()

        async def change() -> None:
            for number in itertools.count():
                labels = {"matchLabels": {"sync": f"no-{number}"}}
                changer.apply(rule("theirs", CONFIG_MAP, {"match": [{"labels": [labels]}]}))
                await asyncio.sleep(0.5)
                if deed == "makes and deletes":
                    changer.delete("ResourceSyncRule", "theirs")
                await asyncio.sleep(0.5)

        group.wire("a", "c").delay_s = (2.0, 3.0)
        changing = group.scope.create_task(change())
        await asyncio.sleep(2 * pace.PAUSE_S)
        source.delete("ConfigMap", "m0", namespace="default")
        source.create(_map("m2"))
        await asyncio.sleep(2.5 * pace.PAUSE_S)
        assert _here(group) == {"default/m1", "default/m2"}
        statuses = list[str]()
        for _ in range(20):  # while the rule is deleted, nothing waits for a change of it
            statuses.append(str(here.get("ResourceSyncRule", names.RULES_SINK)["status"]))
            await asyncio.sleep(0.1)
        assert any("without pause" in status for status in statuses)
        changing.cancel()
        group.wire("a", "c").delay_s = (0.001, 0.02)
        await asyncio.sleep(2 * pace.PAUSE_S)  # the deletion counts after the window, and may wait for the next change
        await group.settle()
        held, made = (member.find("ResourceSyncRule", "theirs") for member in (here, changer))
        assert (held and held["spec"]) == (made and made["spec"])
        assert "without pause" not in str(here.get("ResourceSyncRule", names.RULES_SINK)["status"])

    simulate(scenario, n=3)
