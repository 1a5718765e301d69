"""The exec subresource over a WebSocket, against a server that speaks v4.channel.k8s.io."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from registry_controller.api.errors import Forbidden, NotFound, ProtocolError, RegistryError, TooMuch, Unauthorized
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.pod_exec import ExecResult, connect_exec

CA = trustme.CA()
POD = ObjectKey("cluster-registry", "daemon-1")
SUCCESS = b'\x03{"status": "Success"}'
FAILURE = b'\x03{"status": "Failure", "reason": "NonZeroExitCode"}'


@dataclass
class Server:
    """What the server was asked, and what it sends."""

    frames: tuple[bytes, ...] = ()
    status: int = 101
    asked: list[tuple[str, str]] = field(default_factory=list)
    stdin: list[bytes] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((str(request.rel_url), request.headers.get("Authorization", "")))
        if self.status != 101:
            return web.Response(status=self.status)
        stream = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await stream.prepare(request)
        self.stdin.append(await stream.receive_bytes())
        for frame in self.frames:
            await stream.send_bytes(frame)
        await stream.close()
        return stream


@contextlib.asynccontextmanager
async def running(server: Server, folder: Path) -> AsyncIterator[Path]:
    """Run the server, and yield a kubeconfig for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    ca = folder / "ca.pem"
    ca.write_bytes(CA.cert_pem.bytes())
    there = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca)}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": there}],
        "users": [{"name": "a", "user": {"token": "the-token"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }  # fmt: skip
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    try:
        yield path
    finally:
        await runner.cleanup()


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Server], Coroutine[Any, Any, ExecResult]]:
    async def run_against(server: Server) -> ExecResult:
        async with running(server, tmp_path) as kubeconfig:
            transport = await connect_exec(kubeconfig=kubeconfig, context=None)
            try:
                return await transport.run_in_pod(
                    POD,
                    container="manager",
                    command=("registry-controller", "probe"),
                    stdin=b"a secret\n",
                    timeout_s=60,
                )
            finally:
                await transport.close()

    return run_against


Run = Callable[[Server], Coroutine[Any, Any, ExecResult]]


async def test_the_output_comes_in_parts_and_the_input_is_not_in_the_address(run: Run) -> None:
    server = Server((b"\x01one ", b"\x02warned", b"\x01", b"\x01two", SUCCESS))
    assert await run(server) == ExecResult(b"one two", b"warned", succeeded=True)
    ((path, authorization),) = server.asked
    assert path.startswith("/api/v1/namespaces/cluster-registry/pods/daemon-1/exec?container=manager&command=")
    assert "command=registry-controller&command=probe" in path
    assert "secret" not in path
    assert authorization == "Bearer the-token"
    assert server.stdin == [b"\x00a secret\n"]


async def test_a_program_that_fails_is_no_error(run: Run) -> None:
    assert await run(Server((b"\x02usage", FAILURE))) == ExecResult(b"", b"usage", succeeded=False)


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (Server(status=403), Forbidden),
        (Server(status=401), Unauthorized),
        (Server(status=404), NotFound),
        (Server(status=500), ProtocolError),
        (Server(status=200), ProtocolError),
        (Server((b"\x01cut off",)), ProtocolError),
        (Server((*([b"\x01" + b"x" * 1024 * 1024] * 5), SUCCESS)), TooMuch),
    ],
    ids=["403", "401", "404", "500", "no stream", "no status", "too much"],
)
async def test_failures_are_errors_of_the_program(run: Run, server: Server, error: type[RegistryError]) -> None:
    with pytest.raises(error):
        await run(server)
