"""Reads addresses of API servers from untrusted text."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from registry_controller.api.errors import InvalidKubeconfig

_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?\Z")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\](:[0-9]*)?\Z")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~:@+-]*)*\Z")
_LENGTH: Final = 1024
_NO_HOST: Final = "has no valid host and port; an IPv6 address needs brackets"


def read_server(text: str, *, field: str) -> str:
    """Return an https URL in normal form, without a trailing slash; raise InvalidKubeconfig with the field's name."""
    if not text or len(text) > _LENGTH or not text.isascii() or not text.isprintable() or set(text) & set(" \\%?#"):
        raise InvalidKubeconfig(
            f"{field}: is not a plain URL; it must be ASCII, without spaces, escapes, zone, query or fragment"
        )
    found = _split(text)
    if found is None:
        raise InvalidKubeconfig(f"{field}: {_NO_HOST}")
    parts, host, port = found
    if parts.scheme != "https":
        raise InvalidKubeconfig(f"{field}: must be an https URL")
    if not parts.netloc:
        raise InvalidKubeconfig(f"{field}: has no host; write https://HOST:PORT")
    if "@" in parts.netloc:
        raise InvalidKubeconfig(f"{field}: must not hold a user or password; use token or a client certificate")
    if port == 0 or parts.netloc.endswith(":"):
        raise InvalidKubeconfig(f"{field}: has no valid port; give 1 to 65535 or none")
    path = parts.path.rstrip("/")
    if not _PATH.match(path) or {".", ".."} & set(path.split("/")):
        raise InvalidKubeconfig(f"{field}: has a path with special characters; use letters, digits and ._~:@+- only")
    host = _read_host(host, bracketed=parts.netloc.startswith("["), field=field)
    return f"https://{host}{f':{port}' if port else ''}{path}"


def read_address(text: str, *, field: str) -> str:
    """Return an https URL from host, host:port, IP, IP:port or URL; https is the default scheme."""
    text = text.strip()
    if "://" in text:
        return read_server(text, field=field)
    return read_server(f"https://[{text}]" if _ipv6(text) else f"https://{text}", field=field)


def _split(text: str) -> tuple[SplitResult, str, int | None] | None:
    """Split a URL; return None for an invalid one, so that no chained exception quotes it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if "[" in parts.netloc and "@" not in parts.netloc and not _BRACKETED.match(parts.netloc):
        return None  # urlsplit ignores text between ] and the port
    return parts, host, port


def _ipv6(text: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        return None


def _read_host(host: str, *, bracketed: bool, field: str) -> str:
    if bracketed:
        address = _ipv6(host)
        if address is None:
            raise InvalidKubeconfig(f"{field}: {_NO_HOST}")
        return f"[{address}]"
    if not _HOST.match(host):
        raise InvalidKubeconfig(f"{field}: has no valid host; write https://HOST:PORT")
    return host
