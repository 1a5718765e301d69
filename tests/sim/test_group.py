"""The library: watches and controllers over the members of a simulated group."""

from __future__ import annotations

import asyncio
import collections
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import kopf
import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.group import Event, EventType, Group, Key, Watch
from registry_controller.kube.connect import Reader
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.member import NAMESPACE
from tests.sim.cluster.operator import make_group
from tests.sim.cluster.transport import Fault, Life

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED
SYNCED, STALE, LEFT = EventType.SYNCED, EventType.STALE, EventType.LEFT


@asynccontextmanager
async def operator_at(group: SimGroup, name: str, **options: Any) -> AsyncIterator[Group]:
    """Run an operator in a cluster, with the credentials that the daemon has there; `options` are of `make_group`."""
    async with make_group(group, name, life=Life(), **options) as found:
        await found.wait_known()
        yield found


async def take(watch: Watch, *, for_s: float = 5.0) -> list[Event]:
    """Take all events of some seconds."""
    found = []
    try:
        async with asyncio.timeout(for_s):
            async for event in watch:
                found.append(event)
    except TimeoutError:
        pass
    return found


def brief(events: list[Event], *, of: str = "") -> list[tuple[str, EventType, str]]:
    """Write events briefly; `of` one member."""
    return [
        (event.member, event.type, event.object.name if event.object is not None else "")
        for event in events
        if of in ("", event.member)
    ]


def test_a_watch_shows_the_objects_of_all_members_and_what_becomes_of_them() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        for member in group.members:
            member.create(config_map("x", {"at": member.name}))
        async with operator_at(group, "a") as operator:
            assert sorted(operator) == ["a", "b", "c"]
            assert [operator[name].is_local for name in "abc"] == [True, False, False]
            watch = operator.watch("configmaps", namespace="default")
            events = await take(watch)
            for name in "abc":
                assert brief(events, of=name) == [(name, ADDED, "x"), (name, SYNCED, "")]
                assert operator[name].cluster_id == group[name].id
                found = operator[name].get("configmaps", "x", namespace="default")
                assert found is not None
                assert found.manifest["data"] == {"at": name}
            group["b"].apply(config_map("x", {"at": "changed"}))
            group["c"].delete("ConfigMap", "x", namespace="default")
            events = await take(watch)
            assert sorted(brief(events)) == [("b", MODIFIED, "x"), ("c", DELETED, "x")]
            assert operator["c"].get("configmaps", "x", namespace="default") is None
            assert [found.name for found in operator["b"].list("configmaps")] == ["x"]

    simulate(scenario, n=3)


