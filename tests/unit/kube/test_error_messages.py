"""What a person reads when an API server cannot be reached: what, where and what to do next, and no Python."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import re
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import uvloop
from aiohttp import web

from registry_controller.api.errors import (
    Forbidden,
    InvalidKubeconfig,
    InvalidOption,
    ProtocolError,
    RegistryError,
    Unauthorized,
    Unreachable,
)
from registry_controller.kube.connect import connect_peer
from registry_controller.kube.failures import KUBECONFIG, PEER, POD, ConnectionSource, error_of_failure
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.pem import read_ca
from registry_controller.kube.rest_config import check_contexts
from registry_controller.kube.watch import read_cluster_id
from registry_controller.kube.writer import connect_local
from registry_controller.report.reasons import describe_chart_grant, with_remedy

CA = trustme.CA()
CA_PEM = CA.cert_pem.bytes().decode()
TOKEN = "hunter2-token"
WHAT = "get namespaces.v1 kube-system"
PYTHON = re.compile(
    r"_ssl|ssl:|\[SSL|[Ee]rrno|<class|object at 0x|\bNone\b|\w(?:Error|Exception)\b|[(\[]['\"]|aiohttp|asyncio"
)
"""What only a Python program writes: modules, numbers and classes of errors, and reprs."""
NEXT = re.compile(r"[;:] .*\b(?:correct|check|renew|start|read|set|raise|make|grant|carry|log in|put|name|restart)\b")
ADDRESS = (
    "correct the server in the kubeconfig of its Secret, or serverAddress in its Cluster (then bring it here by "
    "`registry-controller join`)"
)
AUTHORITY = "correct certificate-authority-data in the kubeconfig of its Secret, or caBundle in its Cluster"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[contextlib.AsyncExitStack], Awaitable[str]]


def check_message(message: str, *, where: str) -> None:
    """Check what holds for each message that a person reads."""
    assert where in message
    assert NEXT.search(message), message
    assert not PYTHON.search(message), message
    assert TOKEN not in message


def test_the_pattern_finds_python() -> None:
    caught = [OSError(111, "x"), ssl.SSLError(1, "[SSL: X] y (_ssl.c:1)"), KeyError("x")]
    assert all(PYTHON.search(str(error)) or PYTHON.search(repr(error)) for error in caught)
    for text in ("Cannot connect to host a:1 ssl:default [None]", "connection lost (ClientOSError)", "(TypeError)"):
        assert PYTHON.search(text)


async def _page(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html><h1>Log in</h1></html>", content_type="text/html")


def https(*names: str, ca: trustme.CA = CA, answer: Answer = _page, days: tuple[int, int] | None = None) -> Serve:
    """Make a server with a certificate for these names, or 127.0.0.1; `days` from now it is valid."""

    async def serve(stack: contextlib.AsyncExitStack) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        now = datetime.datetime.now(datetime.UTC)
        begin, end = (now + datetime.timedelta(days=day) for day in days or (-1, 1))
        ca.issue_cert(*(names or ("127.0.0.1",)), not_before=begin, not_after=end).configure_cert(context)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        return f"https://127.0.0.1:{runner.addresses[0][1]}"

    return serve


def blocking(make_context: Callable[[], ssl.SSLContext]) -> Serve:
    """Make a server in a thread, which sends TLS alerts before it closes; asyncio's does not."""

    async def serve(stack: contextlib.AsyncExitStack) -> str:
        context = make_context()
        CA.issue_cert("127.0.0.1").configure_cert(context)
        listener = socket.create_server(("127.0.0.1", 0))
        stack.callback(listener.close)
        stack.callback(listener.shutdown, socket.SHUT_RDWR)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listener.accept()
                    with accepted, contextlib.suppress(OSError), context.wrap_socket(accepted, server_side=True) as tls:
                        tls.recv(4096)

        threading.Thread(target=accept, daemon=True).start()
        return f"https://127.0.0.1:{listener.getsockname()[1]}"

    return serve


def raw(greeting: bytes | None, *, resets: bool = False) -> Serve:
    """Make a TCP server that sends this and closes; None: it stays silent."""

    async def serve(stack: contextlib.AsyncExitStack) -> str:
        silent = asyncio.Event()
        stack.callback(silent.set)

        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if greeting is None:
                await silent.wait()
            else:
                writer.write(greeting)
            if resets:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        stack.callback(server.close)
        return f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return serve


async def closed_port(_: contextlib.AsyncExitStack) -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"https://127.0.0.1:{listener.getsockname()[1]}"


async def unknown_host(_: contextlib.AsyncExitStack) -> str:
    return "https://api.invalid:6443"


async def no_route(_: contextlib.AsyncExitStack) -> str:
    return "https://255.255.255.255:6443"


def old_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():  # such servers are what it is for
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return context


