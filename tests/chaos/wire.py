"""Wires that can be cut: one TCP proxy on loopback for each directed edge, all in one thread, driven from outside.

Law: an edge counts what it does to connections, so that a fault which touched nobody can be told from one that did.
What was swallowed on a connection is lost for good, as on a network: that connection stays dead after the edge is
mended.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from hack.controlplane.ports import Port
from tests.chaos.weather import CLEAR, Weather

T = TypeVar("T")
_CHUNK_BYTES = 64 * 1024
_ANSWER_S = 10.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time at all: closing sends RST (socket(7))


class _Connection:
    """One connection with what is behind it."""

    def __init__(self, edge: Edge, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.edge, self._near, self._far = edge, near, far
        self._lost = {"up": False, "down": False}
        self._passed = 0
        self.task: asyncio.Task[None] | None = None

    def reset(self) -> None:
        """End it as a network does that is gone: both ends get RST."""
        for writer in (self._near, self._far):
            reset(writer)

    async def run(self, near: asyncio.StreamReader, far: asyncio.StreamReader) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass(near, self._far, "up"))
            tasks.create_task(self._pass(far, self._near, "down"))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                weather = self.edge.weather
                while self.edge.weather.stall:
                    self.edge.counts["stalled"] += weather is not CLEAR
                    weather = CLEAR
                    await self.edge.changed()
                weather = self.edge.weather
                if weather.swallow_up if way == "up" else weather.swallow_down:
                    self._lost[way] = True
                if self._lost[way]:
                    self.edge.counts[f"swallowed {way}"] += 1
                    continue
                await self._delay(weather, len(chunk))
                if way == "down" and not self._may_pass(weather, len(chunk)):
                    self.reset()
                    return
                writer.write(self._spoil(chunk, weather) if way == "down" else chunk)
                await writer.drain()
        if self._lost["up"] or self._lost["down"]:
            await self.edge.never() if way == "down" else None  # the end of a lost connection is lost, too
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof() if way == "up" else writer.close()

    async def _delay(self, weather: Weather, size: int) -> None:
        pause_s = weather.latency_s + (size / weather.bytes_per_s if weather.bytes_per_s else 0.0)
        if pause_s:
            self.edge.counts["delayed"] += 1
            await asyncio.sleep(pause_s)

    def _may_pass(self, weather: Weather, size: int) -> bool:
        self._passed += size
        if weather.reset_after_bytes and self._passed > weather.reset_after_bytes:
            self.edge.counts["reset"] += 1
            return False
        return True

    def _spoil(self, chunk: bytes, weather: Weather) -> bytes:
        if not weather.corrupt_every or self.edge.chance.randrange(weather.corrupt_every):
            return chunk
        self.edge.counts["corrupted"] += 1
        place = self.edge.chance.randrange(len(chunk))
        return chunk[:place] + bytes([chunk[place] ^ 1 << self.edge.chance.randrange(8)]) + chunk[place + 1 :]


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST."""
    with contextlib.suppress(OSError):
        found = writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


class Edge:
    """From one party to an API server: listens on `port`, leads to `target`."""

    def __init__(self, wires: Wires, name: str, *, target: int) -> None:
        self.name = name
        self.weather = CLEAR
        self.counts: Counter[str] = Counter()
        self.chance = random.Random(name)
        self._wires = wires
        self._target = target
        self._port = Port()
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    @property
    def port(self) -> int:
        return self._port.number

    def set(self, weather: Weather) -> None:
        """Change the weather; what is cut is reset before this returns."""
        self._wires.do(self._set(weather))

    def mend(self) -> None:
        self.set(CLEAR)

    def reset_all(self) -> None:
        """Reset what is open, and let new connections through."""
        self._wires.do(self._reset_all())

    def reroute(self, target: int) -> None:
        """Lead somewhere else from now on; what is open is reset."""
        self._target = target
        self.reset_all()

    @property
    def target(self) -> int:
        return self._target

    async def changed(self) -> None:
        """Wait for other weather."""
        await self._changed.wait()

    async def never(self) -> None:
        """Wait until the edge is closed."""
        await asyncio.Event().wait()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._port.release()

    async def _set(self, weather: Weather) -> None:
        self.weather = weather
        self._changed.set()
        self._changed = asyncio.Event()
        if weather.cut:
            await self._reset_all()

    async def _reset_all(self) -> None:
        for connection in list(self._open):
            self.counts["reset"] += 1
            connection.reset()

    async def _serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts["accepted"] += 1
        if self.weather.cut:
            self.counts["refused"] += 1
            reset(writer)
            return
        try:
            far, ahead = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            reset(writer)
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        connection = _Connection(self, writer, ahead)
        self._open.add(connection)
        task = asyncio.current_task()  # nobody else holds it, and it would be collected with what it waits for
        connection.task = task
        try:
            await connection.run(near, far)
        except asyncio.CancelledError:
            pass  # the wires are being taken down
        finally:
            self._open.discard(connection)
            for one in (writer, ahead):
                one.transport.abort()


class Wires:
    """The thread in which all edges live; its methods may be called from any other."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self.edges: dict[str, Edge] = {}

    def edge(self, name: str, *, target: int) -> Edge:
        """Make an edge to a port of loopback."""
        edge = self.edges[name] = self.do(self._make(lambda: Edge(self, name, target=target)))
        self.do(edge.open())
        return edge

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_ANSWER_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_S)
        self._loop.close()

    async def _make(self, make: Callable[[], T]) -> T:
        return make()

    async def _end(self) -> None:
        for edge in self.edges.values():
            await edge.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
