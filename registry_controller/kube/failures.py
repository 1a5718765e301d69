"""Turns failures of a connection into errors with a sentence for each: what, where and what to do next.

Law: a message holds no text of Python, of the client library or of a server. OpenSSL's own word for a failure is the
only foreign text, and it names no data.
"""

from __future__ import annotations

import errno
import re
import ssl
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from registry_controller.api.errors import ProtocolError, RegistryError, Unreachable
from registry_controller.kube import tls

FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, TimeoutError)
"""The exceptions of the transport for a failed connection or server."""


@dataclass(frozen=True, slots=True)
class ConnectionSource:
    """Names, in words for messages, where a person changes how an API server is reached."""

    address: str
    ca: str
    credentials: str
    renewal: str
    """The way to new credentials."""


PEER: Final = ConnectionSource(
    address="the server in the kubeconfig of its Secret, or serverAddress in its Cluster (then bring it here by "
    "`registry-controller join`)",
    ca="certificate-authority-data in the kubeconfig of its Secret, or caBundle in its Cluster",
    credentials="the credentials in its Secret",
    renewal="newer ones come through any member that has them; if none has, carry the Secret over from its cluster "
    "again",
)
KUBECONFIG: Final = ConnectionSource(
    address="the server in the kubeconfig",
    ca="certificate-authority-data in the kubeconfig",
    credentials="the user in the kubeconfig",
    renewal="log in again, or correct that user",
)
POD: Final = ConnectionSource(
    address="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
    ca="ca.crt of the Pod's ServiceAccount",
    credentials="the token of the Pod's ServiceAccount",
    renewal="the kubelet renews it; restart the Pod if this lasts",
)

_NO_ROUTE: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EACCES, errno.EPERM})
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
_VERSION: Final = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
_CLIENT_CERTIFICATE: Final = re.compile(r"ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNKNOWN_CA|UNSUPPORTED_CERTIFICATE)")
_NAME: Final = re.compile(r"not valid for '([^']{1,253})'")
_OTHER_NAMES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_, _IP_ADDRESS_
_TOO_SOON, _TOO_LATE = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID, _HAS_EXPIRED
_UNTRUSTED: Final = frozenset({2, 7, 18, 19, 20, 21, 24, 27, 29, 30})
"""OpenSSL's codes for a chain that does not lead to a certificate authority in the bundle (x509_vfy.h)."""


def error_of_failure(error: Exception, *, what: str, server: str, source: ConnectionSource) -> RegistryError:
    """Turn an exception of the transport into Unreachable, or ProtocolError for an answer that is not HTTP.

    `what` names the request, `server` is the URL of the API server.
    """
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return ProtocolError(
            f"{what}: the answer is no valid HTTP; correct {source.address}: it must lead to a Kubernetes API server"
        )
    return Unreachable(f"{what}: {_explain(error, server=server, source=source)}")


def explain_timeout(server: str) -> str:
    """Return the sentence for a server that did not answer in time."""
    return f"no answer in time from {server}; check that it runs, and that networks and firewalls let requests through"


def explain_unauthorized(server: str, source: ConnectionSource) -> str:
    """Return the sentence for a 401."""
    return f"{server} does not accept {source.credentials}; {source.renewal}"


def explain_web_page(server: str, source: ConnectionSource) -> str:
    """Return the sentence for an answer in HTML."""
    return f"{server} answers with a web page; correct {source.address}: it must lead to a Kubernetes API server"


def _explain(error: Exception, *, server: str, source: ConnectionSource) -> str:
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        server = f"the proxy {error.host}:{error.port} on the way to {server}"
    # Errors of aiohttp have the class of their cause too, without its attributes.
    causes = [cause for cause in _causes(error) if not isinstance(cause, aiohttp.ClientError)]
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _explain_certificate(cause, server=server, source=source)
        if isinstance(cause, ssl.SSLError):
            return _explain_handshake(cause, server=server, source=source)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name {error.host} cannot be resolved; correct {source.address}, or check the DNS"
    if isinstance(error, TimeoutError):
        return explain_timeout(server)
    return _explain_socket({cause.errno for cause in causes if isinstance(cause, OSError)}, server, source)


def _explain_socket(codes: Set[int | None], server: str, source: ConnectionSource) -> str:
    if errno.ECONNREFUSED in codes:
        return f"{server} refuses connections; start the API server, or correct {source.address}"
    if errno.ETIMEDOUT in codes:
        return explain_timeout(server)
    if codes & _NO_ROUTE:
        return f"no network route leads to {server}; check the network, or correct {source.address}"
    if codes & _NO_DESCRIPTOR:
        return f"this process has no file descriptor left for {server}; raise its limit of open files"
    return f"connection lost: {server} closed it without a whole answer; check the API server and proxies before it"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """List an exception with those that it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "os_error", None) or error.__cause__


def _explain_certificate(error: ssl.SSLCertVerificationError, *, server: str, source: ConnectionSource) -> str:
    code = error.verify_code
    if code in _UNTRUSTED:
        return f"the certificate of {server} is not from a certificate authority that is trusted; correct {source.ca}"
    if code in _OTHER_NAMES:
        name = _NAME.search(error.verify_message)
        return (
            f"the certificate of {server} is not valid for {name[1] if name else 'this host'}; "
            f"correct {source.address}, set tls-server-name in the kubeconfig, or renew the certificate with this name"
        )
    if code == _TOO_LATE:
        return f"the certificate of {server}, or its authority's certificate has expired; renew it on that server"
    if code == _TOO_SOON:
        return f"the certificate of {server} is not yet valid; correct the clock of that server, or of this one"
    words = tls.spell_words(error.verify_message)
    return f"the certificate of {server} cannot be verified ({words}); renew it on that server"


def _explain_handshake(error: ssl.SSLError, *, server: str, source: ConnectionSource) -> str:
    reason = error.reason or ""
    if reason in _VERSION:
        return f"{server} does not offer TLS 1.2 or later; set --tls-min-version of that API server, or update it"
    if reason in _NO_TLS:
        return f"{server} does not answer with TLS; correct {source.address}: it must be an HTTPS port"
    if _CLIENT_CERTIFICATE.search(reason):
        return f"{server} does not accept the client certificate, or requires one; correct {source.credentials}"
    return f"the TLS handshake with {server} failed{tls.openssl_words(error)}; read the log of that API server"
