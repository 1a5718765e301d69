"""Sprig's functions that cut, join and pad strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_int, as_string, check_count, to_string, to_strings
from registry_controller.gotemplate.cutting import cut
from registry_controller.gotemplate.formats import text_of
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.quoting import quote
from registry_controller.gotemplate.values import StringMap, is_missing, strings


def _trunc(_: Budget, length: Any, value: Any) -> str:
    size, found = as_int(length), as_string(value)
    if size < 0:
        raise TemplateError("negative length")
    return cut(found, 0, size) if size < len(found.encode()) else found


def _substr(_: Budget, start: Any, end: Any, value: Any) -> str:
    first, last, found = as_int(start), as_int(end), as_string(value)
    size = len(found.encode())
    if first < 0:
        if not 0 <= last <= size:
            raise TemplateError("bounds out of range")
        return cut(found, 0, last)
    if last < 0 or last > size:
        if first > size:
            raise TemplateError("bounds out of range")
        return cut(found, first, size)
    if first > last:
        raise TemplateError("bounds out of range")
    return cut(found, first, last)


def _repeat(budget: Budget, times: Any, value: Any) -> str:
    number, found = as_int(times), as_string(value)
    if number < 0:
        raise TemplateError("negative count")
    budget.reserve(number * len(found))
    return found * number


def _replace(budget: Budget, old: Any, new: Any, value: Any) -> str:
    before, after, found = as_string(old), as_string(new), as_string(value)
    places = found.count(before) if before else len(found) + 1
    budget.reserve(len(found) + places * len(after))
    return found.replace(before, after)


def _indent(budget: Budget, spaces: Any, value: Any) -> str:
    pad, found = as_int(spaces), as_string(value)
    if pad < 0:
        raise TemplateError("negative count")
    budget.reserve(len(found) + pad * (found.count("\n") + 1))
    return " " * pad + found.replace("\n", "\n" + " " * pad)


def _nindent(budget: Budget, spaces: Any, value: Any) -> str:
    return "\n" + _indent(budget, spaces, value)


def _spaced(budget: Budget, parts: list[str]) -> str:
    budget.reserve(sum(map(len, parts)) + len(parts))
    return " ".join(parts)


def _cat(budget: Budget, *given: Any) -> str:
    return _spaced(budget, [text_of(value, budget) for value in given if not is_missing(value)])


def _quoted(budget: Budget, *given: Any) -> str:
    return _spaced(budget, [quote(budget.scan(to_string(budget, value))) for value in given if not is_missing(value)])


def _squoted(budget: Budget, *given: Any) -> str:
    return _spaced(budget, [f"'{text_of(value, budget)}'" for value in given if not is_missing(value)])


def _trim_all(_: Budget, chars: Any, value: Any) -> str:
    return as_string(value).strip(as_string(chars)) if as_string(chars) else as_string(value)


def _join(budget: Budget, separator: Any, value: Any) -> str:
    parts = to_strings(budget, value)
    budget.reserve(len(as_string(separator)) * len(parts))
    return as_string(separator).join(parts)


def _split(budget: Budget, separator: Any, value: Any) -> StringMap:
    return StringMap(
        (f"_{index}", part) for index, part in enumerate(_split_in(budget, as_string(separator), as_string(value)))
    )


def _splitn(budget: Budget, separator: Any, most: Any, value: Any) -> StringMap:
    parts = _split_in(budget, as_string(separator), as_string(value), as_int(most))
    return StringMap((f"_{index}", part) for index, part in enumerate(parts))


def _split_list(budget: Budget, separator: Any, value: Any) -> list[Any]:
    return strings(_split_in(budget, as_string(separator), as_string(value)))


def _split_in(budget: Budget, separator: str, value: str, most: int = -1) -> list[str]:
    """Split a string, and reserve the memory of every part."""
    places = value.count(separator) if separator else len(value)
    budget.reserve_elements(places + 1 if most < 0 else min(places + 1, most))
    return _parts(value, separator, most)


def _parts(value: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        chars = list(value)
        return chars if most < 0 or most >= len(chars) else [*chars[: most - 1], "".join(chars[most - 1 :])]
    return value.split(separator, most - 1 if most > 0 else -1)


def _two_strings(function: Callable[[str, str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        check_count(given, 2, 2)
        return function(as_string(given[0]), as_string(given[1]))

    return call


TEXT: Final[Mapping[str, Callable[..., Any]]] = {
    "trimAll": _trim_all, "trimall": _trim_all, "trimSuffix": _two_strings(lambda end, value: value.removesuffix(end)),
    "trimPrefix": _two_strings(lambda start, value: value.removeprefix(start)),
    "contains": _two_strings(lambda part, value: part in value),
    "hasPrefix": _two_strings(lambda start, value: value.startswith(start)),
    "hasSuffix": _two_strings(lambda end, value: value.endswith(end)), "trunc": _trunc, "substr": _substr,
    "repeat": _repeat, "replace": _replace, "indent": _indent, "nindent": _nindent, "cat": _cat, "quote": _quoted,
    "squote": _squoted, "join": _join, "split": _split, "splitn": _splitn, "splitList": _split_list,
}  # fmt: skip
