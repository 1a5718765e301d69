"""One change at the source, in an idle group, until its copy has changed at the sink.

The clock starts when the source has acknowledged the change and stops when a watch at the sink shows it, for the bare
relay and for ours alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, aclosing
from typing import Any

from .bed import CONFIGMAPS, WIDGETS, Bed, spell
from .client import Client, Endpoint
from .report import Line, percentile

_PAUSE_S = 0.02
_TIMEOUT_S = 30.0
_BARE, _OURS = "bench-bare", "bench-ours"
_KINDS = {
    "ConfigMap": (CONFIGMAPS, {"group": "", "version": "v1", "kind": "ConfigMap"}),
    "custom resource": (WIDGETS, {"group": "bench.example.com", "version": "v1", "kind": "Widget"}),
}


async def measure(bed: Bed, *, rounds: int, changes: int) -> list[Line]:
    """Measure both kinds; each round is A B B A."""
    for namespace in (_BARE, _OURS):
        bed.make_namespace(namespace)
    lines = []
    for name, (path, kind) in _KINDS.items():
        bed.apply_rule(f"bench-{kind['kind'].lower()}", namespace=_OURS, **kind)
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(Client(Endpoint.of(bed.source)))
            sink = await stack.enter_async_context(Client(Endpoint.of(bed.sink)))
            await _prepare(source, sink, path, kind)
            await stack.enter_async_context(_bare_relay(bed, path.format(namespace=_BARE)))
            lines += await _compare(source, sink, path, name=name, rounds=rounds, changes=changes)
        bed.delete_rule(f"bench-{kind['kind'].lower()}")
    return lines


async def _compare(source: Client, sink: Client, path: str, *, name: str, rounds: int, changes: int) -> list[Line]:
    bare: list[list[float]] = []
    ours: list[list[float]] = []
    for namespace in (_BARE, _OURS):  # both connections are warm before the first is timed
        await _block(source, sink, path.format(namespace=namespace), changes=5)
    for _ in range(rounds):
        for namespace, into in ((_BARE, bare), (_OURS, ours), (_OURS, ours), (_BARE, bare)):
            into.append(await _block(source, sink, path.format(namespace=namespace), changes=changes))
    return [
        Line(f"relay, {name}, {label}", [percentile(b, q) for b in bare], [percentile(b, q) for b in ours], most)
        for label, q, most in (("p50", 0.5, 1.1), ("p99", 0.99, 1.25))
    ]


async def _block(source: Client, sink: Client, path: str, *, changes: int) -> list[float]:
    """Change the object again and again, each time waiting for the copy; return the seconds."""
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


async def _prepare(source: Client, sink: Client, path: str, kind: dict[str, str]) -> None:
    """Make the objects at the source, and the bare copy; wait for ours."""
    api_version = f"{kind['group']}/{kind['version']}".removeprefix("/")
    body: dict[str, Any] = {"apiVersion": api_version, "kind": kind["kind"], "data": {"value": "0"}}
    for client, namespace in ((source, _BARE), (sink, _BARE), (source, _OURS)):
        metadata = {"name": "one", "labels": {"bench": "yes"}}
        await client.send("POST", path.format(namespace=namespace), {**body, "metadata": metadata})
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            try:
                await sink.send("GET", f"{path.format(namespace=_OURS)}/one")
                return
            except RuntimeError:
                await asyncio.sleep(0.1)


class _bare_relay:  # noqa: N801 - a context manager, used like a function
    """Run the bare relay in a process of its own, as the daemon is one."""

    def __init__(self, bed: Bed, path: str) -> None:
        source, sink = Endpoint.of(bed.source).spelled(), Endpoint.of(bed.sink).spelled()
        self._spec = spell({"source": source, "sink": sink, "path": path})

    async def __aenter__(self) -> None:
        command = (sys.executable, "-m", "hack.programs.bench.relaying", self._spec)
        self._process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        assert self._process.stdout is not None
        await self._process.stdout.readline()
        await asyncio.sleep(0.3)  # its watch is open a moment after it said so

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        await self._process.wait()
