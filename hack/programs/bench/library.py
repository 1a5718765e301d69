"""`registry_controller.group` beside a bare watch of one member: objects a second, latency, and memory.

The floor of the objects is a bare watch with initial events, whose lines are decoded by orjson; ours ends at SYNCED.
The floor of the latency is a bare watch that is open. Memory is the growth of this process with a watch of metadata.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import yaml

from hack.controlplane import Cluster
from registry_controller.group import EventType, Group, Watch

from .bed import YES, Bed
from .objects import WRITERS, Effort, Stage, abba, creations, numbered, path_of, stage
from .report import Bound, Line, percentile

_INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
_TIMEOUT_S = 120.0
_PAUSE_S = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def measure(bed: Bed, *, count: int, effort: Effort) -> list[Line]:
    """Measure `count` objects."""
    async with stage(bed, "library", effort=effort) as at, _group(bed.source) as group:
        await at.source.send_all(creations(at.ours, numbered(count)), connections=WRITERS)
        lines = [await _measure_memory(group, at, count=count)]  # before anything else has grown the heap
        for name, metadata_only, least in (("metadata", True, 0.7), ("objects", False, 0.5)):
            ours_alone = functools.partial(_read, group, at, count=count, metadata_only=metadata_only)
            floor, ours = await abba(effort, lambda: _read_bare(at, count=count), ours_alone)
            lines.append(Line(f"library, {count:,} ConfigMaps, {name}", floor, ours, 1 / least))
        lines += await _measure_latency(group, at)
    return lines


@asynccontextmanager
async def _group(cluster: Cluster) -> AsyncIterator[Group]:
    """Engage one cluster, and wait until it is connected."""
    context = str(yaml.safe_load(cluster.kubeconfig.read_text())["current-context"])
    async with Group.from_contexts([context], kubeconfig=Path(cluster.kubeconfig)) as group:
        async with asyncio.timeout(_TIMEOUT_S):
            await group.wait_known()
            while not group[context].is_connected:  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(0.01)
        yield group


async def _read_bare(at: Stage, *, count: int) -> float:
    """Return the seconds until a bare watch has decoded all existing objects."""
    started, seen = time.perf_counter(), 0
    async with asyncio.timeout(_TIMEOUT_S), aclosing(at.source.watch(_selected(at, _INITIAL), version="")) as events:
        async for event in events:
            if event["type"] == "BOOKMARK":
                break
            seen += 1
    assert seen == count, f"{seen} of {count} objects came"
    return time.perf_counter() - started


async def _read(group: Group, at: Stage, *, count: int, metadata_only: bool) -> float:
    """Return the seconds until the library has delivered all existing objects."""
    started, seen = time.perf_counter(), 0
    async with asyncio.timeout(_TIMEOUT_S), _watch(group, at, metadata_only=metadata_only) as watch:
        async for event in watch:
            if event.type is EventType.SYNCED:
                break
            seen += 1
    assert seen == count, f"{seen} of {count} objects came"
    return time.perf_counter() - started


async def _measure_latency(group: Group, at: Stage) -> list[Line]:
    """Compare the time from the request for a change until the change is seen."""
    bare, ours = list[list[float]](), list[list[float]]()
    for block in [(), *[("bare", "ours", "ours", "bare")] * at.effort.rounds]:
        for name in block or ("bare", "ours"):
            values = _bare_values(at) if name == "bare" else _values(group, at)
            async with asyncio.timeout(_TIMEOUT_S), aclosing(values):
                taken = await _latencies(at, values, changes=at.effort.changes if block else 5)
            if block:
                (bare if name == "bare" else ours).append(taken)
    return [
        Line(f"library, one change, {label}", [percentile(b, q) for b in bare], [percentile(b, q) for b in ours], most)
        for label, q, most in (("p50", 0.5, 1.2), ("p99", 0.99, 1.5))
    ]


async def _bare_values(at: Stage) -> AsyncGenerator[str, None]:
    """Yield the values of changed objects, as a bare watch shows them; an empty one first, when it is open."""
    version = await at.source.version(_selected(at, ""))
    yield ""
    async with aclosing(at.source.watch(_selected(at, ""), version=version)) as events:
        async for event in events:
            yield str(event["object"]["data"].get("value"))


async def _values(group: Group, at: Stage) -> AsyncGenerator[str, None]:
    """Yield the values of changed objects, as the library shows them; an empty one first, when it is open."""
    async with _watch(group, at, metadata_only=False) as watch:
        async for event in watch:
            if event.type is EventType.SYNCED:
                break
        yield ""
        async for event in watch:
            if event.object is not None:
                yield str(event.object.manifest["data"].get("value"))


async def _latencies(at: Stage, values: AsyncGenerator[str, None], *, changes: int) -> list[float]:
    """Change one object repeatedly, each time waiting until its value is seen; return the seconds."""
    path, taken = path_of(at.ours, numbered(1)[0]), list[float]()
    await anext(values)
    for number in range(changes):
        value, started = await _change(at, path, number)
        async for seen in values:
            if seen == value:
                break
        taken.append(time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_S)
    return taken


async def _change(at: Stage, path: str, number: int) -> tuple[str, float]:
    """Change an object; return its new value, and when the request for it began."""
    value, started = f"{time.time_ns()}-{number}", time.perf_counter()
    await at.source.send("PATCH", path, {"data": {"value": value}})
    return value, started


async def _measure_memory(group: Group, at: Stage, *, count: int) -> Line:
    """Measure the bytes of each object that a watch of metadata keeps."""
    gc.collect()
    before = _resident_bytes()
    async with _watch(group, at, metadata_only=True) as watch:
        async for event in watch:
            if event.type is EventType.SYNCED:
                break
        gc.collect()
        grown = max(0, _resident_bytes() - before)
    return Line(f"library, bytes for each of {count:,} objects, metadata", [], [grown / count], 3000, Bound.COUNT)


def _watch(group: Group, at: Stage, *, metadata_only: bool) -> Watch:
    labels = ",".join(f"{name}={value}" for name, value in YES.items())
    return group.watch("configmaps", namespace=at.ours, label_selector=labels, metadata_only=metadata_only)


def _selected(at: Stage, query: str) -> str:
    return f"{path_of(at.ours)}?labelSelector=bench%3Dyes{'&' if query else ''}{query}"


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
