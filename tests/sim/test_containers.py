"""Copies that others would go with: of a Namespace or a definition, while something lives in it. O1, O5, W3, W4, A2."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api.meta import SYNC_DISABLED, ObjectKey
from tests.sim.checks.expected_copies import Place
from tests.sim.checks.remaining_content import list_content
from tests.sim.cluster.containers import (
    DEFINITION,
    LABELS,
    NAMESPACE,
    RELIC,
    in_team,
    install_relics,
    relic,
    share_namespace,
    stays,
)
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import leave


def test_only_a_namespace_and_a_definition_hold_objects() -> None:
    """What the other laws of these schedules go by: any other copy that should be gone is missed by nobody."""
    objects = {BY_KIND["ConfigMap"]: {ObjectKey("team", "one"): config_map("one", {}, namespace="team")}}
    objects[BY_KIND["Relic"]] = {ObjectKey("default", "r-000"): relic(0)}

    def held_by(kind: str, key: ObjectKey) -> list[Place]:
        return list(list_content(lambda of: objects.get(of, {}), Place(kind, key)))

    assert held_by("Namespace", ObjectKey("", "team")) == [Place("ConfigMap", ObjectKey("team", "one"))]
    definition = ObjectKey("", "relics.sim.example")
    assert held_by("CustomResourceDefinition", definition) == [Place("Relic", ObjectKey("default", "r-000"))]
    assert held_by("CustomResourceDefinition", ObjectKey("", "gizmos.other.example")) == []
    for kind, key in (("ConfigMap", ObjectKey("team", "one")), ("Region", ObjectKey("", "team"))):
        assert held_by(kind, key) == []


@pytest.mark.parametrize("goes", ["source", "rule"])
def test_a_copied_namespace_goes_once_nothing_native_lives_in_it(goes: str) -> None:
    """O1, O5, W3: whatever it is that it goes for."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(stays("spaces", NAMESPACE, policy="Delete"))
        owner.create({"kind": "Namespace", "metadata": {"name": "space", "labels": LABELS}})
        await group.settle()
        here.create(config_map("native", {"a": "1"}, namespace="space"))
        if goes == "source":
            owner.delete("Namespace", "space")
        else:
            here.delete("ResourceSyncRule", "spaces")
        await group.settle()
        assert here.find("ConfigMap", "native", namespace="space") is not None
        here.delete("ConfigMap", "native", namespace="space")
        await group.settle()
        assert here.find("Namespace", "space") is None

    simulate(scenario, n=2)


