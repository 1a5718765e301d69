"""The library: several watches of one kind at a member, which may show different moments, parts and rights."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.group import EventType, Group, Key
from registry_controller.group.controller import Controller
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.operator import operator_at
from tests.sim.test_collector import delete_widgets, made, maker_at, numbered
from tests.sim.test_group import brief, take

GOLD = {"tier": "gold"}
X = Key("b", "default", "x")


@contextlib.asynccontextmanager
async def running(
    operator: Group, reconcile: Callable[[Key], Awaitable[float | None]], *watches: dict[str, Any]
) -> AsyncIterator[Controller]:
    """Run a controller of ConfigMaps."""
    controller = operator.controller(reconcile)
    for arguments in watches:
        controller.watches("configmaps", **arguments)
    async with asyncio.TaskGroup() as scope:
        task = scope.create_task(controller.run())
        yield controller
        task.cancel()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beside", [True, False], ids=["another part's watch", "a source of its own"])
def test_a_key_converges_where_several_watches_show_its_object(seed: int, beside: bool) -> None:
    """What a reconciliation reads may come from any of them, so a change in any of them is an occasion."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {"n": "0"}, labels=GOLD))
        async with operator_at(group, "a") as operator:
            if beside:
                operator.watch("configmaps", label_selector="tier=gold")
            seen: dict[Key, Any] = {}

            async def reconcile(key: Key) -> None:
                found = operator[key.member].get("configmaps", key.name, namespace=key.namespace)
                seen[key] = found and found.manifest["data"]

            others = () if beside else ({"label_selector": "tier=gold", "keys": lambda _: ()},)
            async with running(operator, reconcile, *others, {}):
                await asyncio.sleep(20.0)
                for number in range(1, 16):
                    group["b"].apply(config_map("x", {"n": str(number)}, labels=GOLD))
                    await asyncio.sleep(10.0)
                    assert seen[X] == {"n": str(number)}
                group["b"].delete("ConfigMap", "x", namespace="default")
                await asyncio.sleep(10.0)
                assert seen[X] is None
                assert not operator["b"].list("configmaps", namespace="default")

    simulate(scenario, n=2, seed=seed)


@pytest.mark.parametrize("beside", ["another selection", "a version that is served no more"])
def test_objects_are_collected_although_another_watch_shows_their_owner_still(beside: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].server.change_versions("Widget", ["v1", "v1beta1"])
        names = numbered(8)
        for name in names:
            info = {"name": name, "namespace": "default", "labels": GOLD}
            group["b"].create({"kind": "Widget", "metadata": info, "spec": {}})
        async with maker_at(group, "a") as operator:
            if beside == "another selection":
                operator.watch("widgets", label_selector="tier=gold")
            else:
                operator.watch("widgets.v1beta1.sim.example")
            await asyncio.sleep(40.0)
            assert len(made(group)) == len(names)
            if beside != "another selection":
                group["b"].server.change_versions("Widget", ["v1"])
                group.cut("b")
                await asyncio.sleep(200.0)
            for name in names:
                delete_widgets(group, [name])
                await asyncio.sleep(30.0)
            assert not made(group)

    simulate(scenario, n=2)


def test_a_body_is_read_where_any_watch_has_it() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {"n": "1"}))
        async with operator_at(group, "a") as operator:
            await take(operator.watch("configmaps", metadata_only=True))
            read = []

            async def reconcile(key: Key) -> None:
                found = operator[key.member].get("configmaps", key.name, namespace=key.namespace)
                if found is not None:
                    read.append(found.manifest["data"])

            async with running(operator, reconcile, {"namespace": "default"}):
                await asyncio.sleep(10.0)
            assert read == [{"n": "1"}]

    simulate(scenario, n=2)


