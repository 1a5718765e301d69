"""The HTTP servers of the daemon: /metrics on one address, /livez, /readyz and /healthz on the other.

Law: readiness never depends on a peer; the caller's checks keep it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from aiohttp import web

from registry_controller.api.optiontext import Address
from registry_controller.report.listening import listen

Checks = Mapping[str, Callable[[], str | None]]
"""By name: None when all is well, else what is wrong, in words that hold no data."""

Render = Callable[[str], tuple[bytes, str]]
"""From an `Accept` header to a body and its content type (`Metrics.render`)."""


class HealthServer:
    """Serve health and metrics. An address that is None is not served.

    `live` fails when only a restart helps, `ready` while the daemon is not (yet) of use; /healthz is `live`.
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
        """Listen while the context is open; raise InvalidOption when an address cannot be listened on.

        `health_address` and `metrics_address` then say what is bound, with the port that 0 became.
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
        return _judge(self._live)

    async def _answer_ready(self, _: web.Request) -> web.Response:
        return _judge(self._ready)

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


def _judge(checks: Checks) -> web.Response:
    """Run all checks: 200 `ok`, or 503 with a line for each that fails."""
    failing = []
    for name, check in checks.items():
        try:
            wrong = check()
        except Exception as error:  # a check that breaks is a check that fails; its message may hold data
            wrong = f"the check itself failed: {type(error).__name__}"
        if wrong is not None:
            failing.append(f"{name}: {wrong}")
    return web.Response(status=503 if failing else 200, text="\n".join(failing or ["ok"]) + "\n")
