"""Services, as kube-proxy routes them: the API server reaches a pod by its Service's ClusterIP.

Law: the proxy is an abstract Unix socket, so it is on no network and needs no file. The API server is configured as in
a cluster whose nodes it reaches through a proxy (EgressSelectorConfiguration, HTTP CONNECT). It requests the stored
ClusterIP and port of the Service. No field of a Service or webhook is replaced."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from .api import Api, Manifest
from .errors import ControlPlaneError

_CONNECT = re.compile(rb"CONNECT ([0-9.]+):([0-9]+) HTTP/1\.1\r\n")
_TIMEOUT_S = 5.0

Endpoints = Callable[[str, Mapping[str, str], "int | str"], list[int]]
"""(namespace, selector, target port) -> the loopback ports of the ready pods."""


def write_egress_configuration(path: Path, *, name: str) -> None:
    """Write the configuration with which the API server uses the proxy of that name; JSON is YAML."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": f"@{name}"}}}
    content = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")


class Services:
    """The proxy of one cluster. It listens while a kubelet has joined; without it no Service is reachable."""

    def __init__(self, api: Api, *, name: str) -> None:
        self.name = name
        self._api = api
        self._endpoints: list[Endpoints] = []
        self._turn = itertools.count()
        self._server: _Server | None = None
        self._lock = threading.Lock()

    def join(self, endpoints: Endpoints) -> None:
        """Route to these endpoints, too."""
        with self._lock:
            self._endpoints.append(endpoints)
            if self._server is None:
                self._server = _Server(f"\0{self.name}", self._handler())
                threading.Thread(target=self._server.serve_forever, name="services", daemon=True).start()

    def leave(self, endpoints: Endpoints) -> None:
        """Stop routing to these endpoints. A second call does nothing."""
        with self._lock:
            self._endpoints = [held for held in self._endpoints if held != endpoints]
            if self._server is not None and not self._endpoints:
                self._server.shutdown()
                self._server.server_close()
                self._server = None

    def route(self, address: str, port: int) -> int | None:
        """Return the loopback port of a pod behind a ClusterIP, each ready pod in turn; None without ready pods."""
        found = next((s for s in self._api.get("/api/v1/services")["items"] if s["spec"]["clusterIP"] == address), None)
        target = _target(found, port) if found is not None else None
        if found is None or target is None:
            return None
        namespace, selector = found["metadata"]["namespace"], found["spec"].get("selector") or {}
        ports = [ready for ports_of in self._endpoints for ready in ports_of(namespace, selector, target)]
        return ports[next(self._turn) % len(ports)] if ports else None

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        services = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = _TIMEOUT_S
            rbufsize = 0  # bytes after the headers belong to the pod

            def handle(self) -> None:
                with contextlib.suppress(OSError, ControlPlaneError):
                    _tunnel(self.request, services.route)

        return Handler


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False


def _target(service: Manifest, port: int) -> int | str | None:
    found = next((item for item in service["spec"]["ports"] if item["port"] == port), None)
    if found is None:
        return None
    target: int | str = found.get("targetPort", port)
    return target


def _tunnel(client: socket.socket, route: Callable[[str, int], int | None]) -> None:
    """Answer one CONNECT, and copy bytes in both directions until one side ends."""
    asked = b""
    while not asked.endswith(b"\r\n\r\n"):
        if not (byte := client.recv(1)):
            return
        asked += byte
    found = _CONNECT.match(asked)
    port = route(found[1].decode(), int(found[2])) if found else None
    if port is None:
        client.sendall(b"HTTP/1.1 502 no ready pod is behind that address\r\n\r\n")
        return
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as pod:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for side in (client, pod):
            side.settimeout(None)
        threading.Thread(target=_pass_on, args=(pod, client), name="services", daemon=True).start()
        _pass_on(client, pod)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    for side in (source, target):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