@pytest.mark.parametrize("fault", [Fault.HUNG, Fault.REFUSED, Fault.BROKEN])
def test_the_objects_of_a_silent_member_stay_and_are_stale_until_it_is_back(fault: Fault) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {"n": "1"}))
        group["b"].create(config_map("y", {"n": "1"}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            wire = group.wire("a", "b")
            wire.set(fault)
            events = await take(watch, for_s=90.0)
            assert {kind for _, kind, _ in brief(events)} == {STALE}
            assert events[-1].reason
            assert operator["b"].is_stale("configmaps")
            assert [found.name for found in operator["b"].list("configmaps")] == ["x", "y"]
            group["b"].apply(config_map("x", {"n": "2"}))
            group["b"].delete("ConfigMap", "y", namespace="default")
            wire.set(Fault.NONE)
            events = await take(watch, for_s=90.0)
            assert {(kind, name) for _, kind, name in brief(events)} >= {(MODIFIED, "x"), (DELETED, "y"), (SYNCED, "")}
            assert brief(events)[-1][1] is not STALE
            assert not operator["b"].is_stale("configmaps")

    simulate(scenario, n=2)


@pytest.mark.parametrize("away_s", [10.0, 60.0])
def test_a_member_has_left_when_its_cluster_is_missing_for_long(away_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.kill()
        group["b"].create(config_map("x", {"n": "1"}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            held = here.get("Cluster", "b")
            here.delete("Cluster", "b")
            events = await take(watch, for_s=away_s)
            if away_s < 30.0:
                assert not events
                here.create({**held, "metadata": {"name": "b", "labels": held["metadata"].get("labels", {})}})
                assert not await take(watch, for_s=60.0)
                assert sorted(operator) == ["a", "b"]
            else:
                assert brief(events) == [("b", DELETED, "x"), ("b", LEFT, "")]
                assert sorted(operator) == ["a"]

    simulate(scenario, n=2)


def test_a_slow_consumer_gets_the_latest_state_and_hears_what_it_missed() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner = group["b"]
        owner.create(config_map("x", {"n": "0"}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            for number in range(1, 21):
                owner.apply(config_map("x", {"n": str(number)}))
                owner.create(config_map(f"brief-{number}", {}))
                await asyncio.sleep(0.5)
                owner.delete("ConfigMap", f"brief-{number}", namespace="default")
                await asyncio.sleep(0.5)
            await asyncio.sleep(2.0)
            assert watch.pending == 1
            (event,) = await take(watch)
            assert (event.type, event.skipped) == (MODIFIED, 19)
            assert event.object is not None
            assert event.object.manifest["data"] == {"n": "20"}

    simulate(scenario, n=2)


def test_watches_whose_selection_is_part_of_anothers_share_it() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner = group["b"]
        for name, labels in (("x", {"tier": "gold"}), ("y", {})):
            owner.create(config_map(name, {}, labels=labels))

        def open_watches() -> list[str]:
            return [path for path in group.wire("a", "b").open_watches if "configmaps" in path]

        async with operator_at(group, "a") as operator:
            before = len(open_watches())
            everything = operator.watch("configmaps")
            await take(everything)
            some = operator.watch("configmaps", namespace="default", label_selector="tier in (gold, silver)")
            assert brief(await take(some), of="b") == [("b", ADDED, "x"), ("b", SYNCED, "")]
            assert len(open_watches()) == before + 1
            owner.apply(config_map("x", {}, labels={"tier": "iron"}))
            owner.apply(config_map("y", {}, labels={"tier": "silver"}))
            assert sorted(brief(await take(some), of="b")) == [("b", ADDED, "y"), ("b", DELETED, "x")]
            everything.close()
            some.close()
            await asyncio.sleep(1.0)
            assert len(open_watches()) == before
            assert [event async for event in some] == []

    simulate(scenario, n=2)


def test_a_controller_converges_on_every_key_though_reconciliations_fail() -> None:
    """One key never runs twice at once, and the keys of a silent member make no others wait."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            seen: dict[Key, dict[str, str] | None] = {}
            running = collections.Counter[Key]()
            tries = collections.Counter[Key]()

            async def reconcile(key: Key) -> None:
                running[key] += 1
                assert running[key] == 1, key
                tries[key] += 1
                await asyncio.sleep(0.5)
                running[key] -= 1
                if tries[key] == 1:
                    raise ValueError("the first try fails")
                found = operator[key.member].get("configmaps", key.name, namespace=key.namespace)
                seen[key] = found.manifest["data"] if found is not None else None

            controller = operator.controller(reconcile).watches("configmaps", namespace="default")
            async with asyncio.TaskGroup() as scope:
                running_controller = scope.create_task(controller.run())
                for member in group.members:
                    for number in range(10):
                        member.create(config_map(f"m-{number}", {"n": "0"}))
                await asyncio.sleep(5.0)
                group.wire("a", "c").set(Fault.HUNG)
                for number in range(10):
                    group["b"].apply(config_map(f"m-{number}", {"n": "1"}))
                group["b"].delete("ConfigMap", "m-0", namespace="default")
                await asyncio.sleep(60.0)
                assert all(seen[Key("b", "default", f"m-{number}")] == {"n": "1"} for number in range(1, 10))
                assert seen[Key("b", "default", "m-0")] is None
                assert all(seen[Key("c", "default", f"m-{number}")] == {"n": "0"} for number in range(10))
                running_controller.cancel()

    simulate(scenario, n=3)


def test_a_key_comes_again_after_the_seconds_that_its_reconciliation_asked_for() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {}))
        async with operator_at(group, "a") as operator:
            times: list[float] = []

            async def reconcile(key: Key) -> float:
                times.append(asyncio.get_running_loop().time())
                return 10.0

            controller = operator.controller(reconcile).watches("configmaps", namespace="default", metadata_only=True)
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                await asyncio.sleep(35.0)
                running.cancel()
            gaps = [round(after - before) for before, after in itertools.pairwise(times)]
            assert gaps[:2] == [10, 10]

    simulate(scenario, n=2)


def test_a_member_without_usable_credentials_is_named_with_the_reason() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.kill()
        here.delete("Secret", "b", namespace=NAMESPACE)
        async with operator_at(group, "a") as operator:
            await asyncio.sleep(5.0)
            assert sorted(operator) == ["a"]
            assert "does not exist" in operator.unreadable["b"]

    simulate(scenario, n=2)


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


def test_a_filter_of_labels_that_no_server_can_apply_is_refused() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            with pytest.raises(InvalidObject, match=r"labels\.tier"):
                operator.kopf.on_event("configmaps", labels={"tier": lambda value, **_: True})

    simulate(scenario, n=2)


class RecordingReader(Reader):
    """A connection that keeps what lists and watches bring."""

    received: ClassVar[list[bytes]] = []

    async def list_page(self, *args: Any, **options: Any) -> bytes:
        self.received.append(await super().list_page(*args, **options))
        return self.received[-1]

    @asynccontextmanager
    async def stream(self, *args: Any, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(*args, **options) as chunks:
            yield self._record(chunks)

    async def _record(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.received.append(chunk)
            yield chunk


@pytest.mark.parametrize("metadata_only", [False, True])
@pytest.mark.parametrize(("kind", "resource"), [("ConfigMap", "configmaps"), ("Widget", "widgets")])
def test_the_bodies_of_a_watch_of_metadata_stay_at_the_member(kind: str, resource: str, metadata_only: bool) -> None:
    """Neither the first list, nor events, nor the question after a lost connection, nor a list brings them."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        RecordingReader.received.clear()
        body = "data" if kind == "ConfigMap" else "spec"

        def write(name: str, value: str) -> None:
            info = {"name": name, "namespace": "default", "labels": {"value": value}}
            group["b"].apply({"kind": kind, "metadata": info, body: {"secret": f"canary-{value}"}})

        write("x", "1")
        async with operator_at(group, "a", reader=RecordingReader) as operator:
            watch = operator.watch(resource, namespace="default", metadata_only=metadata_only)
            assert brief(await take(watch), of="b") == [("b", ADDED, "x"), ("b", SYNCED, "")]
            write("x", "2")
            assert brief(await take(watch)) == [("b", MODIFIED, "x")]
            group.cut("b")
            write("x", "3")
            assert ("b", MODIFIED, "x") in brief(await take(watch, for_s=30.0))
            group["b"].server.compact()
            group.cut("b")
            write("y", "4")
            events = await take(watch, for_s=30.0)
            assert ("b", ADDED, "y") in brief(events)
            found = operator["b"].get(resource, "x", namespace="default")
            assert found is not None
            assert found.labels == {"value": "3"}
            assert found.kind.kind == kind
            assert found.has_body is not metadata_only
            received = b"".join(RecordingReader.received)
            assert b'"value":"3"' in received
            assert (b"canary-" in received) is not metadata_only

    simulate(scenario, n=2)
