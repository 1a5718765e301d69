"""A rule is edited: one that concerns one object, beside one that holds many; then the one that holds many.

The clock starts when the sink has acknowledged the edit, and stops when a watch there shows the last copy. For the
small rule, the floor is the bare relay of one change; CPU and requests are those until one second after its copy, and
the floor of CPU is the same edit while the large rule holds nothing. For the large rule, the floor is as many bare
patches at the best rate.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import time
from dataclasses import dataclass, field

from .bed import YES, Bed
from .objects import CONFIG_MAP, WRITERS, Effort, Stage, abba, best_rate, changes, creations, numbered, path_of, stage
from .relay import latencies
from .report import Bound, Line

_ONE, _MANY = {"bench": "one"}, {"bench": "many"}
_BLOCK = 10
"""Changes in one block of the floor, of which the median counts."""
_WINDOW_S = 1.0
_TIMEOUT_S = 600.0


@dataclass(slots=True)
class _Edits:
    """Edits of the small rule: CPU seconds of the daemon, and lists and all requests at the peer, of each edit."""

    cpu_s: list[float] = field(default_factory=list)
    lists: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure an edit beside `count` objects, and one of the rule that holds them."""
    async with stage(bed, "edit", effort=effort) as at:
        for labels in (_ONE, _MANY):
            bed.apply_rule(_rule(at, labels), kind=CONFIG_MAP, namespace=at.ours, labels=labels)
        for client, namespace, labels in (
            (at.source, at.bare, YES),
            (at.sink, at.bare, YES),
            (at.source, at.ours, _ONE),
        ):
            await client.send_all(creations(namespace, ["one"], labels=labels), connections=1)
        await at.wait_for_copies(1)
        async with at.bare_relay():
            lines = await _measure_one(at, count=count)
        lines += await _measure_all(at, count=count)
        for labels in (_ONE, _MANY):
            bed.delete_rule(_rule(at, labels))
    return lines


async def _measure_one(at: Stage, *, count: int) -> list[Line]:
    async def floor() -> float:
        return statistics.median(await latencies(at.source, at.sink, path_of(at.bare), changes=_BLOCK))

    warm, alone, beside = _Edits(), _Edits(), _Edits()
    await floor()
    await _edit_one(at, into=warm)
    for _ in range(2 * at.effort.rounds):
        await _edit_one(at, into=alone)
    await at.source.send_all(creations(at.ours, numbered(count), labels=_MANY), connections=WRITERS)
    await at.wait_for_copies(count + 1)
    await asyncio.sleep(2 * _WINDOW_S)
    floors, values = await abba(at.effort, floor, lambda: _edit_one(at, into=beside))
    name = f"edit of 1 beside {count:,}"
    return [
        Line(f"{name}, until its copy", floors, values, 0.02, Bound.EXTRA),
        Line(f"{name}, CPU (floor: beside 0)", alone.cpu_s, beside.cpu_s, 1.2),
        Line(f"{name}, lists at the peer", [], beside.lists, 1, Bound.COUNT),
        Line(f"{name}, requests at the peer", [], beside.requests, 1, Bound.COUNT),
    ]


async def _edit_one(at: Stage, *, into: _Edits) -> float:
    cpu_s, offset = at.bed.meter.cpu_s(), at.bed.source.audit_offset()
    with at.bed.meter.working("edit of 1", changes=1):
        taken_s = await _edit(at, labels=_ONE, count=1)
        await asyncio.sleep(_WINDOW_S)
    requests = at.bed.requests_of_reader(offset)
    into.cpu_s.append(at.bed.meter.cpu_s() - cpu_s)
    into.lists.append(requests["list"])
    into.requests.append(requests.total())
    return taken_s


async def _measure_all(at: Stage, *, count: int) -> list[Line]:
    await at.sink.send_all(creations(at.bare, numbered(at.effort.sample)), connections=WRITERS)

    async def floor() -> float:
        patches = functools.partial(changes, at.bare, value=str(time.time_ns()))
        return count / await best_rate(at.sink, patches, effort=at.effort)

    async def ours() -> float:
        with at.bed.meter.working("edit of all", changes=count):
            taken_s = await _edit(at, labels=_MANY, count=count)
            await asyncio.sleep(2 * _WINDOW_S)
        return taken_s

    floors, values = await abba(at.effort, floor, ours)
    return [Line(f"edit of a rule so that {count:,} copies change", floors, values, 0.7)]


async def _edit(at: Stage, *, labels: dict[str, str], count: int) -> float:
    """Edit a rule, and return the seconds until `count` copies have changed."""
    value = f"v{time.time_ns()}"
    edit = functools.partial(at.bed.label_copies, _rule(at, labels), namespace=at.ours, labels=labels)
    async with asyncio.timeout(_TIMEOUT_S):
        async with at.sink.awaiting(
            path_of(at.ours),
            count=count,
            matches=lambda event: event["object"]["metadata"]["labels"].get("edited") == value,
        ):
            await asyncio.to_thread(edit, add={"edited": value})
            started = time.perf_counter()
        return time.perf_counter() - started


def _rule(at: Stage, labels: dict[str, str]) -> str:
    return f"{at.ours}-{labels['bench']}"
