"""Many objects of 1 KiB into an empty cluster: from the rule's making until the last copy is there.

The floor is one list at the source and a create for each object, at the best rate over some numbers of connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import orjson

from .bed import CONFIGMAPS, Bed
from .client import Client, Endpoint
from .report import Line

_CONNECTIONS = (8, 16, 32, 64)
_RATE_SAMPLE = 400
_SIZE_BYTES = 1024
_NAMESPACE = "bench-bulk"
_SCRATCH = "bench-bulk-bare"
_TIMEOUT_S = 1800.0
_SETTLE_S = 2.0
_KIND = {"group": "", "version": "v1", "kind": "ConfigMap"}


async def measure(bed: Bed, *, count: int, rounds: int) -> list[Line]:
    """Measure; each round is A B B A."""
    for namespace in (_NAMESPACE, _SCRATCH):
        bed.make_namespace(namespace)
    async with Client(Endpoint.of(bed.source)) as source, Client(Endpoint.of(bed.sink)) as sink:
        await _create(source, _NAMESPACE, range(count), connections=32)
        floor: list[float] = []
        ours: list[float] = []
        for _ in range(rounds):
            floor.append(await _floor(source, sink, count=count))
            ours.append(await _ours(bed, sink, count=count))
            ours.append(await _ours(bed, sink, count=count))
            floor.append(await _floor(source, sink, count=count))
    return [Line(f"bulk, {count} ConfigMaps of 1 KiB", floor, ours, 1.15)]


async def _floor(source: Client, sink: Client, *, count: int) -> float:
    """Return list + n / best rate, in seconds."""
    started = time.perf_counter()
    found = orjson.loads(await source.send("GET", f"{_path(_NAMESPACE)}?labelSelector=bench%3Dyes"))["items"]
    listed_s = time.perf_counter() - started
    assert len(found) == count, f"{len(found)} of {count} are there"
    sample = min(_RATE_SAMPLE, max(count, 64))
    rate = 0.0
    for connections in _CONNECTIONS:
        started = time.perf_counter()
        await _create(sink, _SCRATCH, range(sample), connections=connections)
        rate = max(rate, sample / (time.perf_counter() - started))
        await _clear(sink, _SCRATCH)
    return listed_s + count / rate


async def _ours(bed: Bed, sink: Client, *, count: int) -> float:
    """Return the seconds from the rule to the last copy, seen by a watch; then take all away."""
    path = f"{_path(_NAMESPACE)}?labelSelector=bench%3Dyes"
    version = await sink.version(path)
    async with asyncio.timeout(_TIMEOUT_S):
        async with aclosing(sink.chunks(path, version=version)) as chunks:
            await asyncio.to_thread(bed.apply_rule, "bench-bulk", namespace=_NAMESPACE, **_KIND)
            started = time.perf_counter()
            seen = 0
            async for chunk in chunks:
                seen += chunk.count(b"\n")
                if seen >= count:
                    break
            taken_s = time.perf_counter() - started
    await asyncio.sleep(_SETTLE_S)  # the echoes of the last writes are not what comes next
    bed.delete_rule("bench-bulk")
    await asyncio.sleep(_SETTLE_S)
    await _clear(sink, _NAMESPACE)
    return taken_s


async def _create(client: Client, namespace: str, numbers: Sequence[int], *, connections: int) -> None:
    """Create objects over so many connections at a time."""
    rest = iter(numbers)
    data = {"payload": "x" * (_SIZE_BYTES - 10)}

    async def work() -> None:
        for number in rest:
            metadata: dict[str, Any] = {"name": f"object-{number}", "labels": {"bench": "yes"}}
            await client.send("POST", _path(namespace), {"metadata": metadata, "data": data})

    async with asyncio.TaskGroup() as tasks:
        for number in range(connections):
            tasks.create_task(work(), name=f"create-{number}")


async def _clear(client: Client, namespace: str) -> None:
    await client.send("DELETE", f"{_path(namespace)}?labelSelector=bench%3Dyes")


def _path(namespace: str) -> str:
    return CONFIGMAPS.format(namespace=namespace)