@pytest.mark.parametrize("order", ["narrow first", "wide first", "the wide one fails later"])
def test_what_may_be_read_is_current_beside_a_watch_of_what_may_not(order: str) -> None:
    """A watch of all namespaces is refused; one of a namespace that shared it gets its own, without a gap."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {"n": "1"}))
        group["b"].create(config_map("y", {"n": "1"}))
        narrowed = {"configmaps": {"default"}}
        if order != "the wide one fails later":
            group.wire("a", "b").narrowed = narrowed
        async with operator_at(group, "a") as operator:
            places = ["default", ""] if order == "narrow first" else ["", "default"]
            watches = {place: operator.watch("configmaps", namespace=place) for place in places}
            events = brief(await take(watches["default"], for_s=60.0), of="b")
            assert events[-3:] == [
                ("b", EventType.ADDED, "x"),
                ("b", EventType.ADDED, "y"),
                ("b", EventType.SYNCED, ""),
            ]
            if order == "the wide one fails later":
                group.wire("a", "b").narrowed = narrowed
                group.cut("b")
                group["b"].delete("ConfigMap", "y", namespace="default")
                events = brief(await take(watches["default"], for_s=200.0), of="b")
                assert ("b", EventType.DELETED, "y") in events
            group["b"].apply(config_map("x", {"n": "2"}))
            await asyncio.sleep(20.0)
            assert not operator["b"].is_stale("configmaps", namespace="default")
            assert operator["b"].is_stale("configmaps")
            found = operator["b"].get("configmaps", "x", namespace="default")
            assert found is not None
            assert found.manifest["data"] == {"n": "2"}
            assert (
                operator["b"].get("configmaps", "y", namespace="default") is None or order != "the wide one fails later"
            )

    simulate(scenario, n=2)


def test_an_object_is_read_from_the_cache_with_a_namespace_where_its_kind_has_them() -> None:
    """As `group.local` reads it: None would show that it does not exist."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {"n": "1"}))
        async with operator_at(group, "a") as operator:
            for word in ("configmaps", "namespaces"):
                await take(operator.watch(word, metadata_only=True))
            with pytest.raises(InvalidObject, match=r"metadata\.namespace: is missing for ConfigMap"):
                operator["b"].get("configmaps", "x")
            with pytest.raises(InvalidObject, match=r"metadata\.namespace: must be empty for Namespace"):
                operator["b"].get("namespaces", "default", namespace="default")
            assert operator["b"].get("namespaces", "default") is not None
            assert operator["b"].get("configmaps", "x", namespace="default") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    "narrower", [{"namespace": "default"}, {"label_selector": "tier=gold"}, {"metadata_only": True}]
)
def test_a_watch_of_less_goes_on_alone_once_the_one_of_more_that_it_shared_has_ended(narrower: dict[str, Any]) -> None:
    """The objects that it alone wants stay in memory. What happens at that moment comes once."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        for name in "xyz":
            group["b"].create(config_map(name, {"n": "1"}, labels=GOLD))
        async with operator_at(group, "a") as operator:
            wide = operator.watch("configmaps")
            narrow = operator.watch("configmaps", **narrower)
            other = operator.watch("configmaps", **{**narrower, "label_selector": "tier=gold", "metadata_only": True})
            for watch in (narrow, other, wide):
                assert ("b", EventType.SYNCED, "") in brief(await take(watch, for_s=10.0))
            await take(narrow, for_s=60.0)
            await take(other, for_s=1.0)
            group.wire("a", "b").reads.clear()
            wide.close()
            group["b"].delete("ConfigMap", "x", namespace="default")
            group["b"].apply(config_map("y", {"n": "2"}))
            group["b"].create(config_map("w", {"n": "1"}, labels=GOLD))
            assert not operator["b"].is_stale("configmaps", namespace="default")
            for watch in (narrow, other):
                events = brief(await take(watch, for_s=20.0), of="b")
                assert sorted(events) == [
                    ("b", EventType.ADDED, "w"), ("b", EventType.DELETED, "x"), ("b", EventType.MODIFIED, "y"),
                    ("b", EventType.SYNCED, ""),
                ]  # fmt: skip
            found = operator["b"].get("configmaps", "z", namespace="default")
            assert found is not None
            assert found.has_body is ("metadata_only" not in narrower)
            assert sum("/configmaps?" in path for path in group.wire("a", "b").reads) == 1  # they share a stream
            if "namespace" in narrower:
                with pytest.raises(LookupError):
                    operator["b"].list("configmaps", namespace="kube-system")

    simulate(scenario, n=2)
