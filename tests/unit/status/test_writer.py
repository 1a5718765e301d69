"""The status writer against a server that merges, prunes and refuses."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from registry_controller.api.errors import Conflict, Forbidden, NotFound, Unreachable
from registry_controller.api.meta import CLUSTERS, GVR, ObjectKey
from registry_controller.status import writer
from registry_controller.status.writer import StatusWriter


def merge(target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in patch.items() if value is not None}
    return {key: value for key, value in target.items() if key not in patch} | found


class Server:
    """Statuses by name; `pruned` fields are dropped, `refuse` is raised first."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[float, str, Mapping[str, Any]]] = []
        self.pruned: set[str] = set()
        self.refuse: dict[str, list[Exception]] = {}
        self.uids: dict[str, str] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def patch_status(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        self.writes.append((asyncio.get_running_loop().time(), key.name, patch))
        await self.gate.wait()
        if self.refuse.get(key.name):
            raise self.refuse[key.name].pop(0)
        stored = merge(self.stored.get(key.name, {}), patch["status"])
        self.stored[key.name] = {field: value for field, value in stored.items() if field not in self.pruned}
        metadata = {"uid": self.uids.get(key.name, "u"), "resourceVersion": str(len(self.writes) * 10)}
        return json.dumps({"metadata": metadata, "status": self.stored[key.name]}).encode()


class World:
    def __init__(self) -> None:
        self.server = Server()
        self.transitions: list[tuple[str, str, str]] = []
        self.speaks = True
        self.writer = StatusWriter(
            self.server,
            lambda: datetime(2026, 1, 1, tzinfo=UTC),
            on_transition=self._on_transition,
            writes_status_of=lambda *_: self.speaks,
        )

    def _on_transition(self, gvr: GVR, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        self.transitions.append((name, condition["type"], condition["status"]))

    def want(self, wanted: dict[str, Any], *, name: str = "b", uid: str = "u", current: Any = ..., at: int = 0) -> None:
        stored = self.server.stored.get(name) if current is ... else current
        self.writer.set_wanted(CLUSTERS, name, status=wanted, current=stored, uid=uid, generation=0, revision=at)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(writer, "_INTERVAL_S", 0.2)
    monkeypatch.setattr(writer, "_BACKOFF_FIRST_S", 0.05)
    world = World()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.writer.run())
        yield world
        task.cancel()


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


def ready(value: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": value, "reason": f"R{value}", "message": "words"}]}


async def test_what_is_new_is_written_and_its_transition_told(world: World) -> None:
    world.want({"state": "Ready", **ready()})
    await eventually(lambda: "b" in world.server.stored)
    ((_, _, patch),) = world.server.writes
    assert set(patch) == {"status"}
    assert patch["status"]["state"] == "Ready"
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert world.transitions == [("b", "Ready", "True")]


async def test_what_another_daemon_speaks_of_is_not_written_and_then_is(world: World) -> None:
    """A7."""
    world.speaks = False
    world.want({"state": "Ready"})
    await asyncio.sleep(0.1)
    assert world.server.writes == []
    world.speaks = True
    world.want({"state": "Ready"})
    await eventually(lambda: "b" in world.server.stored)


async def test_what_is_stored_is_not_written(world: World) -> None:
    world.server.stored["b"] = {"state": "Ready"}
    for _ in range(3):
        world.want({"state": "Ready"})
    await asyncio.sleep(0.1)
    assert world.server.writes == []


async def test_many_wishes_become_one_write_a_period_and_the_last_one_wins(world: World) -> None:
    began = asyncio.get_running_loop().time()
    for number in range(100):
        world.want({"message": f"words {number}"})
        await asyncio.sleep(0.001)
    await eventually(lambda: world.server.stored.get("b") == {"message": "words 99"})
    assert len(world.server.writes) <= (asyncio.get_running_loop().time() - began) / 0.2 + 2
    times = [at for at, _, _ in world.server.writes]
    assert all(later - earlier > 0.15 for earlier, later in itertools.pairwise(times))


async def test_a_wish_during_a_write_is_not_lost(world: World) -> None:
    world.server.gate.clear()
    world.want({"message": "one"})
    await eventually(lambda: len(world.server.writes) == 1)
    world.want({"message": "two"})
    world.server.gate.set()
    await eventually(lambda: world.server.stored.get("b") == {"message": "two"})


async def test_a_wish_that_returns_to_the_old_state_during_a_write_is_not_lost(world: World) -> None:
    world.server.stored["b"] = {"state": "Ready"}
    stale = {"state": "Ready"}
    world.server.gate.clear()
    world.want({"state": "Failed"})
    await eventually(lambda: len(world.server.writes) == 1)
    world.want({"state": "Ready"}, current=stale)
    world.server.gate.set()
    await eventually(lambda: world.server.stored["b"] == {"state": "Failed"})
    await eventually(lambda: world.server.stored["b"] == {"state": "Ready"})


@pytest.mark.parametrize(("revision", "is_written_again"), [(7, True), (99, False)])
async def test_a_status_is_written_again_where_history_lost_it_and_not_against_another_daemon(
    world: World, monkeypatch: pytest.MonkeyPatch, revision: int, is_written_again: bool
) -> None:
    """A7, R4: at a lower revision than that of our write the server went back, at a higher one another wrote."""
    monkeypatch.setattr(writer, "_CACHE_LAG_S", 1.0)
    before = {"state": "Failed"}
    world.want({"state": "Ready"}, current=before)
    await eventually(lambda: "b" in world.server.stored)
    world.want({"state": "Ready"}, current=before, at=revision)
    if is_written_again:
        await eventually(lambda: len(world.server.writes) == 2)
    else:
        world.want({"state": "Ready"}, current=before, name="other")
        await eventually(lambda: "other" in world.server.stored)
        assert world.writer._objects[CLUSTERS, "b"].wanted is None
        assert [name for _, name, _ in world.server.writes] == ["b", "other"]


async def test_a_cache_that_lags_behind_our_write_hides_nothing(world: World) -> None:
    world.server.stored["b"] = {"state": "Ready"}
    stale = {"state": "Ready"}
    world.want({"state": "Failed"}, current=stale)
    await eventually(lambda: world.server.stored["b"] == {"state": "Failed"})
    world.want({"state": "Ready"}, current=stale)
    await eventually(lambda: world.server.stored["b"] == {"state": "Ready"})


async def test_what_an_old_crd_prunes_is_written_once_and_never_again(world: World) -> None:
    world.server.pruned = {"observedGeneration"}
    for _ in range(10):
        world.want({"state": "Ready", "observedGeneration": 3})
        await asyncio.sleep(0.06)
    assert len(world.server.writes) == 1
    world.want({"state": "Failed", "observedGeneration": 3})
    await eventually(lambda: world.server.stored["b"] == {"state": "Failed"})


async def test_what_somebody_else_changed_is_put_right_also_where_fields_are_pruned(world: World) -> None:
    world.server.pruned = {"observedGeneration"}
    world.want({"state": "Ready", "observedGeneration": 3})
    await eventually(lambda: "b" in world.server.stored)
    world.server.stored["b"] = {"state": "Failed"}
    world.want({"state": "Ready", "observedGeneration": 3})
    await eventually(lambda: world.server.stored["b"] == {"state": "Ready"})


@pytest.mark.parametrize("error", [Forbidden("no", status=403), Unreachable("no answer")])
async def test_a_refused_write_is_tried_again_until_it_is_stored(world: World, error: Exception) -> None:
    world.server.refuse["b"] = [error] * 3
    world.want(ready())
    await eventually(lambda: "b" in world.server.stored)
    assert len(world.server.writes) == 4
    assert len(world.transitions) == 1


async def test_one_object_that_hangs_delays_no_other(world: World) -> None:
    world.server.gate.clear()
    world.want({"state": "Ready"}, name="slow")
    await eventually(lambda: len(world.server.writes) == 1)
    world.want({"state": "Ready"}, name="quick")
    await eventually(lambda: len(world.server.writes) == 2)


async def test_s2_a_late_cache_writes_to_the_object_that_replaced_another_once_an_interval(world: World) -> None:
    world.server.uids["b"] = "successor"
    for number in range(5):
        world.want({"state": str(number)}, uid="before", current={})
        await asyncio.sleep(0.02)
    world.want({"state": "Ready"}, uid="successor", current={})
    await eventually(lambda: world.server.writes[-1][2] == {"status": {"state": "Ready"}})
    times_s = [at_s for at_s, _, _ in world.server.writes]
    assert all(later_s - earlier_s >= 0.2 for earlier_s, later_s in itertools.pairwise(times_s))


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another uid", status=409)])
async def test_an_object_that_is_gone_is_dropped_and_its_successor_is_written(world: World, error: Exception) -> None:
    world.server.refuse["b"] = [error]
    world.want({"state": "Ready"})
    await eventually(lambda: len(world.server.writes) == 1)
    await asyncio.sleep(0.3)
    assert len(world.server.writes) == 1
    world.server.uids["b"] = "successor"
    world.want({"state": "Ready"}, uid="successor")
    await eventually(lambda: "b" in world.server.stored)


async def test_what_hit_a_successor_by_mistake_is_put_right_by_its_own_wish(world: World) -> None:
    world.server.uids["b"] = "successor"
    world.want({"state": "Failed", **ready("False")}, uid="before")
    await eventually(lambda: "b" in world.server.stored)
    await asyncio.sleep(0.05)
    assert world.transitions == []
    world.want({"state": "Ready", **ready()}, uid="successor")
    await eventually(lambda: world.server.stored["b"]["state"] == "Ready")


async def test_a_transition_is_told_once_and_only_when_it_is_stored(world: World) -> None:
    world.want(ready())
    await eventually(lambda: "b" in world.server.stored)
    world.want(ready())
    world.want(ready("False"))
    await eventually(lambda: len(world.transitions) == 2)
    assert world.transitions == [("b", "Ready", "True"), ("b", "Ready", "False")]


async def test_conditions_carry_the_generation_that_they_are_about(world: World) -> None:
    world.writer.set_wanted(CLUSTERS, "b", status=ready(), current=None, uid="u", generation=7)
    await eventually(lambda: "b" in world.server.stored)
    assert world.server.stored["b"]["conditions"][0]["observedGeneration"] == 7


async def test_what_is_forgotten_is_not_written(world: World) -> None:
    world.want({"state": "Ready"})
    world.writer.drop(CLUSTERS, "b")
    await asyncio.sleep(0.05)
    assert world.server.writes == []


async def test_where_conditions_are_pruned_a_restart_tells_nothing_and_a_change_is_told(world: World) -> None:
    """S2: an older CRD keeps no conditions, so what was said before is not known at a start."""
    world.server.pruned = {"conditions"}
    world.want({"state": "Ready", **ready()})
    await eventually(lambda: "b" in world.server.stored)
    await asyncio.sleep(0.05)
    assert not world.transitions
    world.want({"state": "Failed", **ready("False")})
    await eventually(lambda: world.transitions == [("b", "Ready", "False")])
