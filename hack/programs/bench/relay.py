"""One change at the source, in an idle group, until the copy at the sink has changed.

The clock starts when the source has acknowledged the change, and stops when a watch at the sink shows it. The floor is
the bare relay.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

from .bed import CONFIGMAPS, WIDGETS, YES, Bed
from .client import Client
from .objects import CONFIG_MAP, Effort, Stage, stage
from .report import Line, percentile

_PAUSE_S = 0.02
_TIMEOUT_S = 30.0
_KINDS = {
    "ConfigMap": (CONFIGMAPS, CONFIG_MAP),
    "custom resource": (WIDGETS, {"group": "bench.example.com", "version": "v1", "kind": "Widget"}),
}


async def measure(bed: Bed, *, effort: Effort) -> list[Line]:
    """Measure both kinds."""
    lines = []
    for name, (path, kind) in _KINDS.items():
        async with stage(bed, "relay", effort=effort) as at:
            bed.apply_rule(at.ours, kind=kind, namespace=at.ours)
            await _prepare(at, path, kind)
            async with at.bare_relay(path.format(namespace=at.bare)):
                lines += await _compare(at, path, name=f"relay, {name}")
            bed.delete_rule(at.ours)
    return lines


async def _compare(at: Stage, path: str, *, name: str) -> list[Line]:
    bare: list[list[float]] = []
    ours: list[list[float]] = []

    async def measure_bare(changes: int) -> None:
        bare.append(await latencies(at.source, at.sink, path.format(namespace=at.bare), changes=changes))

    async def measure_ours(changes: int) -> None:
        with at.bed.meter.working(name, changes=changes):
            ours.append(await latencies(at.source, at.sink, path.format(namespace=at.ours), changes=changes))

    for warm in (measure_bare, measure_ours):
        await warm(5)
    for measured in (bare, ours):
        measured.clear()
    for _ in range(at.effort.rounds):
        for block in (measure_bare, measure_ours, measure_ours, measure_bare):
            await block(at.effort.changes)
    return [
        Line(f"{name}, {label}", [percentile(b, q) for b in bare], [percentile(b, q) for b in ours], most)
        for label, q, most in (("p50", 0.5, 1.1), ("p99", 0.99, 1.25))
    ]


async def latencies(source: Client, sink: Client, path: str, *, changes: int) -> list[float]:
    """Change the object `one` repeatedly, each time waiting for the copy; return the seconds."""
    version = await sink.version(path)
    taken: list[float] = []
    async with aclosing(sink.watch(path, version=version)) as events:
        for number in range(changes):
            value = f"{time.time_ns()}-{number}"
            await source.send("PATCH", f"{path}/one", {"data": {"value": value}})
            started = time.perf_counter()
            async with asyncio.timeout(_TIMEOUT_S):
                async for event in events:
                    if event["object"].get("data", {}).get("value") == value:
                        break
            taken.append(time.perf_counter() - started)
            await asyncio.sleep(_PAUSE_S)
    return taken


async def _prepare(at: Stage, path: str, kind: dict[str, str]) -> None:
    """Create the objects at the source, and the bare copy; wait for ours."""
    api_version = f"{kind['group']}/{kind['version']}".removeprefix("/")
    body: dict[str, Any] = {"apiVersion": api_version, "kind": kind["kind"], "data": {"value": "0"}}
    for client, namespace in ((at.source, at.bare), (at.sink, at.bare), (at.source, at.ours)):
        await client.send(
            "POST", path.format(namespace=namespace), {**body, "metadata": {"name": "one", "labels": YES}}
        )
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            try:
                await at.sink.send("GET", f"{path.format(namespace=at.ours)}/one")
                return
            except RuntimeError:
                await asyncio.sleep(0.1)
