"""Binds the HTTP servers of the daemon."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import AsyncExitStack

from aiohttp import web

from registry_controller.api.errors import InvalidOption
from registry_controller.api.optiontext import Address


async def listen(
    stack: AsyncExitStack, application: web.Application, *, at: Address, option: str, tls: ssl.SSLContext | None = None
) -> Address:
    """Serve on an address until the stack is closed; return the bound address, or raise InvalidOption."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, at.host or None, at.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        flag = "--" + option.lower().replace("_", "-")
        raise InvalidOption(f"{option} ({flag}): cannot listen on {at}: {_explain(error)}") from error
    bound = runner.addresses[0]
    return Address(at.host, int(bound[1]))


def _explain(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved; give an IP address of this host, or only a port"
    match error.errno:
        case errno.EADDRINUSE:
            return "the address is in use; stop the other program, or give another port"
        case errno.EADDRNOTAVAIL | None:  # since Python 3.13, asyncio raises an error without a number
            return "this host does not have the address; give one that it has, or only a port"
        case errno.EACCES:
            return "the port needs a right of the process; give a port of 1024 or above"
        case code:
            return os.strerror(code or 0).lower()
