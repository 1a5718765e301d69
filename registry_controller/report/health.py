"""HTTP servers of the daemon: /metrics on one address, /livez, /readyz and /healthz on another.

Law: readiness never depends on a peer; the checks of the caller ensure this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from aiohttp import web

from registry_controller.api.optiontext import Address
from registry_controller.report.listening import listen
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

Checks = Mapping[str, Callable[[], str | None]]
"""Checks by name: each returns None, or its problem as a message without data."""

Render = Callable[[str], tuple[bytes, str]]
"""From an `Accept` header to a body and its content type (`Metrics.render`)."""


class HealthServer:
    """Serves health and metrics. An address of None is not served.

    `live` fails when only a restart helps, `ready` until the daemon does its work; /healthz is `live`.
    """

    def __init__(
        self, *, health: Address | None, metrics: Address | None, live: Checks, ready: Checks, render: Render
    ) -> None:
        self._health, self._metrics = health, metrics
        self._live, self._ready, self._render = live, ready, render
        self.health_address: Address | None = None
        self.metrics_address: Address | None = None

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Self]:
        """Serve until the context ends; raise InvalidOption for an address that cannot be bound.

        `health_address` and `metrics_address` are the bound addresses, with the chosen port in place of 0.
        """
        health = web.Application()
        health.add_routes([web.get("/livez", self._answer_live), web.get("/healthz", self._answer_live)])
        health.add_routes([web.get("/readyz", self._answer_ready)])
        metrics = web.Application()
        metrics.add_routes([web.get("/metrics", self._answer_metrics)])
        async with AsyncExitStack() as stack:
            if self._health is not None:
                self.health_address = await listen(stack, health, at=self._health, option="HEALTH_ADDR")
            if self._metrics is not None:
                self.metrics_address = await listen(stack, metrics, at=self._metrics, option="METRICS_ADDR")
            yield self

    async def _answer_live(self, _: web.Request) -> web.Response:
        return _respond(self._live)

    async def _answer_ready(self, _: web.Request) -> web.Response:
        return _respond(self._ready)

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._render(request.headers.get("Accept", ""))
        response = web.Response(body=body, headers={"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"})
        if "gzip" in request.headers.get("Accept-Encoding", "").lower():
            response.enable_compression(web.ContentCoding.gzip)
        return response


def _respond(checks: Checks) -> web.Response:
    """Run all checks: 200 `ok`, or 503 with a line for each that fails."""
    failing = []
    for name, check in checks.items():
        try:
            problem = check()
        except Exception:  # its message may hold data
            log.exception("health check failed", check=name)
            problem = "the check failed with an error, which is in the log"
        if problem is not None:
            failing.append(f"{name}: {problem}")
    return web.Response(status=503 if failing else 200, text="\n".join(failing or ["ok"]) + "\n")
