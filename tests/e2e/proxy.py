"""A TLS server with a CA of its own before an API server, as a load balancer is one."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from typing import NamedTuple

import trustme

from hack.controlplane import Cluster

_CHUNK_BYTES = 64 * 1024


class Front(NamedTuple):
    """Where the proxy listens (host:port), and the CA by which it is known."""

    address: str
    ca_pem: bytes


@contextlib.contextmanager
def tls_front(cluster: Cluster) -> Iterator[Front]:
    """Listen on loopback with a certificate of a new CA, and pass everything on to a cluster's API server."""
    ca = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(server_side)
    client_side = ssl.create_default_context(cafile=str(cluster.pki.server_ca))
    host, port = cluster.server.removeprefix("https://").rsplit(":", 1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            with contextlib.suppress(OSError, ssl.SSLError):
                behind, ahead = await asyncio.open_connection(host, int(port), ssl=client_side)
                ends.append(ahead)
                await asyncio.wait(
                    {asyncio.ensure_future(_pass(reader, ahead)), asyncio.ensure_future(_pass(behind, writer))},  # noqa: TID251
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            for end in ends:
                end.transport.abort()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side))
    thread = threading.Thread(target=loop.run_forever, name="tls front", daemon=True)
    thread.start()
    try:
        yield Front(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", ca.cert_pem.bytes())
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
