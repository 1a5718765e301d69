"""Opens connections to API servers.

Law: a socket that the event loop has closed is not closed again. uvloop closes the descriptor of a connection that is
reset before its TLS handshake, but keeps the Python socket tied to its number (seen with 0.23). The garbage collector
then closes that number again, which may belong to another connection by then. A server that resets each connection
could end the daemon so.

c-ares resolves names, with one resolver for all connectors of a loop, so that a name without an answer does not delay
other names; it would block one of the few threads of the system's resolver. A name with thousands of addresses is
limited to the addresses in one datagram.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import weakref
from typing import Any, ClassVar, Final

import aiohttp
import aiohttp.abc
import pycares
from aiohttp.client_proto import ResponseHandler

_KEEPALIVE: Final = tuple(
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
    if hasattr(socket, name)
)
_OPENED: contextvars.ContextVar[list[tuple[socket.socket, int]]] = contextvars.ContextVar("opened")


class _Resolver(aiohttp.abc.AbstractResolver):
    """A share of the loop's resolver, which has a thread, a cache and sockets. The last share closes the resolver."""

    _loops: ClassVar = weakref.WeakKeyDictionary[
        asyncio.AbstractEventLoop, tuple[aiohttp.AsyncResolver, weakref.WeakSet["_Resolver"]]
    ]()

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._loop not in self._loops:
            flags = pycares.ARES_FLAG_EDNS | pycares.ARES_FLAG_IGNTC
            self._loops[self._loop] = aiohttp.AsyncResolver(self._loop, flags=flags), weakref.WeakSet()
        self._shared, self._sharers = self._loops[self._loop]
        self._sharers.add(self)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        return await self._shared.resolve(host, port, family)

    async def close(self) -> None:
        if self not in self._sharers:
            return
        self._sharers.remove(self)
        if not self._sharers:
            del self._loops[self._loop]
            await self._shared.close()


class Connector(aiohttp.TCPConnector):
    """Makes connections that detect a lost server within 30 s, and that close only their own sockets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, socket_factory=_open_socket, resolver=_Resolver())
        self._resolver_owner = True

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> tuple[Any, ResponseHandler]:
        opened: list[tuple[socket.socket, int]] = []
        token = _OPENED.set(opened)
        try:
            return await super()._wrap_create_connection(*args, **options)
        except BaseException:
            for found, inode in opened:
                if found.fileno() >= 0 and _inode(found) != inode:
                    found.detach()
            raise
        finally:
            _OPENED.reset(token)


def _open_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for level, option, value in _KEEPALIVE:
        opened.setsockopt(level, option, value)
    noted = _OPENED.get(None)
    if noted is not None:
        noted.append((opened, _inode(opened)))
    return opened


def _inode(found: socket.socket) -> int:
    """Return a number that differs between successive sockets with the same descriptor; 0 for a closed one."""
    try:
        return os.fstat(found.fileno()).st_ino
    except OSError:
        return 0
