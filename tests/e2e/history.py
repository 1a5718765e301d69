"""What became of objects on a real API server, as its own watch tells it."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any

from hack.controlplane import Cluster


@contextlib.contextmanager
def recorded(cluster: Cluster, path: str) -> Iterator[list[dict[str, Any]]]:
    """Watch a path from now on; every event's object lands in the list, in the order of the server."""
    tls = ssl.create_default_context(cafile=str(cluster.pki.server_ca))
    tls.load_cert_chain(cluster.pki.admin.certificate, cluster.pki.admin.key)
    revision = cluster.api.get(path)["metadata"]["resourceVersion"]
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=tls)
    connection.request("GET", f"{path}{'&' if '?' in path else '?'}watch=1&resourceVersion={revision}")
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    seen: list[dict[str, Any]] = []

    def listen() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            for line in answer:
                seen.append(json.loads(line)["object"])

    thread = threading.Thread(target=listen, name=f"history of {path}", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        assert thread.is_alive(), f"the watch of {path} has ended"
        connection.sock.shutdown(2)
        thread.join(5)
        connection.close()
