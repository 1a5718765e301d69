"""The conditions under which each process of a cluster is ready."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from pathlib import Path

from .api import Api

_TIMEOUT_S = 2.0


def etcd_missing(port: int) -> str | None:
    """Return why etcd does not serve; None when it has a leader and serves."""
    return _missing(http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S), "/health")


def controller_manager_missing(port: int, *, server_ca: Path, api: Api, settled: Sequence[str]) -> str | None:
    """Return why the controller manager is not ready: its health, then the objects of its controllers."""
    tls = ssl.create_default_context(cafile=str(server_ca))
    missing = _missing(http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=tls), "/healthz")
    return missing or next((reason for path in settled if (reason := api.missing(path))), None)


def _missing(connection: http.client.HTTPConnection, path: str) -> str | None:
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"GET {path}: {error!r}"
    finally:
        connection.close()
    return None if status == 200 else f"GET {path}: {status}"
