"""What counts as content of a copied Namespace or definition, and what happens while it ends. O1, O6, A2, A11, R2."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from registry_controller.api import meta
from tests.sim.cluster.containers import (
    DEFINITION,
    ENTRY,
    LABELS,
    NAMESPACE,
    RELIC,
    in_team,
    install_relics,
    relic,
    share_apart,
    share_namespace,
    stays,
)
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, config_map, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import join_again, leave, stones

OWNER = "11111111-1111-1111-1111-111111111111"
LEASE = {"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
HELD = ["sim.example/grace"]


def controlled_by(maker: Manifest) -> list[dict[str, Any]]:
    """Write the owner reference of what a controller makes from a ConfigMap."""
    info = maker["metadata"]
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": info["name"], "uid": info["uid"], "controller": True}]


def told(member: Member, name: str = "spaces") -> str:
    """Return the message of a rule's condition Synced; empty while that is true."""
    condition = member.condition("ResourceSyncRule", name, "Synced")
    return "" if condition["status"] == "True" else condition["message"]


def secret(kind: str) -> dict[str, Any]:
    """Write a Secret that is copied."""
    return {
        "kind": "Secret",
        "type": kind,
        "metadata": {"name": "one", "namespace": "team", "labels": LABELS},
        "stringData": {"a": "1"},
    }


@pytest.mark.parametrize("form", ["later", "later, with a controller", "later Lease", "unproven, with a controller"])
def test_a_copy_that_may_not_be_touched_keeps_its_namespace(form: str) -> None:
    """A11, O11: of a later format, or of an owner that this cluster does not know."""

    async def scenario(group: SimGroup) -> None:
        kind = LEASE if "Lease" in form else CONFIG_MAP
        a, b, c = await share_apart(group, kind, "Orphan")
        maker = a.create(config_map("maker", {"a": "1"}))
        if "later" in form:
            one = config_map("one", {"a": "1"}, namespace="team", labels=LABELS)
            c.create({"kind": "Lease", "metadata": one["metadata"], "spec": {}} if kind == LEASE else one)
            await group.settle()
            await a.stop()
            found = a.get(kind["kind"], "one", namespace="team")
            notes = found["metadata"]["annotations"]
            notes[meta.PROVENANCE] = json.dumps({**json.loads(notes[meta.PROVENANCE]), "format": 99})
            if "controller" in form:
                found["metadata"]["ownerReferences"] = controlled_by(maker)
            a.replace(found)
            a.start()
        else:
            marks = {meta.OWNER: OWNER}
            made = config_map("one", {"a": "1"}, namespace="team", annotations=marks, labels=marks)
            made["metadata"]["ownerReferences"] = controlled_by(maker)
            a.create(made)
        await group.settle()
        b.delete("Namespace", "team")
        await asyncio.sleep(150.0)
        assert a.find(kind["kind"], "one", namespace="team") is not None

    simulate(scenario, n=3)


