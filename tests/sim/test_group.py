"""The library: watches and controllers over the members of a simulated group."""

from __future__ import annotations

import asyncio
import collections
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from registry_controller.api.errors import InvalidObject, InvalidOption
from registry_controller.group import Event, EventType, Group, Key, Watch
from registry_controller.group.dialers import Context, SecretDialer
from registry_controller.group.sources import SECRET_LABEL, ContextSource, MemberSpec, SecretSource
from registry_controller.kube.connect import Reader
from tests.sim.cluster.group import SimGroup, carry_over, config_map, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.operator import make_group, operator_at
from tests.sim.cluster.transport import Fault, Life

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED
SYNCED, STALE, LEFT = EventType.SYNCED, EventType.STALE, EventType.LEFT


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


@pytest.mark.parametrize("late_s", [0.0, 5.0])
@pytest.mark.parametrize("fault", [Fault.HUNG, Fault.REFUSED])
def test_what_happened_in_a_silence_is_delivered_before_the_member_is_in_step(fault: Fault, late_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        for name in ("gone", "stays"):
            group["b"].create(config_map(name, {}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            wire = group.wire("a", "b")
            wire.set(fault)
            await take(watch, for_s=100.0)
            group["b"].create(config_map("new", {}))
            group["b"].delete("ConfigMap", "gone", namespace="default")
            wire.late_s = late_s
            wire.set(Fault.NONE)
            while operator["b"].is_stale("configmaps"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            assert [found.name for found in operator["b"].list("configmaps")] == ["new", "stays"]
            events = brief([event for event in await take(watch) if event.type is not STALE], of="b")
            assert events == [("b", ADDED, "new"), ("b", DELETED, "gone"), ("b", SYNCED, "")]

    simulate(scenario, n=2)


def test_a_kind_without_changes_in_a_silence_is_soon_in_step() -> None:
    """Objects of other kinds have changed: only a bookmark shows that it has come so far."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            watch = operator.watch("widgets")
            await take(watch)
            wire = group.wire("a", "b")
            wire.set(Fault.HUNG)
            await take(watch, for_s=100.0)
            group["b"].create(config_map("new", {}))
            wire.set(Fault.NONE)
            (*_, last) = await take(watch, for_s=45.0)  # the next connection comes within half a minute
            assert (last.member, last.type, last.is_relisted) == ("b", SYNCED, False)

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


def test_a_group_that_is_not_engaged_says_so() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            controller = operator.controller(_nothing)
            with pytest.raises(InvalidOption, match="call watches first"):
                await controller.run()
        watch = operator.watch("configmaps")
        with pytest.raises(InvalidOption, match="async with group"):
            await anext(watch)
        with pytest.raises(InvalidOption, match="async with group"):
            await controller.watches("configmaps").run()

    simulate(scenario, n=2)


def test_a_helper_that_was_cancelled_is_an_error_of_its_key() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            runs = collections.Counter[str]()

            async def reconcile(key: Key) -> None:
                runs[key.name] += 1
                if runs[key.name] == 1:
                    helper = asyncio.get_running_loop().create_task(asyncio.sleep(100.0))
                    helper.cancel()
                    await helper

            controller = operator.controller(reconcile).watches("configmaps", namespace="default")
            running = asyncio.get_running_loop().create_task(controller.run())
            names = [f"x{number}" for number in range(6)]
            for name in names:
                group["b"].create(config_map(name, {}))
            await asyncio.sleep(100.0)
            assert {name: runs[name] for name in names} == dict.fromkeys(names, 2)
            running.cancel()

    simulate(scenario, n=2)


def test_the_log_has_the_traceback_of_a_mistake_and_not_of_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:

            async def reconcile(key: Key) -> None:
                if key.name == "mistake":
                    raise KeyError("a-key")
                await operator.local.apply({"apiVersion": "v1", "kind": "Unserved", "metadata": {"name": "x"}})

            controller = operator.controller(reconcile).watches("configmaps", namespace="default")
            running = asyncio.get_running_loop().create_task(controller.run())
            for name in ("mistake", "answer"):
                group["b"].create(config_map(name, {}))
            await asyncio.sleep(10.0)
            running.cancel()

    simulate(scenario, n=2)
    found = [one for one in caplog.records if one.getMessage().startswith("function has failed")]
    tracebacks = {"name=mistake" in one.getMessage(): one.exc_info for one in found}
    assert tracebacks[True] is not None
    assert tracebacks[False] is None


@pytest.mark.parametrize("workers", [1, 4])
def test_the_keys_of_one_member_never_wait_for_those_of_others(workers: int) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            done = set[str]()

            async def reconcile(key: Key) -> None:
                if key.member != "a":
                    await asyncio.sleep(3000.0)
                done.add(key.member)

            for name in (f"x{number}" for number in range(6)):
                group["b"].create(config_map(name, {}))
                group["c"].create(config_map(name, {}))
            controller = operator.controller(reconcile, workers=workers).watches("configmaps", namespace="default")
            running = asyncio.get_running_loop().create_task(controller.run())
            await asyncio.sleep(30.0)
            group["a"].create(config_map("x", {}))
            await asyncio.sleep(10.0)
            assert done == {"a"}
            running.cancel()

    simulate(scenario, n=3)


def test_what_is_no_key_and_a_second_run_are_named() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with operator_at(group, "a") as operator:
            wrong: Any = lambda event: [event.member]  # noqa: E731
            controller = operator.controller(_nothing).watches("configmaps", keys=wrong)
            with pytest.RaisesGroup(pytest.RaisesExc(TypeError, match="must return Keys"), flatten_subgroups=True):
                await controller.run()
            with pytest.raises(InvalidOption, match="runs once"):
                await controller.run()
            for word in ("", "apps/v1/deployments", "pods,services"):
                with pytest.raises(InvalidObject, match="a word that kubectl takes"):
                    operator.watch(word)

    simulate(scenario, n=2)


def test_an_object_shows_no_annotation_in_its_text() -> None:
    """kubectl keeps the whole manifest there, also that of a Secret."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        note = {"kubectl.kubernetes.io/last-applied-configuration": '{"kind":"Secret","data":{"p":"Y2FuYXJ5"}}'}
        info = {"name": "s", "namespace": "default", "annotations": note}
        group["b"].create({"kind": "Secret", "metadata": info, "data": {"p": "Y2FuYXJ5"}})
        async with operator_at(group, "a") as operator:
            events = await take(operator.watch("secrets", namespace="default"))
            assert any(event.object is not None and event.object.name == "s" for event in events)
            assert "Y2FuYXJ5" not in repr(events)

    simulate(scenario, n=2)


@asynccontextmanager
async def _described_by_hand(group: SimGroup) -> AsyncIterator[tuple[Group, Watch, Member]]:
    """Run an operator at a, where no daemon keeps the Clusters; its watch has shown the ConfigMap x of b."""
    group["b"].create(config_map("x", {}))
    here = group["a"]
    here.kill()
    async with operator_at(group, "a") as operator:
        watch = operator.watch("configmaps", namespace="default")
        await take(watch)
        yield operator, watch, here


def _another_cluster_object(member: Member, name: str) -> None:
    """Make a second Cluster with the ID of b."""
    spec = member.get("Cluster", "b")["spec"]
    member.create({"kind": "Cluster", "metadata": {"name": name}, "spec": spec})


def test_a_member_keeps_its_name_beside_another_cluster_with_its_id() -> None:
    """Its Cluster is made again within the dwell, or loses its Secret; then it is missing for long."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with _described_by_hand(group) as (operator, watch, here):
            cluster = here.get("Cluster", "b")
            _another_cluster_object(here, "zz")
            await take(watch, for_s=60.0)
            here.delete("Cluster", "b")
            await asyncio.sleep(5.0)
            here.create({**cluster, "metadata": {"name": "b"}})
            events = await take(watch, for_s=120.0)
            spec = {name: value for name, value in cluster["spec"].items() if name != "authInfo"}
            here.replace({**here.get("Cluster", "b"), "spec": spec})
            events += await take(watch, for_s=120.0)
            assert {event.type for event in events} <= {SYNCED, STALE}
            assert set(operator) == {"a", "b"}
            here.delete("Cluster", "b")
            events = await take(watch, for_s=120.0)
            assert brief(events) == [
                ("b", DELETED, "x"), ("b", LEFT, ""), ("zz", ADDED, "x"), ("zz", SYNCED, ""),
            ]  # fmt: skip
            assert set(operator) == {"a", "zz"}

    simulate(scenario, n=2)


def test_a_cluster_that_cannot_be_read_any_more_is_there() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with _described_by_hand(group) as (operator, watch, here):
            cluster = here.get("Cluster", "b")
            here.replace({**cluster, "spec": {**cluster["spec"], **BAD_ENDPOINTS}})
            assert await take(watch, for_s=90.0) == []
            assert set(operator) == {"a", "b"}

    simulate(scenario, n=2)


BAD_ENDPOINTS: dict[str, Any] = {"kubernetesApiEndpoints": [{"serverAddress": 5}]}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [(BAD_ENDPOINTS, "serverAddress: must be a string"), ({"clusterID": ""}, "spec.clusterID: is required")],
    ids=["endpoints", "ID"],
)
def test_a_cluster_that_cannot_be_read_at_the_start_is_named_with_the_reason(bad: Any, reason: str) -> None:
    """A program keeps what it wrote about such a member."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.kill()
        cluster = here.get("Cluster", "b")
        here.replace({**cluster, "spec": {**cluster["spec"], **bad}})
        async with operator_at(group, "a") as operator:
            await operator.wait_known()
            assert set(operator) == {"a"}
            assert "Cluster b cannot be read: " in operator.unreadable["b"]
            assert reason in operator.unreadable["b"]
            here.replace({**here.get("Cluster", "b"), "spec": cluster["spec"]})
            await asyncio.sleep(5.0)
            assert set(operator) == {"a", "b"}
            assert not operator.unreadable

    simulate(scenario, n=2)


def test_a_cluster_that_is_made_again_and_cannot_be_read_proves_no_departure() -> None:
    """Its description names no other cluster. A second Cluster with the ID is the same member."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with _described_by_hand(group) as (operator, watch, here):
            cluster = here.get("Cluster", "b")
            _another_cluster_object(here, "zz")
            here.delete("Cluster", "b")
            here.create({"kind": "Cluster", "metadata": {"name": "b"}, "spec": {**cluster["spec"], "clusterID": ""}})
            assert await take(watch, for_s=90.0) == []
            assert set(operator) == {"a", "b"}
            assert set(operator.unreadable) == {"b"}

    simulate(scenario, n=2)


async def _nothing(key: Key) -> None:
    """Reconcile nothing."""


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


def widget(name: str, value: str) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": {"value": value}}


@pytest.mark.parametrize("word", ["widgets", "widgets.sim.example"])
def test_a_watch_follows_a_kind_into_the_version_that_is_served_now(word: str) -> None:
    """What was deleted meanwhile is DELETED, and nothing else is."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner = group["b"]
        for name in "xyz":
            owner.create(widget(name, "1"))
        async with operator_at(group, "a") as operator:
            watch = operator.watch(word, namespace="default")
            await take(watch)
            for served in ("v1beta1", "v1"):
                owner.server.change_versions("Widget", [served])
                group.cut("b")
                owner.apply(widget("x", f"at {served}"))
                owner.delete("Widget", "y", namespace="default")
                owner.create(widget("y", "again"))
                events = await take(watch, for_s=90.0)
                assert {one for one in brief(events) if one[1] is not STALE} == {
                    ("b", MODIFIED, "x"), ("b", MODIFIED, "y"), ("b", MODIFIED, "z"), ("b", SYNCED, ""),
                }  # fmt: skip
                found = operator["b"].list(word)
                assert {one.kind.version for one in found} == {served}
                assert [one.manifest["spec"]["value"] for one in found] == [f"at {served}", "again", "1"]
                owner.delete("Widget", "z", namespace="default")
                assert brief(await take(watch)) == [("b", DELETED, "z")]
                owner.create(widget("z", "1"))
                await take(watch)

    simulate(scenario, n=2)


def test_a_kind_that_a_member_serves_later_or_for_a_time_only_is_followed_while_it_is_served() -> None:
    """A kind that is not served proves nothing: its objects stay known, and stale."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner = group["b"]
        relic = {"kind": "Relic", "metadata": {"name": "x", "namespace": "default"}, "spec": {}}
        async with operator_at(group, "a") as operator:
            watch = operator.watch("relics")
            events = await take(watch, for_s=60.0)
            assert {event.type for event in events} == {STALE}
            assert "serves no kind relics" in events[-1].reason
            owner.server.change_versions("Relic", ["v1beta1"])
            owner.create(relic)
            assert brief(await take(watch, for_s=90.0), of="b") == [("b", ADDED, "x"), ("b", SYNCED, "")]
            owner.server.change_versions("Relic", [])
            group.cut("b")
            assert {kind for _, kind, _ in brief(await take(watch, for_s=90.0), of="b")} == {STALE}
            assert [found.name for found in operator["b"].list("relics")] == ["x"]
            owner.server.change_versions("Relic", ["v1beta1"])
            owner.delete("Relic", "x", namespace="default")
            events = await take(watch, for_s=120.0)
            assert [one for one in brief(events, of="b") if one[1] is not STALE] == [
                ("b", DELETED, "x"),
                ("b", SYNCED, ""),
            ]

    simulate(scenario, n=2)


def by_contexts(connect: Any) -> ContextSource:
    return ContextSource([Context(name="a"), Context(name="b")])


def by_secrets(connect: Any) -> SecretSource:
    return SecretSource(Context(), namespace=NAMESPACE, label_selector=SECRET_LABEL, connect=connect)


def publish(group: SimGroup, of: str = "b") -> None:
    """Put the credentials of b, or of another cluster, into a Secret at a with the label, as a person does."""
    data = group[of].get("Secret", group[of].published, namespace=NAMESPACE)["data"]
    label, _, value = SECRET_LABEL.partition("=")
    info = {"name": "fleet-b", "namespace": NAMESPACE, "labels": {label: value}}
    group["a"].apply({"kind": "Secret", "metadata": info, "data": data})


@pytest.mark.parametrize("source", [by_contexts, by_secrets])
def test_a_member_that_nothing_describes_is_another_one_once_its_cluster_was_rebuilt(source: Any) -> None:
    """The old objects are DELETED, and the old member has LEFT, with the reason; then come those of the new one."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        publish(group)
        name = "b" if source is by_contexts else "fleet-b"
        for obj in ("x", "y"):
            group["b"].create(config_map(obj, {"of": "the old one"}))
        async with operator_at(group, "a", source=source) as operator:
            watch = operator.watch("configmaps", namespace="default")
            assert (name, ADDED, "y") in brief(await take(watch))
            before = operator[name].cluster_id
            assert before == group["b"].id
            group.rebuild("b")
            group["b"].start()
            group["b"].create(config_map("x", {"of": "the new one"}))
            await asyncio.sleep(15.0)
            publish(group)
            events = await take(watch, for_s=20.0)
            assert {event.type for event in events if event.member == name} == {STALE}
            assert [found.name for found in operator[name].list("configmaps", namespace="default")] == ["x", "y"]
            events = await take(watch, for_s=60.0)
            assert [one for one in brief(events, of=name) if one[1] is not STALE] == [
                (name, DELETED, "x"), (name, DELETED, "y"), (name, LEFT, ""), (name, ADDED, "x"), (name, SYNCED, ""),
            ]  # fmt: skip
            (reason,) = [event.reason for event in events if event.type is LEFT]
            assert before in reason
            assert group["b"].id in reason
            assert operator[name].cluster_id == group["b"].id

    simulate(scenario, n=2)


def test_a_member_whose_name_leads_to_another_cluster_for_a_moment_has_not_left() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {}))
        async with operator_at(group, "a", source=by_contexts) as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            old, wire = group["b"].server, group.wire("a", "b")
            group.rebuild("b")
            await take(watch, for_s=20.0)
            assert "is another cluster now" in operator["b"].problem
            wire.server = old
            wire.cut()
            events = await take(watch, for_s=90.0)
            assert {kind for _, kind, _ in brief(events, of="b")} <= {STALE, SYNCED}
            assert not operator["b"].is_stale("configmaps")
            assert operator["b"].cluster_id == old.uid

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_secret_that_leads_to_another_cluster_replaces_a_member_that_lives_within_a_minute(is_quiet: bool) -> None:
    """The connection over the former credentials is probed meanwhile, which shows nothing about the Secret."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        publish(group)
        if is_quiet:
            group["b"].kill()
        async with operator_at(group, "a", source=by_secrets) as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch, for_s=100.0)
            publish(group, of="c")
            await asyncio.sleep(25.0)
            assert operator["fleet-b"].cluster_id == group["b"].id
            await asyncio.sleep(15.0)
            assert operator["fleet-b"].cluster_id == group["c"].id
            publish(group)
            await asyncio.sleep(10.0)
            publish(group, of="c")  # it led to another cluster for a moment
            await take(watch, for_s=100.0)
            assert operator["fleet-b"].cluster_id == group["c"].id

    simulate(scenario, n=3)


def test_a_member_of_a_group_is_another_one_once_its_cluster_names_another_id() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(config_map("x", {}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            group.rebuild("b")
            group["b"].start()
            group["b"].create(config_map("y", {}))
            await asyncio.sleep(30.0)
            await take(watch)
            carry_over(group["b"], group["a"])
            events = await take(watch, for_s=60.0)
            assert [one for one in brief(events, of="b") if one[1] is not STALE] == [
                ("b", DELETED, "x"), ("b", LEFT, ""), ("b", ADDED, "y"), ("b", SYNCED, ""),
            ]  # fmt: skip
            assert group["b"].id in next(event.reason for event in events if event.type is LEFT)

    simulate(scenario, n=2)


def test_the_cluster_of_the_program_is_another_one_once_it_was_rebuilt() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.create(config_map("x", {}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            group.rebuild("a")
            here.server.generation -= 1  # with the same certificate authority, so that connections go on
            here.start()
            here.create(config_map("y", {}))
            events = await take(watch, for_s=120.0)
            assert sorted(operator) == ["a"]
            assert operator["a"].is_local
            assert operator["a"].cluster_id == here.id
            assert [found.name for found in operator["a"].list("configmaps", namespace="default")] == ["y"]
            assert ("b", LEFT, "") in brief(events)

    simulate(scenario, n=2)


def test_what_a_member_has_after_it_came_back_follows_its_departure() -> None:
    """A consumer that took nothing meanwhile hears both, in order; of several departures it hears one."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.kill()
        group["b"].create(config_map("x", {"n": "1"}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            await take(watch)
            for _ in range(2):
                held = here.get("Cluster", "b")
                here.delete("Cluster", "b")
                await asyncio.sleep(60.0)
                assert sorted(operator) == ["a"]
                here.create({**held, "metadata": {"name": "b"}})
                await asyncio.sleep(60.0)
                assert sorted(operator) == ["a", "b"]
            events = await take(watch)
            assert brief(events, of="b") == [("b", DELETED, "x"), ("b", LEFT, ""), ("b", ADDED, "x"), ("b", SYNCED, "")]

    simulate(scenario, n=2)


def test_a_member_does_not_leave_while_the_cluster_that_describes_it_is_silent() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, home = group["a"], group.wire("a", "a")
        here.kill()
        async with operator_at(group, "a") as operator:
            held = here.get("Cluster", "b")
            here.delete("Cluster", "b")
            await asyncio.sleep(5.0)
            home.set(Fault.REFUSED)
            here.create({**held, "metadata": {"name": "b"}})
            await asyncio.sleep(120.0)
            assert operator.problem
            assert sorted(operator) == ["a", "b"]
            home.set(Fault.NONE)
            await asyncio.sleep(120.0)
            assert not operator.problem
            assert sorted(operator) == ["a", "b"]

    simulate(scenario, n=2)


def test_an_object_of_a_known_revision_is_taken_again_after_the_restore_of_an_etcd() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner = group["b"]
        for member in group.members:
            member.kill()
        for name in ("x", "y"):
            owner.create(config_map(name, {"n": "0"}))
        async with operator_at(group, "a") as operator:
            watch = operator.watch("configmaps", namespace="default")
            backup = owner.server.store.backup()
            owner.apply(config_map("x", {"n": "lost"}))
            owner.apply(config_map("y", {"n": "lost"}))
            await take(watch)
            before = operator["b"].get("configmaps", "x", namespace="default")
            group.cut("b")
            owner.server.store.restore(backup)
            owner.apply(config_map("x", {"n": "1"}))
            assert ("b", MODIFIED, "x") in brief(await take(watch, for_s=30.0))
            found = operator["b"].get("configmaps", "x", namespace="default")
            assert before is not None
            assert found is not None
            assert (found.uid, found.revision) == (before.uid, before.revision)
            assert found.manifest["data"] == {"n": "1"}

    simulate(scenario, n=2)


class _LateSource:
    """Reports its members once more while it is cancelled, as a watch does that has an event at that moment."""

    problem = ""

    async def run(self, found: Any) -> None:
        members = {"b": MemberSpec("b", context=Context(name="b"))}
        found(members)
        try:
            await asyncio.Event().wait()
        finally:
            found(members)


def test_a_group_ends_though_its_source_reports_members_at_that_moment() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        async with asyncio.timeout(60.0), operator_at(group, "a", source=lambda _: _LateSource()):
            await asyncio.sleep(5.0)

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_described", [True, False])
def test_a_second_answer_of_another_cluster_replaces_a_member_once(is_described: bool) -> None:
    """Several tasks may ask over one connection, and the collector does."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        publish(group)
        async with operator_at(group, "a", source=by_secrets) as operator:
            await asyncio.sleep(20.0)
            engaged = operator._engagements.by_name["fleet-b"]
            dialer = engaged.connection.dialer
            assert isinstance(dialer, SecretDialer)
            if not is_described:
                group["a"].delete("Secret", "fleet-b", namespace=NAMESPACE)
                await asyncio.sleep(5.0)
            dialer.identity.on_replaced("it is another cluster now")
            after = operator._engagements.by_name.get("fleet-b")
            assert (after is not None) == is_described
            assert after is not engaged
            dialer.identity.on_replaced("it is another cluster now")
            assert operator._engagements.by_name.get("fleet-b") is after

    simulate(scenario, n=2)


def test_a_group_says_why_it_does_not_know_its_members_where_the_id_of_its_cluster_cannot_be_read() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        wire = group.wire("a", "a")
        wire.unallowed = {"namespaces"}
        async with make_group(group, "a", life=Life()) as operator:
            await asyncio.sleep(20.0)
            assert "grant it to the account of this program" in operator.problem
            wire.unallowed = set()
            await operator.wait_known()
            assert not operator.problem

    simulate(scenario, n=2)


def test_a_cluster_with_another_id_whose_secret_was_not_listed_yet_stays_as_it_was() -> None:
    """Its Secret is in a namespace that no Cluster has named before."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        here.kill()
        async with operator_at(group, "a") as operator:
            await asyncio.sleep(5.0)
            held = here.get("Cluster", "b")
            reference = {"name": "b", "namespace": "elsewhere"}
            here.apply({"kind": "Cluster", "metadata": {"name": "b"}, "spec": {
                "clusterID": "5e0e0000-0000-4000-8000-000000000000", "authInfo": {"secretRef": reference},
            }})  # fmt: skip
            await asyncio.sleep(60.0)
            assert "b" in operator.unreadable
            here.apply({"kind": "Cluster", "metadata": {"name": "b"}, "spec": held["spec"]})
            await asyncio.sleep(60.0)
            assert operator["b"].is_connected

    simulate(scenario, n=2)
