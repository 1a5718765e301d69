"""A10: copies that lack fields are asked about again when a schema has changed, and nothing is asked without them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import orjson

from registry_controller.api.errors import Forbidden, RegistryError
from registry_controller.api.meta import GVK, GroupKind, Target
from registry_controller.cache.write_results import Doubted
from registry_controller.sync.lost_fields import INTERVAL_S, LostFields
from tests.sim.cluster.loop import run

WIDGET = Target("sim.example", "Widget", "default", "one")
MAP = Target("", "ConfigMap", "default", "one")


class Bench:
    """Copies that lack fields, and an API server with hashes by path, or an error instead."""

    def __init__(self) -> None:
        self.answer: dict[str, str] | RegistryError | bytes = {"apis/sim.example/v1": "1", "api/v1": "1"}
        self.asked = 0
        self.doubted: list[Target] = []
        self.enqueued: list[Target] = []
        self.records: dict[Target, Any] = {one: SimpleNamespace(lost=("spec.x",)) for one in (WIDGET, MAP)}
        copies: Any = self
        self.lost = LostFields(reader=self, copies=copies, enqueue=self.enqueued.append)

    def cache_of(self, group: str, kind: str) -> Any:
        return self.find(WIDGET)[0] if (group, kind) == WIDGET[:2] else None

    async def get_path(self, path: str) -> bytes:
        assert path == "/openapi/v3"
        self.asked += 1
        if isinstance(self.answer, RegistryError):
            raise self.answer
        if isinstance(self.answer, bytes):
            return self.answer
        paths = {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={hash_}"} for name, hash_ in self.answer.items()}
        return orjson.dumps({"paths": paths})

    def find(self, target: Target) -> tuple[Any, Any]:
        def record_write(key: object, result: object) -> None:
            assert result == Doubted()
            self.doubted.append(target)

        kind = GVK(target.group, "v1", target.kind)
        cache = SimpleNamespace(
            kind=kind,
            record_write=record_write,
            records={target.key: self.records.get(target)},
            target=lambda key: target._replace(name=key.name),
        )
        return cache, self.records.get(target)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(self.lost.run())
            yield
            task.cancel()


def test_only_the_kinds_whose_schema_changed_are_asked_about() -> None:
    async def scenario() -> None:
        bench = Bench()
        async with bench.running():
            await asyncio.sleep(10 * INTERVAL_S)
            assert bench.asked == 0
            bench.lost.note(WIDGET)
            bench.lost.note(MAP)
            await asyncio.sleep(3 * INTERVAL_S)
            assert (bench.asked, bench.enqueued) == (3, [MAP, WIDGET])  # at the first look, which came after the loss
            bench.doubted.clear()
            bench.enqueued.clear()
            bench.answer = {"apis/sim.example/v1": "2", "api/v1": "1"}
            await asyncio.sleep(3 * INTERVAL_S)
            assert bench.doubted == bench.enqueued == [WIDGET, WIDGET]  # at this look, and at the next

    run(scenario)


def test_the_copies_of_a_kind_whose_definition_changed_are_compared_at_two_looks() -> None:
    """The API servers need not serve it at once; nothing is asked about other kinds, or of kinds without copies."""

    async def scenario() -> None:
        bench = Bench()
        bench.records = {WIDGET: SimpleNamespace(lost=())}
        async with bench.running():
            bench.lost.on_schema_changed(GroupKind("sim.example", "Gadget"))
            await asyncio.sleep(5 * INTERVAL_S)
            assert not bench.enqueued
            bench.lost.on_schema_changed(GroupKind(*WIDGET[:2]))
            await asyncio.sleep(2.0)
            assert bench.doubted == bench.enqueued == [WIDGET]
            await asyncio.sleep(5 * INTERVAL_S)
            assert bench.doubted == bench.enqueued == [WIDGET, WIDGET]
            assert bench.asked == 0

    run(scenario)


def test_nothing_is_asked_once_nothing_lacks_anything() -> None:
    async def scenario() -> None:
        bench = Bench()
        async with bench.running():
            bench.lost.note(WIDGET)
            bench.lost.note(MAP)
            await asyncio.sleep(INTERVAL_S)
            bench.records = {MAP: SimpleNamespace(lost=())}
            await asyncio.sleep(2 * INTERVAL_S)
            asked = bench.asked
            await asyncio.sleep(10 * INTERVAL_S)
            assert bench.asked == asked
            assert bench.enqueued == [MAP, WIDGET]

    run(scenario)


def test_an_answer_that_cannot_be_had_or_read_is_asked_for_again() -> None:
    async def scenario() -> None:
        bench = Bench()
        async with bench.running():
            bench.lost.note(WIDGET)
            await asyncio.sleep(INTERVAL_S)
            for wrong in (Forbidden("you may not"), b"<html>", b"[]"):
                bench.answer = wrong
                await asyncio.sleep(INTERVAL_S)
            bench.answer = {"apis/sim.example/v1": "2"}
            await asyncio.sleep(INTERVAL_S)
            assert WIDGET in bench.enqueued

    run(scenario)
