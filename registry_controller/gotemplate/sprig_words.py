"""Sprig's functions on the letters and words of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, text, whole
from registry_controller.gotemplate.limits import Budget

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What Go's unicode.IsSpace holds for space."""


def _title(_: Budget, value: Any) -> str:
    written, starts = [], True
    for char in text(value):
        written.append(char.title() if starts and char.isalpha() else char)
        starts = char.isspace() or (char.isascii() and not (char.isalnum() or char == "_"))
    return "".join(written)


def _untitle(_: Budget, value: Any) -> str:
    return re.sub(r"(^|\s)(\S)", lambda m: m[1] + m[2].lower(), text(value))


def _swapcase(_: Budget, value: Any) -> str:
    written, starts = [], True
    for char in text(value):
        if char.isupper() or char.istitle():
            written.append(char.lower())
        elif char.islower():
            written.append(char.title() if starts else char.upper())
        else:
            written.append(char)
        starts = char.isspace()
    return "".join(written)


def _initials(_: Budget, value: Any) -> str:
    return "".join(word[0] for word in text(value).split())


def _nospace(_: Budget, value: Any) -> str:
    return "".join(char for char in text(value) if char not in _SPACE)


def _snake(_: Budget, value: Any) -> str:
    return _separated(text(value), "_")


def _kebab(_: Budget, value: Any) -> str:
    return _separated(text(value), "-")


def _separated(value: str, mark: str) -> str:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", value)
    parts = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", parts)
    return mark.join(re.split(r"[\s_\-]+", parts.strip())).lower()


def _camel(_: Budget, value: Any) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\s_\-]+", text(value)))


def _wrap(budget: Budget, width: Any, value: Any) -> str:
    return _wrapped(budget, whole(width), "\n", text(value))


def _wrapped(budget: Budget, width: int, new_line: str, value: str) -> str:
    width = max(width, 1)
    lines: list[str] = []
    rest = value
    while len(rest) > width:
        budget.step()
        if rest[0] == " ":
            rest = rest[1:]
            continue
        space = rest.rfind(" ", 0, width + 1)
        if space < 0:
            space = rest.find(" ", width)
        if space < 0:
            break
        lines.append(rest[:space])
        rest = rest[space + 1 :]
    return new_line.join([*lines, rest])


def _simple(function: Callable[[str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        count(given, 1, 1)
        return function(text(given[0]))

    return call


def _plural(_: Budget, one: Any, many: Any, number: Any) -> str:
    return text(one) if whole(number) == 1 else text(many)


WORDS: Final[Mapping[str, Callable[..., Any]]] = {
    "trim": _simple(lambda value: value.strip(_SPACE)), "upper": _simple(str.upper), "lower": _simple(str.lower),
    "title": _title, "untitle": _untitle, "swapcase": _swapcase, "initials": _initials, "nospace": _nospace,
    "snakecase": _snake, "kebabcase": _kebab, "camelcase": _camel, "wrap": _wrap, "plural": _plural,
}  # fmt: skip
