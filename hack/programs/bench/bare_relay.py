"""The floor of a relay: watch one collection on one API server, and write each change to the other. No logic.

Runs as a program: `python -m hack.programs.bench.bare_relay SPEC`. SPEC is JSON: source and sink (endpoints), path,
connections and is_of_deletions. One connection is one task that writes each change before it reads the next.

A relay of changes replaces the copy. A relay of deletions reads the object by name at the source, as the proof of a
deletion does, and deletes the copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import uvloop

from .client import Client, Endpoint

_OPEN_S = 0.3
"""The program prints `ready` just before it opens its watch."""


@asynccontextmanager
async def bare_relay(
    source: Endpoint, sink: Endpoint, path: str, *, connections: int = 1, is_of_deletions: bool = False
) -> AsyncIterator[None]:
    """Run the bare relay in its own process, as the daemon runs in one; the copies must exist."""
    spec = {
        "source": source.as_json(),
        "sink": sink.as_json(),
        "path": path,
        "connections": connections,
        "is_of_deletions": is_of_deletions,
    }
    command = (sys.executable, "-m", "hack.programs.bench.bare_relay", json.dumps(spec))
    # With a session of its own, as the daemon has one: Linux shares the CPU between sessions first (autogroup).
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(_OPEN_S)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _relay(spec: dict[str, Any]) -> None:
    """Relay until the process is ended."""
    path, connections = spec["path"], spec["connections"]
    async with (
        Client(Endpoint(**spec["source"]), connections=connections + 1, silence_s=None) as source,
        Client(Endpoint(**spec["sink"]), connections=connections) as sink,
        asyncio.TaskGroup() as tasks,
    ):
        copies = orjson.loads(await sink.send("GET", path))["items"]
        versions = {copy["metadata"]["name"]: copy["metadata"]["resourceVersion"] for copy in copies}

        async def write(changed: Any) -> None:
            name = changed["metadata"]["name"]
            body = {**changed, "metadata": {"name": name, "resourceVersion": versions[name]}}
            stored = await sink.send("PUT", f"{path}/{name}", body)
            versions[name] = orjson.loads(stored)["metadata"]["resourceVersion"]

        async def delete(gone: Any) -> None:
            name = gone["metadata"]["name"]
            if not await source.exists(f"{path}/{name}"):
                await sink.send("DELETE", f"{path}/{name}")

        async def work() -> None:
            while True:
                await relay(await changes.get())

        relayed, relay = ("DELETED", delete) if spec["is_of_deletions"] else ("MODIFIED", write)

        changes: asyncio.Queue[Any] = asyncio.Queue()
        for number in range(connections if connections > 1 else 0):
            tasks.create_task(work(), name=f"write-{number}")
        version = await source.version(path)
        print("ready", flush=True)
        async for event in source.watch(path, version=version):
            if event["type"] == relayed:
                if connections > 1:
                    changes.put_nowait(event["object"])
                else:
                    await relay(event["object"])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_relay(orjson.loads(sys.argv[1])))
