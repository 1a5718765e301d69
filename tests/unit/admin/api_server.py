"""An API server of a few stored objects on loopback, with TLS and a token, for the checks of clusters."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import trustme
from aiohttp import web

from registry_controller.api import meta
from registry_controller.api.meta import GVR
from registry_controller.kube.kubeconfig import Credentials

CA = trustme.CA()
CA_PEM = CA.cert_pem.bytes().decode()
NAMESPACE = "cluster-registry"
_PATH = re.compile(
    r"/apis?(?:/([a-z0-9.]+\.[a-z0-9.]+|apps))?/v[a-z0-9]+(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?"
)

Body = dict[str, Any]


class ApiServer:
    """Answers get, list and reviews of rights from its fields. `port` is 0 until it runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = "v1.36.1"
        self.token = f"token-of-{name}"
        self.clock_ahead = timedelta()
        self.forbidden: set[tuple[str, str]] = set()
        self.port = 0
        self._objects: dict[tuple[str, str, str, str], Body] = {}
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.show_certificate(days=365)
        times = {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
        system = {"name": "kube-system", "uid": f"id-of-{name}", **times}
        self.put(meta.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": system})

    @property
    def cluster_id(self) -> str:
        """The ID of the cluster."""
        return str(self.find(meta.NAMESPACES, "kube-system")["metadata"]["uid"])

    @property
    def server(self) -> str:
        """The address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def credentials(self) -> Credentials:
        """The credentials of a reader."""
        return Credentials(self.server, CA_PEM, self.token, "", "", "")

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig of a reader."""
        ca = base64.b64encode(CA_PEM.encode()).decode()
        parts = {
            "clusters": [{"name": "c", "cluster": {"server": self.server, "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": self.name, "context": {"cluster": "c", "user": "u"}}],
        }
        return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": self.name, **parts})

    def show_certificate(self, *, days: int) -> None:
        """Show a certificate that is valid for so many days, from the next connection on."""
        CA.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=days)).configure_cert(self.tls)

    def put(self, gvr: GVR, manifest: Mapping[str, Any]) -> None:
        """Store an object."""
        info = manifest["metadata"]
        place = (gvr.group, gvr.resource, info.get("namespace", ""), info["name"])
        self._objects[place] = json.loads(json.dumps(manifest))

    def find(self, gvr: GVR, name: str, namespace: str = "") -> Body:
        """Return a stored object itself: the caller may change it."""
        return self._objects[gvr.group, gvr.resource, namespace, name]

    def drop(self, gvr: GVR, name: str, namespace: str = "") -> None:
        """Delete an object."""
        del self._objects[gvr.group, gvr.resource, namespace, name]

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request; selectors are ignored."""
        date = {"Date": format_datetime(datetime.now(UTC) + self.clock_ahead, usegmt=True)}
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response(
                {"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401, headers=date
            )
        status, body = self._find(request.path, await request.text())
        return web.json_response(body, status=status, headers=date)

    def _find(self, path: str, text: str) -> tuple[int, Body]:
        if path == "/version" and ("get", "version") in self.forbidden:
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": 'cannot get path "/version"'}
        if path == "/version":
            return 200, {"gitVersion": self.version}
        found = _PATH.fullmatch(path)
        assert found is not None, path
        group, namespace, resource, name = (part or "" for part in found.groups())
        if resource == "selfsubjectaccessreviews":
            wanted = json.loads(text)["spec"]["resourceAttributes"]
            return 201, {"status": {"allowed": (wanted["verb"], wanted["resource"]) not in self.forbidden}}
        if ("get" if name else "list", resource) in self.forbidden:
            message = f'{resource} is forbidden: User "reader" cannot list resource "{resource}" in API group "{group}"'
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        held = {at: one for at, one in self._objects.items() if at[:2] == (group, resource)}
        if not name:
            items = [one for at, one in held.items() if namespace in ("", at[2])]
            return 200, {"metadata": {"resourceVersion": "1"}, "items": items}
        if (group, resource, namespace, name) in held:
            return 200, held[group, resource, namespace, name]
        details = {"name": name, "kind": resource, "group": group}
        return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "details": details}


@contextlib.asynccontextmanager
async def running(*servers: ApiServer) -> AsyncIterator[None]:
    """Run servers on free ports."""
    async with contextlib.AsyncExitStack() as stack:
        for server in servers:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", server.answer)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server.tls).start()
            server.port = runner.addresses[0][1]
        yield
