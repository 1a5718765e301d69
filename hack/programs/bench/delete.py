"""Many objects are deleted at their owner: from the first deletion until the last copy is gone.

The floor is as many bare deletions at the sink, at the best rate. The deletion limiter is off.
"""

from __future__ import annotations

import asyncio
import functools
import time

from .bed import Bed
from .objects import CONFIG_MAP, WRITERS, Effort, Stage, abba, best_rate, creations, deletions, numbered, path_of, stage
from .report import Bound, Line

_TIMEOUT_S = 600.0
_SETTLE_S = 1.0


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure `count` deletions, and how many GETs at the owner each takes."""
    gets: list[float] = []
    async with stage(bed, "delete", effort=effort) as at:
        bed.apply_rule(at.ours, kind=CONFIG_MAP, namespace=at.ours)

        async def floor() -> float:
            scratch = functools.partial(deletions, at.bare)
            return count / await best_rate(
                at.sink,
                scratch,
                effort=effort,
                before=lambda names: at.sink.send_all(creations(at.bare, names), connections=WRITERS),
            )

        async def ours() -> float:
            taken_s, requested = await _ours(at, names=numbered(count))
            gets.append(requested / count)
            return taken_s

        floors, values = await abba(effort, floor, ours)
        bed.delete_rule(at.ours)
    return [
        Line(f"delete, {count:,} objects at their owner", floors, values, 1.2),
        Line("delete, GETs at the owner for each object", [], gets, 1.0, Bound.COUNT),
    ]


async def _ours(at: Stage, *, names: list[str]) -> tuple[float, int]:
    """Create objects, delete them when their copies exist; return the seconds, and the GETs at the source."""
    await at.source.send_all(creations(at.ours, names), connections=WRITERS)
    await at.wait_for_copies(len(names))
    await asyncio.sleep(_SETTLE_S)
    offset = at.bed.source.audit_offset()
    with at.bed.meter.working("delete", changes=len(names)):
        async with asyncio.timeout(_TIMEOUT_S):
            async with at.sink.awaiting(
                path_of(at.ours), count=len(names), matches=lambda event: event["type"] == "DELETED"
            ):
                started = time.perf_counter()
                await at.source.send_all(deletions(at.ours, names), connections=WRITERS)
            taken_s = time.perf_counter() - started
        await asyncio.sleep(_SETTLE_S)
    return taken_s, at.bed.requests_of_reader(offset)["get"]
