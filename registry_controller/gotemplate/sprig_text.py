"""Sprig's functions that cut, join and fill texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, shown, text, texts, whole
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.printf import quote
from registry_controller.gotemplate.values import Texts, is_missing, text_of


def _cut(value: str, start: int, end: int) -> str:
    """Cut as Go cuts a string, by bytes."""
    return value.encode()[start:end].decode(errors="replace")


def _trunc(_: Budget, length: Any, value: Any) -> str:
    size, found = whole(length), text(value)
    if size < 0:
        raise TemplateError("a negative length")
    return _cut(found, 0, size) if size < len(found.encode()) else found


def _substr(_: Budget, start: Any, end: Any, value: Any) -> str:
    first, last, found = whole(start), whole(end), text(value)
    size = len(found.encode())
    if first < 0:
        if not 0 <= last <= size:
            raise TemplateError("substr: out of range")
        return _cut(found, 0, last)
    if last < 0 or last > size:
        if first > size:
            raise TemplateError("substr: out of range")
        return _cut(found, first, size)
    if first > last:
        raise TemplateError("substr: out of range")
    return _cut(found, first, last)


def _repeat(budget: Budget, times: Any, value: Any) -> str:
    number, found = whole(times), text(value)
    if number < 0:
        raise TemplateError("repeat: a negative count")
    budget.make(number * len(found))
    return found * number


def _replace(budget: Budget, old: Any, new: Any, value: Any) -> str:
    before, after, found = text(old), text(new), text(value)
    places = found.count(before) if before else len(found) + 1
    budget.make(len(found) + places * len(after))
    return found.replace(before, after)


def _indent(budget: Budget, spaces: Any, value: Any) -> str:
    pad, found = whole(spaces), text(value)
    if pad < 0:
        raise TemplateError("indent: a negative count")
    budget.make(len(found) + pad * (found.count("\n") + 1))
    return " " * pad + found.replace("\n", "\n" + " " * pad)


def _nindent(budget: Budget, spaces: Any, value: Any) -> str:
    return "\n" + _indent(budget, spaces, value)


def _abbrev(_: Budget, width: Any, value: Any) -> str:
    size, found = whole(width), text(value)
    if size < 4:
        return found
    return found if len(found.encode()) <= size else f"{_cut(found, 0, size - 3)}..."


def _cat(budget: Budget, *given: Any) -> str:
    parts = [text_of(value, budget) for value in given if not is_missing(value)]
    return " ".join(parts)


def _quoted(budget: Budget, *given: Any) -> str:
    return " ".join(quote(shown(budget, value)) for value in given if not is_missing(value))


def _squoted(budget: Budget, *given: Any) -> str:
    return " ".join(f"'{text_of(value, budget)}'" for value in given if not is_missing(value))


def _trim_all(_: Budget, chars: Any, value: Any) -> str:
    return text(value).strip(text(chars)) if text(chars) else text(value)


def _join(budget: Budget, separator: Any, value: Any) -> str:
    parts = texts(budget, value)
    budget.make(sum(map(len, parts)) + len(text(separator)) * len(parts))
    return text(separator).join(parts)


def _split(_: Budget, separator: Any, value: Any) -> dict[str, str]:
    return {f"_{index}": part for index, part in enumerate(_parts(text(value), text(separator)))}


def _splitn(_: Budget, separator: Any, most: Any, value: Any) -> dict[str, str]:
    number = whole(most)
    parts = _parts(text(value), text(separator), number)
    return {f"_{index}": part for index, part in enumerate(parts)}


def _split_list(_: Budget, separator: Any, value: Any) -> list[Any]:
    return Texts(_parts(text(value), text(separator)))


def _parts(value: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        chars = list(value)
        return chars if most < 0 or most >= len(chars) else [*chars[: most - 1], "".join(chars[most - 1 :])]
    return value.split(separator, most - 1 if most > 0 else -1)


def _pair(function: Callable[[str, str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        count(given, 2, 2)
        return function(text(given[0]), text(given[1]))

    return call


TEXT: Final[Mapping[str, Callable[..., Any]]] = {
    "trimAll": _trim_all, "trimall": _trim_all, "trimSuffix": _pair(lambda end, value: value.removesuffix(end)),
    "trimPrefix": _pair(lambda start, value: value.removeprefix(start)),
    "contains": _pair(lambda part, value: part in value),
    "hasPrefix": _pair(lambda start, value: value.startswith(start)),
    "hasSuffix": _pair(lambda end, value: value.endswith(end)), "trunc": _trunc, "substr": _substr, "repeat": _repeat,
    "replace": _replace, "indent": _indent, "nindent": _nindent, "abbrev": _abbrev, "cat": _cat, "quote": _quoted,
    "squote": _squoted, "join": _join, "split": _split, "splitn": _splitn, "splitList": _split_list,
}  # fmt: skip
