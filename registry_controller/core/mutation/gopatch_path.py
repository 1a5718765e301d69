"""Parses paths into a copy in the syntax of go-patch 0.2: `/list/name=x:next/field?`.

Law: parsing reads the text alone. Every token has its position, so that an error can name it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from registry_controller.api.errors import InvalidObject

_MAX_LENGTH: Final = 2048
_MAX_PARTS: Final = 64
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
"""Go's Atoi refuses an integer outside this range, so it is a key and not an index."""
_ESCAPE: Final = re.compile(r"~([017])")
_ESCAPED: Final = {"0": "~", "1": "/", "7": ":"}


class Modifier(enum.Enum):
    """A step from the element that an index or a comparison finds."""

    PREV = "prev"
    NEXT = "next"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class KeyToken:
    """A key of an object; when `optional`, it is created if it is missing."""

    name: str
    optional: bool
    at: int


@dataclass(frozen=True, slots=True)
class IndexToken:
    """An element of an array; a negative number counts from the end."""

    number: int
    modifiers: tuple[Modifier, ...]
    at: int


@dataclass(frozen=True, slots=True)
class AppendToken:
    """The place behind an array's last element."""

    at: int


@dataclass(frozen=True, slots=True)
class MatchToken:
    """The one element of an array whose `key` is the text `value`; when `optional`, it is appended if it is missing."""

    key: str
    value: str
    optional: bool
    modifiers: tuple[Modifier, ...]
    at: int


PathToken = KeyToken | IndexToken | AppendToken | MatchToken
"""One part of a path; `at` is the position of its first character, counted from 1."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A path; without tokens it means the whole document."""

    tokens: tuple[PathToken, ...]


def parse_pointer(text: str, *, path: str) -> Pointer:
    """Parse a path; raise InvalidObject for the field `path`, with the position of the error."""
    if not text:
        return Pointer(())
    if len(text) > _MAX_LENGTH:
        raise InvalidObject(path, f"is longer than {_MAX_LENGTH} characters")
    if not text.startswith("/"):
        raise _error_at(path, 1, "`/` is expected here")
    parts = text.split("/")[1:]
    if len(parts) > _MAX_PARTS:
        raise InvalidObject(path, f"has more than {_MAX_PARTS} parts")
    tokens: list[PathToken] = []
    at, optional = 2, False
    for number, part in enumerate(parts):
        token = _parse_token(part, at=at, is_last=number == len(parts) - 1, optional=optional, path=path)
        optional = (isinstance(token, (KeyToken, MatchToken)) and token.optional) or optional
        tokens.append(token)
        at += len(part) + 1
    return Pointer(tuple(tokens))


def _parse_token(part: str, *, at: int, is_last: bool, optional: bool, path: str) -> PathToken:
    """Parse one part of a path; `optional` is true behind an optional part."""
    name, *suffixes = part.split(":")
    modifiers = _parse_modifiers(suffixes, at=at + len(name) + 1, path=path)
    behind = at + len(name)
    name = _ESCAPE.sub(lambda found: _ESCAPED[found[1]], name)
    if is_last and name == "-":
        if modifiers:
            raise _error_at(path, behind, "no modifier may follow `-`")
        return AppendToken(at)
    if _INTEGER.fullmatch(name) and int(name) in _INT64:
        return IndexToken(int(name), modifiers, at)
    optional = optional or name.endswith("?")
    key, equals, value = name.partition("=")
    if equals:
        return MatchToken(key, value.removesuffix("?"), optional, modifiers, at)
    if modifiers:
        raise _error_at(path, behind, "a modifier may only follow an index or `key=value` (a `:` in a key is `~7`)")
    return KeyToken(name.removesuffix("?"), optional, at)


def _parse_modifiers(suffixes: list[str], *, at: int, path: str) -> tuple[Modifier, ...]:
    modifiers: list[Modifier] = []
    for suffix in suffixes:
        try:
            modifiers.append(Modifier(suffix))
        except ValueError:
            raise _error_at(path, at, "prev, next, before or after is expected here (a `:` in a key is `~7`)") from None
        at += len(suffix) + 1
    return tuple(modifiers)


def _error_at(path: str, at: int, why: str) -> InvalidObject:
    return InvalidObject(path, f"character {at}: {why}")
