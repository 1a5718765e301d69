"""Parsers for the values of options. Each raises ValueError with a description of a valid value."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry_controller.api.meta import GroupKind

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
_KIND: Final = re.compile(rf"(?P<kind>[A-Z][A-Za-z0-9]{{0,62}}|\*(?=\.))(\.(?P<group>{_SUBDOMAIN.pattern}))?")
_NAME_PATTERN: Final = re.compile(r"[-A-Za-z0-9.:_*]{1,253}")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class Address:
    """An address for a server to listen on. An empty host is every local address; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def text(value: str) -> str:
    """Return the value unchanged."""
    return value


def flag(value: str) -> bool:
    """Parse a boolean in the forms that Go accepts."""
    if value in _TRUE:
        return True
    if value in _FALSE:  # the Go original also reads an empty value as false
        return False
    raise ValueError("must be true or false")


def namespace(value: str) -> str:
    """Parse the name of a namespace."""
    if not _NAME.fullmatch(value):
        raise ValueError("must be the name of a namespace: at most 63 lower-case letters, digits and dashes")
    return value


def namespace_or_none(value: str) -> str:
    """Parse the name of a namespace, or an empty value."""
    return namespace(value) if value else value


def object_name(value: str) -> str:
    """Parse the name of an object."""
    if len(value) > 253 or not _SUBDOMAIN.fullmatch(value):
        raise ValueError("must be the name of an object: lower-case letters, digits, dashes and dots")
    return value


def object_name_or_none(value: str) -> str:
    """Parse the name of an object, or an empty value."""
    return object_name(value) if value else value


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for an integer from `low` to `high`."""

    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) < 10 and low <= int(value) <= high):
            raise ValueError(f"must be an integer from {low} to {high}")
        return int(value)

    return parse


def none_or_whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for an integer from `low` to `high`, or 0."""

    def parse(value: str) -> int:
        try:
            return 0 if value == "0" else whole(low, high)(value)
        except ValueError as error:
            raise ValueError(f"{error}, or 0") from None

    return parse


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser for one of the allowed words."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError("must be " + " or ".join(allowed))
        return value

    return parse


def _items(value: str) -> list[str]:
    return list(dict.fromkeys(item for part in value.split(",") if (item := part.strip())))


def namespaces(value: str) -> tuple[str, ...]:
    """Parse names of namespaces, separated by commas."""
    return tuple(namespace(item) for item in _items(value))


def kinds(value: str) -> tuple[GroupKind, ...]:
    """Parse kinds as `Kind`, `Kind.group` or `*.group`, separated by commas."""
    found = []
    for item in _items(value):
        match = _KIND.fullmatch(item)
        if match is None:
            raise ValueError(
                f'"{item}" is not a kind: write Secret, Role.rbac.authorization.k8s.io, or '
                "*.rbac.authorization.k8s.io for all kinds of a group; separate kinds with commas"
            )
        found.append(GroupKind(match["group"] or "", match["kind"]))
    return tuple(found)


class ObjectPattern(NamedTuple):
    """Objects of a kind, in any version, whose name matches; `*` in the name stands for any characters."""

    kind: GroupKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    def matches(self, group: str, kind: str, name: str) -> bool:
        """Return whether an object is one of these."""
        return self.kind.covers(group, kind) and fnmatch.fnmatchcase(name, self.name)


def object_patterns(value: str) -> tuple[ObjectPattern, ...]:
    """Parse objects as `Kind/name` or `Kind.group/name`, separated by commas."""
    found = []
    for item in _items(value):
        kind, _, name = item.partition("/")
        match = _KIND.fullmatch(kind)
        if match is None or not _NAME_PATTERN.fullmatch(name):
            raise ValueError(
                f'"{item}" is not an object: write ConfigMap/istio-ca-root-cert, or with the group '
                "RoleBinding.rbac.authorization.k8s.io/system:*; separate objects with commas"
            )
        found.append(ObjectPattern(GroupKind(match["group"] or "", match["kind"]), name))
    return tuple(found)


def parse_address(value: str) -> Address | None:
    """Parse `:8080`, `127.0.0.1:0` or `[::1]:80`. Return None, which disables the server, for `0` and for empty."""
    if value in ("", "0"):
        return None
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""  # an IPv6 address without brackets: the beginning of the port is ambiguous
    if not colon or not re.fullmatch(r"[A-Za-z0-9.:_%-]*", host):
        raise ValueError("must be host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080; 0 disables the server")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536):
        raise ValueError("must end in a port from 0 to 65535")
    return Address(host, int(port))
