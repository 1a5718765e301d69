"""Sprig's functions for regular expressions, with RE2, which takes linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import re2

from registry_controller.gotemplate.arguments import as_int, as_string
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Slice, strings

_REPLACEMENT: Final = re.compile(r"\$(?:\{(\w*)\}|(\w+)|(\$))")
_PATTERN: Final = 1000
_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""`\\C`, one byte, exists in RE2 and not in Go."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return options


_OPTIONS: Final = _options()
"""One object for all patterns, because it is part of the key of RE2's own cache."""


def _pattern(budget: Budget, pattern: Any) -> Any:
    source = as_string(pattern)
    if len(source) > _PATTERN:
        raise TemplateError(f"the regular expression has more than {_PATTERN} characters")
    if _BYTE.search(source):
        raise TemplateError("not a regular expression in Go's syntax")
    try:
        compiled = re2.compile(source.encode(), _OPTIONS)
    except re2.error:
        raise TemplateError("not a regular expression in Go's syntax") from None
    budget.step_for_lookups(compiled.programsize // 2)
    return compiled


def _regex_match(budget: Budget, pattern: Any, value: Any) -> bool:
    return next(_matches(budget, pattern, as_string(value).encode()), None) is not None


def _regex_find(budget: Budget, pattern: Any, value: Any) -> str:
    found = next(_matches(budget, pattern, as_string(value).encode()), None)
    return _decoded(found.group(0)) if found is not None else ""


def _matches(budget: Budget, pattern: Any, value: bytes) -> Iterator[Any]:
    """Yield all matches as Go does: no empty match directly after another match, and none inside a character.

    RE2 works on bytes, and matches `\\B` between two bytes of one character.
    """
    end = -1
    for match in _pattern(budget, pattern).finditer(value):
        budget.step()
        start, before = match.start(), end
        end = match.end()
        is_within = start == end < len(value) and value[start] & 0xC0 == 0x80
        if not start == end == before and not is_within:
            yield match


def _decoded(value: bytes) -> str:
    return value.decode()


def _regex_find_all(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit = as_int(most)
    budget.reserve(len(as_string(value)))
    found = Slice(element="string")
    for match in _matches(budget, pattern, as_string(value).encode()):
        if 0 <= limit <= len(found):
            break
        budget.reserve_elements(1)
        found.append(_decoded(match.group(0)))
    return found or Slice(element="string", is_nil=True)


def _regex_replace(budget: Budget, pattern: Any, value: Any, replacement: Any, *, literal: bool) -> str:
    source, found, new = as_string(pattern), as_string(value).encode(), as_string(replacement)
    parts = [new] if literal else _read_replacement(_pattern(budget, source), new)
    written: list[str] = []
    at = 0
    budget.reserve(len(found))
    for match in _matches(budget, source, found):
        budget.step(len(parts))
        piece = "".join(part if isinstance(part, str) else _decoded(match.group(part) or b"") for part in parts)
        budget.reserve(len(piece))
        written += [_decoded(found[at : match.start()]), piece]
        at = match.end()
    return "".join([*written, _decoded(found[at:])])


def _read_replacement(compiled: Any, replacement: str) -> list[str | int]:
    """Split a replacement into strings and numbers of groups; a group that does not exist is empty."""
    parts: list[str | int] = []
    at = 0
    for found in _REPLACEMENT.finditer(replacement):
        parts.append(replacement[at : found.start()])
        at = found.end()
        if found[3]:
            parts.append("$")
            continue
        name = found[1] if found[1] is not None else found[2]
        number = int(name) if name.isdigit() else compiled.groupindex.get(name.encode(), -1)
        if 0 <= number <= compiled.groups:
            parts.append(number)
    return [part for part in [*parts, replacement[at:]] if part != ""]


def _regex_split(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit, found, source = as_int(most), as_string(value).encode(), as_string(pattern)
    _pattern(budget, source)
    if limit == 0:
        return Slice(element="string", is_nil=True)
    if source and not found:
        return strings([""])
    budget.reserve(len(found))
    parts: list[Any] = Slice(element="string")
    begin = end = 0
    for taken, match in enumerate(_matches(budget, source, found)):
        if 0 < limit <= max(len(parts) + 1, taken):
            break
        end = match.start()
        if match.end():
            budget.reserve_elements(1)
            parts.append(_decoded(found[begin:end]))
        begin = match.end()
    if end != len(found):
        parts.append(_decoded(found[begin:]))
    return parts


REGEX: Final[Mapping[str, Callable[..., Any]]] = {
    "regexMatch": _regex_match, "regexFind": _regex_find, "regexFindAll": _regex_find_all,
    "regexReplaceAll": lambda budget, *given: _regex_replace(budget, *given, literal=False),
    "regexReplaceAllLiteral": lambda budget, *given: _regex_replace(budget, *given, literal=True),
    "regexSplit": _regex_split,
}  # fmt: skip
