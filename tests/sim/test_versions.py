"""Kinds that are served in several versions, or in one that their group does not prefer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api.errors import NotServed
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.planner.explain import explain_object
from registry_controller.planner.rule_fit import Fit
from tests.sim.cluster.dry_run import open_dry_run, plan
from tests.sim.cluster.group import SimGroup, rule, simulate
from tests.sim.cluster.member import Member

RELIC = {"group": "sim.example", "version": "v1beta1", "kind": "Relic"}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
BETA_WIDGET = {**WIDGET, "version": "v1beta1"}
NAMESPACE = {"version": "v1", "kind": "Namespace"}
LABELS = {"sync": "yes"}


def _object(kind: str, name: str, value: str = "v", *, namespace: str = "default") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": {"value": value}}


def _in_namespace(namespace: str) -> dict[str, Any]:
    return {"match": [{"namespaces": [namespace]}]}


async def _with_versions(group: SimGroup) -> tuple[Member, Member]:
    """Form a group of two that serve Relics in v1beta1 only, and Widgets in v1 and v1beta1."""
    await group.join()
    for member in group.members:
        member.server.change_versions("Relic", ["v1beta1"])
        member.server.change_versions("Widget", ["v1", "v1beta1"])
        for name in ("one", "two"):
            member.create({"kind": "Namespace", "metadata": {"name": name}})
    return group["a"], group["b"]


def test_a_copied_namespace_is_kept_for_a_native_object_of_a_kind_in_an_old_version() -> None:
    """O1: whatever version it is served in."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        wanted = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        here.create(rule("spaces", NAMESPACE, wanted, deletionPolicy="Delete"))
        owner.create({"kind": "Namespace", "metadata": {"name": "space", "labels": LABELS}})
        await group.settle()
        here.create(_object("Relic", "native", namespace="space"))
        owner.delete("Namespace", "space")
        await group.settle()
        assert here.find("Relic", "native", namespace="space") is not None
        here.delete("Relic", "native", namespace="space")
        await group.settle()
        assert here.find("Namespace", "space") is None

    simulate(scenario, n=2)


def test_copies_of_a_kind_in_an_old_version_go_with_a_rule_that_went_while_no_daemon_ran() -> None:
    """W3: copies of all writable kinds are found by the label of their owner."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        here.create(rule("relics", RELIC, deletionPolicy="Delete"))
        owner.create(_object("Relic", "x"))
        await group.settle()
        assert here.find("Relic", "x", namespace="default") is not None
        await here.stop()
        here.delete("ResourceSyncRule", "relics")
        here.start()
        await group.settle()
        assert here.find("Relic", "x", namespace="default") is None
        assert owner.find("Relic", "x", namespace="default") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("relic", RELIC),
        ("relics.sim.example", RELIC),
        ("relics.v1beta1.sim.example", RELIC),
        ("widgets", WIDGET),
        ("widgets.v1beta1.sim.example", BETA_WIDGET),
        ("relics.v1.sim.example", None),
        ("relics.other.example", None),
    ],
)
def test_a_kind_is_found_as_people_call_it_in_the_best_version_that_has_it(
    word: str, kind: dict[str, str] | None
) -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        here.create(rule("relics", RELIC))
        owner.create(_object("Relic", "x"))
        await group.settle()
        async with open_dry_run(group, "a") as dry_run:
            if kind is None:
                with pytest.raises(NotServed):
                    await dry_run.engine.discovery.find(word)
                return
            found, gvr = await dry_run.engine.discovery.find(word)
            assert found == GVK(**kind)
            if kind == RELIC:
                (source,) = (await explain_object(dry_run, found, gvr, ObjectKey("default", "x"))).sources
                assert [(fit.rule, fit.fit) for fit in source.fits] == [("relics", Fit.MATCHES)]

    simulate(scenario, n=2)


@pytest.mark.parametrize("older", ["v1", "v1beta1"])
def test_two_rules_write_one_kind_in_two_versions(older: str) -> None:
    """R1, R6, A1: one watch hears the places of both, and neither rule waits for what the other one does not watch."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        newer = BETA_WIDGET if older == "v1" else WIDGET
        here.create(rule("older", {**WIDGET, "version": older}, _in_namespace("one"), deletionPolicy="Delete"))
        await group.settle()
        here.create(rule("newer", newer, _in_namespace("two"), deletionPolicy="Delete"))
        for space in ("one", "two"):
            owner.create(_object("Widget", "x", "v1", namespace=space))
        await group.settle()
        for space in ("one", "two"):
            copy = here.get("Widget", "x", namespace=space)
            assert copy["spec"] == {"value": "v1"}
            here.apply({**copy, "spec": {"value": "changed here"}})
        await group.settle()
        for space in ("one", "two"):
            assert here.get("Widget", "x", namespace=space)["spec"] == {"value": "v1"}
            owner.apply(_object("Widget", "x", "v2", namespace=space))
        await group.settle()
        await here.restart()
        await group.settle()
        assert not [write for write in await group.writes_within(300.0) if write.kind == "Widget"]
        assert here.daemon is not None
        assert not [slot for slot in here.daemon.engine.bodies._held if slot.kind.kind == "Widget"]
        for space in ("one", "two"):
            assert here.get("Widget", "x", namespace=space)["spec"] == {"value": "v2"}
        here.delete("ResourceSyncRule", "older")
        await group.settle()
        assert here.find("Widget", "x", namespace="one") is None
        owner.apply(_object("Widget", "x", "v3", namespace="two"))
        await group.settle()
        assert here.get("Widget", "x", namespace="two")["spec"] == {"value": "v3"}

    simulate(scenario, n=2)


