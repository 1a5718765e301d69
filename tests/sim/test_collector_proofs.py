"""What proves to the collector of the library that an owner is gone: the present mark, and the cluster in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.group import EventType, Key
from registry_controller.group.dialers import Context
from registry_controller.group.owner_proof import NotAsked
from registry_controller.group.ownership import Owner
from registry_controller.group.sources import ContextSource
from tests.sim.cluster.group import SimGroup, config_map, hand_over, simulate
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.member import NAMESPACE
from tests.sim.cluster.operator import make_group, operator_at
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Fault, Life
from tests.sim.test_collector import (
    COUNTS,
    FAN,
    Owns,
    delete_widgets,
    label_widgets,
    made,
    make_widgets,
    maker_at,
    note_names,
    nothing,
    numbered,
)
from tests.sim.test_group import by_secrets, publish, take


def by(*names: str) -> Callable[[Any], ContextSource]:
    """Return a source of contexts; the local one is a."""
    return lambda _: ContextSource([Context(name=name) for name in names], local="a")


def without_labels(group: SimGroup, name: str) -> None:
    found = group["a"].get("ConfigMap", name, namespace="default")
    group["a"].replace({**found, "metadata": {**found["metadata"], "labels": {}}})


def test_another_cluster_at_the_address_of_a_member_proves_nothing() -> None:
    """It has the same certificate authority, so no handshake shows it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        deleted = note_names(group)
        async with maker_at(group, "a", source=by("a", "b")) as operator:
            await asyncio.sleep(20.0)
            assert made(group) == {"x", "y"}
            watch = operator.watch("widgets")
            await take(watch)
            group.rebuild("b")
            group["b"].server.generation -= 1
            events = [event for event in await take(watch, for_s=25.0) if event.member == "b"]
            assert {event.type for event in events} == {EventType.STALE}
            assert deleted == []

    simulate(scenario, n=2)


def test_an_owner_that_one_of_two_members_with_its_id_has_is_there() -> None:
    """A clone has the ID, too. Contexts may also be two names of one cluster."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        called, deleted = group.clone("b"), note_names(group)
        async with maker_at(group, "a", source=by("a", called, "b")):
            await asyncio.sleep(20.0)
            assert made(group) == {"x"}
            group.clones[called].store.delete(BY_KIND["Widget"], ObjectKey("default", "x"))
            await asyncio.sleep(60.0)
            assert deleted == []
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert deleted == ["x"]

    simulate(scenario, n=2)


def test_a_silent_second_name_of_a_member_keeps_what_it_owns_and_is_named() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        group.clones["b2"] = group["b"].server
        async with maker_at(group, "a", source=by("a", "b2", "b")) as operator:
            await asyncio.sleep(20.0)
            group.wire("a", "b2").set(Fault.REFUSED)
            delete_widgets(group, ["x"])
            await asyncio.sleep(400.0)
            assert made(group) == {"x"}
            assert "b2 is silent" in operator.collector.kept["ConfigMap default/x"]
            group.wire("a", "b2").set(Fault.NONE)
            await asyncio.sleep(60.0)
            assert made(group) == set()

    simulate(scenario, n=2)


@pytest.mark.parametrize("trouble", [Fault.HUNG, Fault.REFUSED, "hidden"])
def test_a_member_that_has_shown_no_id_since_the_start_holds_back_the_proof_and_is_named(trouble: Fault | str) -> None:
    """It may be the cluster of the owner, and the one that answers its clone."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        called, deleted, wire = group.clone("b"), note_names(group), group.wire("a", "b")
        async with maker_at(group, "a", source=by("a", "b", called)):
            await asyncio.sleep(20.0)
            assert made(group) == {"x"}
        group.clones[called].store.delete(BY_KIND["Widget"], ObjectKey("default", "x"))
        if isinstance(trouble, Fault):
            wire.set(trouble)
        else:
            wire.unallowed = {"kube-system"}
        async with maker_at(group, "a", source=by("a", "b", called), makes=False) as operator:
            await asyncio.sleep(200.0)
            assert deleted == []
            assert "b has shown no ID" in operator.collector.kept["ConfigMap default/x"]
            wire.set(Fault.NONE)
            wire.unallowed = set()
            await asyncio.sleep(400.0)
            assert deleted == []
            assert not operator.collector.kept
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert deleted == ["x"]

    simulate(scenario, n=2)


