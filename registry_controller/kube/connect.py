"""Connections to API servers: a Reader for a peer, a Writer for the local cluster.

Law: a Reader can only get, list and watch; its transport refuses every other method. A path consists of checked parts,
so that no name leads to another path.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from kubernetes.aio.client.configuration import Configuration

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig, NotFound, NotServed, ProtocolError
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.failures import PEER
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.line_budget import LineBudget
from registry_controller.kube.rest_config import connect_local_transport
from registry_controller.kube.tls import load_certificate, openssl_words
from registry_controller.kube.transport import ANSWER_BYTES, DRY_RUN, Transport

READING: Final = frozenset({"GET"})
WRITING: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
DRY_RUNNING: Final = frozenset({"GET", f"PUT {DRY_RUN}"})
"""Reads, and dry runs of replacements."""

DISCOVERY_BYTES: Final = 1024 * 1024
"""The largest answer of discovery and /version: the core group takes 20 KiB, another kind 200 bytes."""

PAGES: Final = 4
"""Pages of one server that are read or processed at the same time."""

_WHOLE_BYTES: Final = 64 * 1024 * 1024  # a list without pages, which only the local API server is asked for
_PAGE_S: Final = 60.0
_OPEN_S: Final = 30.0
_WRITE_S: Final = 30.0  # admission webhooks may take 10 s, and there may be several
_MANAGER: Final = f"?fieldManager={meta.FIELD_MANAGER}&fieldValidation=Ignore"
_MERGE_PATCH: Final = "application/merge-patch+json"


class Reader:
    """A read-only connection to one API server.

    `answers` counts the HTTP answers that prove that the server is alive: all but 401 and 5xx. `lines` limits the
    unfinished lines of its watches, and `turns` the pages that are read and processed at the same time.
    """

    def __init__(self, transport: Transport) -> None:
        self.lines = LineBudget()
        self.turns = asyncio.Semaphore(PAGES)
        self._transport = transport

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._transport.server

    @property
    def answers(self) -> int:
        """Return the number of answers that prove that the server is alive."""
        return self._transport.answers

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float = 10.0) -> bytes:
        """Read one object by a quorum read (no resourceVersion)."""
        what = _request_name("get", gvr, key)
        return await self._transport.send(
            "GET", object_path(gvr, key), what=what, timeout_s=timeout_s, gvr=gvr, key=key
        )

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
        path = _collection_path(gvr, selection, query=query)
        try:
            return await self._transport.send("GET", path, what=what, timeout_s=timeout_s, limit_bytes=limit_bytes)
        except NotFound as error:
            raise NotServed(f"{what}: is not served") from error

    @contextlib.asynccontextmanager
    async def stream(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its chunks; NotServed for a missing kind."""
        what = f"watch {gvr} ({selection})"
        path = _collection_path(gvr, selection, query=query)
        try:
            async with self._transport.stream(path, what=what, open_s=_OPEN_S, silence_s=silence_s) as chunks:
                yield chunks
        except NotFound as error:
            raise NotServed(f"{what}: is not served") from error

    async def close(self) -> None:
        """Close every connection; open requests end as Unreachable."""
        await self._transport.close()


class Writer(Reader):
    """A connection to the local API server, with the right to write."""

    @property
    def ca_pem(self) -> str:
        """Return the certificate authorities that verify the server; empty for the system's."""
        return self._transport.ca_pem

    def on_new_ca(self, notify: Callable[[], None]) -> None:
        """Call `notify` after each change of the certificate authority that verifies the server."""
        self._transport.on_new_ca = notify

    async def create(self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool = False) -> bytes:
        """Create an object; return the stored bytes. AlreadyExists, or NotFound with the kind `namespaces`."""
        path = gvr.path(_segment(namespace) if namespace else "") + _write_options(dry_run)
        what = f"create {gvr}{f' in {namespace}' if namespace else ''}"
        return await self._transport.send("POST", path, what=what, timeout_s=_WRITE_S, body=body)

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool = False, subresource: str = ""
    ) -> bytes:
        """Replace an object; return the stored bytes. Conflict unless its resourceVersion is the stored one."""
        path = object_path(gvr, key, subresource=subresource) + _write_options(dry_run)
        return await self._write("PUT", path, gvr=gvr, key=key, body=body, subresource=subresource)

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        """Delete exactly this version of an object; Conflict when it has changed."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
            "propagationPolicy": "Background",
        }
        await self._write("DELETE", object_path(gvr, key), gvr=gvr, key=key, body=msgspec.json.encode(options))

    async def patch_status(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` through the status subresource; return the stored bytes."""
        path = object_path(gvr, key, subresource="status") + _MANAGER
        return await self._patch(path, gvr=gvr, key=key, patch=patch, subresource="status")

    async def merge_patch(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` into an object; return the stored bytes."""
        return await self._patch(object_path(gvr, key) + _MANAGER, gvr=gvr, key=key, patch=patch)

    async def post_path(self, path: str, body: bytes, *, timeout_s: float = 10.0) -> bytes:
        """Post a request that is not a stored object: an access review, a token request."""
        return await self._transport.send("POST", path, what=f"create {path}", timeout_s=timeout_s, body=body)

    async def _patch(
        self, path: str, *, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], subresource: str = ""
    ) -> bytes:
        body = msgspec.json.encode(patch)
        return await self._write(
            "PATCH", path, gvr=gvr, key=key, body=body, subresource=subresource, content_type=_MERGE_PATCH
        )

    async def _write(
        self,
        method: str,
        path: str,
        *,
        gvr: GVR,
        key: ObjectKey,
        body: bytes,
        subresource: str = "",
        content_type: str = "application/json",
    ) -> bytes:
        verb = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
        what = _request_name(verb, gvr, key) + (f" {subresource}" if subresource else "")
        return await self._transport.send(
            method, path, what=what, timeout_s=_WRITE_S, body=body, content_type=content_type, gvr=gvr, key=key
        )


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


async def connect_local(
    *, kubeconfig: Any = None, context: str | None = None, methods: frozenset[str] = WRITING
) -> Writer:
    """Connect to the local cluster, as `load_local_identity` finds it."""
    return Writer(await connect_local_transport(kubeconfig=kubeconfig, context=context, methods=methods))


def object_path(gvr: GVR, key: ObjectKey, *, subresource: str = "") -> str:
    """Return the URL path of one object; ProtocolError for a name that no object can have."""
    if gvr.namespaced != bool(key.namespace):
        raise ProtocolError(f"{gvr} {key}: {'needs a' if gvr.namespaced else 'has no'} namespace")
    namespace = _segment(key.namespace) if key.namespace else ""
    return gvr.path(namespace, _segment(key.name), subresource)


def _segment(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise ProtocolError(f"{msgspec.json.encode(name[:300]).decode()}: is not a valid name of an object")
    return quote(name, safe=":")


def _collection_path(gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> str:
    parameters = {"labelSelector": selection.labels, "fieldSelector": selection.fields, **query}
    encoded = urlencode({name: value for name, value in parameters.items() if value})
    path = gvr.path(_segment(selection.namespace) if selection.namespace else "")
    return f"{path}?{encoded}" if encoded else path


def _write_options(dry_run: bool) -> str:
    return f"{_MANAGER}&{DRY_RUN}" if dry_run else _MANAGER


def _request_name(verb: str, gvr: GVR, key: ObjectKey) -> str:
    return f"{verb} {gvr} {key}"
