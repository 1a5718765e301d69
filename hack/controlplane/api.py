"""A plain client of one API server, with the admin's certificate: one request, one connection, JSON."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from .errors import ApiError
from .pki import Pki

Manifest = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


class Api:
    """A client of host:port, as the admin.

    `timeout_s` is the time after which a request without an answer fails, unless the request has another one.
    """

    def __init__(self, port: int, *, pki: Pki, host: str = "127.0.0.1") -> None:
        self.timeout_s = 10.0
        self._port = port
        self._host = host
        self._tls = ssl.create_default_context(cafile=str(pki.server_ca))
        self._tls.load_cert_chain(pki.admin.certificate, pki.admin.key)

    def get(self, path: str, *, timeout_s: float | None = None) -> Manifest:
        """Read an object or a list."""
        return self.request("GET", path, timeout_s=timeout_s)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> Manifest:
        """Send a request; ApiError when the server refuses it (with its status) or does not answer (status 0)."""
        status, content = self._send(method, path, body, content_type, timeout_s or self.timeout_s)
        if status >= 400:
            raise ApiError(f"{method} {path}: {status}: {content.decode(errors='replace')[:500]}", status=status)
        parsed = json.loads(content)
        assert isinstance(parsed, dict)
        return parsed

    def missing(self, path: str, *, timeout_s: float = 2.0) -> str | None:
        """Return why a path cannot be read yet; None when it can."""
        try:
            status, content = self._send("GET", path, None, "", timeout_s)
        except ApiError as error:
            return str(error)
        return None if status == 200 else f"GET {path}: {status}: {content.decode(errors='replace')[:500]}"

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, timeout_s: float
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        headers = {"Accept": "application/json", "User-Agent": "hack-controlplane"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{method} https://{self._host}:{self._port}{path}: {error!r}", status=0) from error
        finally:
            connection.close()
