"""When a controller calls its function, and what becomes of a call that goes wrong, in a simulated group."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from registry_controller.api.errors import InvalidOption
from registry_controller.group import Group, Key
from registry_controller.group.controller import Controller
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.operator import operator_at

X = Key("b", "default", "x")


@asynccontextmanager
async def running(operator: Group, reconcile: Callable[[Key], Awaitable[Any]]) -> AsyncIterator[Controller]:
    """Run a controller over the ConfigMaps of all members."""
    controller = operator.controller(reconcile).watches("configmaps", namespace="default")
    task = asyncio.get_running_loop().create_task(controller.run())
    await asyncio.sleep(10.0)
    yield controller
    assert not task.done()
    task.cancel()


@pytest.mark.parametrize("value", ["60", [60], {"requeue": True}, float("nan"), -1, True])
def test_a_wrong_value_of_a_reconciliation_is_an_error_of_its_key(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls = collections.Counter[str]()

            async def reconcile(key: Key) -> Any:
                calls[key.name] += 1
                return value if key == X else None

            async with running(operator, reconcile):
                for name in "xy":
                    group["b"].create(config_map(name, {}))
                await asyncio.sleep(20.0)
                assert 3 < calls["x"] < 20
                assert calls["y"] == 1

    simulate(scenario, n=2)
    (text, *_) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("function has failed")]
    assert "reconcile returned: must be seconds" in text


def test_a_reconciliation_may_return_a_timedelta() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            times: list[float] = []

            async def reconcile(key: Key) -> timedelta:
                times.append(asyncio.get_running_loop().time())
                return timedelta(minutes=1)

            async with running(operator, reconcile):
                group["b"].create(config_map("x", {}))
                await asyncio.sleep(90.0)
            assert round(times[1] - times[0]) == 60

    simulate(scenario, n=2)


def test_a_reconciliation_that_cancels_its_own_task_comes_again_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls = collections.Counter[Key]()

            async def reconcile(key: Key) -> None:
                calls[key] += 1
                task = asyncio.current_task()
                if calls[X] == 1 and task is not None:
                    task.cancel()
                await asyncio.sleep(1.0)

            async with running(operator, reconcile):
                group["b"].create(config_map("x", {}))
                await asyncio.sleep(20.0)
                assert calls == {X: 2}
                group["b"].create(config_map("y", {}))
                await asyncio.sleep(0.5)  # the end of the controller ends this call, and is no error of its key

    simulate(scenario, n=2)
    assert sum(one.getMessage().startswith("function has failed") for one in caplog.records) == 1


def test_a_key_that_was_added_for_later_comes_then_whatever_comes_before() -> None:
    """Neither an event, nor a reconciliation that asks for another time, nor one that fails puts it off."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {}))
        async with operator_at(group, "a") as operator:
            times: list[float] = []
            loop = asyncio.get_running_loop()

            async def reconcile(key: Key) -> float | None:
                if key == X:
                    times.append(loop.time())
                if len(times) == 2:
                    raise RuntimeError
                return 100.0 if len(times) == 3 else None

            async with running(operator, reconcile) as controller:
                start = loop.time()
                controller.add(X, after_s=600.0)
                controller.add(X, after_s=700.0)  # of several times the earliest counts
                await asyncio.sleep(10.0)
                group["b"].apply(config_map("x", {"n": "1"}))
                await asyncio.sleep(2000.0)
                controller.add(X, after_s=timedelta(seconds=60))
                controller.add(X, after_s=30.0)
                await asyncio.sleep(200.0)
            assert [round(time_s - start) for time_s in times[1:]] == [10, 10, 110, 600, 2040]

    simulate(scenario, n=2)


def test_a_controller_that_runs_takes_no_further_kinds() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:

            async def reconcile(key: Key) -> None: ...

            async with running(operator, reconcile) as controller:
                with pytest.raises(InvalidOption, match=r"watches\('widgets'\): the controller runs already"):
                    controller.watches("widgets")
                with pytest.raises(InvalidOption, match=r"owns\('jobs.batch'\): the controller runs already"):
                    controller.owns("jobs.batch")

    simulate(scenario, n=2)


@pytest.mark.parametrize("owned", ["configmaps", "jobs.batch"])
def test_a_controller_gets_the_keys_of_the_owners_that_it_watches(owned: str) -> None:
    """Two controllers own objects, of one kind or of two, and neither gets an owner of the other one."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create({"kind": "Namespace", "metadata": {"name": "other"}})
        for kind, name, namespace in (("Gadget", "g", "default"), ("Widget", "w", "default"), ("Widget", "v", "other")):
            group["b"].create({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": {}})
        async with operator_at(group, "a") as operator, contextlib.AsyncExitStack() as stack:
            keys: dict[str, list[str]] = collections.defaultdict(list)

            def start(word: str, owned: str, namespace: str) -> None:
                async def reconcile(key: Key) -> None:
                    keys[f"{word} {namespace}"].append(key.name)
                    found = operator[key.member].get(word, key.name, namespace=key.namespace)
                    if found is not None:
                        info = {"name": key.name, "namespace": "default"}
                        head = {"apiVersion": "batch/v1", "kind": "Job"} if "." in owned else {"apiVersion": "v1"}
                        manifest = {"kind": "ConfigMap", **head, "metadata": info}
                        await operator.local.apply(manifest, owner=operator[key.member].as_owner(found))

                controller = operator.controller(reconcile).watches(word, namespace=namespace).owns(owned)
                stack.callback(asyncio.get_running_loop().create_task(controller.run()).cancel)

            start("gadgets", "configmaps", "default")
            start("widgets", owned, "default")
            start("widgets", owned, "other")
            await asyncio.sleep(30.0)
            assert {word: set(found) for word, found in keys.items()} == {
                "gadgets default": {"g"}, "widgets default": {"w"}, "widgets other": {"v"},
            }  # fmt: skip
            before = len(keys["widgets default"])
            group["a"].delete("Job" if "." in owned else "ConfigMap", "w", namespace="default")
            await asyncio.sleep(30.0)
            assert len(keys["widgets default"]) > before

    simulate(scenario, n=2)


def test_a_controller_ends_with_its_group() -> None:
    """It may run in a task beside the group, which would never end otherwise."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {}))
        calls = list[Key]()

        async def reconcile(key: Key) -> float:
            calls.append(key)
            return 1.0

        async with operator_at(group, "a") as operator:
            controller = operator.controller(reconcile).watches("configmaps", namespace="default")
            running = asyncio.get_running_loop().create_task(controller.run())
            await asyncio.sleep(10.0)
        async with asyncio.timeout(60.0):
            await running
        before = len(calls)
        assert before
        await asyncio.sleep(10.0)
        assert len(calls) == before

    simulate(scenario, n=2)
