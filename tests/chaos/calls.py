"""An edge that understands what it carries: it ends TLS in the name of an API server, and sees each call and its
answer.

It stands behind an edge of `wire`, so that a daemon dials the same address as always. A Script says what becomes of a
call: it may be answered here, be held back, or never arrive. Law: whoever is not told otherwise gets every byte, as
it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

from hack.controlplane import Cluster
from hack.controlplane.pki import Pair
from tests.chaos.wire import Edge, Wires, reset

_HEAD_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024


class Drop(Exception):
    """End the connection without another byte."""


@dataclass(slots=True)
class Call:
    """One request. `number` counts from 1; `status` is 0 until it was answered."""

    number: int
    method: str
    target: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.target

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said in the place of the API server. One that is `unending` says it in chunks, and then no more."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    unending: bool = False

    def spell(self) -> bytes:
        framing = "Transfer-Encoding: chunked" if self.unending else f"Content-Length: {len(self.body)}"
        lines = [f"HTTP/1.1 {self.status} As-Scripted", framing]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Script(Protocol):
    """What becomes of calls. Both are run in the thread of the wires, and may raise Drop."""

    async def before(self, call: Call) -> Answer | None:
        """Decide before anything is passed on; None passes it on."""

    async def after(self, call: Call) -> None:
        """Look at what was answered (its status), before anything of it is passed back."""

    async def part(self, call: Call, part: bytes) -> bytes:
        """Say what is passed back of a part of an answer's body: whole chunks, where it comes in chunks."""


class Calls:
    """A proxy before an API server that follows a Script, put behind an edge for as long as it is entered.

    It shows the server's own certificate, or `shown`.
    """

    def __init__(
        self, wires: Wires, edge: Edge, cluster: Cluster, script: Script, *, shown: Pair | None = None
    ) -> None:
        self._wires, self._edge, self._script = wires, edge, script
        self.seen: list[Call] = []
        self._near = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = shown or cluster.pki.server
        self._near.load_cert_chain(pair.certificate, pair.key)
        self._far = ssl.create_default_context(cafile=str(cluster.pki.server_ca))
        self._port = cluster.port
        self._server: asyncio.Server | None = None
        self._before = edge.target
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._server = self._wires.do(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._near, limit=_HEAD_BYTES)  # type: ignore[arg-type]
        )
        self._edge.reroute(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._edge.reroute(self._before)
        self._wires.do(self._close())

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        ahead: asyncio.StreamWriter | None = None
        try:
            behind, ahead = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._far, limit=_HEAD_BYTES)
            async with asyncio.TaskGroup() as tasks:
                carrying = tasks.create_task(self._carry_all(reader, writer, behind, ahead))
                tasks.create_task(_until_lost(writer, carrying))
        except* (OSError, asyncio.CancelledError):
            pass  # one of the ends is gone, or the wires are being taken down
        finally:
            self._open.discard(task)
            for one in (writer, ahead):
                if one is not None:
                    one.transport.abort()

    async def _carry_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamReader,
        ahead: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            try:
                while await self._carry(reader, writer, behind, ahead):
                    pass
                writer.close()
            except Drop:
                reset(writer)
        writer.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamReader,
        ahead: asyncio.StreamWriter,
    ) -> bool:  # fmt: skip
        """Carry one call there and its answer back; False when that was the last one of the connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, headers = _read_head(head)
        method, target, _ = first.split(" ", 2)
        parts: list[bytes] = []
        await _pump(reader, headers, _Into(parts), is_request=True)
        body = b"".join(parts)
        call = Call(len(self.seen) + 1, method, target, body, headers)
        self.seen.append(call)
        answer = await self._script.before(call)
        if answer is not None:
            call.status = answer.status
            writer.write(answer.spell())
            await writer.drain()
            if answer.unending:
                await asyncio.Event().wait()  # until whoever asked goes, or the script is over
            return True
        ahead.write(head + body)
        await ahead.drain()
        reply = await behind.readuntil(b"\r\n\r\n")
        line, found = _read_head(reply)
        call.status = int(line.split(" ")[1])
        await self._script.after(call)
        writer.write(reply)
        if method != "HEAD" and call.status not in (204, 304):

            async def take(part: bytes) -> None:
                writer.write(await self._script.part(call, part))
                await writer.drain()

            await _pump(behind, found, take)
        await writer.drain()
        return found.get("connection", "").lower() != "close"


def _read_head(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _until_lost(writer: asyncio.StreamWriter, carrying: asyncio.Task[None]) -> None:
    """End what is carried when nobody is there any more who asked for it."""
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    carrying.cancel()


class _Into:
    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def __call__(self, part: bytes) -> None:
        self._parts.append(part)


async def _pump(
    reader: asyncio.StreamReader, headers: dict[str, str], take: Callable[[bytes], Awaitable[None]], *,
    is_request: bool = False,
) -> None:  # fmt: skip
    """Hand on a body as it comes, with its framing (RFC 9112, 6)."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            await take(line + await reader.readexactly(size + 2))
    elif "content-length" in headers:
        left = int(headers["content-length"])
        while left:
            part = await reader.read(min(left, _CHUNK_BYTES))
            if not part:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(part)
            await take(part)
    elif not is_request:
        while part := await reader.read(_CHUNK_BYTES):
            await take(part)
