"""Many objects are deleted at their owner: from the first deletion until the last copy is gone.

There are two floors: as many bare deletions at the sink, at the best rate; and a bare relay of the same deletions, with
the best number of connections. The second one contains the deletions and the reads at the owner, which take a large
part of a machine that runs both API servers.

The deletion limiter works, as in production: its work is part of a deletion. It allows all copies to go, because the
measurements of five minutes are one window of the owner (W4), and delete more than the default of one half. Each
measurement has its own rule, with more than twice as many objects.
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
    relays: list[float] = []

    async def ours() -> float:
        async with stage(bed, "delete", effort=effort) as at:
            taken_s, requested = await _ours(at, count=count)
        gets.append(requested / count)
        return taken_s

    async with stage(bed, "delete", effort=effort) as at:
        tried = [(await _relay(at, count=count, connections=number), number) for number in effort.connections]
        best = min(tried)[1]

        async def floor() -> float:
            relays.append(await _relay(at, count=count, connections=best))
            return await _floor(at, count=count)

        floors, values = await abba(effort, floor, ours)
    name = f"delete, {count:,} objects at their owner"
    return [
        Line(name, floors, values, 1.2),
        Line(f"delete, {count:,} (floor: bare relay, {best} connections)", relays, values, 1.2),
        Line("delete, GETs at the owner for each object", [], gets, 1.0, Bound.COUNT),
    ]


async def _floor(at: Stage, *, count: int) -> float:
    """Return n / best rate, in seconds."""

    async def create(names: Sequence[str]) -> None:
        await at.sink.send_all(creations(at.bare, names), connections=WRITERS)

    return count / await best_rate(at.sink, functools.partial(deletions, at.bare), effort=at.effort, before=create)


async def _relay(at: Stage, *, count: int, connections: int) -> float:
    """Return the seconds of a bare relay of the deletions."""
    names = numbered(count)
    for client in (at.source, at.sink):
        await client.send_all(creations(at.bare, names), connections=WRITERS)
    async with at.bare_relay(connections=connections, is_of_deletions=True):
        return await _deleted_s(at, at.bare, names)


async def _deleted_s(at: Stage, namespace: str, names: Sequence[str]) -> float:
    """Delete objects at the source, and return the seconds until all copies are gone."""
    async with asyncio.timeout(_TIMEOUT_S):
        async with at.sink.awaiting(
            path_of(namespace), count=len(names), matches=lambda event: event["type"] == "DELETED"
        ):
            started = time.perf_counter()
            await at.source.send_all(deletions(namespace, names), connections=WRITERS)
        return time.perf_counter() - started


async def _ours(at: Stage, *, count: int) -> tuple[float, int]:
    """Create objects, delete them when their copies exist; return the seconds, and the GETs at the source."""
    names = numbered(2 * count + 2)
    await at.source.send_all(creations(at.ours, names), connections=WRITERS)
    at.bed.apply_rule(at.ours, kind=CONFIG_MAP, namespace=at.ours)
    await at.wait_for_copies(len(names))
    await asyncio.sleep(_SETTLE_S)
    offset = at.bed.source.audit_offset()
    with at.bed.meter.working("delete", changes=count):
        taken_s = await _deleted_s(at, at.ours, names[:count])
        await asyncio.sleep(_SETTLE_S)
    requested = at.bed.requests_of_reader(offset)["get"]
    at.bed.delete_rule(at.ours)
    for client in (at.source, at.sink):
        await clear(client, at.ours)
    return taken_s, requested
