"""Where the daemon's HTTP servers listen."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack

from aiohttp import web

from registry_controller.api.errors import InvalidOption
from registry_controller.api.optiontext import Address


async def listen(
    stack: AsyncExitStack, application: web.Application, *, at: Address, option: str, tls: ssl.SSLContext | None = None
) -> Address:
    """Serve on one address until the stack is closed, and return what is bound; InvalidOption names the option."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, at.host or None, at.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        flag = "--" + option.lower().replace("_", "-")
        raise InvalidOption(f"{option} ({flag}): cannot listen on {at}: {error.strerror or error}") from error
    bound = runner.addresses[0]
    return Address(at.host, int(bound[1]))
