"""The webhook's task: it has a certificate, has it known, renews it, and puts its configuration right.

Laws: a CA is known to the API servers before a certificate of it is served, and a certificate is served for as long
as it is good: there is no gap. Every pass looks anew; what goes wrong becomes words and another try.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NoReturn, Protocol

from registry_controller.api.errors import BadInput, Conflict, RegistryError
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.core.peer_health import backoff_s
from registry_controller.kube.tls import load_certificate
from registry_controller.report.logs import get_logger
from registry_controller.webhook.certificate import Certificate, make_certificate
from registry_controller.webhook.registration import KIND, RESOURCE, registered, server_name

log = get_logger(__name__)

_PASS_TIMEOUT_S: Final = 10.0
_PERIOD_S: Final = (45.0, 75.0)
_SPACING_S: Final = 1.0  # should somebody else, a daemon of the original, want the configuration otherwise
_BASE_S: Final = 0.5
_CAP_S: Final = 30.0
_SETTLING: Final = timedelta(seconds=30)
"""From the writing of a CA to the serving of its certificate: API servers learn of it by a watch, in milliseconds."""


class Api(Protocol):
    """The API server at home."""

    async def read(self, gvr: GVR, key: ObjectKey) -> Manifest | None: ...

    async def replace(self, gvr: GVR, manifest: Manifest) -> None: ...


class Directory(Protocol):
    """Where the certificate outlives a restart."""

    def load(self) -> Certificate | None: ...

    def save(self, certificate: Certificate) -> None: ...


@dataclass(frozen=True, slots=True)
class _Next:
    """The certificate that will be served; `known_since` is None until its CA was written."""

    certificate: Certificate
    known_since: datetime | None = None


class Gate:
    """Keep what the API server needs for asking us.

    `tls` is the server's context, without a certificate until the first pass has succeeded. `holder` is this replica.
    `problem` is why the last pass failed, empty while all is well.
    """

    def __init__(
        self, *, api: Api, configuration: str, directory: Directory, holder: str, clock: Callable[[], datetime]
    ) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.problem = ""
        self._api = api
        self._key = ObjectKey("", configuration)
        self._directory = directory
        self._holder = holder
        self._clock = clock
        self._serving: Certificate | None = None
        self._next: _Next | None = None
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Say that the configuration may have changed."""
        self._poked.set()

    async def run(self) -> NoReturn:
        """Look and repair, for ever: when poked, and about once a minute."""
        attempt = 0
        while True:
            attempt = attempt + 1 if self.problem else 0
            chance = random.random()  # noqa: S311  jitter
            retry_s = backoff_s(attempt, base=_BASE_S, cap=_CAP_S, chance=chance)
            await self._rest(retry_s if self.problem else random.uniform(*_PERIOD_S))  # noqa: S311  jitter
            await self.reconcile()

    async def reconcile(self) -> None:
        """Make one pass."""
        self._poked.clear()
        try:
            async with asyncio.timeout(_PASS_TIMEOUT_S):
                await self._pass()
        except Conflict:  # another replica was faster: look again
            self.poke()
        except TimeoutError:
            self._say(f"no answer within {_PASS_TIMEOUT_S:.0f} s")
        except RegistryError as error:
            self._say(str(error))
        else:
            self._say("")

    async def _pass(self) -> None:
        configuration = await self._api.read(RESOURCE, self._key)
        if configuration is None:
            raise BadInput(
                f"{KIND.kind} {self._key.name}: does not exist, so every Cluster passes;"
                " the chart makes it with webhooks.clusterValidator.enabled"
            )
        now = self._clock()
        self._prepare(server_name(configuration), now=now)
        known = [found.ca_pem for found in (self._next and self._next.certificate, self._serving) if found]
        changed = registered(configuration, own=known, now=now)
        if changed is not None:
            await self._api.replace(RESOURCE, changed)
            log.info("registered the webhook", configuration=self._key.name)
        self._advance(now=now)

    def _prepare(self, name: str, *, now: datetime) -> None:
        """Make the next certificate when the present one is old, or not for this name."""
        if self._serving is None and self._next is None:
            kept = self._directory.load()
            self._next = _Next(kept) if kept is not None else None
        if self._serving is not None and not self._serving.is_good_for(name, now=now):
            self._serving = None
        if self._next is not None and not self._next.certificate.is_good_for(name, now=now):
            self._next = None
        newest = self._next.certificate if self._next is not None else self._serving
        if newest is None or newest.is_due(now=now):
            self._next = _Next(make_certificate(name, holder=self._holder, now=now))

    def _advance(self, *, now: datetime) -> None:
        """Serve the next certificate once the API servers know its CA; at once when there is no other."""
        if self._next is None:
            return
        since = self._next.known_since or now
        self._next = _Next(self._next.certificate, since)
        if self._serving is not None and now - since < _SETTLING:
            return
        certificate = self._next.certificate
        load_certificate(self.tls, certificate_pem=certificate.certificate_pem, key_pem=certificate.key_pem)
        self._directory.save(certificate)
        self._serving, self._next = certificate, None
        log.info("serving a webhook certificate", name=certificate.name, expires=certificate.not_after)

    def _say(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            log.warning("the webhook's configuration cannot be kept", problem=problem)
        else:
            log.info("the webhook's configuration is kept again")

    async def _rest(self, duration_s: float) -> None:
        await asyncio.sleep(_SPACING_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(duration_s):
                await self._poked.wait()
