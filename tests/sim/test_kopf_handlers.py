"""Handlers in kopf's style over the members of a simulated group."""

from __future__ import annotations

import asyncio
import collections
import functools
import itertools
from collections.abc import Callable
from typing import Any

import kopf
import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.group import Watch
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.operator import operator_at
from tests.sim.cluster.transport import Fault


def test_handlers_in_kopfs_style_get_the_events_of_all_members() -> None:
    """An error brings the event again; `when` and labels choose; the memo stays with the object until it is gone."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[tuple[str, str, str]] = []
            memos: dict[str, set[int]] = collections.defaultdict(set)
            failed = set[str]()

            @operator.kopf.on_event(
                "configmaps", namespace="default", labels={"tier": kopf.PRESENT, "old": kopf.ABSENT},
                when=lambda name, **_: name != "unwanted",
            )  # fmt: skip
            async def on_map(type: str, cluster: str, name: str, body: kopf.Body, memo: kopf.Memo, **more: Any) -> None:  # noqa: A002
                assert "patch" not in more
                assert body["data"] == dict(more["event"]["object"]["data"])
                memo.seen = memo.get("seen", 0) + 1
                memos[f"{cluster}/{name}"].add(memo.seen)
                if name not in failed:
                    failed.add(name)
                    raise RuntimeError("the first call fails")
                calls.append((cluster, type, name))

            async with operator.kopf._serving():
                for member in group.members:
                    member.create(config_map("x", {"n": "1"}, labels={"tier": "gold"}))
                    member.create(config_map("plain", {}))
                    member.create(config_map("old", {}, labels={"tier": "gold", "old": "yes"}))
                    member.create(config_map("unwanted", {}, labels={"tier": "gold"}))
                await asyncio.sleep(10.0)
                assert sorted(calls) == [(name, "ADDED", "x") for name in "abc"]
                assert max(max(seen) for seen in memos.values()) == 2
                group["b"].delete("ConfigMap", "x", namespace="default")
                await asyncio.sleep(10.0)
                assert calls[-1] == ("b", "DELETED", "x")

    simulate(scenario, n=3)


def test_a_filter_of_kopf_is_applied_by_the_server_or_here_and_a_wrong_one_is_refused() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[tuple[str, str]] = []
            golds = {"tier": lambda value, **_: value in ("gold", "silver")}

            @operator.kopf.on_event("configmaps", labels=golds, annotations={"note": kopf.PRESENT, "old": kopf.ABSENT})
            async def on_map(cluster: str, name: str, **_: Any) -> None:
                calls.append((cluster, name))

            with pytest.raises(InvalidObject, match=r"labels\.tier"):
                operator.kopf.on_event("configmaps", labels={"tier": 3})
            with pytest.raises(InvalidObject, match=r"annotations\.note"):
                operator.kopf.on_event("configmaps", annotations={"note": None})
            namespaces: Any = ["default"]
            for register in (operator.kopf.on_event, operator.kopf.on_state):
                with pytest.raises(InvalidObject, match="resource: must be a word"):
                    register("no/word")
                with pytest.raises(InvalidObject, match="namespace: must be the name of one namespace"):
                    register("configmaps", namespace=namespaces)
            async with operator.kopf._serving():
                note = {"note": "n"}
                group["b"].create(config_map("chosen", {}, labels={"tier": "silver"}, annotations=note))
                group["b"].create(config_map("lead", {}, labels={"tier": "lead"}, annotations=note))
                group["b"].create(config_map("bare", {}, labels={"tier": "gold"}))
                group["b"].create(config_map("old", {}, labels={"tier": "gold"}, annotations={**note, "old": ""}))
                await asyncio.sleep(10.0)
            assert calls == [("b", "chosen")]

    simulate(scenario, n=2)


def test_the_errors_of_kopf_ask_for_a_later_call_or_for_none() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: dict[str, list[float]] = collections.defaultdict(list)

            @operator.kopf.on_event("configmaps", namespace="default")
            async def on_map(name: str, **_: Any) -> None:
                calls[name].append(asyncio.get_running_loop().time())
                if name == "later":
                    raise kopf.TemporaryError("not yet", delay=30.0)
                raise kopf.PermanentError("never")

            async with operator.kopf._serving():
                for name in ("later", "never"):
                    group["b"].create(config_map(name, {}))
                await asyncio.sleep(100.0)
                assert len(calls["never"]) == 1
                assert [round(after - before) for before, after in itertools.pairwise(calls["later"])] == [30, 30, 30]
                group["b"].delete("ConfigMap", "later", namespace="default")
                await asyncio.sleep(10.0)
                assert len(calls["later"]) == 5

    simulate(scenario, n=2)


def test_a_handler_of_kopfs_style_hears_the_state_of_each_member() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[tuple[str, str, str]] = []

            @operator.kopf.on_state("configmaps")
            async def on_state(cluster: str, type: str, reason: str, memo: kopf.Memo, **_: Any) -> None:  # noqa: A002
                memo.seen = memo.get("seen", 0) + 1
                calls.append((cluster, type, reason))

            async with operator.kopf._serving():
                await asyncio.sleep(10.0)
                assert sorted(calls) == [("a", "SYNCED", ""), ("b", "SYNCED", "")]
                group.wire("a", "b").set(Fault.REFUSED)
                await asyncio.sleep(120.0)
                assert calls[-1][:2] == ("b", "STALE")
                assert calls[-1][2]
                group.wire("a", "b").set(Fault.NONE)
                await asyncio.sleep(60.0)
                assert calls[-1] == ("b", "SYNCED", "")

    simulate(scenario, n=2)


def test_a_handler_is_called_as_kopf_calls_it() -> None:
    """A delay of None is no delay, and a decorator of an async function that calls it is async, too."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[str] = []

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                @functools.wraps(function)
                def call(**given: Any) -> Any:
                    return function(**given)

                return call

            @operator.kopf.on_event("configmaps", namespace="default")
            @decorate
            async def on_map(name: str, **_: Any) -> None:
                calls.append(name)
                if len(calls) == 1:
                    raise kopf.TemporaryError("once more", delay=None)

            async with operator.kopf._serving():
                group["b"].create(config_map("x", {}))
                await asyncio.sleep(100.0)
            assert calls == ["x", "x"]

    simulate(scenario, n=2)


