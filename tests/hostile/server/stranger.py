"""The server: TLS with a CA of its own, a token, a record of what was asked, and orders to do otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self, TypeVar

import trustme

from tests.hostile.server.asking import Ask, HangUpError, Wire, read_ask, status
from tests.hostile.server.world import Manifest, World

T = TypeVar("T")
Deed = Callable[[Ask, Wire, "Stranger"], Awaitable[None]]
"""What is done instead of an answer; HangUpError closes the connection."""
Greeting = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is done in the place of TLS."""

_CA = trustme.CA()
_LIMIT_BYTES = 256 * 1024
_MOST_RECORDED = 5000
_BUFFER_BYTES = 64 * 1024  # small, or what was sent would say nothing of what was taken


class Order(NamedTuple):
    """Which requests, and what is done with them."""

    concerns: Callable[[Ask], bool]
    deed: Deed


class Victims(NamedTuple):
    """Whom a server may mean to hurt: IDs of home and of an honest peer, and a port that nobody may be led to."""

    home_uid: str = ""
    home_name: str = ""
    honest_uid: str = ""
    port: int = 0


class Elsewhere:
    """A port on which nobody is expected; `visits` counts who came all the same."""

    def __init__(self, grounds: Grounds) -> None:
        self.visits = 0
        listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = listening.getsockname()[1]
        self._grounds = grounds
        self._server: asyncio.Server = grounds.run(asyncio.start_server(self._serve, sock=listening))

    def close(self) -> None:
        """Listen no more."""
        self._grounds.call(self._server.close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.transport.abort()


class Grounds:
    """The loop of all servers, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="strangers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    def run(self, awaitable: Any, *, within_s: float = 30.0) -> Any:
        """Run something in the servers' loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result(within_s)

    def call(self, function: Callable[[], T]) -> T:
        """Call something in the servers' loop."""

        async def main() -> T:
            return function()

        found: T = self.run(main())
        return found


class Stranger:
    """One server. It is honest but where `order` says otherwise; `greeting` is what comes in the place of TLS.

    `token` is the one that it accepts; a request with any other is answered 401. `asked` are the requests, `when` the
    moments of their arrival, `dialled` those at which a connection began to be greeted, whatever became of it.
    `context` is what the next one is greeted with, `misdeeds` counts what it did of what it was ordered to. `most_sent`
    is how many bytes it sent of one answer at most, `turned_at` when it ceased to be an honest one, if it was one.
    """

    def __init__(self, grounds: Grounds, name: str) -> None:
        self.name = name
        self.uid = str(uuid.uuid4())
        self.token = f"canary-{uuid.uuid4().hex}"
        self.ca = _CA
        self.world = World(self.uid)
        self.orders: list[Order] = []
        self.greeting: Greeting | None = None
        self.context = make_context(_CA)
        self.asked: list[Ask] = []
        self.when: list[float] = []
        self.dialled: list[float] = []
        self.misdeeds = 0
        self.most_sent = 0
        self.turned_at = 0.0
        self.victims = Victims()
        self._grounds = grounds
        self._connections: set[asyncio.Task[Any]] = set()
        self._ended = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._server: asyncio.Server | None = None
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def order(self, deed: Deed, *paths: str, when: Callable[[Ask], bool] = lambda ask: True) -> None:
        """Do something else where a path ends with one of these (everywhere, without one)."""
        self.orders.append(Order(lambda ask: (not paths or ask.path.endswith(paths)) and when(ask), deed))

    def turn(self, how: Callable[[Stranger], None]) -> None:
        """Be another one from now on, to connections that are made from now on."""

        def turn() -> None:
            self.turned_at = time.monotonic()
            how(self)
            for task in self._connections:
                task.cancel()

        self._grounds.call(turn)

    def put(self, manifest: Manifest) -> None:
        """Create or replace an object, and tell who watches."""
        self._grounds.call(lambda: self.world.put(manifest))

    def drop(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object, and tell who watches."""
        self._grounds.call(lambda: self.world.drop(kind, name, namespace=namespace))

    def open(self) -> Self:
        """Begin to listen."""
        self._grounds.run(self._listen())
        return self

    def close(self) -> None:
        """Listen no more, and end every connection."""
        self._grounds.run(self._end())

    async def _listen(self) -> None:
        tls = make_context(_CA) if self.greeting is None else None
        if tls is not None:
            tls.sni_callback = self._choose_context
        self._server = await asyncio.start_server(self._serve, sock=self._socket, ssl=tls, limit=_LIMIT_BYTES)

    def _choose_context(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        self.dialled.append(time.monotonic())
        connection.context = self.context

    def _is_outdated(self, writer: asyncio.StreamWriter) -> bool:
        """Say whether a connection was greeted with a certificate that is not shown any more."""
        found: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        return found is not None and found.context is not self.context

    async def _end(self) -> None:
        self._ended = True
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._ended or self._is_outdated(writer):  # its handshake was under way when all others were ended
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            writer.transport.set_write_buffer_limits(_BUFFER_BYTES)
            if self.greeting is not None:
                self.dialled.append(time.monotonic())
                self.misdeeds += 1
                await self.greeting(reader, writer)
            while (ask := await read_ask(reader)) is not None:
                if len(self.asked) < _MOST_RECORDED:
                    self.asked.append(ask)
                    self.when.append(time.monotonic())
                wire = Wire(writer)
                try:
                    await self._answer(ask, wire)
                finally:
                    self.most_sent = max(self.most_sent, wire.sent)
        except (OSError, EOFError, ssl.SSLError, HangUpError, ValueError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            with contextlib.suppress(OSError, RuntimeError):
                writer.transport.abort()

    async def _answer(self, ask: Ask, wire: Wire) -> None:
        if ask.headers.get("authorization") != f"Bearer {self.token}":
            await wire.answer(status(401, "Unauthorized"), status=401)
            return
        for order in self.orders:
            if order.concerns(ask):
                self.misdeeds += 1
                await order.deed(ask, wire, self)
                return
        await self.world.answer(ask, wire)


def make_context(ca: trustme.CA, *names: str, **more: Any) -> ssl.SSLContext:
    """Make the server's side of TLS, with a certificate for these names (127.0.0.1 without any)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*(names or ("127.0.0.1",)), **more).configure_cert(context)
    return context


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
