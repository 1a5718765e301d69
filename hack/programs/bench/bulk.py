"""Many objects of 1 KiB into an empty cluster: from the rule's creation until the last copy exists.

The floor is one list at the source, and a create for each object at the best rate.

Each measurement has a namespace of its own. Where a copy went before, the daemon asks the owner once before it makes
the next one (A7), and that is not the work that is measured.
"""

from __future__ import annotations

import asyncio
import functools
import time
from contextlib import aclosing

import orjson

from .bed import Bed
from .objects import CONFIG_MAP, WRITERS, Effort, Stage, abba, best_rate, clear, creations, numbered, path_of, stage
from .report import Line

_TIMEOUT_S = 1800.0
_SETTLE_S = 2.0
_LARGE = 100_000


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure `count` objects."""

    async def ours() -> float:
        async with stage(bed, "bulk", effort=effort) as at:
            return await _ours(at, count=count)

    async with stage(bed, "bulk", effort=effort) as at:
        await at.source.send_all(creations(at.bare, numbered(count)), connections=WRITERS)
        floors, values = await abba(effort, lambda: _floor(at, count=count), ours)
        await clear(at.source, at.bare)
    return [Line(f"bulk, {count:,} ConfigMaps of 1 KiB", floors, values, 1.2 if count >= _LARGE else 1.15)]


async def _floor(at: Stage, *, count: int) -> float:
    """Return list + n / best rate, in seconds."""
    started = time.perf_counter()
    found = orjson.loads(await at.source.send("GET", _labelled(at.bare)))["items"]
    listed_s = time.perf_counter() - started
    assert len(found) == count, f"{len(found)} of {count} exist"
    scratch = functools.partial(creations, at.bare)
    rate = await best_rate(at.sink, scratch, effort=at.effort, after=lambda: clear(at.sink, at.bare))
    return listed_s + count / rate


async def _ours(at: Stage, *, count: int) -> float:
    """Return the seconds from the rule to the last copy, seen by a watch; then delete rule, copies and objects."""
    await at.source.send_all(creations(at.ours, numbered(count)), connections=WRITERS)
    version = await at.sink.version(_labelled(at.ours))
    with at.bed.meter.working("bulk", changes=count):
        async with asyncio.timeout(_TIMEOUT_S), aclosing(at.sink.chunks(_labelled(at.ours), version=version)) as chunks:
            await asyncio.to_thread(at.bed.apply_rule, at.ours, kind=CONFIG_MAP, namespace=at.ours)
            started = time.perf_counter()
            seen = 0
            async for chunk in chunks:
                seen += chunk.count(b"\n")
                if seen >= count:
                    break
            taken_s = time.perf_counter() - started
        await asyncio.sleep(_SETTLE_S)  # the daemon still receives the events of its last writes
    at.bed.delete_rule(at.ours)
    await asyncio.sleep(_SETTLE_S)
    for client in (at.source, at.sink):
        await clear(client, at.ours)
    return taken_s


def _labelled(namespace: str) -> str:
    return f"{path_of(namespace)}?labelSelector=bench%3Dyes"