def asks_for_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    CA.configure_trust(context)
    return context


async def _refuses(_: web.Request) -> web.StreamResponse:
    words = 'namespaces "kube-system" is forbidden: User "system:serviceaccount:a:b" cannot get resource "namespaces"'
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"{words} {TOKEN}"}
    return web.json_response(body, status=403)


async def _unauthorized(_: web.Request) -> web.StreamResponse:
    body = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": f"token {TOKEN} has expired"}
    return web.json_response(body, status=401)


async def _redirects(_: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/login"}, content_type="text/html")


async def _vanishes(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass(frozen=True, slots=True)
class Row:
    """A server that cannot be used, the class of the error, and its message after the request's name."""

    id: str
    serve: Serve
    kind: type[RegistryError]
    message: str
    tls_server_name: str = ""
    timeout_s: float = 60.0


ROWS = (
    Row("refused", closed_port, Unreachable, f"{{server}} refuses connections; start the API server, or {ADDRESS}"),
    Row("timed out", raw(None), Unreachable,
        "no answer in time from {server}; check that it runs, and that networks and firewalls let requests through",
        timeout_s=0.5),
    Row("unknown host", unknown_host, Unreachable,
        f"the host name api.invalid cannot be resolved; {ADDRESS}, or check the DNS"),
    Row("no route", no_route, Unreachable,
        f"no network route leads to {{server}}; check the network, or {ADDRESS}"),
    Row("another CA", https(ca=trustme.CA()), Unreachable,
        f"the certificate of {{server}} is not from a certificate authority that is trusted; {AUTHORITY}"),
    Row("other names", https("other.test"), Unreachable,
        f"the certificate of {{server}} is not valid for 127.0.0.1; {ADDRESS}, set tls-server-name in the kubeconfig, "
        "or renew the certificate with this name"),
    Row("another server name", https(), Unreachable,
        f"the certificate of {{server}} is not valid for name.test; {ADDRESS}, set tls-server-name in the kubeconfig, "
        "or renew the certificate with this name", tls_server_name="name.test"),
    Row("expired", https(days=(-10, -1)), Unreachable,
        "the certificate of {server}, or its authority's certificate has expired; renew it on that server"),
    Row("not yet valid", https(days=(1, 10)), Unreachable,
        "the certificate of {server} is not yet valid; correct the clock of that server, or of this one"),
    Row("old TLS", blocking(old_tls), Unreachable,
        "{server} does not offer TLS 1.2 or later; set --tls-min-version of that API server, or update it"),
    Row("no TLS", raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Unreachable,
        f"{{server}} does not answer with TLS; {ADDRESS}: it must be an HTTPS port"),
    Row("reset before TLS", raw(b"", resets=True), Unreachable,
        "connection lost: {server} closed it without a whole answer; check the API server and proxies before it"),
    Row("reset after TLS", https(answer=_vanishes), Unreachable,
        "connection lost: {server} closed it without a whole answer; check the API server and proxies before it"),
    Row("401", https(answer=_unauthorized), Unauthorized,
        "401 Unauthorized: {server} does not accept the credentials in its Secret; newer ones come through any member "
        "that has them; if none has, carry the Secret over from its cluster again"),
    Row("a web page", https(), ProtocolError,
        f"{{server}} answers with a web page; {ADDRESS}: it must lead to a Kubernetes API server"),
    Row("a redirect to a login page", https(answer=_redirects), ProtocolError,
        f"HTTP 302, which no API server answers: {{server}} answers with a web page; {ADDRESS}: "
        "it must lead to a Kubernetes API server"),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
async def test_a_server_that_cannot_be_used_has_a_sentence(row: Row) -> None:
    """P4, A6."""
    async with contextlib.AsyncExitStack() as stack:
        server = await row.serve(stack)
        error = await ask(server, row.tls_server_name, timeout_s=row.timeout_s)
    assert type(error) is row.kind
    assert str(error) == f"{WHAT}: {row.message.format(server=server)}"
    check_message(str(error), where="api.invalid" if row.id == "unknown host" else server)


def test_the_loop_of_the_daemon_brings_the_same_sentences() -> None:
    """The daemon runs on uvloop, whose errors are others than asyncio's."""

    async def play() -> None:
        for row in ROWS:
            await test_a_server_that_cannot_be_used_has_a_sentence(row)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


async def ask(server: str, tls_server_name: str = "", *, timeout_s: float = 60.0) -> RegistryError:
    """Ask a server for its ID as a peer, and return the error."""
    reader = connect_peer(Credentials(server, CA_PEM, TOKEN, "", "", tls_server_name))
    try:
        with pytest.raises(RegistryError) as caught:
            await read_cluster_id(reader, timeout_s=timeout_s)
        return caught.value
    finally:
        await reader.close()


async def test_a_server_that_wants_a_client_certificate_has_a_sentence() -> None:
    """The alert races with the end of the connection; either way the message says what to look at."""
    async with contextlib.AsyncExitStack() as stack:
        server = await blocking(asks_for_certificate)(stack)
        error = await ask(server)
    assert isinstance(error, Unreachable)
    check_message(str(error), where=server)


async def test_a_missing_right_names_the_request_and_the_label_that_grants_it() -> None:
    """S3."""
    async with contextlib.AsyncExitStack() as stack:
        server = await https(answer=_refuses)(stack)
        error = await ask(server)
    assert isinstance(error, Forbidden)
    assert error.lacks_right
    label = "cluster-registry.k8s.cisco.com/reader-aggregated"
    grant = f'grant it with a ClusterRole labelled {label}: "true" there, as the chart does'
    message = with_remedy(error, describe_chart_grant(label, place="there"))
    assert message == f"{WHAT}: 403 Forbidden; {grant}"
    check_message(message, where="there")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for kubeconfigs; the environment names none."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def kubeconfig(at: Path, *, server: str = "https://127.0.0.1:1", **cluster: str) -> Path:
    lines = "".join(f", {name.replace('_', '-')}: {value}" for name, value in cluster.items())
    at.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'{lines}}}}}]\n"
        f"users: [{{name: u, user: {{token: {TOKEN}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        encoding="utf-8",
    )
    return at


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (closed_port, "refuses connections; start the API server, or correct the server in the kubeconfig"),
        (https(ca=trustme.CA()), "that is trusted; correct certificate-authority-data in the kubeconfig"),
        (https(answer=_unauthorized), "does not accept the user in the kubeconfig; log in again, or correct that user"),
    ],
    ids=["refused", "another CA", "401"],
)
async def test_our_own_cluster_names_the_kubeconfig(home: Path, serve: Serve, words: str) -> None:
    ca_file = home / "ca.crt"
    ca_file.write_text(CA_PEM)
    async with contextlib.AsyncExitStack() as stack:
        server = await serve(stack)
        path = kubeconfig(home / "kubeconfig", server=server, certificate_authority=str(ca_file))
        writer = await connect_local(kubeconfig=path)
        stack.push_async_callback(writer.close)
        with pytest.raises(RegistryError) as caught:
            await read_cluster_id(writer, timeout_s=60.0)
    assert words in str(caught.value)
    check_message(str(caught.value), where=server)


