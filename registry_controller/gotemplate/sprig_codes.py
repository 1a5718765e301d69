"""Sprig's functions for encodings, digests and paths."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_string, check_count
from registry_controller.gotemplate.limits import Budget, TemplateError


def _one_string(function: Callable[[str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        check_count(given, 1, 1)
        return function(as_string(given[0]))

    return call


def _b32enc(budget: Budget, value: Any) -> str:
    return base64.b32encode(budget.scan(as_string(value)).encode()).decode()


def _b64dec(_: Budget, value: Any) -> str:
    return _decoded(base64.b64decode, as_string(value), binascii.Error)


def _b32dec(budget: Budget, value: Any) -> str:
    return _decoded(base64.b32decode, budget.scan(as_string(value)), binascii.Error)


def _decoded(decode: Callable[..., bytes], value: str, error: type[Exception]) -> str:
    try:
        plain = value.replace("\r", "").replace("\n", "")
        data = decode(plain, validate=True) if decode is base64.b64decode else decode(plain)
    except (error, ValueError):
        raise TemplateError("cannot be decoded") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TemplateError("the decoded value is not UTF-8") from None


def _digest(name: str) -> Callable[..., Any]:
    return _one_string(lambda value: hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest())


def _clean(path: str) -> str:
    found = posixpath.normpath(path) if path else "."
    return found[1:] if found.startswith("//") else found


def _extension(path: str) -> str:
    name = path.rpartition("/")[2]
    return "." + name.rpartition(".")[2] if "." in name else ""


CODES: Final[Mapping[str, Callable[..., Any]]] = {
    "b64enc": _one_string(lambda value: base64.b64encode(value.encode()).decode()), "b64dec": _b64dec,
    "b32enc": _b32enc, "b32dec": _b32dec,
    "sha1sum": _digest("sha1"), "sha256sum": _digest("sha256"),
    "adler32sum": _one_string(lambda value: str(zlib.adler32(value.encode()))),
    "base": _one_string(lambda value: posixpath.basename(value.rstrip("/")) or ("/" if value else ".")),
    "dir": _one_string(lambda value: _clean(posixpath.dirname(value) or ".")), "clean": _one_string(_clean),
    "ext": _one_string(_extension), "isAbs": _one_string(lambda value: value.startswith("/")),
}  # fmt: skip
