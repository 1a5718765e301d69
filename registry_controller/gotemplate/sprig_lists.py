"""Sprig's functions on lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import items, shown, texts
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.sprig_numbers import to_int64
from registry_controller.gotemplate.sprig_values import is_empty, same
from registry_controller.gotemplate.values import Texts, is_missing


def _list(budget: Budget, *given: Any) -> list[Any]:
    budget.make(len(given))
    return list(given)


def _first(_: Budget, value: Any) -> Any:
    found = items(value)
    return found[0] if found else None


def _last(_: Budget, value: Any) -> Any:
    found = items(value)
    return found[-1] if found else None


def _rest(_: Budget, value: Any) -> Any:
    return items(value)[1:] if items(value) else None


def _initial(_: Budget, value: Any) -> Any:
    return items(value)[:-1] if items(value) else None


def _append(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.make(len(items(value)) + 1)
    return [*items(value), one]


def _prepend(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.make(len(items(value)) + 1)
    return [one, *items(value)]


def _slice(_: Budget, value: Any, *bounds: Any) -> Any:
    found = items(value)
    if not found:
        return None
    start = to_int64(bounds[0]) if bounds else 0
    end = to_int64(bounds[1]) if len(bounds) > 1 else len(found)
    if not 0 <= start <= end <= len(found):
        raise TemplateError("slice: out of range")
    return found[start:end]


def _has(budget: Budget, needle: Any, value: Any) -> bool:
    if is_missing(value):
        return False
    budget.step(len(items(value)))
    return any(same(needle, item) for item in items(value))


def _without(budget: Budget, value: Any, *left_out: Any) -> list[Any]:
    budget.step(len(items(value)) * len(left_out))
    return [item for item in items(value) if not any(same(item, gone) for gone in left_out)]


def _uniq(budget: Budget, value: Any) -> list[Any]:
    found: list[Any] = []
    for item in items(value):
        budget.step(len(found) + 1)
        if not any(same(item, held) for held in found):
            found.append(item)
    return found


def _sort_alpha(budget: Budget, value: Any) -> list[Any]:
    if not isinstance(value, list):
        return Texts([shown(budget, value)])
    return Texts(sorted(texts(budget, value), key=str.encode))


LISTS: Final[Mapping[str, Callable[..., Any]]] = {
    "list": _list, "tuple": _list, "first": _first, "last": _last, "rest": _rest, "initial": _initial,
    "append": _append, "push": _append, "prepend": _prepend, "reverse": lambda _, value: items(value)[::-1],
    "slice": _slice, "has": _has, "without": _without, "uniq": _uniq,
    "compact": lambda _, value: [item for item in items(value) if not is_empty(item)], "sortAlpha": _sort_alpha,
    "concat": lambda budget, *given: _list(budget, *(item for one in given for item in items(one))),
}  # fmt: skip
