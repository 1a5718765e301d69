"""Sprig's functions on regular expressions: RE2's, which take linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import re2

from registry_controller.gotemplate.arguments import text, whole
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Slice, strings

_REPLACEMENT: Final = re.compile(r"\$(?:\{(\w*)\}|(\w+)|(\$))")
_PATTERN: Final = 1000


def _pattern(pattern: Any) -> Any:
    source = text(pattern)
    if len(source) > _PATTERN:
        raise TemplateError(f"a regular expression of more than {_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(source, options)
    except re2.error:
        raise TemplateError("no regular expression that Go knows") from None


def _regex_match(_: Budget, pattern: Any, value: Any) -> bool:
    return _pattern(pattern).search(text(value)) is not None


def _regex_find(_: Budget, pattern: Any, value: Any) -> str:
    found = _pattern(pattern).search(text(value))
    return str(found.group(0)) if found else ""


def _regex_find_all(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit = whole(most)
    found: list[Any] = Slice(element="string")
    for match in _pattern(pattern).finditer(text(value)):
        budget.step()
        if 0 <= limit <= len(found):
            break
        found.append(match.group(0))
    return found


def _regex_replace(budget: Budget, pattern: Any, value: Any, replacement: Any, *, literal: bool) -> str:
    compiled, found, new = _pattern(pattern), text(value), text(replacement)
    written, at = [], 0
    budget.make(len(found))
    for match in compiled.finditer(found):
        budget.step()
        piece = new if literal else _expand(match, new)
        budget.make(len(piece))
        written += [found[at : match.start()], piece]
        at = match.end()
    return "".join([*written, found[at:]])


def _expand(match: Any, replacement: str) -> str:
    names = match.re.groupindex

    def group(found: re.Match[str]) -> str:
        if found[3]:
            return "$"
        name = found[1] if found[1] is not None else found[2]
        if name.isdigit():
            return (match.group(int(name)) or "") if int(name) <= match.re.groups else ""
        return (match.group(names[name]) or "") if name in names else ""

    return _REPLACEMENT.sub(group, replacement)


def _regex_split(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit, found = whole(most), text(value)
    if limit == 0:
        return []
    if text(pattern) and not found:
        return strings([""])
    parts: list[Any] = Slice(element="string")
    at = begin = 0
    for match in _pattern(pattern).finditer(found):
        budget.step()
        if 0 < limit == len(parts) + 1:
            break
        if match.end() == 0:
            continue
        parts.append(found[begin : match.start()])
        begin = match.end()
        at = match.start()
    if at != len(found):
        parts.append(found[begin:])
    return parts


REGEX: Final[Mapping[str, Callable[..., Any]]] = {
    "regexMatch": _regex_match, "regexFind": _regex_find, "regexFindAll": _regex_find_all,
    "regexReplaceAll": lambda budget, *given: _regex_replace(budget, *given, literal=False),
    "regexReplaceAllLiteral": lambda budget, *given: _regex_replace(budget, *given, literal=True),
    "regexSplit": _regex_split,
}  # fmt: skip
