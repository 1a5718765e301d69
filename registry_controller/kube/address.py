"""Addresses of API servers, from strings that strangers wrote."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from registry_controller.api.errors import InvalidKubeconfig

_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?\Z")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~:@+-]*)*\Z")
_LENGTH: Final = 1024


def read_server(text: str, *, field: str) -> str:
    """Read an https URL and write it anew, without a trailing slash; raise InvalidKubeconfig naming the field."""
    if not text or len(text) > _LENGTH or not text.isascii() or not text.isprintable() or set(text) & set(" \\%?#"):
        raise InvalidKubeconfig(f"{field}: is no plain URL (no spaces, escapes, query or fragment)")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidKubeconfig(f"{field}: is no URL") from None
    if parts.scheme != "https":
        raise InvalidKubeconfig(f"{field}: must be an https URL")
    if "@" in parts.netloc:
        raise InvalidKubeconfig(f"{field}: must not hold a user or password")
    if port == 0 or parts.netloc.endswith(":"):
        raise InvalidKubeconfig(f"{field}: has no valid port")
    path = parts.path.rstrip("/")
    if not _PATH.match(path) or {".", ".."} & set(path.split("/")):
        raise InvalidKubeconfig(f"{field}: has a path that is not plain")
    host = _read_host(host, bracketed=parts.netloc.startswith("["), field=field)
    return f"https://{host}{f':{port}' if port else ''}{path}"


def read_address(text: str, *, field: str) -> str:
    """Read host, host:port, IP, IP:port or URL (https without a scheme) into an https URL."""
    text = text.strip()
    if "://" in text:
        return read_server(text, field=field)
    try:
        bare = f"[{text}]" if ipaddress.ip_address(text).version == 6 else text
    except ValueError:
        bare = text
    return read_server(f"https://{bare}", field=field)


def _read_host(host: str, *, bracketed: bool, field: str) -> str:
    if bracketed:
        try:
            return f"[{ipaddress.IPv6Address(host)}]"
        except ValueError:
            raise InvalidKubeconfig(f"{field}: has no valid IPv6 address") from None
    if not _HOST.match(host):
        raise InvalidKubeconfig(f"{field}: has no valid host")
    return host
