"""A copy that its rule gives another name or namespace is made there first, and deleted here after. W3, S1."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault

LABELS = {"sync": "yes"}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
OLD, NEW = "one", "two"

OBSTACLES = ("no namespace", "name taken", "refused")
WAYS = ("override added", "template value changed", "namespace changed", "rule replaced")


def _override(field: str, value: str) -> dict[str, Any]:
    return {"overrides": [{"type": "replace", "path": f"/metadata/{field}", "value": value}]}


def _rule(mutations: dict[str, Any], policy: str = "Orphan", **spec: Any) -> dict[str, Any]:
    entry = {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": mutations}
    made = rule("named", CONFIG_MAP, entry, deletionPolicy=policy, **spec)
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


def _place(obstacle: str, way: str) -> tuple[str, str]:
    """Return the namespace and the name that the copy gets."""
    namespace = "nowhere" if obstacle == "no namespace" else "other" if way == "namespace changed" else "default"
    return namespace, OLD if way == "namespace changed" else NEW


def _source(value: str, **labels: str) -> dict[str, Any]:
    return config_map(OLD, {"value": value}, labels={**LABELS, **labels})


def _begin(group: SimGroup, way: str, policy: str) -> None:
    here, owner = group["a"], group["b"]
    for member in (here, owner):
        member.create({"kind": "Namespace", "metadata": {"name": "other"}})
    labels = {"name": OLD, "namespace": "default"}
    mutations: dict[str, Any] = {}
    if way == "template value changed":
        names = [
            _override(field, "{{ .Object.metadata.labels.FIELD }}".replace("FIELD", field))
            for field in ("name", "namespace")
        ]
        mutations = {"overrides": [override for one in names for override in one["overrides"]]}
    here.create(_rule(mutations, policy))
    owner.create(_source("1", **(labels if way == "template value changed" else {})))


def _move(group: SimGroup, way: str, namespace: str, name: str) -> None:
    here, owner = group["a"], group["b"]
    if way == "template value changed":
        owner.apply(_source("1", name=name, namespace=namespace))
        return
    held = here.get("ResourceSyncRule", "named")
    fields = {"name": name, "namespace": namespace}
    overrides = [override for field, value in fields.items() for override in _override(field, value)["overrides"]]
    held["spec"]["rules"][0]["mutations"] = {"overrides": overrides}
    if way == "rule replaced":
        here.delete("ResourceSyncRule", "named")
        here.create({"kind": "ResourceSyncRule", "metadata": _rule({})["metadata"], "spec": held["spec"]})
        return
    here.replace(held)


def _obstruct(here: Member, obstacle: str, namespace: str, name: str) -> None:
    if obstacle == "name taken":
        here.create(config_map(name, {"value": "mine"}, namespace=namespace))
    elif obstacle == "refused":
        here.server.denied.add(f"ConfigMap {name}")


def _clear(here: Member, obstacle: str, namespace: str, name: str) -> None:
    if obstacle == "no namespace":
        here.create({"kind": "Namespace", "metadata": {"name": namespace}})
    elif obstacle == "name taken":
        here.delete("ConfigMap", name, namespace=namespace)
    else:
        here.server.denied.clear()


def _failures(here: Member) -> dict[str, tuple[str, str]]:
    entries = (here.get("ResourceSyncRule", "named").get("status") or {}).get("clusters") or ()
    return {
        failure["object"]: (failure["reason"], failure["message"])
        for entry in entries
        for failure in entry.get("failures") or ()
    }


@pytest.mark.clause("W3")
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_copy_stays_until_its_new_copy_is_made(obstacle: str, way: str, policy: str) -> None:
    """It is not kept fresh, and the rule names it, and what it waits for; it goes once the new copy is there."""
    if obstacle == "refused" and way == "namespace changed":
        pytest.skip("the name stays, and is not refused")

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        _begin(group, way, policy)
        await group.settle()
        namespace, name = _place(obstacle, way)
        _obstruct(here, obstacle, namespace, name)
        _move(group, way, namespace, name)
        await asyncio.sleep(90.0)
        assert here.get("ConfigMap", OLD, namespace="default")["data"] == {"value": "1"}
        owner.apply({**owner.get("ConfigMap", OLD, namespace="default"), "data": {"value": "2"}})
        await here.restart()
        await asyncio.sleep(90.0)
        assert here.get("ConfigMap", OLD, namespace="default")["data"] == {"value": "1"}
        assert here.condition("ResourceSyncRule", "named", "Synced")["status"] == "False"
        reason, message = _failures(here)[f"ConfigMap default/{OLD}"]
        assert reason == "NewCopyMissing"
        assert f"{namespace}/{name}" in message
        assert f"ConfigMap {namespace}/{name}" in _failures(here)
        _clear(here, obstacle, namespace, name)
        await group.settle()
        assert here.get("ConfigMap", name, namespace=namespace)["data"] == {"value": "2"}
        # What made the old copy was deleted, and the policy in the copy counts.
        is_orphan = way == "rule replaced" and policy == "Orphan"
        assert (here.find("ConfigMap", OLD, namespace="default") is not None) == is_orphan
        assert here.condition("ResourceSyncRule", "named", "Synced")["status"] == "True"
        assert _failures(here) == {}

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_a_copy_that_moves_is_made_first_and_deleted_after() -> None:
    """Also where nothing is in the way: at no moment is there none of the two."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        _begin(group, "override added", "Delete")
        await group.settle()
        began = len(here.server.journal)
        _move(group, "override added", "other", NEW)
        await group.settle()
        writes = [(one.verb, str(one.key)) for one in here.server.journal[began:] if one.kind == "ConfigMap"]
        assert writes == [("create", f"other/{NEW}"), ("delete", f"default/{OLD}")]

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
def test_a_copy_moves_where_its_source_is_known_by_name_only(policy: str) -> None:
    """The edited rule has a narrower watch, which its owner answers with a past of the source."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        source = {"kind": "Widget", "metadata": {"name": OLD, "namespace": "default", "labels": LABELS}, "spec": {}}
        owner.create(source)
        here.create(rule("named", WIDGET, {"match": [{}], "mutations": _override("name", NEW)}, deletionPolicy=policy))
        await group.settle()
        assert here.find("Widget", NEW, namespace="default") is not None
        wire = group.wire("a", "b")
        wire.lag, wire.behind_s = 5, 1.0
        wire.cut()
        await asyncio.sleep(7.0)
        held = owner.get("Widget", OLD, namespace="default")
        owner.replace({**held, "status": {"phase": "done"}}, subresource="status")  # which is not copied
        await asyncio.sleep(0.1)
        before = len(here.server.journal)
        here.apply(rule("named", WIDGET, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, deletionPolicy=policy))
        await group.settle()
        writes = [write for write in here.server.journal[before:] if write.kind == "Widget" and write.changed]
        assert [(write.verb, write.key.name) for write in writes] == [("create", OLD), ("delete", NEW)]

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_a_copy_stays_where_its_rule_may_not_write_its_new_name() -> None:
    """W8: what is closed here is no place that a copy can be made in."""

    async def scenario(group: SimGroup) -> None:
        group["a"].options["CLOSED_NAMESPACES"] = "other"
        await group.join()
        here = group["a"]
        _begin(group, "override added", "Delete")
        await group.settle()
        _move(group, "override added", "other", NEW)
        await group.settle()
        assert here.find("ConfigMap", OLD, namespace="default") is not None
        assert _failures(here)[f"ConfigMap default/{OLD}"][0] == "NewCopyMissing"

    simulate(scenario, n=2)


@pytest.mark.clause("O5")
def test_a_copy_that_waits_for_its_new_copy_goes_with_its_source() -> None:
    """Its owner's proof counts as ever."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        _begin(group, "override added", "Orphan")
        await group.settle()
        _move(group, "override added", "nowhere", NEW)
        await group.settle()
        group.wire("a", "b").set(Fault.REFUSED)
        owner.delete("ConfigMap", OLD, namespace="default")
        await group.settle()
        assert here.find("ConfigMap", OLD, namespace="default") is not None
        group.wire("a", "b").set(Fault.NONE)
        await group.settle()
        assert here.find("ConfigMap", OLD, namespace="default") is None

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
def test_a_copy_that_waits_is_kept_fresh_again_once_the_name_is_taken_back() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        _begin(group, "override added", "Delete")
        await group.settle()
        _move(group, "override added", "nowhere", NEW)
        await group.settle()
        owner.apply({**owner.get("ConfigMap", OLD, namespace="default"), "data": {"value": "2"}})
        _move(group, "override added", "default", OLD)
        await group.settle()
        assert here.get("ConfigMap", OLD, namespace="default")["data"] == {"value": "2"}
        assert here.condition("ResourceSyncRule", "named", "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_two_copies_that_swap_their_names_are_changed_where_they_are() -> None:
    """W3, O3: and revisions of two objects show no restored history."""
    same = "{{ .Object.GetName }}"
    swapped = '{{ if eq .Object.GetName "one" }}two{{ else }}one{{ end }}'

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        for name in (OLD, NEW):
            owner.create(config_map(name, {"value": name}, labels=LABELS))
        here.create(_rule(_override("name", same), "Delete"))
        await group.settle()
        uids = {found["metadata"]["uid"] for found in here.list("ConfigMap", namespace="default")}
        here.apply(_rule(_override("name", swapped), "Delete"))
        await group.settle()
        found = here.list("ConfigMap", namespace="default")
        assert {one["metadata"]["name"]: one["data"]["value"] for one in found} == {OLD: NEW, NEW: OLD}
        assert {one["metadata"]["uid"] for one in found} == uids
        assert here.condition("ResourceSyncRule", "named", "Synced")["status"] == "True"
        assert not here.condition("ResourceSyncRule", "named", "HistoryRestored")

    simulate(scenario, n=2)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("target", ["a", "b"])
@pytest.mark.parametrize("edit", ["gives another name", "does not match"])
def test_a_copy_stays_while_another_rule_may_want_it(edit: str, target: str) -> None:
    """What a rule wants is not known while its `targetClusters` cannot be evaluated; then it has the copy, or none."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.create(_source("1"))
        here.create({"kind": "Cluster", "metadata": {"name": "again"}, "spec": here.get("Cluster", "a")["spec"]})
        await group.settle()
        here.create(_rule({}, "Delete"))
        other = _rule({}, targetClusters={"names": [target]})
        other["metadata"]["name"] = "other"
        here.create(other)
        await group.settle()
        before = here.get("ConfigMap", OLD, namespace="default")
        assert marks_of(before).provenance["rule"] == "named"
        edited = here.get("ResourceSyncRule", "named")
        if edit == "gives another name":
            edited["spec"]["rules"][0]["mutations"] = _override("name", NEW)
        else:
            edited["spec"]["rules"][0]["match"] = [{"labels": [{"matchLabels": {"sync": "no"}}]}]
        here.replace(edited)
        await asyncio.sleep(120.0)
        assert here.condition("ResourceSyncRule", "other", "Synced")["reason"] == "LocalClusterUnclear"
        is_renamed = here.find("ConfigMap", NEW, namespace="default") is not None
        assert is_renamed == (edit == "gives another name")
        assert here.get("ConfigMap", OLD, namespace="default") == before
        (entry,) = here.get("ResourceSyncRule", "named")["status"]["clusters"]
        assert entry["held"] == 1
        here.delete("Cluster", "again")
        await asyncio.sleep(120.0)
        found = here.find("ConfigMap", OLD, namespace="default")
        if target == "b":
            assert found is None
        else:
            assert found is not None
            assert found["metadata"]["uid"] == before["metadata"]["uid"]
            assert marks_of(found).provenance["rule"] == "other"

    simulate(scenario, n=2)