async def test_a_certificate_that_openssl_does_not_read_names_the_kubeconfig(home: Path) -> None:
    ca_file = home / "ca.crt"
    ca_file.write_text(f"{TOKEN} is no certificate")
    path = kubeconfig(home / "kubeconfig", certificate_authority=str(ca_file))
    with pytest.raises(InvalidOption) as caught:
        await connect_local(kubeconfig=path)
    assert "OpenSSL refuses a certificate or key in it" in str(caught.value)
    check_message(str(caught.value), where=f"kubeconfig {path}")


async def test_a_file_that_cannot_be_read_is_named(home: Path) -> None:
    path = kubeconfig(home / "kubeconfig", certificate_authority=str(home / "absent.crt"))
    with pytest.raises(InvalidOption) as caught:
        await connect_local(kubeconfig=path)
    check_message(str(caught.value), where=f"kubeconfig {path}")


CONTEXTS = (
    "current-context: c\nclusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]\nusers: [{name: u, user: {}}]\n"
    "contexts: [{name: c, context: {cluster: c, user: u}}, {name: d, context: {cluster: CLUSTER, user: USER}}]"
)


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        (f"[{TOKEN}", None, "it is not valid YAML (line 1)"),
        (f"[{TOKEN}]", None, "its contexts cannot be read"),
        (f"{TOKEN}: 1", None, "its current-context is missing"),
        (CONTEXTS, "e", "has no context e; it has c, d"),
        (CONTEXTS.replace("CLUSTER", "none"), "d", "its context d cannot be used: its cluster or user is missing"),
        (CONTEXTS.replace("CLUSTER", "[c]"), "d", "its context d cannot be used: its cluster or user "),
        (CONTEXTS.replace("{server: https://127.0.0.1:1}", "5"), "c", "has a field of a wrong type"),
    ],
    ids=["no YAML", "a list", "no context", "another context", "no cluster", "a list of clusters", "a number"],
)  # fmt: skip
async def test_a_kubeconfig_that_cannot_be_read_is_named(
    home: Path, text: str, context: str | None, words: str
) -> None:
    path = home / "kubeconfig"
    path.write_text(text)
    with pytest.raises(InvalidOption) as caught:
        await connect_local(kubeconfig=path, context=context)
    assert words in str(caught.value)
    check_message(str(caught.value), where=f"kubeconfig {path}")


