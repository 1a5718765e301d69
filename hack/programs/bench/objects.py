"""ConfigMaps of 1 KiB in one namespace, and the best rate at which the barest client writes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from .bare_relay import bare_relay
from .bed import CONFIGMAPS, YES, Bed
from .client import Client, Endpoint, Request

CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap"}
WRITERS = 32
"""Connections for writes that are not measured, and for the source's changes."""
_SIZE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work. rounds: of A B B A. changes: of one object in a block. seconds: duration of a block of hot.

    connections: the numbers of connections that the floor tries. sample: the requests that measure a rate.
    """

    rounds: int = 3
    changes: int = 100
    seconds: float = 60.0
    connections: Sequence[int] = (8, 16, 32, 64)
    sample: int = 400


@dataclass(frozen=True, slots=True)
class Stage:
    """The place of one work: a client of each cluster, a namespace for the floor (bare), and one for us (ours)."""

    bed: Bed
    source: Client
    sink: Client
    bare: str
    ours: str
    effort: Effort

    def bare_relay(
        self, path: str = "", *, connections: int = 1, is_of_deletions: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Run the bare relay of the floor's ConfigMaps, or of another collection."""
        ends = (Endpoint.of(self.bed.source), Endpoint.of(self.bed.sink))
        path = path or path_of(self.bare)
        return bare_relay(*ends, path, connections=connections, is_of_deletions=is_of_deletions)

    async def wait_for_copies(self, count: int, *, timeout_s: float = 600.0) -> None:
        """Wait until our namespace holds so many copies."""
        async with asyncio.timeout(timeout_s):
            while await self._copies() != count:  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(0.2)

    async def _copies(self) -> int:
        return len(orjson.loads(await self.sink.send("GET", f"{path_of(self.ours)}?labelSelector=bench"))["items"])


@asynccontextmanager
async def stage(bed: Bed, name: str, *, effort: Effort) -> AsyncIterator[Stage]:
    """Create the namespaces of a work, and connect to both clusters."""
    bare, ours = (bed.create_namespace(prefix) for prefix in (f"bench-{name}-bare", f"bench-{name}"))
    async with Client(Endpoint.of(bed.source)) as source, Client(Endpoint.of(bed.sink)) as sink:
        yield Stage(bed, source, sink, bare, ours, effort)


async def abba(
    effort: Effort, floor: Callable[[], Awaitable[float]], ours: Callable[[], Awaitable[float]]
) -> tuple[list[float], list[float]]:
    """Measure floor, ours, ours, floor in each round; return the values of the floor, and ours."""
    floors: list[float] = []
    values: list[float] = []
    for _ in range(effort.rounds):
        floors.append(await floor())
        values.append(await ours())
        values.append(await ours())
        floors.append(await floor())
    return floors, values


def path_of(namespace: str, name: str = "") -> str:
    """Return the path of the collection, or of one object in it."""
    return CONFIGMAPS.format(namespace=namespace) + (f"/{name}" if name else "")


def creations(namespace: str, names: Sequence[str], *, labels: dict[str, str] | None = None) -> list[Request]:
    """Return the requests that create objects of 1 KiB."""
    data = {"payload": "x" * (_SIZE_BYTES - 10)}
    body: dict[str, Any] = {"data": data}
    path = path_of(namespace)
    return [("POST", path, {**body, "metadata": {"name": name, "labels": labels or YES}}) for name in names]


def changes(namespace: str, names: Sequence[str], *, value: str) -> list[Request]:
    """Return the requests that change one field of objects."""
    return [("PATCH", path_of(namespace, name), {"data": {"value": value}}) for name in names]


def deletions(namespace: str, names: Sequence[str]) -> list[Request]:
    """Return the requests that delete objects one by one."""
    return [("DELETE", path_of(namespace, name), None) for name in names]


async def clear(client: Client, namespace: str) -> None:
    """Delete all objects of a namespace that were created here."""
    await client.send("DELETE", f"{path_of(namespace)}?labelSelector=bench")


def numbered(count: int) -> list[str]:
    """Return so many names."""
    return [f"object-{number}" for number in range(count)]


async def best_rate(
    client: Client,
    requests: Callable[[Sequence[str]], list[Request]],
    *,
    effort: Effort,
    before: Callable[[Sequence[str]], Awaitable[None]] | None = None,
    after: Callable[[], Awaitable[None]] | None = None,
) -> float:
    """Return the requests a second at the best number of connections; `before` and `after` are not measured."""
    names = numbered(effort.sample)
    rate = 0.0
    for connections in effort.connections:
        if before is not None:
            await before(names)
        prepared = requests(names)
        started = time.perf_counter()
        await client.send_all(prepared, connections=connections)
        rate = max(rate, len(names) / (time.perf_counter() - started))
        if after is not None:
            await after()
    return rate
