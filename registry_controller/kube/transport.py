"""The connections to one API server: the transport of the kubernetes client with strict limits.

Law: no redirects, no proxy from the environment, no cookies, no decompression, limits in bytes and time for every
answer, and only the methods that a transport was built with.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, Final, Protocol

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from registry_controller import __version__
from registry_controller.api.errors import ProtocolError, RegistryError, Unreachable
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube import tls
from registry_controller.kube.connector import Connector
from registry_controller.kube.failures import FAILURES, ConnectionSource, error_of_failure, explain_web_page
from registry_controller.kube.responses import (
    abort,
    check_not_compressed,
    error_of,
    is_web_page,
    read_answer,
    read_error_body,
)
from registry_controller.kube.translate import STATUS_BYTES

DRY_RUN: Final = "dryRun=All"
"""The parameter that makes a server return the object of a write without storing it."""

JSON: Final = "application/json"
"""The media type of bodies and answers."""

ANSWER_BYTES: Final = 8 * 1024 * 1024
"""The largest object, and the largest page of a list. etcd accepts 1.5 MiB, and escapes make texts up to four times as
long; a page has room for 500 objects of 16 KiB, and a larger page is requested in smaller ones."""

_CONNECT_S: Final = 10.0
_IDLE_S: Final = 60.0  # below the 90 s after which Go servers' load balancers drop idle connections
_USER_AGENT: Final = f"registry-controller/{__version__}"
_ANSWERED: Final = frozenset({200, 201, 202})


class Identity(Protocol):
    """The credentials of a connection, and the CA that verifies the server; an empty one is the system's."""

    @property
    def ca_pem(self) -> str: ...

    @property
    def source(self) -> ConnectionSource:
        """Return the names of the places where a person corrects the connection."""

    @property
    def configuration(self) -> Configuration:
        """Return the server and the settings of the TLS context."""

    def authorization(self) -> str:
        """Return the Authorization header's value; empty for none."""

    async def renew(self) -> bool:
        """Read credentials and CA again after a refusal; return whether the credentials are new."""


class AnswerSpan(Protocol):
    """The span of a request."""

    def answered(self, status: int) -> None:
        """Record the status code of the answer."""


class RequestTracer(Protocol):
    """Makes a span for each request, and adds its context to the headers."""

    def request(
        self, method: str, path: str, *, server: str, headers: dict[str, str]
    ) -> contextlib.AbstractContextManager[AnswerSpan]: ...


