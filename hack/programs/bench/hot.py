"""One object is changed 20 times a second: from the last change until its copy has the last value.

The floor is the bare relay.
"""

from __future__ import annotations

import asyncio
import time

from .bed import Bed
from .burst import has_value
from .objects import CONFIG_MAP, Effort, Stage, abba, creations, path_of, stage
from .report import Line

_PERIOD_S = 0.05
_TIMEOUT_S = 60.0


async def measure(bed: Bed, *, effort: Effort) -> list[Line]:
    """Measure one object."""
    count = max(1, int(effort.seconds / _PERIOD_S))
    async with stage(bed, "hot", effort=effort) as at:
        for client, namespace in ((at.source, at.bare), (at.sink, at.bare), (at.source, at.ours)):
            await client.send_all(creations(namespace, ["one"]), connections=1)
        bed.apply_rule(at.ours, kind=CONFIG_MAP, namespace=at.ours)
        await at.wait_for_copies(1)

        async def ours() -> float:
            with bed.meter.working("hot", changes=count):
                return await _heat(at, at.ours, count=count)

        async with at.bare_relay():
            floors, values = await abba(effort, lambda: _heat(at, at.bare, count=count), ours)
        bed.delete_rule(at.ours)
    return [Line(f"hot, 20 changes a second for {effort.seconds:g} s", floors, values, 1.5)]


async def _heat(at: Stage, namespace: str, *, count: int) -> float:
    """Change the object so often; return the seconds from the acknowledgement of the last change to the last copy."""
    values = [f"{time.time_ns()}-{number}" for number in range(count)]
    async with asyncio.timeout(count * _PERIOD_S + _TIMEOUT_S):
        async with at.sink.awaiting(path_of(namespace), count=1, matches=has_value(values[-1])):
            began = time.perf_counter()
            for number, value in enumerate(values):
                await asyncio.sleep(began + number * _PERIOD_S - time.perf_counter())
                await at.source.send("PATCH", path_of(namespace, "one"), {"data": {"value": value}})
            changed = time.perf_counter()
        return time.perf_counter() - changed
