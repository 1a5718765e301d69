"""The barest client of one API server: aiohttp, kept-alive connections, bytes in and out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from hack.controlplane import Cluster

_READ_BYTES = 1 << 18
_OPEN_S = 0.1
"""A watch is open by then."""

Request = tuple[str, str, Mapping[str, Any] | None]
"""Method, path and body."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server, and the files of its admin."""

    server: str
    ca: str
    certificate: str
    key: str

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Return the endpoint of a cluster."""
        pki = cluster.pki
        return cls(cluster.server, str(pki.server_ca), str(pki.admin.certificate), str(pki.admin.key))

    def as_json(self) -> dict[str, str]:
        """Return the fields as plain data, for another process."""
        return asdict(self)


class Client:
    """A client of one API server, as its admin; raises TimeoutError after `silence_s` without data."""

    def __init__(self, endpoint: Endpoint, *, connections: int = 100, silence_s: float | None = 60.0) -> None:
        tls = ssl.create_default_context(cafile=endpoint.ca)
        tls.load_cert_chain(endpoint.certificate, endpoint.key)
        self._server = endpoint.server
        self._tls = tls
        self._connections = connections
        self._silence_s = silence_s

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=self._connections)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=self._silence_s)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Send a request and return the body of the response; RuntimeError for a status of 400 and more."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        async with self._session.request(method, self._server + path, data=data, headers=headers) as response:
            content = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status}: {content[:300].decode(errors='replace')}")
            return content

    async def exists(self, path: str) -> bool:
        """Read an object by name; return whether the server has it."""
        async with self._session.get(self._server + path) as response:
            await response.read()
            return response.status != 404

    async def send_all(self, requests: Iterable[Request], *, connections: int) -> None:
        """Send requests over so many connections at a time."""
        rest = iter(requests)

        async def work() -> None:
            for request in rest:
                await self.send(*request)

        async with asyncio.TaskGroup() as tasks:
            for number in range(connections):
                tasks.create_task(work(), name=f"send-{number}")

    async def chunks(self, path: str, *, version: str) -> AsyncGenerator[bytes]:
        """Watch a collection from a resourceVersion on; yield bytes as they arrive, not cut at lines."""
        url = f"{self._server}{path}{'&' if '?' in path else '?'}watch=1&resourceVersion={version}"
        async with self._session.get(url, read_bufsize=_READ_BYTES) as response:
            if response.status >= 400:
                raise RuntimeError(f"watch {path}: {response.status}")
            async for chunk in response.content.iter_any():
                yield chunk

    async def watch(self, path: str, *, version: str) -> AsyncGenerator[Any]:
        """Watch a collection from a resourceVersion on; yield the decoded events."""
        rest = b""
        async for chunk in self.chunks(path, version=version):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield orjson.loads(line)

    @asynccontextmanager
    async def awaiting(self, path: str, *, count: int, matches: Callable[[Any], bool]) -> AsyncGenerator[None]:
        """Watch a collection during the block, and after it until events of `count` different objects have matched."""
        version = await self.version(path)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._wait(path, version=version, count=count, matches=matches), name="watch")
            await asyncio.sleep(_OPEN_S)
            yield

    async def _wait(self, path: str, *, version: str, count: int, matches: Callable[[Any], bool]) -> None:
        names: set[str] = set()
        async with aclosing(self.watch(path, version=version)) as events:
            async for event in events:
                if matches(event):
                    names.add(event["object"]["metadata"]["name"])
                if len(names) >= count:
                    break

    async def version(self, path: str) -> str:
        """Return the resourceVersion of a collection now."""
        listed = await self.send("GET", f"{path}{'&' if '?' in path else '?'}limit=1")
        return str(orjson.loads(listed)["metadata"]["resourceVersion"])