def test_the_first_type_of_an_object_is_added_and_one_that_no_call_had_is_not_deleted() -> None:
    """The handler is slow, so most objects change while they wait for it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: dict[str, list[str]] = collections.defaultdict(list)

            @operator.kopf.on_event("configmaps", namespace="default")
            async def on_map(type: str, name: str, event: Any, body: kopf.Body, **_: Any) -> None:  # noqa: A002
                assert event["type"] == type
                calls[name].append(f"{type} {body['data']['n']}")
                await asyncio.sleep(5.0)

            async with operator.kopf._serving():
                names = [f"m{number:02}" for number in range(8)]
                for name in names:
                    group["b"].create(config_map(name, {"n": "1"}))
                await asyncio.sleep(1.0)
                for name in names:
                    group["b"].apply(config_map(name, {"n": "2"}))
                await asyncio.sleep(1.0)
                group["b"].delete("ConfigMap", "m07", namespace="default")
                await asyncio.sleep(60.0)
            assert calls == {name: ["ADDED 1", "MODIFIED 2"] if name < "m04" else ["ADDED 2"] for name in names[:7]}

    simulate(scenario, n=2)


def test_the_type_after_a_call_that_failed_is_from_what_the_handler_had() -> None:
    """ADDED comes again as ADDED, an object that a call has had is DELETED, and one that was made again MODIFIED."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[str] = []
            failing = {"ADDED"}

            @operator.kopf.on_event("configmaps", namespace="default")
            async def on_map(type: str, body: kopf.Body, **_: Any) -> None:  # noqa: A002
                call = f"{type} {body['data']['n']}"
                if call not in calls:
                    calls.append(call)
                if type in failing:
                    raise RuntimeError

            async def take(*types: str) -> None:
                """Let these types fail, and hold the change for some minutes."""
                failing.clear()
                failing.update(types)
                await asyncio.sleep(200.0)

            async with operator.kopf._serving():
                group["b"].create(config_map("x", {"n": "1"}))
                await take("ADDED")
                group["b"].apply(config_map("x", {"n": "2"}))
                await take("ADDED")
                group["b"].delete("ConfigMap", "x", namespace="default")
                await take()
                assert calls == ["ADDED 1", "ADDED 2", "DELETED 2"]
                group["b"].create(config_map("x", {"n": "3"}))
                await take()
                group["b"].delete("ConfigMap", "x", namespace="default")
                await take("DELETED")
                group["b"].create(config_map("x", {"n": "4"}))
                await take()
                assert calls[3:] == ["ADDED 3", "DELETED 3", "MODIFIED 4"]

    simulate(scenario, n=2)


