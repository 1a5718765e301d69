"""Examines an API server step by step: its name, its port, its TLS certificate. No credentials are sent.

Law: each failure has a cause from a closed set, so that a caller can name the flag or the value that corrects it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import errno
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from registry_controller.kube import tls

_HTTPS: Final = 443
_NAMES: Final = 20
_NO_ROUTE: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EACCES, errno.EPERM})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
_OTHER_NAMES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_, _IP_ADDRESS_
_TOO_SOON, _TOO_LATE = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID, _HAS_EXPIRED


class ServerFault(enum.Enum):
    """The first step that failed."""

    DNS = "the host name cannot be resolved"
    REFUSED = "the port refuses connections"
    NO_ROUTE = "no network route leads there"
    TIMEOUT = "there is no answer in time"
    NO_TLS = "the port does not answer with TLS"
    WRONG_NAME = "the certificate is not valid for this address"
    UNTRUSTED = "no trusted certificate authority issued the certificate"
    EXPIRED = "the certificate has expired"
    NOT_YET_VALID = "the certificate is not yet valid"
    HANDSHAKE = "the TLS handshake failed"


class ExamineError(Exception):
    """A step failed; `certificate` is the one that the server showed, or None."""

    def __init__(self, cause: ServerFault, detail: str = "", *, certificate: ServerCertificate | None = None) -> None:
        super().__init__(cause.value)
        self.cause = cause
        self.detail = detail
        self.certificate = certificate


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The certificate of a server: DNS names and IP addresses (20 at most), the issuer's name, its times in UTC."""

    names: tuple[str, ...]
    issuer: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class ServerPort:
    """Host and port of an API server; `tls_name` is the name that its certificate is checked against."""

    host: str
    port: int
    tls_name: str

    @property
    def is_loopback(self) -> bool:
        """True for an address that leads to the own machine only."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_port(server: str, *, tls_server_name: str = "") -> ServerPort:
    """Split an https URL, as `kube.address` returns it."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    return ServerPort(host, parts.port or _HTTPS, tls_server_name or host)


async def resolve(port: ServerPort, *, timeout_s: float) -> Sequence[str]:
    """Return the IP addresses of a server; ExamineError with the cause DNS."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(port.host, port.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise ExamineError(ServerFault.DNS) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def connect(port: ServerPort, *, timeout_s: float) -> None:
    """Open and close a TCP connection; ExamineError with the causes of a network."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(port.host, port.port)
    except TimeoutError as error:
        raise ExamineError(ServerFault.TIMEOUT) from error
    except OSError as error:
        raise ExamineError(_network_cause(error)) from error
    await _close(writer)


async def handshake(port: ServerPort, *, ca_pem: str, timeout_s: float) -> ServerCertificate:
    """Return the certificate of a server, once it is verified; an empty `ca_pem` means the system's authorities.

    ExamineError with the cause, and with the certificate where the server showed one.
    """
    context = ssl.create_default_context(cadata=ca_pem or None)
    tls.configure(context)
    try:
        return await _shake(port, context, timeout_s=timeout_s)
    except ssl.SSLCertVerificationError as error:
        shown = await show_certificate(port, timeout_s=timeout_s)
        raise ExamineError(
            _certificate_cause(error), tls.spell_words(error.verify_message), certificate=shown
        ) from error
    except ssl.SSLError as error:
        cause = ServerFault.NO_TLS if (error.reason or "") in _NO_TLS else ServerFault.HANDSHAKE
        raise ExamineError(cause, tls.openssl_words(error).strip(" ()")) from error
    except TimeoutError as error:
        raise ExamineError(ServerFault.TIMEOUT) from error
    except OSError as error:
        raise ExamineError(_network_cause(error)) from error


async def show_certificate(port: ServerPort, *, timeout_s: float) -> ServerCertificate | None:
    """Return the certificate that a server shows, without a check; None where that fails. For messages only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return await _shake(port, context, timeout_s=timeout_s)
    except (OSError, TimeoutError):  # ssl.SSLError is an OSError
        return None


def read_certificate(der: bytes) -> ServerCertificate:
    """Read names, issuer and times of a certificate."""
    found = x509.load_der_x509_certificate(der)
    names: list[str] = []
    with contextlib.suppress(x509.ExtensionNotFound, ValueError):
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += alternatives.get_values_for_type(x509.DNSName)
        names += map(str, alternatives.get_values_for_type(x509.IPAddress))
    shown = tuple(_printable(name) for name in names[:_NAMES])
    return ServerCertificate(shown, _issuer(found), found.not_valid_before_utc, found.not_valid_after_utc)


def _issuer(certificate: x509.Certificate) -> str:
    for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
        found = certificate.issuer.get_attributes_for_oid(oid)
        if found:
            return _printable(str(found[0].value))
    return "a certificate authority without a name"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:253]


async def _shake(port: ServerPort, context: ssl.SSLContext, *, timeout_s: float) -> ServerCertificate:
    async with asyncio.timeout(timeout_s):
        _, writer = await asyncio.open_connection(
            port.host, port.port, ssl=context, server_hostname=port.tls_name, ssl_handshake_timeout=timeout_s
        )
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        await _close(writer)
    return read_certificate(der)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _network_cause(error: OSError) -> ServerFault:
    codes = {error.errno, *(getattr(one, "errno", None) for one in getattr(error, "exceptions", ()))}
    if isinstance(error, socket.gaierror):
        return ServerFault.DNS
    if codes & _NO_ROUTE:
        return ServerFault.NO_ROUTE
    return ServerFault.TIMEOUT if errno.ETIMEDOUT in codes else ServerFault.REFUSED


def _certificate_cause(error: ssl.SSLCertVerificationError) -> ServerFault:
    if error.verify_code in _OTHER_NAMES:
        return ServerFault.WRONG_NAME
    return {_TOO_LATE: ServerFault.EXPIRED, _TOO_SOON: ServerFault.NOT_YET_VALID}.get(
        error.verify_code, ServerFault.UNTRUSTED
    )