@pytest.mark.parametrize("current", ["current-context: c\n", "", "current-context: gone\n"], ids=["c", "none", "gone"])
def test_a_context_that_is_not_there_is_named_whatever_the_current_one_is(home: Path, current: str) -> None:
    path = home / "kubeconfig"
    path.write_text(CONTEXTS.replace("current-context: c\n", current))
    check_contexts(path, ["c", "d"])
    check_contexts(home / "absent", [])
    with pytest.raises(InvalidOption, match=r"has no context e; it has c, d"):
        check_contexts(path, ["c", "e"])
    with pytest.raises(InvalidOption, match="there is no such file"):
        check_contexts(home / "absent", ["c"])


@pytest.mark.parametrize("command", ["/bin/false", "/absent/plugin"], ids=["it fails", "it is not installed"])
async def test_an_exec_plugin_without_credentials_is_named(home: Path, command: str) -> None:
    """Without this check, requests are anonymous, and the answer is that a right is missing."""
    plugin = f"{{apiVersion: client.authentication.k8s.io/v1, command: {command}}}"
    path = home / "kubeconfig"
    path.write_text(CONTEXTS.replace("user: {}", f"user: {{exec: {plugin}}}"))
    with pytest.raises(InvalidOption) as caught:
        await connect_local(kubeconfig=path, context="c")
    assert f"the program {command} of its user (exec) gives no credentials" in str(caught.value)
    check_message(str(caught.value), where=f"kubeconfig {path}")


async def test_without_a_kubeconfig_the_next_step_is_to_name_one(home: Path) -> None:
    with pytest.raises(InvalidOption) as caught:
        await connect_local(kubeconfig=home / "absent")
    check_message(str(caught.value), where=str(home / "absent"))


def test_a_ca_that_openssl_refuses_is_named_by_its_field() -> None:
    with pytest.raises(InvalidKubeconfig) as caught:
        read_ca(TOKEN.encode(), field="spec.kubernetesApiEndpoints.caBundle")
    message = str(caught.value)
    assert message.startswith("spec.kubernetesApiEndpoints.caBundle: ")
    assert not PYTHON.search(message)
    assert TOKEN not in message


def _ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] {TOKEN} (_ssl.c:1)")
    error.reason = reason
    return error


def _verification(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"[SSL: X] {TOKEN} (_ssl.c:1)")
    error.reason, error.verify_code, error.verify_message = "CERTIFICATE_VERIFY_FAILED", code, message
    return error


@pytest.mark.parametrize("source", [PEER, KUBECONFIG, POD], ids=["peer", "kubeconfig", "Pod"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (_ssl_error("UNSUPPORTED_PROTOCOL"), "does not offer TLS 1.2 or later"),
        (_ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "does not accept the client certificate, or requires one"),
        (_ssl_error("TLSV1_ALERT_UNKNOWN_CA"), "does not accept the client certificate, or requires one"),
        (_ssl_error("SSLV3_ALERT_HANDSHAKE_FAILURE"), "failed (sslv3 alert handshake failure)"),
        (_verification(68, "CA signature digest algorithm too weak"), "(ca signature digest algorithm too weak)"),
        (_verification(19, "self-signed certificate in certificate chain"), "authority that is trusted"),
        (OSError(errno.EMFILE, TOKEN), "no file descriptor left"),
        (OSError(errno.EHOSTUNREACH, TOKEN), "no network route"),
        (ConnectionRefusedError(errno.ECONNREFUSED, TOKEN), "refuses connections"),
        (ConnectionResetError(TOKEN), "connection lost"),
        (EOFError(TOKEN), "connection lost"),
        (aiohttp.ServerDisconnectedError(), "connection lost"),
        (aiohttp.ClientPayloadError(TOKEN), "connection lost"),
        (aiohttp.SocketTimeoutError(TOKEN), "no answer in time"),
        (TimeoutError(), "no answer in time"),
    ],
    ids=lambda given: repr(given)[:40] if isinstance(given, Exception) else "",
)  # fmt: skip
def test_what_cannot_be_provoked_here_has_a_sentence_too(
    error: Exception, words: str, source: ConnectionSource
) -> None:
    found = error_of_failure(error, what=WHAT, server="https://a.test:6443", source=source)
    assert isinstance(found, Unreachable)
    assert words in str(found)
    check_message(str(found), where="https://a.test:6443")


@pytest.mark.parametrize("source", [PEER, KUBECONFIG, POD], ids=["peer", "kubeconfig", "Pod"])
def test_what_is_no_http_has_a_sentence(source: ConnectionSource) -> None:
    request: Any = None
    error = aiohttp.ClientResponseError(request, (), message=TOKEN)
    found = error_of_failure(error, what=WHAT, server="https://a.test:6443", source=source)
    assert isinstance(found, ProtocolError)
    assert "the answer is no valid HTTP" in str(found)
    check_message(str(found), where=source.address)
