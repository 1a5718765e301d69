"""A server that resets what it accepts, or whose name is never answered, costs its own answers and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

import aiohttp
import aiohttp.resolver
import pytest

from registry_controller.kube.connector import Connector

HANGING = 64
PROGRAM = textwrap.dedent(
    """
    import asyncio, socket, struct, threading
    import aiohttp, uvloop
    from registry_controller.kube.connector import Connector

    listening = socket.create_server(("127.0.0.1", 0), backlog=100)

    def reset_all() -> None:
        while True:
            accepted, _ = listening.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

    async def ask(session, failed) -> None:
        for _ in range(100):
            try:
                await session.get(f"https://127.0.0.1:{listening.getsockname()[1]}/")
            except aiohttp.ClientConnectionError:
                failed.append(1)

    async def main() -> None:
        failed = []
        async with aiohttp.ClientSession(connector=Connector(limit=0)) as session, asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(ask(session, failed))
        print(len(failed))

    threading.Thread(target=reset_all, daemon=True).start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    """
)


def test_a_server_that_resets_every_connection_does_not_end_the_process() -> None:
    """P6: without care uvloop closes others' descriptors, and libuv aborts: so it is tried in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2000"), done.stderr[-2000:]


class _NameServer(asyncio.DatagramProtocol):
    """Answers 127.0.0.1 for `here.test`, says of `large.test` that it has more, and of other names nothing at all."""

    def __init__(self) -> None:
        self.silent: set[bytes] = set()
        self.all_hang = asyncio.Event()
        self.streams = 0
        self.transport: asyncio.DatagramTransport | None = None

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = data[12 : data.index(b"\0", 12) + 5]
        name, is_ipv4 = question[:-5], question[-3] == 1
        if name not in (b"\x04here\x04test", b"\x05large\x04test"):
            self.silent.add(name)
            if len(self.silent) == HANGING:
                self.all_hang.set()
            return
        assert self.transport is not None
        is_cut = name.startswith(b"\x05large")
        answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\x7f\0\0\x01" if is_ipv4 else b""
        flags = bytes([0x83 if is_cut else 0x81, 0x80])
        self.transport.sendto(data[:2] + flags + b"\0\x01\0" + bytes([is_ipv4]) + bytes(4) + question + answer, addr)


async def _listen_on_one_port(names: _NameServer) -> asyncio.Server:
    """Answer datagrams, and count what comes by TCP on the same port, which must be free for both."""

    def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.streams += 1
        writer.close()

    while True:
        server = await asyncio.start_server(count, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        try:
            names.transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: names, local_addr=address
            )
        except OSError:
            server.close()
        else:
            return server


@contextlib.asynccontextmanager
async def name_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_NameServer]:
    """Run it on a port of its own, where resolvers ask from now on."""
    names = _NameServer()
    async with await _listen_on_one_port(names) as server:
        port = server.sockets[0].getsockname()[1]
        ask = functools.partial(
            aiohttp.resolver.aiodns.DNSResolver, nameservers=["127.0.0.1"], udp_port=port, tcp_port=port
        )
        monkeypatch.setattr(aiohttp.resolver.aiodns, "DNSResolver", ask)
        assert names.transport is not None
        try:
            yield names
        finally:
            names.transport.close()


async def dial(host: str, port: int) -> None:
    async with aiohttp.ClientSession(connector=Connector(limit=0)) as session:
        await session.get(f"https://{host}:{port}/")


async def test_names_that_nobody_answers_do_not_delay_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: every dial has a connector of its own, and there may be hundreds whose servers' names hang."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # it does not listen: a dial is refused as soon as its name is known
        port = free.getsockname()[1]
        async with name_server(monkeypatch) as names, asyncio.TaskGroup() as tasks:
            hanging = [tasks.create_task(dial(f"hangs-{number}.test.", port)) for number in range(HANGING)]
            async with asyncio.timeout(10):
                await names.all_hang.wait()
            async with asyncio.timeout(3):
                with pytest.raises(aiohttp.ClientConnectorError, match="Connect call failed"):
                    await dial("here.test.", port)
            for found in hanging:
                found.cancel()


async def test_a_name_with_more_addresses_than_a_datagram_holds_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P6: an answer over TCP may have thousands, which cost memory and time; some of them are enough."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with name_server(monkeypatch) as names, asyncio.timeout(5):
            with pytest.raises(aiohttp.ClientConnectorError, match="Connect call failed"):
                await dial("large.test.", free.getsockname()[1])
    assert names.streams == 0