def test_an_object_whose_first_event_a_handler_does_not_want_is_added_once_it_is_wanted() -> None:
    """What became of it meanwhile is forgotten when it is gone."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[str] = []

            @operator.kopf.on_event(
                "configmaps",
                namespace="default",
                labels={"seen": "yes"},
                when=lambda body, **_: body["data"]["n"] > "1",
            )
            async def on_map(type: str, body: kopf.Body, **_: Any) -> None:  # noqa: A002
                calls.append(f"{type} {body['data']['n']}")

            async with operator.kopf._serving():
                for seen, number in (("yes", 1), ("no", 2), ("yes", 3), ("yes", 4), ("no", 5), ("", 0), ("yes", 6)):
                    if seen:
                        group["b"].apply(config_map("x", {"n": str(number)}, labels={"seen": seen}))
                    else:
                        group["b"].delete("ConfigMap", "x", namespace="default")
                    await asyncio.sleep(10.0)
            assert calls == ["ADDED 3", "MODIFIED 4", "ADDED 6"]

    simulate(scenario, n=2)


def test_an_object_that_passes_a_filter_no_more_is_not_deleted() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            calls: list[tuple[str, str]] = []

            @operator.kopf.on_event("configmaps", namespace="default", labels={"seen": "yes"})
            async def on_map(type: str, name: str, **_: Any) -> None:  # noqa: A002
                calls.append((type, name))

            async with operator.kopf._serving():
                group["b"].create(config_map("x", {}, labels={"seen": "yes"}))
                await asyncio.sleep(10.0)
                found = group["b"].get("ConfigMap", "x", namespace="default")
                group["b"].replace({**found, "metadata": {**found["metadata"], "labels": {"seen": "no"}}})
                await asyncio.sleep(10.0)
                group["b"].delete("ConfigMap", "x", namespace="default")
                await asyncio.sleep(10.0)
            assert calls == [("ADDED", "x")]

    simulate(scenario, n=2)


def test_all_handlers_share_the_memo_of_an_object_and_a_new_object_has_a_new_one() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            seen: list[tuple[str, Any]] = []

            @operator.kopf.on_event("configmaps", namespace="default")
            async def writes(uid: str, memo: kopf.Memo, **_: Any) -> None:
                memo.setdefault("of", uid)

            @operator.kopf.on_event("configmaps", namespace="default")
            async def reads(uid: str, memo: kopf.Memo, **_: Any) -> None:
                await asyncio.sleep(1.0)
                seen.append((uid, memo.get("of")))

            async with operator.kopf._serving():
                for _ in range(2):
                    group["b"].create(config_map("x", {}))
                    await asyncio.sleep(10.0)
                    group["b"].delete("ConfigMap", "x", namespace="default")
            assert len({uid for uid, _ in seen}) == 2
            assert all(uid == of for uid, of in seen)

    simulate(scenario, n=2)


def test_handlers_that_end_with_an_error_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that `kopf run` runs fails then."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            registry = kopf.OperatorRegistry()

            @operator.kopf.on_event("configmaps")
            async def on_none(**_: Any) -> None:
                """Do nothing."""

            def fail(*_: Any, **__: Any) -> Watch:
                raise RuntimeError

            monkeypatch.setattr(operator, "watch", fail)
            operator.kopf.install(registry)
            start, end = registry._activities._handlers
            await start.fn()  # type: ignore[misc]
            await asyncio.sleep(10.0)
            with pytest.raises(kopf.PermanentError, match="the group has ended: RuntimeError"):
                await end.fn()  # type: ignore[misc]

    simulate(scenario, n=2)
    assert any("handlers of the group have ended" in one.getMessage() for one in caplog.records)
