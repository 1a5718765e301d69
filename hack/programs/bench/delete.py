"""Many objects are deleted at their owner: from the first deletion until the last copy is gone.

The floor is as many bare deletions at the sink, at the best rate.

The deletion limiter has its default, as in production: its work is part of a deletion. In five minutes it allows the
deletion of half of a rule's copies. So each measurement has its own rule, with more than twice as many objects.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence

from .bed import Bed
from .objects import (
    CONFIG_MAP,
    WRITERS,
    Effort,
    Stage,
    abba,
    best_rate,
    clear,
    creations,
    deletions,
    numbered,
    path_of,
    stage,
)
from .report import Bound, Line

_TIMEOUT_S = 600.0
_SETTLE_S = 1.0


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure `count` deletions, and how many GETs at the owner each takes."""
    gets: list[float] = []

    async def ours() -> float:
        async with stage(bed, "delete", effort=effort) as at:
            taken_s, requested = await _ours(at, count=count)
        gets.append(requested / count)
        return taken_s

    async with stage(bed, "delete", effort=effort) as at:
        floors, values = await abba(effort, lambda: _floor(at, count=count), ours)
    return [
        Line(f"delete, {count:,} objects at their owner", floors, values, 1.2),
        Line("delete, GETs at the owner for each object", [], gets, 1.0, Bound.COUNT),
    ]


async def _floor(at: Stage, *, count: int) -> float:
    """Return n / best rate, in seconds."""

    async def create(names: Sequence[str]) -> None:
        await at.sink.send_all(creations(at.bare, names), connections=WRITERS)

    return count / await best_rate(at.sink, functools.partial(deletions, at.bare), effort=at.effort, before=create)


async def _ours(at: Stage, *, count: int) -> tuple[float, int]:
    """Create objects, delete them when their copies exist; return the seconds, and the GETs at the source."""
    names = numbered(2 * count + 2)
    await at.source.send_all(creations(at.ours, names), connections=WRITERS)
    at.bed.apply_rule(at.ours, kind=CONFIG_MAP, namespace=at.ours)
    await at.wait_for_copies(len(names))
    await asyncio.sleep(_SETTLE_S)
    offset = at.bed.source.audit_offset()
    with at.bed.meter.working("delete", changes=count):
        async with asyncio.timeout(_TIMEOUT_S):
            async with at.sink.awaiting(
                path_of(at.ours), count=count, matches=lambda event: event["type"] == "DELETED"
            ):
                started = time.perf_counter()
                await at.source.send_all(deletions(at.ours, names[:count]), connections=WRITERS)
            taken_s = time.perf_counter() - started
        await asyncio.sleep(_SETTLE_S)
    requested = at.bed.requests_of_reader(offset)["get"]
    at.bed.delete_rule(at.ours)
    for client in (at.source, at.sink):
        await clear(client, at.ours)
    return taken_s, requested