def test_what_others_would_go_with_is_not_made_anew_for_a_field_that_may_not_change_and_that_is_said() -> None:
    """A2, S1: no object of that kind is lost for it; it heals when the change is taken back."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        scope = {"type": "replace", "path": "/spec/scope", "value": "Cluster"}
        wanting = rule("kinds", DEFINITION, entry)
        wanting["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        changed = rule("kinds", DEFINITION, {**entry, "mutations": {"overrides": [scope]}})
        here.create(wanting)
        info = {"name": "gizmos.other.example", "labels": LABELS}
        owner.create({"kind": "CustomResourceDefinition", "metadata": info, "spec": {"scope": "Namespaced"}})
        await group.settle()
        before = here.get("CustomResourceDefinition", info["name"])
        here.apply({**changed, "metadata": wanting["metadata"]})
        await asyncio.sleep(90.0)
        assert here.get("CustomResourceDefinition", info["name"]) == before
        told = here.condition("ResourceSyncRule", "kinds", "Synced")
        assert (told["status"], told["reason"]) == ("False", "Failing")
        (failure,) = here.get("ResourceSyncRule", "kinds")["status"]["clusters"][0]["failures"]
        assert failure["reason"] == "Immutable"
        assert "spec.scope" in failure["message"]
        assert "is not deleted to be made again" in failure["message"]
        here.apply(wanting)
        await group.settle()
        assert here.condition("ResourceSyncRule", "kinds", "Synced")["status"] == "True"
        assert here.get("CustomResourceDefinition", info["name"]) == before

    simulate(scenario, n=2)


def test_a_namespace_that_may_not_be_made_for_copies_stalls_the_rule() -> None:
    """A3, S3: somebody has to allow it, and the rule says so."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.server.denied.add("Namespace")
        owner.create({"kind": "Namespace", "metadata": {"name": "space"}})
        owner.create(config_map("one", {"a": "1"}, namespace="space", labels=LABELS))
        here.create(rule("into", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, createNamespaces=True))
        await asyncio.sleep(30.0)
        stalled = here.condition("ResourceSyncRule", "into", "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "ActionNeeded")
        assert "cannot create namespace space" in stalled["message"]
        here.server.denied.discard("Namespace")
        await group.settle()
        assert here.condition("ResourceSyncRule", "into", "Stalled")["status"] == "False"
        assert here.find("ConfigMap", "one", namespace="space") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("goes", ["source", "label", "rule", "match", "owner"])
@pytest.mark.parametrize("third", ["alive", "silent"])
def test_no_copy_goes_with_a_copied_namespace(goes: str, third: str) -> None:
    """O1, O5, O6, W3: whoever owns it, and whatever it is that the Namespace goes for."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 3, "Orphan")
        a, b, c = group.members
        before = in_team(a)
        if third == "silent":
            await c.stop()
            group.fail("c", Fault.REFUSED)
        if goes == "source":
            b.delete("Namespace", "team")
        elif goes == "label":
            b.replace({**b.get("Namespace", "team"), "metadata": {"name": "team"}})
        elif goes == "rule":
            a.delete("ResourceSyncRule", "spaces")
        elif goes == "match":
            other = {"match": [{"labels": [{"matchLabels": {"sync": "other"}}]}]}
            a.apply(stays("spaces", NAMESPACE, policy="Delete", entry=other))
        else:
            await leave(group, "b", without=("c",) if third == "silent" else ())
        await asyncio.sleep(200.0)
        kept = {name: uid for name, uid in before.items() if goes != "source" or name.startswith("c")}
        assert in_team(a) == kept
        assert not a.get("Namespace", "team")["metadata"].get("deletionTimestamp")
        assert (a.find("Cluster", "b") is None) == (goes == "owner")
        if goes in ("source", "label", "match"):
            told = a.condition("ResourceSyncRule", "spaces", "Synced")
            assert told["status"] == "False"
            assert any(f"ConfigMap team/{name} lives in it" in told["message"] for name in kept)
        if goes == "owner":
            return  # nobody asks for what is left of who has left
        a.delete("ResourceSyncRule", "many")
        await asyncio.sleep(60.0)
        for name in kept:
            a.delete("ConfigMap", name, namespace="team")
        await asyncio.sleep(200.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=3)


def test_a_member_that_leaves_takes_its_namespace_along_after_its_copies() -> None:
    """O6: its Cluster stays until then, but not for what lives in the Namespace and stays."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 30, "Delete")
        a = group["a"]
        await leave(group, "b")
        await asyncio.sleep(10.0)
        assert (in_team(a), a.find("Namespace", "team"), a.find("Cluster", "b")) == ({}, None, None)

    simulate(scenario, n=2)


@pytest.mark.parametrize("stays_for", ["a native object", "a frozen copy"])
def test_a_member_that_leaves_is_gone_although_its_namespace_stays(stays_for: str) -> None:
    """O1, O6."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 2, "Delete")
        a = group["a"]
        if stays_for == "a native object":
            a.create(config_map("kept", {"a": "1"}, namespace="team"))
        else:
            found = a.get("ConfigMap", "b-000", namespace="team")
            found["metadata"]["annotations"][SYNC_DISABLED] = "true"
            a.replace(found)
        await group.settle()
        await leave(group, "b", wait_s=200.0)
        assert a.find("Cluster", "b") is None
        assert list(in_team(a)) == ["kept" if stays_for == "a native object" else "b-000"]
        assert a.find("Namespace", "team") is not None

    simulate(scenario, n=2)


def test_a_namespace_that_waits_goes_after_a_restart_once_it_is_empty() -> None:
    """O1: what was in it went while no daemon ran."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 2, "Delete")
        a, b, c = group.members
        b.delete("Namespace", "team")
        await asyncio.sleep(30.0)
        assert len(in_team(a, "c")) == 2
        a.kill()
        for name in in_team(c):
            c.delete("ConfigMap", name, namespace="team")
        a.start()
        await asyncio.sleep(200.0)
        assert (in_team(a), a.find("Namespace", "team")) == ({}, None)

    simulate(scenario, n=3)


def test_a_namespace_that_waits_is_kept_when_its_owner_makes_it_again() -> None:
    """O1, O5: it is the same one, and so is what lived in it."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 2, "Delete")
        a, b, _ = group.members
        uid, before = a.get("Namespace", "team")["metadata"]["uid"], in_team(a, "c")
        b.delete("Namespace", "team")
        await asyncio.sleep(30.0)
        b.create({"kind": "Namespace", "metadata": {"name": "team", "labels": LABELS}})
        await group.settle()
        assert a.get("Namespace", "team")["metadata"]["uid"] == uid
        assert in_team(a) == before
        assert a.condition("ResourceSyncRule", "spaces", "Synced")["status"] == "True"

    simulate(scenario, n=3)


@pytest.mark.parametrize("first", ["labels", "namespace"])
def test_a_namespace_that_goes_deletes_no_copies_beyond_the_limit(first: str) -> None:
    """W4: not those that are halted, nor, with their sources, more than the limit lets go."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 120, "Delete")
        a, b = group.members
        before = in_team(a)
        if first == "labels":
            for name in list(before)[:100]:
                b.replace(
                    {**b.get("ConfigMap", name, namespace="team"), "metadata": {"name": name, "namespace": "team"}}
                )
            await asyncio.sleep(60.0)
            assert in_team(a) == before
        b.delete("Namespace", "team")
        await asyncio.sleep(100.0)
        assert in_team(a) == before
        assert a.condition("ResourceSyncRule", "many", "DeletionHalted")["status"] == "True"
        assert not a.get("Namespace", "team")["metadata"].get("deletionTimestamp")

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_there_again", [True, False], ids=["installed again", "gone for good"])
@pytest.mark.parametrize("of", ["b", "c"])
def test_no_copy_goes_with_a_copied_definition(of: str, is_there_again: bool) -> None:
    """O1, O5, W4: of its own owner or another one; it goes once all its objects here are gone."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, _ = group.members
        install_relics(b, LABELS)
        a.create(stays("kinds", DEFINITION, policy="Delete"))
        a.create(stays("many", RELIC, policy="Delete"))
        if of == "c":
            install_relics(group["c"], {})
        await group.settle()
        assert a.server.serves("Relic")
        for number in range(20):
            group[of].create(relic(number))
        await group.settle()
        before = {item["metadata"]["uid"] for item in a.list("Relic")}
        assert len(before) == 20
        await group["b"].restart()
        b.delete("CustomResourceDefinition", "relics.sim.example")
        await asyncio.sleep(1.0)
        assert not b.server.serves("Relic")
        if is_there_again:
            install_relics(b, LABELS)
        await asyncio.sleep(200.0)
        assert {item["metadata"]["uid"] for item in a.list("Relic")} == before
        if is_there_again:
            return
        a.delete("ResourceSyncRule", "many")
        await asyncio.sleep(60.0)
        for item in a.list("Relic"):
            a.delete("Relic", item["metadata"]["name"], namespace="default")
        await asyncio.sleep(200.0)
        assert not a.server.serves("Relic")

    simulate(scenario, n=3)
