"""Compiles paths into an object's body, as gjson 1.9 reads them.

The implemented part of gjson: keys separated by dots, `\\` escapes, array indices, `*` and `?` in keys of objects, `#`
(an array's length), `#.rest` (the rest of every element), `#(query)` (the first element that fulfils it) and
`#(query)#` (all such elements). Law: any other syntax is an error with its position, never "no match".
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from typing import Final

from registry_controller.api.errors import InvalidObject

_MAX_KEY_LENGTH: Final = 1024
_MAX_DEPTH: Final = 16
_OPERATORS: Final = ("==", "!=", "<=", ">=", "!%", "=", "<", ">", "%")
_BLANK: Final = "".join(map(chr, range(0x21)))  # what gjson trims
_JSON_PATH: Final = re.compile(r"\{\$?\.([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\}")
_ANY: Final = None
_ONE: Final = ""
_COMPARISONS_A_STEP: Final = 512


class PathError(Exception):
    """A path or pattern is invalid or not implemented, from `position` on; 0 is the first character."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position
        self.why = why


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern with `*` (any text), `?` (any character) and `\\` (the next character itself).

    A token is a character, `_ONE` or `_ANY`. `parts` are the expressions between stars; a literal has none.
    """

    tokens: tuple[str | None, ...]
    parts: tuple[re.Pattern[str], ...] = field(repr=False, compare=False)

    @property
    def is_literal(self) -> bool:
        """True when only one text matches."""
        return all(self.tokens)

    @property
    def literal(self) -> str:
        """The text that a literal pattern matches."""
        return "".join(token or "" for token in self.tokens)

    def cost(self, text: str) -> int:
        """Return the steps that a comparison with a text may take: its length times the pattern's."""
        return 1 + len(self.tokens) * len(text) // _COMPARISONS_A_STEP

    def matches(self, text: str) -> bool:
        """Return whether the whole text fits: each part between stars at its first place, and the last at the end."""
        if not self.parts:
            return text == self.literal
        found = self.parts[0].match(text)
        for part in self.parts[1:]:
            found = found and part.search(text, found.end())
        return found is not None


@dataclass(frozen=True, slots=True)
class KeyStep:
    """A key of an object, or the element of an array at `index` if the key is a number."""

    name: str
    index: int | None


@dataclass(frozen=True, slots=True)
class WildcardStep:
    """The first key of an object, in sorted order, that fits and below which the rest is found."""

    glob: Glob


@dataclass(frozen=True, slots=True)
class LengthStep:
    """An array's length."""


@dataclass(frozen=True, slots=True)
class EachStep:
    """The array of the values that `rest` finds in the elements of an array."""

    rest: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class QueryStep:
    """The first element of an array that fulfils the comparison, or (`every`) an array of all such elements.

    `steps` is None when the element itself is compared; without an operator the value must only exist.
    """

    steps: tuple[PathStep, ...] | None
    operator: str
    operand: str
    glob: Glob
    every: bool


PathStep = KeyStep | WildcardStep | LengthStep | EachStep | QueryStep


@dataclass(frozen=True, slots=True)
class ContentPath:
    """A compiled path."""

    text: str
    steps: tuple[PathStep, ...]


def compile_path(key: str, *, path: str) -> ContentPath:
    """Compile a gjson path; raise InvalidObject for the field `path`, with the position, if that is not possible."""
    try:
        return _compile_cached(key)
    except PathError as refused:
        raise InvalidObject(path, f"character {refused.position + 1}: {refused.why}") from None


@functools.lru_cache(maxsize=1024)
def _compile_cached(key: str) -> ContentPath:
    if len(key) > _MAX_KEY_LENGTH:
        raise PathError(_MAX_KEY_LENGTH, f"is longer than {_MAX_KEY_LENGTH} characters")
    return ContentPath(key, _compile(key, 0, len(key), depth=0))


def _compile(text: str, start: int, end: int, *, depth: int) -> tuple[PathStep, ...]:
    """Compile the path in text[start:end]."""
    if depth > _MAX_DEPTH:
        raise PathError(start, "is nested too deeply")
    steps: list[PathStep] = []
    at = start
    while True:
        if at >= end or text[at] == ".":
            raise PathError(at, "a key is expected here (`..` and empty parts are not implemented)")
        if text[at] == "{" and at == 0 and (plain := _JSON_PATH.fullmatch(text)):
            raise PathError(at, f"a gjson path begins with the name of a field: write `{plain[1]}`")
        if text[at] in "@{[!":
            raise PathError(at, f"`{text[at]}` is not implemented (escape it as `\\{text[at]}` if it is part of a key)")
        follows = text[at + 1] if at + 1 < end else ""
        if text[at] == "#" and follows in ("", "."):
            steps.append(EachStep(_compile(text, at + 2, end, depth=depth + 1)) if follows else LengthStep())
            return tuple(steps)
        if text[at] == "#" and follows in ("(", "["):
            step, at = _compile_query(text, at, end, depth=depth)
        else:
            step, at = _compile_key(text, at, end)
        steps.append(step)
        if at == end:
            return tuple(steps)
        at += 1