def test_a_member_that_hides_the_id_that_it_proved_holds_back_the_proof_and_is_named() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        called, deleted = group.clone("b"), note_names(group)
        async with maker_at(group, "a", source=by("a", "b", called)) as operator:
            await asyncio.sleep(20.0)
            assert made(group) == {"x"}
            group.wire("a", "b").unallowed = {"kube-system"}
            await asyncio.sleep(100.0)
            assert operator["b"].cluster_id == ""
            group.clones[called].store.delete(BY_KIND["Widget"], ObjectKey("default", "x"))
            await asyncio.sleep(60.0)
            assert deleted == []
            assert "b does not show its ID" in operator.collector.kept["ConfigMap default/x"]

    simulate(scenario, n=2)


@pytest.mark.parametrize("trouble", ["silent", "wrong"])
def test_a_secret_that_leads_nowhere_since_the_start_holds_back_the_proof(trouble: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        publish(group)
        other = dict(group["a"].get("Secret", "fleet-b", namespace=NAMESPACE))
        if trouble == "wrong":
            other["data"] = {"kubeconfig": ""}
        else:
            publish(group, of="c")
            other["data"] = group["a"].get("Secret", "fleet-b", namespace=NAMESPACE)["data"]
            publish(group)
            group.wire("a", "c").set(Fault.HUNG)
        info = {"name": "fleet-other", "namespace": NAMESPACE, "labels": other["metadata"]["labels"]}
        group["a"].create({"kind": "Secret", "metadata": info, "data": other["data"]})
        async with operator_at(group, "a", source=by_secrets) as operator:

            async def reconcile(key: Key) -> None:
                found = operator[key.member].get("widgets", key.name, namespace=key.namespace)
                if found is not None:
                    manifest = {"apiVersion": "v1", **config_map(key.name, {}, labels={"fan": "out"})}
                    await operator.local.apply(manifest, owner=operator[key.member].as_owner(found))

            controller = operator.controller(reconcile).watches("widgets").owns("configmaps")
            running = asyncio.get_running_loop().create_task(controller.run())
            await asyncio.sleep(120.0)
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert made(group) == {"x"}
            assert "fleet-other has shown no ID" in operator.collector.kept["ConfigMap default/x"]
            group["a"].delete("Secret", "fleet-other", namespace=NAMESPACE)
            await asyncio.sleep(60.0)
            assert made(group) == set()
            running.cancel()

    simulate(scenario, n=3)


def test_a_cluster_of_a_group_that_was_silent_since_the_start_keeps_nothing_of_the_owners_of_another() -> None:
    """Its Cluster names its ID."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        group.wire("a", "c").set(Fault.HUNG)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(20.0)
            assert made(group) == {"x"}
            assert not operator["c"].is_connected
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert made(group) == set()

    simulate(scenario, n=3)


def test_the_key_of_an_owner_comes_though_its_member_does_not_show_its_id_for_a_while() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        async with maker_at(group, "a", source=by("a", "b")) as operator:
            await asyncio.sleep(20.0)
            group.wire("a", "b").unallowed = {"kube-system"}
            await asyncio.sleep(200.0)
            assert operator["b"].cluster_id == ""
            group["a"].delete("ConfigMap", "x", namespace="default")
            await asyncio.sleep(20.0)
            assert made(group) == {"y"}
            group.wire("a", "b").unallowed = set()
            await asyncio.sleep(200.0)
            assert made(group) == {"x", "y"}

    simulate(scenario, n=2)


def test_an_owner_that_goes_while_its_member_may_not_show_its_id_is_found() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        async with maker_at(group, "a", source=by("a", "b")) as operator:
            await asyncio.sleep(20.0)
            group.wire("a", "b").unallowed = {"namespaces"}
            await asyncio.sleep(400.0)
            assert operator["b"].cluster_id == ""
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert made(group) == {"x", "y"}
            group.wire("a", "b").unallowed = set()
            await asyncio.sleep(400.0)
            assert made(group) == {"y"}

    simulate(scenario, n=2)


def test_a_mark_of_the_former_local_cluster_is_no_mark_in_the_next_one() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        async with maker_at(group, "a", source=by("a", "b")):
            await asyncio.sleep(20.0)
            held = group["a"].get("ConfigMap", "x", namespace="default")["metadata"]
            group.rebuild("a")
            group["a"].server.generation -= 1
            deleted = note_names(group)
            await asyncio.sleep(120.0)
            assert made(group) == {"x", "y"}
            mark = json.loads(
                group["a"].get("ConfigMap", "y", namespace="default")["metadata"]["annotations"][meta.GROUP_OWNER]
            )
            assert mark["dependent"]["cluster"] == group["a"].id
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert deleted == ["x"]
            group["a"].create(config_map("x", {}, labels=held["labels"], annotations=held["annotations"]))
            await asyncio.sleep(200.0)
            assert made(group) == {"x", "y"}

    simulate(scenario, n=2)


def test_owners_that_are_back_between_two_deletions_keep_the_rest() -> None:
    """The etcd of their member is restored after the first deletion; each deletion has an answer of its own."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(40)
        make_widgets(group, names)
        async with maker_at(group, "a"):
            await asyncio.sleep(40.0)
            assert made(group) == set(names)
            backup = group["b"].server.store.backup()
            await asyncio.sleep(1.0)
            group.wire("a", "a").delay_s = (1.0, 1.0)
            deleted = note_names(group)
            delete_widgets(group, names)
            while not deleted:  # noqa: ASYNC110  the time is simulated
                await asyncio.sleep(0.1)
            group["b"].server.store.restore(backup)
            await asyncio.sleep(60.0)
            assert len(deleted) <= 2

    simulate(scenario, n=2)


@pytest.mark.parametrize("first", ["wide", "narrow"])
def test_an_object_is_owned_while_one_of_two_watches_shows_it(first: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        async with maker_at(group, "a"):
            await asyncio.sleep(20.0)
        both: Owns = [{}, *FAN]
        async with maker_at(group, "a", owns=both if first == "wide" else both[::-1], makes=False):
            await asyncio.sleep(20.0)
            without_labels(group, "x")
            await asyncio.sleep(20.0)
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert group["a"].find("ConfigMap", "x", namespace="default") is None

    simulate(scenario, n=2)


def test_an_owned_kind_is_followed_into_the_version_that_is_served_now() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        versions = ["v1beta1"]
        for name in ("x", "y"):
            group["b"].create(config_map(name, {}))
        group["a"].server.change_versions("Widget", versions)
        async with operator_at(group, "a") as operator:

            async def reconcile(key: Key) -> None:
                found = operator[key.member].get("configmaps", key.name, namespace=key.namespace)
                if key.member == "b" and found is not None:
                    info = {"name": key.name, "namespace": "default"}
                    kind = {"apiVersion": f"sim.example/{versions[0]}", "kind": "Widget"}
                    await operator.local.apply(
                        {**kind, "metadata": info, "spec": {}}, owner=operator["b"].as_owner(found)
                    )

            controller = operator.controller(reconcile).watches("configmaps", namespace="default")
            running = asyncio.get_running_loop().create_task(controller.owns("widgets.sim.example").run())
            await asyncio.sleep(20.0)
            versions[:] = ["v1"]
            group["a"].server.change_versions("Widget", versions)
            group.cut("a")
            await asyncio.sleep(60.0)
            group["b"].delete("ConfigMap", "x", namespace="default")
            await asyncio.sleep(60.0)
            assert [found["metadata"]["name"] for found in group["a"].list("Widget")] == ["y"]
            running.cancel()

    simulate(scenario, n=2)


def test_what_is_allowed_for_one_cluster_is_not_allowed_for_another() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        for member in "bc":
            for name in numbered(70):
                group[member].create({"kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": {}})
        async with maker_at(group, "a", members="bc") as operator:
            await asyncio.sleep(60.0)
            assert len(made(group)) == 140
            for member in "bc":
                for name in numbered(60):
                    group[member].delete("Widget", name, namespace="default")
            await asyncio.sleep(60.0)
            assert set(operator.collector.halts) == {group["b"].id, group["c"].id}
            name, _, value = operator.collector.halts[group["b"].id].command.rpartition(" ")[2].partition("=")
            info = {"name": COUNTS, "namespace": "default", "annotations": {name: value}}
            group["a"].write_as("kubectl", {"kind": "ConfigMap", "metadata": info})
            await asyncio.sleep(60.0)
            left = [name[0] for name in made(group)]
            assert (left.count("b"), left.count("c")) == (10, 70)

    simulate(scenario, n=3)


def test_what_waits_for_its_finalizers_counts_after_a_restart_too() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(100)
        make_widgets(group, names)
        async with maker_at(group, "a"):
            await asyncio.sleep(40.0)
            assert made(group) == set(names)
        for name in names:
            found = group["a"].get("ConfigMap", name, namespace="default")
            group["a"].replace({**found, "metadata": {**found["metadata"], "finalizers": ["example.com/waits"]}})

        def going() -> int:
            found = (group["a"].get("ConfigMap", name, namespace="default")["metadata"] for name in names)
            return sum("deletionTimestamp" in info for info in found)

        life = Life()
        killed = make_group(group, "a", life=life, operator="operator")

        async def run() -> None:
            async with killed:
                controller = killed.controller(nothing).watches("widgets", namespace="default")
                await controller.owns("configmaps", label_selector="fan").run()

        running = asyncio.get_running_loop().create_task(run())
        await asyncio.sleep(10.0)
        delete_widgets(group, names[:40])
        while going() < 40:  # noqa: ASYNC110  the time is simulated
            await asyncio.sleep(0.1)
        life.is_over = True
        running.cancel()
        async with maker_at(group, "a", makes=False) as operator:
            await asyncio.sleep(10.0)
            delete_widgets(group, names[40:80])
            await asyncio.sleep(60.0)
            assert going() == 40
            assert operator.collector.halts

    simulate(scenario, n=2)


def test_an_owner_that_no_watch_shows_is_asked_about_again() -> None:
    """It has left the selection of the watch: no event shows its deletion."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["goes", "stays"])
        label_widgets(group, ["goes", "stays"], tier="gold")
        async with maker_at(group, "a", label_selector="tier=gold") as operator:
            await asyncio.sleep(30.0)
            assert made(group) == {"goes", "stays"}
            label_widgets(group, ["goes", "stays"], tier="iron")
            await asyncio.sleep(60.0)
            delete_widgets(group, ["goes"])
            await asyncio.sleep(1230.0)
            assert made(group) == {"stays"}
            assert not operator.collector.kept

    simulate(scenario, n=2)


@pytest.mark.parametrize("back", [20, 60])
def test_a_halt_ends_once_the_owners_are_back_though_no_watch_shows_them(back: int) -> None:
    """With 20 back, 40 deletions fit the limit."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(60)
        make_widgets(group, names)
        label_widgets(group, names, tier="gold")
        async with maker_at(group, "a", label_selector="tier=gold") as operator:
            await asyncio.sleep(40.0)
            backup = group["b"].server.store.backup()
            delete_widgets(group, names)
            await asyncio.sleep(30.0)
            assert operator.collector.halts
            group["b"].server.store.restore(backup, bump=1000)
            delete_widgets(group, names[: 60 - back])
            label_widgets(group, names[60 - back :], tier="iron")
            group.cut("b")
            await asyncio.sleep(120.0)
            assert not operator.collector.halts
            assert made(group) == set(names[60 - back :])

    simulate(scenario, n=2)


def test_an_orphan_is_released_while_deletions_are_halted() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(80)
        make_widgets(group, names)
        async with maker_at(group, "a", orphans=names[:1]) as operator:
            await asyncio.sleep(60.0)
            delete_widgets(group, names[1:])
            await asyncio.sleep(60.0)
            assert operator.collector.halts
            delete_widgets(group, names[:1])
            await asyncio.sleep(60.0)
            kept = group["a"].get("ConfigMap", names[0], namespace="default")["metadata"]
            assert meta.GROUP_OWNER not in (kept.get("annotations") or {})
            assert made(group) == set(names)

    simulate(scenario, n=2)


@pytest.mark.parametrize("change", [{}, {"name": "x", "uid": ""}], ids=["another object", "no uid"])
def test_an_answer_that_is_not_the_named_object_proves_nothing(change: dict[str, str]) -> None:
    """A proxy, or an aggregated server, may send what was not requested."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        deleted = note_names(group)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(20.0)
            assert made(group) == {"x", "y"}
            server = group["b"].server
            answer = server.answer

            def garble(method: str, path: str, body: bytes | None, **options: Any) -> Any:
                found = answer(method, path, body, **options)
                if method == "GET" and path.partition("?")[0].endswith("/widgets/x"):
                    content = json.loads(answer(method, path.replace("/x", "/y"), body, **options).body)
                    return Answer(200, json.dumps({**content, "metadata": {**content["metadata"], **change}}).encode())
                return found

            server.answer = garble  # type: ignore[method-assign]
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert deleted == []
            assert any("ConfigMap default/x" in target for target in operator.collector.kept)

    simulate(scenario, n=2)


@pytest.mark.parametrize("found", ["found", "found, and one is disabled", "not found yet"])
def test_a_clone_of_a_member_proves_nothing(found: str) -> None:
    """Two Clusters lead to two API servers with one ID, as the daemon finds. The owner is at one of them alone."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = group.members
        is_disabled = "disabled" in found
        group.start()
        await group.settle()
        hand_over(b if is_disabled else c, a)
        await asyncio.sleep(10.0)
        make_widgets(group, ["x"])
        async with operator_at(group, "a") as operator:
            controller = operator.controller(nothing).watches("widgets", namespace="default")
            controller.owns("configmaps", label_selector="fan")
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                uid = b.get("Widget", "x", namespace="default")["metadata"]["uid"]
                owner = Owner(ClusterUID(b.id), "sim.example", "Widget", "default", "x", uid)
                if found == "not found yet":
                    a.kill()
                hand_over(c if is_disabled else b, a)
                await asyncio.sleep(120.0)
                if found != "not found yet":
                    assert a.condition("Cluster", "b", "LocalConflict")["status"] == "True"
                if is_disabled:
                    note = {"name": "b", "annotations": {meta.CLUSTER_DISABLED: "true"}}
                    a.apply({"kind": "Cluster", "metadata": note})
                    await asyncio.sleep(60.0)
                manifest = {"apiVersion": "v1", **config_map("x", {}, labels={"fan": "out"})}
                deleted = note_names(group)
                await operator.local.apply(manifest, owner=owner)
                await asyncio.sleep(200.0)
                assert deleted == []
                assert operator.collector.kept == {"ConfigMap default/x": NotAsked.SEVERAL_CLUSTERS.value}
                if not is_disabled:
                    b.delete("Widget", "x", namespace="default")
                    a.delete("Cluster", "c")
                    await asyncio.sleep(200.0)
                    assert deleted == ["x"]
                running.cancel()

    simulate(scenario, n=3, uids={"b": CLONED, "c": CLONED})


CLONED = "0c10ed00-0000-4000-8000-000000000000"


@pytest.mark.parametrize("has_finalizers", [True, False])
def test_a_deletion_whose_answer_is_lost_counts(has_finalizers: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(100)
        make_widgets(group, names)
        async with maker_at(group, "a", makes=True) as operator:
            await asyncio.sleep(40.0)
            assert made(group) == set(names)
            for name in names if has_finalizers else ():
                found = group["a"].get("ConfigMap", name, namespace="default")
                group["a"].replace({**found, "metadata": {**found["metadata"], "finalizers": ["example.com/waits"]}})
            await asyncio.sleep(10.0)
            server, wire = group["a"].server, group.wire("a", "a")
            answer = server.answer

            def lose(method: str, path: str, body: bytes | None, **options: Any) -> Any:
                wire.lost += method == "DELETE"
                return answer(method, path, body, **options)

            server.answer = lose  # type: ignore[method-assign]

            def going() -> int:
                found = (group["a"].find("ConfigMap", name, namespace="default") for name in names)
                return sum(one is None or "deletionTimestamp" in one["metadata"] for one in found)

            delete_widgets(group, names[:40])
            await asyncio.sleep(60.0)
            assert going() == 40
            delete_widgets(group, names[40:80])
            await asyncio.sleep(60.0)
            assert going() == 40
            assert operator.collector.halts

    simulate(scenario, n=2)
