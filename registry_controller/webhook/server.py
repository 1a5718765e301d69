"""The HTTPS server that the API server asks (AdmissionReview v1). It decides nothing.

Law: an answer is bounded in what it reads and how long it takes: whoever reaches the port may ask.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

from registry_controller.api import meta
from registry_controller.api.meta import Manifest
from registry_controller.api.optiontext import Address
from registry_controller.core.admission import ALLOWED, Admission, admit_cluster
from registry_controller.report.listening import listen
from registry_controller.report.logs import get_logger
from registry_controller.webhook.registration import PATH

log = get_logger(__name__)

_BODY_BYTES: Final = 4 * 1024 * 1024  # two Clusters, of which etcd takes 1.5 MiB each
_READ_S: Final = 5.0  # as long as the API server waits
_AT_ONCE: Final = 8
_CONFLICT: Final = 409
_DECODER: Final = msgspec.json.Decoder()


class WebhookServer:
    """Answer reviews. `clusters` lists the Clusters that are here, as they are stored."""

    def __init__(self, *, at: Address, tls: ssl.SSLContext, clusters: Callable[[], Iterable[Manifest]]) -> None:
        self._at = at
        self._tls = tls
        self._clusters = clusters
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.address: Address | None = None

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Listen while the context is open; InvalidOption when that is not possible."""
        application = web.Application(client_max_size=_BODY_BYTES)
        application.add_routes([web.post(PATH, self._answer)])
        async with AsyncExitStack() as stack:
            option = "CLUSTER_VALIDATOR_WEBHOOK_PORT"
            self.address = await listen(stack, application, at=self._at, option=option, tls=self._tls)
            yield

    async def _answer(self, http: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_READ_S), self._turns:
                review = _DECODER.decode(await http.read())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            review = None
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        request = review.get("request") if isinstance(review, Mapping) else None
        if not isinstance(request, Mapping) or not isinstance(request.get("uid"), str):
            raise web.HTTPBadRequest(text="this is no AdmissionReview\n")
        answer = self._judge(request)
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": request["uid"], **_spell(answer)},
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def _judge(self, request: Mapping[str, Any]) -> Admission:
        new, old = request.get("object"), request.get("oldObject")
        if not isinstance(new, Mapping) or request.get("operation") not in ("CREATE", "UPDATE"):
            return ALLOWED
        if new.get("kind") != meta.CLUSTER.kind:
            return ALLOWED
        answer = admit_cluster(new, old=old if isinstance(old, Mapping) else None, here=self._clusters())
        if not answer.allowed:
            log.info("refused a second Cluster for this cluster", reason=answer.message)
        return answer


def _spell(answer: Admission) -> dict[str, object]:
    if answer.allowed:
        return {"allowed": True}
    status = {"code": _CONFLICT, "reason": "Conflict", "message": answer.message}
    return {"allowed": False, "status": status}
