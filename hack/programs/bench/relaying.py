"""The floor of relaying: watch one collection on one API server, write each change to the other. One task, no logic.

Run as a program: `python -m hack.programs.bench.relaying SPEC`, where SPEC is JSON: source, sink (endpoints), path.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import orjson

from .client import Client, Endpoint


async def relay(spec: dict[str, Any]) -> None:
    """Relay until the process is ended; the copies must be there already."""
    path = spec["path"]
    source_end, sink_end = Endpoint(**spec["source"]), Endpoint(**spec["sink"])
    async with Client(source_end, silence_s=None) as source, Client(sink_end) as sink:
        copies = orjson.loads(await sink.send("GET", path))["items"]
        versions = {copy["metadata"]["name"]: copy["metadata"]["resourceVersion"] for copy in copies}
        version = await source.version(path)
        print("ready", flush=True)
        async for event in source.watch(path, version=version):
            if event["type"] == "MODIFIED":
                found = event["object"]
                name = found["metadata"]["name"]
                body = {**found, "metadata": {"name": name, "resourceVersion": versions[name]}}
                answer = await sink.send("PUT", f"{path}/{name}", body)
                versions[name] = orjson.loads(answer)["metadata"]["resourceVersion"]


if __name__ == "__main__":
    asyncio.run(relay(orjson.loads(sys.argv[1])))
