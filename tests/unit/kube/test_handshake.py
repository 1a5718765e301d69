"""The steps to an API server: each failure has its cause, and the certificate that the server showed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from registry_controller.kube.handshake import (
    ExamineError,
    ServerFault,
    ServerPort,
    connect,
    handshake,
    read_port,
    resolve,
)

STEP_S = 30.0
CA = trustme.CA()


@contextlib.asynccontextmanager
async def server(certificate: trustme.LeafCert | None) -> AsyncIterator[int]:
    """Run a server on loopback that ends each connection after its handshake; yield its port."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if context is None:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await reader.read(1)
            writer.close()

    found = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield found.sockets[0].getsockname()[1]
    finally:
        found.close()


def ca_pem(ca: trustme.CA = CA) -> str:
    return ca.cert_pem.bytes().decode()


async def failure(port: ServerPort, *, ca: trustme.CA = CA) -> ExamineError:
    with pytest.raises(ExamineError) as raised:
        await handshake(port, ca_pem=ca_pem(ca), timeout_s=STEP_S)
    return raised.value


async def test_a_verified_server_shows_its_certificate() -> None:
    async with server(CA.issue_cert("127.0.0.1", "api.example.com")) as number:
        port = read_port(f"https://127.0.0.1:{number}")
        assert await resolve(port, timeout_s=STEP_S) == ["127.0.0.1"]
        await connect(port, timeout_s=STEP_S)
        shown = await handshake(port, ca_pem=ca_pem(), timeout_s=STEP_S)
        assert set(shown.names) == {"127.0.0.1", "api.example.com"}
        assert shown.not_after > datetime.now(UTC)
        by_name = read_port(f"https://127.0.0.1:{number}", tls_server_name="api.example.com")
        assert await handshake(by_name, ca_pem=ca_pem(), timeout_s=STEP_S) == shown


async def test_a_certificate_of_other_names_is_shown() -> None:
    async with server(CA.issue_cert("api.example.com")) as number:
        error = await failure(read_port(f"https://127.0.0.1:{number}"))
        assert error.cause is ServerFault.WRONG_NAME
        assert error.certificate is not None
        assert error.certificate.names == ("api.example.com",)
    async with server(CA.issue_cert("127.0.0.1")) as number:
        assert (await failure(read_port(f"https://127.1:{number}"))).cause is ServerFault.WRONG_NAME


async def test_a_certificate_of_another_authority_is_shown_with_its_issuer() -> None:
    async with server(CA.issue_cert("127.0.0.1")) as number:
        error = await failure(read_port(f"https://127.0.0.1:{number}"), ca=trustme.CA())
        assert error.cause is ServerFault.UNTRUSTED
        assert error.certificate is not None
        assert error.certificate.issuer


async def test_an_expired_certificate_is_named() -> None:
    past = CA.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=1))
    async with server(past) as number:
        assert (await failure(read_port(f"https://127.0.0.1:{number}"))).cause is ServerFault.EXPIRED


async def test_a_server_without_tls_is_named() -> None:
    async with server(None) as number:
        assert (await failure(read_port(f"https://127.0.0.1:{number}"))).cause is ServerFault.NO_TLS


async def test_a_closed_port_refuses() -> None:
    async with server(None) as number:
        port = read_port(f"https://127.0.0.1:{number}")
    with pytest.raises(ExamineError) as raised:
        await connect(port, timeout_s=STEP_S)
    assert raised.value.cause is ServerFault.REFUSED


async def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(ExamineError) as raised:
        await resolve(ServerPort("a..b", 443, "a..b"), timeout_s=STEP_S)
    assert raised.value.cause is ServerFault.DNS


@pytest.mark.parametrize(
    ("url", "host", "number", "is_loopback"),
    [
        ("https://127.0.0.1:6443", "127.0.0.1", 6443, True),
        ("https://[::1]:6443", "::1", 6443, True),
        ("https://localhost", "localhost", 443, True),
        ("https://10.0.0.4", "10.0.0.4", 443, False),
        ("https://a.example.com:8443/k8s", "a.example.com", 8443, False),
    ],
)
def test_addresses_are_split(url: str, host: str, number: int, is_loopback: bool) -> None:
    found = read_port(url)
    assert (found.host, found.port, found.tls_name, found.is_loopback) == (host, number, host, is_loopback)
