"""One request as it came in, and the way back to who asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_LINE_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024


class HangUpError(Exception):
    """The connection is to be closed now."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. `target` is the path with its query as it came, header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> Mapping[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"

    @property
    def wants_initial(self) -> bool:
        """Say whether a watch asks for what exists first."""
        return self.query.get("sendInitialEvents") == "true"


async def read_ask(reader: asyncio.StreamReader) -> Ask | None:
    """Read a request; None at the end of the connection. No body: who reads sends none."""
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if length := int(headers.get("content-length", "0")):
        await reader.readexactly(min(length, _LINE_BYTES))
    return Ask(method, target, headers)


class Wire:
    """The way back. What is sent waits until the other side takes it. `sent` counts the bytes that were taken so."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.sent = 0
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are; OSError when nobody listens any more."""
        for begin in range(0, len(data), _PIECE_BYTES):
            piece = data[begin : begin + _PIECE_BYTES]
            self._writer.write(piece)
            await self._writer.drain()
            # While the buffer takes everything, drain gives no turn to others, nor hears of an end.
            await asyncio.sleep(0)
            self.sent += len(piece)

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a status line and headers."""
        lines = [f"HTTP/1.1 {status} Something", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def answer(self, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer; what is no bytes is spelled as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
        await self.head(status, told)
        await self.send(content)

    async def begin(self) -> None:
        """Begin an answer of chunks."""
        await self.head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})

    async def chunk(self, data: bytes) -> None:
        """Send a chunk of an answer that was begun; an empty one ends it."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def line(self, type_: str, manifest: Any) -> None:
        """Send a watch event of an answer that was begun."""
        await self.chunk(json.dumps({"type": type_, "object": manifest}).encode() + b"\n")


def status(code: int, reason: str, **more: Any) -> dict[str, Any]:
    """Write a Status as API servers do."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, **more}
