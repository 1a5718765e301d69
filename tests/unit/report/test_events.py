"""Kubernetes Events: aggregated, limited, and never in the way."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden, NotFound, ServerError
from registry_controller.api.meta import CLUSTER, GVK, GVR, ObjectKey
from registry_controller.report import events
from registry_controller.report.events import EventRecorder, Reference

CLUSTER_B = Reference(CLUSTER, "", "b", "uid-b")


class Server:
    """Keep Events; answer with `refuse` while there is one."""

    def __init__(self) -> None:
        self.stored: dict[ObjectKey, dict[str, Any]] = {}
        self.patches: list[tuple[ObjectKey, Mapping[str, Any]]] = []
        self.refuse: list[Exception] = []

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes:
        await asyncio.sleep(0)
        if self.refuse:
            raise self.refuse.pop(0)
        found = json.loads(body)
        key = ObjectKey(namespace, found["metadata"]["name"])
        assert (str(gvr), found["metadata"]["namespace"], key in self.stored) == ("events.v1", namespace, False)
        self.stored[key] = found
        return body

    async def merge_patch(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        await asyncio.sleep(0)
        if self.refuse:
            raise self.refuse.pop(0)
        self.patches.append((key, patch))
        self.stored[key].update(patch)
        return b"{}"


class World:
    """A recorder, its server and its clocks."""

    def __init__(self) -> None:
        self.server = Server()
        self.time_s = 1000.0
        self.results: Counter[str] = Counter()
        self.recorder = EventRecorder(
            self.server,
            namespace="system",
            instance="pod-1",
            on_result=lambda result: self.results.update([result]),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time_s),
            monotonic_s=lambda: self.time_s,
        )

    def say(self, message: str = "words", *, regarding: Reference = CLUSTER_B, reason: str = "ClusterIsReady") -> None:
        self.recorder.emit(regarding=regarding, type="Normal", reason=reason, message=message)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, and the recorder look at the clock."""
        await self.settle()
        self.time_s += seconds
        self.recorder._wake.set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with running(world):
        yield world


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.recorder.run())
        yield
        task.cancel()


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


async def test_an_event_of_a_cluster_scoped_object_is_in_the_default_namespace(world: World) -> None:
    world.say()
    await world.settle()
    ((key, stored),) = world.server.stored.items()
    assert key.namespace == "default"
    assert stored["involvedObject"] == {
        "apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1",
        "kind": "Cluster",
        "name": "b",
        "uid": "uid-b",
    }
    assert (stored["type"], stored["reason"], stored["message"], stored["count"]) == (
        "Normal",
        "ClusterIsReady",
        "words",
        1,
    )
    assert (stored["source"], stored["reportingInstance"]) == ({"component": "registry-controller"}, "system/pod-1")
    assert stored["firstTimestamp"] == stored["lastTimestamp"] == "2026-01-01T00:16:40Z"


async def test_an_event_of_a_namespaced_object_is_beside_it_whatever_its_name(world: World) -> None:
    world.say(regarding=Reference(GVK("", "v1", "Secret"), "team", "System:Node_1", "u"))
    await world.settle()
    ((key, stored),) = world.server.stored.items()
    assert key.namespace == stored["involvedObject"]["namespace"] == "team"
    assert key.name.startswith("system-node-1.")
    assert stored["involvedObject"]["name"] == "System:Node_1"


async def test_the_same_again_is_counted_at_most_once_a_minute(world: World) -> None:
    for _ in range(10):
        world.say()
    await world.settle()
    assert len(world.server.stored) == 1
    assert world.server.patches == []
    await world.pass_by(59)
    assert world.server.patches == []
    await world.pass_by(2)
    ((_, patch),) = world.server.patches
    assert patch == {"count": 10, "lastTimestamp": "2026-01-01T00:16:40Z"}
    await world.pass_by(120)
    assert len(world.server.patches) == 1
    assert world.results == {"written": 1, "aggregated": 9}


async def test_after_ten_quiet_minutes_it_is_a_new_event(world: World) -> None:
    world.say()
    await world.pass_by(601)
    world.say()
    await world.settle()
    assert len(world.server.stored) == 2


@pytest.mark.parametrize(
    "change", [{"message": "other"}, {"reason": "Other"}, {"regarding": CLUSTER_B._replace(uid="2")}]
)
async def test_what_differs_is_another_event(world: World, change: dict[str, Any]) -> None:
    world.say()
    world.say(**change)
    await world.settle()
    assert len(world.server.stored) == 2


async def test_one_object_cannot_flood_and_does_not_silence_others(world: World) -> None:
    for number in range(40):
        world.say(f"words {number}")
    world.say(regarding=CLUSTER_B._replace(name="c", uid="c"))
    for _ in range(10):
        await world.settle()
    assert world.results == {"written": 26, "limited": 15}
    await world.pass_by(301)
    world.say("again 1")
    world.say("again 2")
    await world.settle()
    assert world.results == {"written": 27, "limited": 16}


async def test_an_event_that_expired_is_made_anew(world: World) -> None:
    world.say()
    await world.settle()
    world.say()
    world.server.stored.clear()
    world.server.refuse.append(NotFound("gone", names_object=True))
    await world.pass_by(61)
    assert len(world.server.stored) == 1


async def test_a_refusal_ends_nothing(world: World) -> None:
    world.server.refuse.append(Forbidden("no", status=403))
    world.say("lost")
    world.say("kept")
    await world.settle()
    assert [stored["message"] for stored in world.server.stored.values()] == ["kept"]
    assert world.results == {"failed": 1, "written": 1}


async def test_a_namespace_that_is_missing_ends_nothing(world: World) -> None:
    world.server.refuse.append(NotFound("namespace"))
    world.say("lost")
    await world.settle()
    assert world.results == {"failed": 1}


async def test_a_server_in_trouble_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_TRIES_AFTER_S", (0.0, 0.0))
    world.server.refuse += [ServerError("503", status=503)] * 2
    world.say("kept")
    await eventually(lambda: world.results["written"] == 1)
    world.server.refuse += [ServerError("503", status=503)] * 3
    world.say("lost")
    await eventually(lambda: world.results["failed"] == 1)


async def test_saying_never_waits_and_the_oldest_goes_first_when_nobody_writes() -> None:
    world = World()
    for number in range(1003):
        world.say(f"words {number}", regarding=CLUSTER_B._replace(uid=str(number)))
    assert world.results == {"dropped": 3}
    async with running(world):
        await eventually(lambda: world.results["written"] == 1000)
    assert "words 3" in {stored["message"] for stored in world.server.stored.values()}
    assert "words 2" not in {stored["message"] for stored in world.server.stored.values()}


async def test_a_long_message_is_cut_within_its_limit(world: World) -> None:
    world.say("ü" * 2000)
    await world.settle()
    (stored,) = world.server.stored.values()
    assert len(stored["message"].encode()) <= 1024
    assert set(stored["message"]) == {"ü"}