def _compile_key(text: str, start: int, end: int) -> tuple[PathStep, int]:
    """Compile one key, up to the dot behind it."""
    at = start
    while at < end and text[at] != ".":
        if text[at] == "|":
            raise PathError(at, "`|` is not implemented (escape it as `\\|` if it is part of a key)")
        if text[at] == "\\" and at + 1 == end:
            raise PathError(at, "an escape ends the key")
        if text.startswith("\\.", at) and at + 2 < end and text[at + 2] in "@{[!":
            # Below an array, gjson reads no escapes, and begins a modifier or a selection here.
            raise PathError(at + 2, f"write `\\{text[at + 2]}` behind an escaped dot")
        at += 2 if text[at] == "\\" else 1
    part = text[start:at]
    glob = compile_glob(part)
    if glob.is_literal:
        index = int(part) if part.isascii() and part.isdigit() and len(part) < 10 else None
        return KeyStep(glob.literal, index), at
    return WildcardStep(glob), at


def _compile_query(text: str, start: int, end: int, *, depth: int) -> tuple[PathStep, int]:
    """Compile `#(...)` or `#(...)#`, up to the dot behind it."""
    if text[start + 1] == "[":
        raise PathError(start + 1, "`#[...]` is not implemented; write `#(...)`")
    compares, close = _find_query_end(text, start, end)
    first = start + 2
    stop = compares if compares is not None else close
    while first < stop and text[first] in _BLANK:
        first += 1
    last = first + len(text[first:stop].rstrip(_BLANK))
    steps = _compile(text, first, last, depth=depth + 1) if first < last else None
    operator = operand = ""
    if compares is not None:
        operator, operand = _read_comparison(text, compares, close)
    elif steps is None:
        raise PathError(first, "the query is empty")
    at = close + 1
    every = at < end and text[at] == "#"
    at += every
    if at < end and text[at] != ".":
        raise PathError(at, "only `#` or `.` may follow a query")
    glob = compile_glob(operand if operator in ("%", "!%") else "")
    return QueryStep(steps, operator, operand, glob, every), at


def _find_query_end(text: str, start: int, end: int) -> tuple[int | None, int]:
    """Find a query's comparison operator (None without one) and its closing parenthesis."""
    compares: int | None = None
    depth, at = 1, start + 2
    while at < end:
        char = text[at]
        if char in "!=<>%" and depth == 1 and compares is None:
            compares = at
        elif char == "\\":
            at += 1
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
            if depth == 0:
                return compares, at
        elif char == '"':
            at += 1
            while at < end and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        at += 1
    raise PathError(start, "the query is not closed")


def _read_comparison(text: str, start: int, end: int) -> tuple[str, str]:
    operator = next((known for known in _OPERATORS if text.startswith(known, start)), None)
    if operator is None:
        raise PathError(start, "is not a comparison: use ==, !=, <, <=, >, >=, % or !%")
    operand = text[start + len(operator) : end].strip(_BLANK)
    if operand.startswith("~"):
        raise PathError(text.index("~", start), "`~` is not implemented")
    if operand.startswith('"') and operand != '""':  # gjson reads `""` as two quotation marks, not as an empty string
        try:
            operand = json.loads(operand, strict=False)
        except ValueError:
            raise PathError(text.index('"', start), "is not a complete string") from None
        if operand.startswith("~"):
            raise PathError(text.index("~", start), "`~` is not implemented, also not in quotes")
    return ("=" if operator == "==" else operator), operand


def compile_glob(pattern: str) -> Glob:
    """Compile a pattern; a trailing backslash is a backslash."""
    tokens: list[str | None] = []
    characters = iter(pattern)
    for char in characters:
        if char == "\\":
            tokens.append(next(characters, "\\"))
        else:
            tokens.append({"*": _ANY, "?": _ONE}.get(char, char))
    return Glob(tuple(tokens), () if all(tokens) else _compile_parts(tokens))


def _compile_parts(tokens: list[str | None]) -> tuple[re.Pattern[str], ...]:
    """Compile an expression for each part between stars; the last one matches at the end of the text."""
    parts = [""]
    for token in tokens:
        if token is _ANY:
            parts.append("")
        else:
            parts[-1] += re.escape(token) if token else "."
    parts[-1] += r"\Z"
    return tuple(re.compile(part, re.DOTALL) for part in parts)