@pytest.mark.parametrize("gone", ["v1", "v1beta1"])
def test_a_rule_does_not_wait_for_the_version_of_another_one_that_is_not_served_any_more(gone: str) -> None:
    """R2, A4: the kind is heard in the version that is left."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        here.create(rule("stable", WIDGET, _in_namespace("one")))
        here.create(rule("beta", BETA_WIDGET, _in_namespace("two")))
        await group.settle()
        here.server.change_versions("Widget", {"v1", "v1beta1"} - {gone})
        group.cut("a")
        await asyncio.sleep(60.0)
        for space in ("one", "two"):
            owner.create(_object("Widget", "x", namespace=space))
        await group.settle()
        left, lost = ("two", "one") if gone == "v1" else ("one", "two")
        assert here.find("Widget", "x", namespace=left) is not None
        assert here.find("Widget", "x", namespace=lost) is None
        standing = here.condition("ResourceSyncRule", "stable" if gone == "v1" else "beta", "Synced")
        assert standing["status"] == "False"
        assert f"does not serve Widget.sim.example/{gone}" in standing["message"]
        here.server.change_versions("Widget", ["v1", "v1beta1"])
        await group.settle()
        assert here.find("Widget", "x", namespace=lost) is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("name", ["stable", "beta"])
def test_a_plan_says_that_a_kind_is_not_served_whatever_version_a_rule_asks_for(name: str) -> None:
    """S1: it is heard in one version for all of them."""

    async def scenario(group: SimGroup) -> None:
        here, _ = await _with_versions(group)
        here.create(rule("stable", WIDGET, _in_namespace("one")))
        here.create(rule("beta", BETA_WIDGET, _in_namespace("two")))
        here.server.change_versions("Widget", [])
        await group.settle()
        found = await plan(group, "a", here.get("ResourceSyncRule", name))
        assert [words for words in found.problems if words.startswith("here: Widget: it is not served here")]

    simulate(scenario, n=2)


def _named(suffix: str) -> dict[str, Any]:
    name = f"{{{{ .Object.GetName }}}}-{suffix}"
    return {"mutations": {"overrides": [{"type": "replace", "path": "/metadata/name", "value": name}]}}


@pytest.mark.parametrize("keeps_old", [True, False])
def test_another_version_and_another_name_at_once_take_the_old_name_away(*, keeps_old: bool) -> None:
    """W3: under Orphan, too; the old version may be served no more at the owner."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        here.create(rule("widgets", BETA_WIDGET, _named("old")))
        owner.create(_object("Widget", "x"))
        await group.settle()
        assert here.find("Widget", "x-old", namespace="default")
        if not keeps_old:
            owner.server.change_versions("Widget", ["v1"])
        here.apply(rule("widgets", WIDGET, _named("new")))
        await group.settle()
        assert {item["metadata"]["name"] for item in here.list("Widget")} == {"x-new"}
        owner.delete("Widget", "x", namespace="default")
        await group.settle()
        assert not here.list("Widget")

    simulate(scenario, n=2)


def test_a_source_is_proven_gone_in_the_version_that_is_served_now() -> None:
    """O5: its copy names the version in which it was read once."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        matched = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        here.create(rule("widgets", BETA_WIDGET, matched))
        source = _object("Widget", "x")
        owner.create({**source, "metadata": {**source["metadata"], "labels": LABELS}})
        await group.settle()
        assert here.find("Widget", "x", namespace="default")
        await here.stop()
        for member in (here, owner):
            member.server.change_versions("Widget", ["v1"])
        here.apply(rule("widgets", WIDGET, matched))
        owner.delete("Widget", "x", namespace="default")
        here.start()
        await group.settle()
        assert here.find("Widget", "x", namespace="default") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("older", ["v1", "v1beta1"])
def test_of_two_rules_that_read_one_source_in_two_versions_the_older_wins(older: str) -> None:
    """W2, S1: the other one says so, and takes over when the older goes."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        newer = "v1beta1" if older == "v1" else "v1"
        for name, version in (("z-older", older), ("a-newer", newer)):
            entry = {"mutations": {"labels": {"add": {"by": name}}}}
            here.create(rule(name, {**WIDGET, "version": version}, entry))
            await asyncio.sleep(2.0)
        owner.create(_object("Widget", "x"))
        await group.settle()
        assert here.get("Widget", "x", namespace="default")["metadata"]["labels"]["by"] == "z-older"
        (said,) = here.get("ResourceSyncRule", "a-newer")["status"]["clusters"]
        assert said["conflicting"] == 1
        here.delete("ResourceSyncRule", "z-older")
        await group.settle()
        assert here.get("Widget", "x", namespace="default")["metadata"]["labels"]["by"] == "a-newer"

    simulate(scenario, n=2)


def test_a_watch_of_another_version_that_heard_of_nothing_halts_no_deletion() -> None:
    """W4: it is behind, and its server's history did not go back."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await _with_versions(group)
        here.create(rule("old", BETA_WIDGET, {"match": [{"objectKey": {"name": "old"}}]}))
        here.create(rule("new", WIDGET, {"match": [{"objectKey": {"name": "new"}}]}))
        owner.create(_object("Widget", "old"))
        await group.settle()
        owner.create(_object("Widget", "new"))
        await asyncio.sleep(5.0)
        assert here.find("Widget", "new", namespace="default") is not None
        owner.delete("Widget", "new", namespace="default")
        await asyncio.sleep(20.0)
        assert here.find("Widget", "new", namespace="default") is None

    simulate(scenario, n=2)