class Transport(RESTClientObject):
    """Sends requests to one server.

    `answers` counts the HTTP answers that prove that the server is alive: all but 401 and 5xx. `dated` is the header
    `Date` of the last one, and the loop's time at which it came. `on_new_ca` is called after another CA, which is
    trusted, has issued the certificate of the server. `tracer` traces the requests of all connections;
    None traces none.
    """

    tracer: ClassVar[RequestTracer | None] = None

    def __init__(self, *, identity: Identity, methods: frozenset[str]) -> None:
        configuration = identity.configuration
        super().__init__(configuration)
        tls.configure(self.ssl_context)
        self.answers = 0
        self.dated: tuple[str, float] = ("", 0.0)
        self.on_new_ca: Callable[[], None] | None = None
        self._ca_pem = identity.ca_pem
        self.server: str = configuration.host.rstrip("/")
        self._identity = identity
        self._methods = methods
        self._closed = False
        self._deadlines = weakref.WeakSet[asyncio.Timeout]()
        self._streams: set[aiohttp.ClientResponse] = set()
        self._extra: dict[str, Any] = {"proxy": self.proxy, "proxy_headers": self.proxy_headers} if self.proxy else {}
        if configuration.tls_server_name:
            self._extra["server_hostname"] = configuration.tls_server_name
        self._headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
        self._no_total = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)

    async def send(
        self,
        method: str,
        path: str,
        *,
        what: str,
        timeout_s: float,
        limit_bytes: int = ANSWER_BYTES,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        gvr: GVR | None = None,
        key: ObjectKey | None = None,
        warnings: list[str] | None = None,
    ) -> bytes:
        """Send one request and read the whole answer; raise errors of `api.errors` only.

        The texts of the answer's Warning headers are added to `warnings`.
        """
        try:
            async with self._deadline(timeout_s):
                response = await self._open(method, path, body=body, content_type=content_type, accept=accept)
                try:
                    if response.status in _ANSWERED:
                        self._check_page(response, what=what)
                        if warnings is not None:
                            warnings += response.headers.getall("Warning", ())
                        return await read_answer(response, limit=limit_bytes, what=what)
                    # Validation quotes the object that was written.
                    limit = STATUS_BYTES if body is None else limit_bytes
                    content = await read_error_body(response, limit=limit, what=what)
                finally:
                    response.release()
        except FAILURES as error:
            raise self._failure(error, what=what) from error
        raise self._refusal(response, content, what=what, gvr=gvr, key=key)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, what: str, open_s: float, silence_s: float, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET and yield the chunks of its answer; `silence_s` seconds without a chunk end it."""
        try:
            async with self._deadline(open_s):
                response = await self._open("GET", path, silence_s=silence_s, accept=accept)
        except FAILURES as error:
            raise self._failure(error, what=what) from error
        self._streams.add(response)
        try:
            if response.status != 200:
                async with self._deadline(open_s):
                    content = await read_error_body(response, limit=STATUS_BYTES, what=what)
                raise self._refusal(response, content, what=what)
            check_not_compressed(response, what=what)
            self._check_page(response, what=what)
            yield response.content.iter_any()
        except FAILURES as error:
            raise self._failure(error, what=what) from error
        finally:
            self._streams.discard(response)
            abort(response)

    @property
    def ca_pem(self) -> str:
        """Return the CA that verifies the server; empty for that of the system."""
        return self._identity.ca_pem

    @property
    def source(self) -> ConnectionSource:
        """Return where a person changes how the server is reached."""
        return self._identity.source

    async def close(self) -> None:
        """Close every connection; open requests end as Unreachable."""
        self._closed = True
        for deadline in self._deadlines:
            with contextlib.suppress(RuntimeError):  # it is over, or has just expired
                deadline.reschedule(0.0)
        for response in self._streams:  # by default aiohttp leaves its reader waiting forever
            response.content.set_exception(aiohttp.ClientConnectionError("closed"))
        await super().close()
        await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop

    def _failure(self, error: Exception, *, what: str) -> RegistryError:
        return error_of_failure(error, what=what, server=self.server, source=self._identity.source)

    def _refusal(
        self,
        response: aiohttp.ClientResponse,
        content: bytes,
        *,
        what: str,
        gvr: GVR | None = None,
        key: ObjectKey | None = None,
    ) -> RegistryError:
        source = self._identity.source
        return error_of(response, content, what=what, server=self.server, source=source, gvr=gvr, key=key)

    def _check_page(self, response: aiohttp.ClientResponse, *, what: str) -> None:
        if is_web_page(response):
            abort(response)
            raise ProtocolError(f"{what}: {explain_web_page(self.server, self._identity.source)}")

    def _deadline(self, timeout_s: float) -> asyncio.Timeout:
        """Limit a wait; `close` ends it at once."""
        deadline = asyncio.timeout(timeout_s)
        self._deadlines.add(deadline)
        return deadline

    async def _open(
        self,
        method: str,
        path: str,
        *,
        accept: str,
        body: bytes | None = None,
        content_type: str = JSON,
        silence_s: float | None = None,
    ) -> aiohttp.ClientResponse:
        context, headers = self.ssl_context, self._headers | {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        request = functools.partial(self._request, method, path, body=body, headers=headers, silence_s=silence_s)
        try:
            response = await request()
        except aiohttp.ClientConnectorCertificateError:
            if not await self._has_other_ca(context):
                raise
            response = await request()
        if response.status == 401 and await self._identity.renew():
            response.release()
            response = await request()
        if response.status != 401 and response.status < 500:  # a proxy before a dead server may send 5xx
            self.answers += 1
            self.dated = (response.headers.get("Date", ""), asyncio.get_running_loop().time())
        return response

    async def _has_other_ca(self, refused: ssl.SSLContext) -> bool:
        """Read the CA again; return whether it differs from that of the context `refused`."""
        if self.ssl_context is refused:
            await self._identity.renew()
            if self._identity.ca_pem == self._ca_pem:
                return False
            fresh = RESTClientObject(self._identity.configuration).ssl_context  # it connects only for a request
            tls.configure(fresh)
            self._ca_pem = self._identity.ca_pem
            self.ssl_context = self._extra["ssl"] = fresh  # for new connections: open ones were verified
            if self.on_new_ca is not None:
                self.on_new_ca()
        return True

    async def _request(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str], silence_s: float | None
    ) -> aiohttp.ClientResponse:
        if not is_allowed(method, path, self._methods):
            raise AssertionError(f"{method} is not allowed on the connection to {self.server}")
        if self._closed:
            raise Unreachable(f"{self.server}: the connection was closed here")
        headers = dict(headers)
        if authorization := self._identity.authorization():
            headers["Authorization"] = authorization
        timeout = self._no_total
        if silence_s is not None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        if self.tracer is None:
            return await self._exchange(method, path, body=body, headers=headers, limits=timeout)
        with self.tracer.request(method, path, server=self.server, headers=headers) as span:
            response = await self._exchange(method, path, body=body, headers=headers, limits=timeout)
            span.answered(response.status)
            return response

    async def _exchange(
        self, method: str, path: str, *, body: bytes | None, headers: dict[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = self.pool_manager = self.pool_manager or self._create_pool_manager()
        response: aiohttp.ClientResponse = await session.request(
            method,
            URL(self.server + path, encoded=True),
            data=body,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            **self._extra,
        )
        return response

    def _create_connector(self) -> aiohttp.TCPConnector:
        return Connector(limit=0, ssl=self.ssl_context, keepalive_timeout=_IDLE_S)

    def _create_pool_manager(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=self._create_connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=256 * 1024,
            max_field_size=64 * 1024,  # API servers put warnings into headers
        )


def is_allowed(method: str, path: str, methods: frozenset[str]) -> bool:
    """Return whether a connection allows a request; `PUT dryRun=All` among its methods allows dry runs only."""
    if method in methods:
        return True
    return f"{method} {DRY_RUN}" in methods and DRY_RUN in path.partition("?")[2].split("&")
