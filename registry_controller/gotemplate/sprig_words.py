"""Sprig's functions for the letters and words of a string. The case of each letter changes as in Go."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_int, as_string
from registry_controller.gotemplate.cutting import cut
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.sprig_names import camel, separated

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters for which Go's unicode.IsSpace is true."""


def upper(char: str) -> str:
    """Return the capital of a letter, or the letter if its capital is several letters. Takes ASCII strings, too."""
    return found if len(found := char.upper()) == len(char) else char


def lower(char: str) -> str:
    """Return the lower case of a letter, only the first of several letters. Takes ASCII strings, too."""
    return char.lower()[: len(char)]


def _title_of(char: str) -> str:
    return found if len(found := char.title()) == 1 else char


def is_space(char: str) -> bool:
    """Return whether a character is space in Go."""
    return char in _SPACE


def _per_character(function: Callable[[str], str]) -> Callable[..., str]:
    def call(budget: Budget, value: Any) -> str:
        found = as_string(value)
        return function(found) if found.isascii() else "".join(map(function, budget.scan(found)))

    return call


def _title(budget: Budget, value: Any) -> str:
    written, starts = [], True
    for char in budget.scan(as_string(value)):
        written.append(_title_of(char) if starts else char)
        if char.isascii():
            starts = not (char.isalnum() or char == "_")
        else:
            starts = not (char.isalpha() or unicodedata.category(char) == "Nd") and is_space(char)
    return "".join(written)


def _untitle(budget: Budget, value: Any) -> str:
    written, starts = [], True
    for char in budget.scan(as_string(value)):
        written.append(lower(char) if starts else char)
        starts = is_space(char)
    return "".join(written)


def _swapcase(budget: Budget, value: Any) -> str:
    written, starts = [], True
    for char in budget.scan(as_string(value)):
        if char.isupper() or char.istitle():
            written.append(lower(char))
            starts = False
        elif unicodedata.category(char) == "Ll":
            written.append(_title_of(char) if starts else upper(char))
            starts = False
        else:
            written.append(char)
            starts = is_space(char)
    return "".join(written)


def _initials(budget: Budget, value: Any) -> str:
    written, starts = [], True
    for char in budget.scan(as_string(value)):
        if starts and not is_space(char):
            written.append(char)
        starts = is_space(char)
    return "".join(written)


def _plural(_: Budget, one: Any, many: Any, number: Any) -> str:
    few, several = as_string(one), as_string(many)
    return few if as_int(number) == 1 else several


def _wrap(budget: Budget, width: Any, value: Any) -> str:
    return _wrapped(budget, as_int(width), "", as_string(value), cuts_words=False)


def _wrap_with(budget: Budget, width: Any, new_line: Any, value: Any) -> str:
    return _wrapped(budget, as_int(width), as_string(new_line), as_string(value), cuts_words=True)


def _wrapped(budget: Budget, width: int, new_line: str, value: str, *, cuts_words: bool) -> str:
    """Break a string at spaces into lines of `width` bytes. A longer word has a longer line, unless `cuts_words`."""
    rest = value.encode()
    width, between = max(width, 1), (new_line or "\n").encode()
    lines: list[bytes] = []
    at = 0
    while len(rest) - at > width:
        budget.step()
        if rest[at] == ord(" "):
            at += 1
            continue
        space = rest.rfind(b" ", at, at + width + 1)
        if space < 0 and not cuts_words:
            space = rest.find(b" ", at + width)
            if space < 0:
                break
        end = space if space >= 0 else at + width
        budget.reserve(end - at + len(between))
        lines.append(rest[at:end])
        at = end + (space >= 0)
    try:
        return between.join([*lines, rest[at:]]).decode()
    except UnicodeDecodeError:
        raise TemplateError("a cut inside a character") from None


def _abbrev(budget: Budget, width: Any, value: Any) -> str:
    size, found = as_int(width), as_string(value)
    return found if size < 4 else _abbreviated(budget, found, 0, size)


def _abbrevboth(budget: Budget, left: Any, right: Any, value: Any) -> str:
    offset, size, found = as_int(left), as_int(right), as_string(value)
    return found if size < 4 or (offset > 0 and size < 7) else _abbreviated(budget, found, offset, size)


def _abbreviated(budget: Budget, value: str, offset: int, width: int) -> str:
    """Return `width` bytes of a string from about `offset` on, with dots in place of the rest."""
    length, room = len(value.encode()), width - 3
    if length <= width:
        return value
    offset = min(offset, length)
    if length - offset < room:
        offset = length - room
    if offset <= 4:
        return cut(value, 0, room) + "..."
    if offset + room < length:
        return "..." + _abbreviated(budget, cut(value, offset, length), 0, room)
    return "..." + cut(value, length - room, length)


def _of_name(function: Callable[[str], str]) -> Callable[..., str]:
    def call(budget: Budget, value: Any) -> str:
        budget.step(len(as_string(value)))  # every character is read several times
        return function(as_string(value))

    return call


WORDS: Final[Mapping[str, Callable[..., Any]]] = {
    "trim": lambda _, value: as_string(value).strip(_SPACE), "upper": _per_character(upper),
    "lower": _per_character(lower), "title": _title, "untitle": _untitle, "swapcase": _swapcase, "initials": _initials,
    "nospace": lambda budget, value: "".join(char for char in budget.scan(as_string(value)) if not is_space(char)),
    "snakecase": _of_name(lambda name: separated(name, "_")), "kebabcase": _of_name(lambda name: separated(name, "-")),
    "camelcase": _of_name(camel), "wrap": _wrap, "wrapWith": _wrap_with, "abbrev": _abbrev,
    "abbrevboth": _abbrevboth, "plural": _plural, "hello": lambda _: "Hello!",
}  # fmt: skip
