"""Read-only connections to API servers.

Law: a Reader can only get, list and watch; its transport refuses every other method.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Self
from urllib.parse import urlencode

from kubernetes.aio.client.configuration import Configuration

from registry_controller.api.errors import InvalidKubeconfig, NotFound, NotServed
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.failures import PEER
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.tls import load_certificate, openssl_words
from registry_controller.kube.transport import ANSWER_BYTES, JSON, Transport

READING: Final = frozenset({"GET"})

DISCOVERY_BYTES: Final = 1024 * 1024
"""The largest answer of discovery and /version: the core group takes 20 KiB, another kind 200 bytes."""

PAGES: Final = 4
"""Pages of one server that are read or processed at the same time."""

_METADATA: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
"""The media type for metadata alone; a server that does not know it sends whole objects."""

_WHOLE_BYTES: Final = 64 * 1024 * 1024  # a list without pages, which only the local API server is asked for
_PAGE_S: Final = 60.0
_OPEN_S: Final = 30.0


@dataclass(slots=True)
class LineBudget:
    """The unfinished lines of one server's watches, `size_bytes` long together; `kube.watch` limits them.

    `received_at_s` is the loop's time of the last bytes of a watch; None after a peer has counted them.
    """

    size_bytes: int = 0
    received_at_s: float | None = None


class Reader:
    """A read-only connection to one API server.

    `answers` counts the HTTP answers that prove that the server is alive: all but 401 and 5xx. `lines` limits the
    unfinished lines of its watches, and `turns` the pages that are read and processed at the same time.
    """

    def __init__(self, transport: Transport) -> None:
        self.lines = LineBudget()
        self.turns = asyncio.Semaphore(PAGES)
        self._transport = transport
        self._accepts_list = self._accepts_watch = JSON

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._transport.server

    @property
    def answers(self) -> int:
        """Return the number of answers that prove that the server is alive."""
        return self._transport.answers

    def of_metadata(self) -> Self:
        """Return the same connection, whose lists and watches ask for the metadata of objects alone."""
        found = copy.copy(self)
        found._accepts_list, found._accepts_watch = _METADATA.format("List"), _METADATA.format("")
        return found

    def on_new_ca(self, notify: Callable[[], None]) -> None:
        """Call `notify` after each change of the certificate authority that verifies the server."""
        self._transport.on_new_ca = notify

    def time_there(self) -> datetime | None:
        """Return the time of the server, from the header `Date` of its last answer; None where it is unknown."""
        text, at_s = self._transport.dated
        try:
            then = parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return None
        if then.tzinfo is None:
            return None
        with contextlib.suppress(OverflowError):
            return then + timedelta(seconds=asyncio.get_running_loop().time() - at_s)
        return None

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float = 10.0) -> bytes:
        """Read one object by a quorum read (no resourceVersion)."""
        path, what = gvr.object_path(key), f"get {gvr} {key}"
        return await self._transport.send("GET", path, what=what, timeout_s=timeout_s, gvr=gvr, key=key)

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = _WHOLE_BYTES) -> bytes:
        """Read a document that is not an object: discovery, /version."""
        return await self._transport.send("GET", path, what=f"get {path}", timeout_s=timeout_s, limit_bytes=limit_bytes)

    async def list_page(
        self,
        gvr: GVR,
        selection: Selection,
        *,
        query: Mapping[str, str],
        limit_bytes: int = ANSWER_BYTES,
        timeout_s: float = _PAGE_S,
    ) -> bytes:
        """Read one page of a list; NotServed for a missing kind, TooMuch for a page that is too large."""
        what = f"list {gvr} ({selection})"
        path, accept = _collection_path(gvr, selection, query=query), self._accepts_list
        try:
            return await self._transport.send(
                "GET", path, what=what, timeout_s=timeout_s, limit_bytes=limit_bytes, accept=accept
            )
        except NotFound as error:
            raise NotServed(f"{what}: is not served") from error

    @contextlib.asynccontextmanager
    async def stream(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its chunks; NotServed for a missing kind."""
        what = f"watch {gvr} ({selection})"
        path, accept = _collection_path(gvr, selection, query=query), self._accepts_watch
        stream = self._transport.stream(path, what=what, open_s=_OPEN_S, silence_s=silence_s, accept=accept)
        try:
            async with stream as chunks:
                yield chunks
        except NotFound as error:
            raise NotServed(f"{what}: is not served") from error

    async def close(self) -> None:
        """Close every connection; open requests end as Unreachable."""
        await self._transport.close()


class _PeerIdentity:
    """The token and CA of a peer's kubeconfig; new credentials need a new connection."""

    source: Final = PEER

    def __init__(self, credentials: Credentials) -> None:
        self.ca_pem = credentials.ca_pem
        self.configuration = Configuration(
            host=credentials.server,
            ca_cert_data=credentials.ca_pem or None,
            tls_server_name=credentials.tls_server_name or None,
        )
        self.configuration.proxy = None
        self._authorization = f"Bearer {credentials.token}" if credentials.token else ""

    def authorization(self) -> str:
        return self._authorization

    async def renew(self) -> bool:
        return False


def connect_peer(credentials: Credentials) -> Reader:
    """Make a connection to a peer without any request; InvalidKubeconfig when OpenSSL refuses the credentials."""
    try:
        transport = Transport(identity=_PeerIdentity(credentials), methods=READING)
        if credentials.client_certificate_pem:
            load_certificate(
                transport.ssl_context,
                certificate_pem=credentials.client_certificate_pem,
                key_pem=credentials.client_key_pem,
            )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidKubeconfig(
            f"certificate-authority-data, client-certificate-data: OpenSSL refuses them{openssl_words(error)}; "
            "replace them with valid PEM"
        ) from error
    return Reader(transport)


def _collection_path(gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> str:
    parameters = {"labelSelector": selection.labels, "fieldSelector": selection.fields, **query}
    encoded = urlencode({name: value for name, value in parameters.items() if value})
    path = gvr.path(selection.namespace)
    return f"{path}?{encoded}" if encoded else path