def test_what_a_controller_makes_from_a_copy_elsewhere_keeps_its_definition() -> None:
    """O1: it goes with the copy that it was made from, and not before."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        install_relics(b, LABELS)
        a.create(stays("kinds", DEFINITION, policy="Delete"))
        a.create(stays("many", CONFIG_MAP, policy="Delete"))
        await group.settle()
        c.create(config_map("maker", {"a": "1"}, labels=LABELS))
        await group.settle()
        maker = a.get("ConfigMap", "maker", namespace="default")
        for number in range(3):
            made = relic(number)
            made["metadata"] |= {
                "labels": {},
                "annotations": dict(maker["metadata"]["annotations"]),
                "ownerReferences": controlled_by(maker),
            }
            a.create(made)
        await group.settle()
        b.delete("CustomResourceDefinition", "relics.sim.example")
        await asyncio.sleep(200.0)
        assert len(a.list("Relic")) == 3
        c.delete("ConfigMap", "maker", namespace="default")
        await asyncio.sleep(200.0)
        assert not a.server.serves("Relic")

    simulate(scenario, n=3)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("content", ["a Pod of a copy", "a copy"])
def test_a_namespace_goes_after_its_owner_has_left_once_its_content_has_ended(content: str, is_restarted: bool) -> None:
    """O6: that takes half a minute, and the owner's Cluster goes meanwhile."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a = group["a"]
        copy = a.get("ConfigMap", "b-000", namespace="team")
        if content == "a copy":
            copy["metadata"]["finalizers"] = HELD
            a.replace(copy)
        else:
            info = {"name": "p", "namespace": "team", "finalizers": HELD, "ownerReferences": controlled_by(copy)}
            a.create({"kind": "Pod", "metadata": info, "spec": {}})
        await group.settle()
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(30.0)
        found = a.get(*(("ConfigMap", "b-000") if content == "a copy" else ("Pod", "p")), namespace="team")
        assert found["metadata"]["deletionTimestamp"]
        assert (a.find("Cluster", "b"), a.find("Namespace", "team") is None) == (None, False)
        assert "lives in it" in told(a)
        if is_restarted:
            await a.restart()
        a.replace({**found, "metadata": {**found["metadata"], "finalizers": []}})
        await asyncio.sleep(120.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_namespace_goes_after_its_owner_has_left_although_a_kind_could_not_be_listed(is_restarted: bool) -> None:
    """O6: for a moment, in which the owner's Cluster goes."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a = group["a"]
        a.server.unreadable.add("Job")
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(20.0)
        assert (a.find("Cluster", "b"), a.find("Namespace", "team") is None) == (None, False)
        a.server.unreadable.discard("Job")
        if is_restarted:
            await a.restart()
        await asyncio.sleep(120.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


def test_a_namespace_that_was_not_empty_before_its_owner_left_goes_once_it_is() -> None:
    """O6: by a person who deletes what lives in it, after an hour."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a = group["a"]
        a.create(config_map("kept", {"a": "1"}, namespace="team"))
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(3600.0)
        assert (list(in_team(a)), a.find("Cluster", "b")) == (["kept"], None)
        assert "ConfigMap team/kept lives in it" in told(a)
        a.delete("ConfigMap", "kept", namespace="team")
        await asyncio.sleep(120.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("loses_cluster", [False, True])
def test_a_namespace_of_a_member_that_is_back_stays(loses_cluster: bool) -> None:
    """O6: its tombstone still stands, and is about an earlier membership."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a, b = group.members
        a.create(config_map("kept", {"a": "1"}, namespace="team"))
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(60.0)
        await join_again(group)
        assert a.find("Cluster", "b") is not None
        assert set(in_team(a)) == {"b-000", "kept"}
        a.delete("ConfigMap", "kept", namespace="team")
        b.delete("ConfigMap", "b-000", namespace="team")
        await asyncio.sleep(200.0)
        assert (in_team(a), a.find("Namespace", "team") is None) == ({}, False)
        if loses_cluster:
            await a.stop()
            a.delete("Cluster", "b")
            a.start()
            await asyncio.sleep(200.0)
            assert a.find("Namespace", "team") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("third_has_it", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_namespace_of_a_member_that_was_back_stays_where_its_tombstone_comes_again(
    restarts: bool, third_has_it: bool
) -> None:
    """O6: a loses its features and the Cluster of b; the tombstone of c says that b was back."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 0, "Delete")
        a, b, c = group.members
        a.create(config_map("kept", {"a": "1"}, namespace="team"))
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(60.0)
        await join_again(group)
        await group.settle()
        await b.stop()
        group.fail("b", Fault.REFUSED)
        await asyncio.sleep(60.0)
        if restarts:
            await a.stop()
        for name in stones(a):
            a.delete("ClusterFeature", name)
        a.delete("Cluster", "b")
        a.delete("ConfigMap", "kept", namespace="team")
        if not third_has_it:
            c.delete("Cluster", "b")
        if restarts:
            a.start()
        await asyncio.sleep(400.0)
        assert a.find("Namespace", "team") is not None
        assert all(meta.LEFT_RETURNED in a.get("ClusterFeature", name)["metadata"]["labels"] for name in stones(a))

    simulate(scenario, n=3)


def test_a_definition_goes_with_its_owner_once_its_last_object_has_ended() -> None:
    """O6."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        install_relics(b, LABELS)
        a.create(stays("kinds", DEFINITION, policy="Delete"))
        a.create(stays("many", RELIC, policy="Delete"))
        await group.settle()
        for number in range(3):
            b.create(relic(number))
        await group.settle()
        found = a.get("Relic", "r-001", namespace="default")
        found["metadata"]["finalizers"] = HELD
        a.replace(found)
        await group.settle()
        await leave(group, "b", wait_s=200.0)
        await asyncio.sleep(30.0)
        assert [item["metadata"]["name"] for item in a.list("Relic")] == ["r-001"]
        found = a.get("Relic", "r-001", namespace="default")
        found["metadata"]["finalizers"] = []
        a.replace(found)
        await asyncio.sleep(200.0)
        assert not a.server.serves("Relic")

    simulate(scenario, n=2)


def test_a_cluster_that_leaves_deletes_a_namespace_once_its_content_has_ended() -> None:
    """O6: it has no Cluster of its owner any more."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a = group["a"]
        copy = a.get("ConfigMap", "b-000", namespace="team")
        info = {"name": "p", "namespace": "team", "finalizers": HELD, "ownerReferences": controlled_by(copy)}
        a.create({"kind": "Pod", "metadata": info, "spec": {}})
        await group.settle()
        await leave(group, "a", wait_s=300.0)
        found = a.get("Pod", "p", namespace="team")
        found["metadata"]["finalizers"] = []
        a.replace(found)
        await asyncio.sleep(200.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("creates_namespaces", [False, True])
def test_no_copy_that_comes_while_a_namespace_is_looked_into_goes_with_it(creates_namespaces: bool, seed: int) -> None:
    """O1, O5: it comes after the objects of its kind were listed."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        a.create(stays("spaces", NAMESPACE, policy="Delete"))
        many = stays("many", CONFIG_MAP, policy="Orphan")
        many["spec"]["createNamespaces"] = creates_namespaces
        a.create(many)
        for number in range(10):
            c.create({"kind": "Namespace", "metadata": {"name": f"s-{number}"}})
            b.create({"kind": "Namespace", "metadata": {"name": f"s-{number}", "labels": LABELS}})
        await group.settle()
        seen = set[int]()

        def hear(method: str, path: str, _body: bytes | None, _answer: Answer) -> None:
            for number in range(10):
                if method == "GET" and f"/namespaces/s-{number}/configmaps?" in path and number not in seen:
                    seen.add(number)
                    c.create(config_map("k", {"a": "1"}, namespace=f"s-{number}", labels=LABELS))

        a.home.listeners.append(hear)
        for number in range(10):
            b.delete("Namespace", f"s-{number}")
        await asyncio.sleep(100.0)
        assert len(seen) == 10
        made = {
            write.key.namespace: write.at
            for write in a.server.journal
            if (write.kind, write.verb, write.key.name) == ("ConfigMap", "create", "k") and write.changed
        }
        ends = {
            write.key.name: write.at
            for write in a.server.journal
            if (write.kind, write.verb) == ("Namespace", "delete") and write.changed
        }
        assert not [name for name, at in made.items() if name in ends and at < ends[name]]

    simulate(scenario, n=3, seed=seed)


def test_a_copy_that_is_to_be_made_anew_keeps_its_namespace() -> None:
    """A2, O1: a quota refuses it for a while."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, SECRET, "Orphan")
        c.create(secret("Opaque"))
        await group.settle()
        b.delete("Namespace", "team")
        await asyncio.sleep(60.0)
        assert a.find("Secret", "one", namespace="team") is not None
        words = 'secrets "one" is forbidden: exceeded quota: q, requested: secrets=1, used: 1, limited: 1'
        a.server.unmakeable["Secret one"] = Refusal(403, "Forbidden", words)
        c.delete("Secret", "one", namespace="team")
        c.create(secret("sim.example/other"))
        await asyncio.sleep(120.0)
        assert a.find("Secret", "one", namespace="team") is None
        assert a.find("Namespace", "team") is not None
        del a.server.unmakeable["Secret one"]
        await asyncio.sleep(120.0)
        assert a.get("Secret", "one", namespace="team")["type"] == "sim.example/other"

    simulate(scenario, n=3)


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_a_kind_that_is_not_served_for_a_moment_is_not_empty(policy: str) -> None:
    """R2, O1."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, WIDGET, policy)
        c.create({"kind": "Widget", "metadata": {"name": "one", "namespace": "team", "labels": LABELS}, "spec": {}})
        await group.settle()
        a.server.change_versions("Widget", [])
        b.delete("Namespace", "team")
        await asyncio.sleep(20.0)
        a.server.change_versions("Widget", ["v1"])
        await asyncio.sleep(120.0)
        assert a.find("Widget", "one", namespace="team") is not None

    simulate(scenario, n=3)


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_a_kind_that_is_not_served_over_a_restart_is_not_empty(policy: str) -> None:
    """R2, O1: nothing is known of what is there."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await share_apart(group, WIDGET, policy)
        c.create({"kind": "Widget", "metadata": {"name": "one", "namespace": "team", "labels": LABELS}, "spec": {}})
        await group.settle()
        await a.stop()
        a.server.change_versions("Widget", [])
        b.delete("Namespace", "team")
        a.start()
        await asyncio.sleep(120.0)
        assert "widgets.sim.example: no version is served here" in told(a)
        a.server.change_versions("Widget", ["v1"])
        await asyncio.sleep(120.0)
        assert a.find("Widget", "one", namespace="team") is not None
        assert "Widget team/one lives in it" in told(a)

    simulate(scenario, n=3)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_kind_whose_definition_is_gone_holds_no_namespace(is_cut: bool) -> None:
    """Its objects went with it, also where this daemon has heard nothing of that."""

    async def scenario(group: SimGroup) -> None:
        for member in (group["a"], group["c"]):
            install_relics(member, {})
        a, b, c = await share_apart(group, RELIC, "Orphan")
        one = relic(1)
        one["metadata"]["namespace"] = "team"
        c.create(one)
        await group.settle()
        if is_cut:
            group.wire("a", "a").set(Fault.REFUSED)
            await asyncio.sleep(1.0)
        a.delete("CustomResourceDefinition", "relics.sim.example")
        await asyncio.sleep(5.0)
        assert not a.server.serves("Relic")
        group.wire("a", "a").set(Fault.NONE)
        b.delete("Namespace", "team")
        await asyncio.sleep(300.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=3)


@pytest.mark.parametrize("delay_s", [(0.01, 0.02), (0.1, 0.2)])
def test_a_namespace_goes_although_a_controller_writes_its_status_all_the_time(delay_s: tuple[float, float]) -> None:
    """O5: a look takes longer than from one write to the next one."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 0, "Delete")
        a, b = group.members
        group.wire("a", "a").delay_s = delay_s
        b.delete("Namespace", "team")
        for number in range(100):
            found = a.find("Namespace", "team")
            if found is None:
                return
            a.replace({**found, "status": {"phase": "Active", "n": number}}, subresource="status")
            await asyncio.sleep(1.0)
        raise AssertionError(told(a))

    simulate(scenario, n=2)


def test_everything_that_has_to_be_granted_is_told_at_once() -> None:
    """S3."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 1, "Delete")
        a, b = group.members
        a.server.unreadable |= {"Job", "Pod", "Widget", "Deployment"}
        b.delete("ConfigMap", "b-000", namespace="team")
        b.delete("Namespace", "team")
        await asyncio.sleep(90.0)
        said = told(a)
        assert all(resource in said for resource in ("pods", "jobs.batch", "widgets.sim.example", "deployments.apps"))
        a.server.unreadable.clear()
        await asyncio.sleep(90.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


def test_a_namespace_that_waits_for_a_person_is_looked_into_ever_more_rarely() -> None:
    """A4: once a minute in the end, and each time with one request here and one to the owner."""

    async def scenario(group: SimGroup) -> None:
        await share_namespace(group, 0, "Delete")
        a, b = group.members
        a.create(config_map("kept", {"a": "1"}, namespace="team"))
        b.delete("Namespace", "team")
        await asyncio.sleep(120.0)
        looks = list[str]()

        def hear(method: str, path: str, _body: bytes | None, _answer: Answer) -> None:
            if "/namespaces/team" in path or path.startswith("/apis?"):
                looks.append(f"{method} {path}")

        a.home.listeners.append(hear)
        await asyncio.sleep(600.0)
        assert 8 <= len(looks) <= 40
        assert set(looks) == {"GET /api/v1/namespaces/team/configmaps/kept"}
        a.delete("ConfigMap", "kept", namespace="team")
        await asyncio.sleep(90.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("goes", ["source", "label"])
def test_a_namespace_that_is_made_from_a_config_map_stays_while_something_lives_in_it(goes: str) -> None:
    """O1: by its own kind, not by that of its source."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b, c = group.members
        rendered = {"groupVersionKind": NAMESPACE, "overrides": [{"type": "remove", "path": "/data"}]}
        a.create(stays("spaces", CONFIG_MAP, policy="Delete", entry={**ENTRY, "mutations": rendered}))
        a.create(stays("many", SECRET, policy="Orphan"))
        b.create(config_map("team", {"a": "1"}, labels=LABELS))
        c.create({"kind": "Namespace", "metadata": {"name": "team"}})
        await group.settle()
        c.create(secret("Opaque"))
        await group.settle()
        if goes == "source":
            b.delete("ConfigMap", "team", namespace="default")
        else:
            b.apply(config_map("team", {"a": "1"}, labels={"sync": "no"}))
        await asyncio.sleep(200.0)
        assert "Secret team/one lives in it" in told(a)
        c.delete("Secret", "one", namespace="team")
        await asyncio.sleep(120.0)
        assert a.find("Namespace", "team") is None

    simulate(scenario, n=3)
