"""Many objects are changed as fast as the source takes the changes: from the first change until the last copy.

The floor is the bare relay with the best number of connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from .bed import Bed
from .objects import CONFIG_MAP, WRITERS, Effort, Stage, abba, changes, creations, numbered, path_of, stage
from .report import Line

_TIMEOUT_S = 600.0
_SETTLE_S = 1.0


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure `count` changes, each of another object."""
    async with stage(bed, "burst", effort=effort) as at:
        for client, namespace in ((at.source, at.bare), (at.sink, at.bare), (at.source, at.ours)):
            await client.send_all(creations(namespace, numbered(count)), connections=WRITERS)
        bed.apply_rule(at.ours, kind=CONFIG_MAP, namespace=at.ours)
        await at.wait_for_copies(count)
        await asyncio.sleep(_SETTLE_S)

        async def floor(connections: int) -> float:
            async with at.bare_relay(connections=connections):
                return await _burst(at, at.bare, count=count)

        async def ours() -> float:
            with bed.meter.working("burst", changes=count):
                taken_s = await _burst(at, at.ours, count=count)
                await asyncio.sleep(_SETTLE_S)
            return taken_s

        best = min([(await floor(connections), connections) for connections in effort.connections])[1]
        await ours()  # as warm as the floor
        floors, values = await abba(effort, lambda: floor(best), ours)
        bed.delete_rule(at.ours)
    return [Line(f"burst, {count:,} changes (floor: {best} connections)", floors, values, 1.2)]


async def _burst(at: Stage, namespace: str, *, count: int) -> float:
    """Change all objects, and return the seconds until all copies have the new value."""
    value = str(time.time_ns())
    path, requests = path_of(namespace), changes(namespace, numbered(count), value=value)
    async with asyncio.timeout(_TIMEOUT_S):
        async with at.sink.awaiting(path, count=count, matches=has_value(value)):
            started = time.perf_counter()
            await at.source.send_all(requests, connections=WRITERS)
        return time.perf_counter() - started


def has_value(value: str) -> Callable[[Any], bool]:
    """Return a function that matches the events of objects with this value."""
    return lambda event: event["object"].get("data", {}).get("value") == value
