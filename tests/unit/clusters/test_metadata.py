"""The local cluster's metadata: read again and again, and described when that fails. P8."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api.errors import Unreachable
from registry_controller.clusters import metadata
from registry_controller.clusters.metadata import LocalMetadata
from tests.sim.cluster.loop import run


def test_metadata_are_read_every_5_minutes_and_15_s_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[Mapping[str, object] | Unreachable] = [{"version": "1"}, Unreachable("no answer"), {"version": "2"}]
    changes: list[tuple[float, object, str]] = []

    async def read(reader: object) -> Mapping[str, object]:
        found = results.pop(0)
        if isinstance(found, Unreachable):
            raise found
        return found

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        reader: Any = None

        def note() -> None:
            changes.append((loop.time() - began, local.metadata, local.problem))

        local = LocalMetadata(reader=reader, changed=note)
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(local.run(), name="metadata")
            await asyncio.sleep(320)
            task.cancel()

    monkeypatch.setattr(metadata, "read_metadata", read)
    run(main)
    assert changes == [(0, {"version": "1"}, ""), (300, {"version": "1"}, "no answer"), (315, {"version": "2"}, "")]
