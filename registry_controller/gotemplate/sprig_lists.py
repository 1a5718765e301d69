"""Sprig's functions for lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_element, as_list, to_string, to_strings
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.sprig_numbers import to_int64
from registry_controller.gotemplate.sprig_values import is_deeply_equal, is_empty
from registry_controller.gotemplate.values import Slice, is_missing, strings


def _list(budget: Budget, *given: Any) -> list[Any]:
    budget.reserve_elements(len(given))
    return [as_element(value) for value in given]


def _first(_: Budget, value: Any) -> Any:
    found = as_list(value)
    return found[0] if found else None


def _last(_: Budget, value: Any) -> Any:
    found = as_list(value)
    return found[-1] if found else None


def _part(budget: Budget, found: list[Any]) -> list[Any]:
    """Return a copy of some elements of a list, and reserve its memory."""
    budget.reserve_elements(len(found))
    return list(found)


def _rest(budget: Budget, value: Any) -> list[Any]:
    return _part(budget, as_list(value)[1:]) if as_list(value) else Slice(is_nil=True)


def _initial(budget: Budget, value: Any) -> list[Any]:
    return _part(budget, as_list(value)[:-1]) if as_list(value) else Slice(is_nil=True)


def _append(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.reserve_elements(len(as_list(value)) + 1)
    return [*as_list(value), as_element(one)]


def _prepend(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.reserve_elements(len(as_list(value)) + 1)
    return [as_element(one), *as_list(value)]


def _concat(budget: Budget, *given: Any) -> list[Any]:
    budget.reserve_elements(sum(len(as_list(one)) for one in given))
    joined = [item for one in given for item in as_list(one)]
    return joined or Slice(is_nil=True)


def _slice(budget: Budget, value: Any, *bounds: Any) -> Any:
    found = as_list(value)
    if not found:
        return None
    start = to_int64(bounds[0]) if bounds else 0
    end = to_int64(bounds[1]) if len(bounds) > 1 else len(found)
    if not 0 <= start <= end <= len(found):
        raise TemplateError("bounds out of range")
    part = _part(budget, found[start:end])
    return Slice(part, element=found.element) if isinstance(found, Slice) else part


def _has(budget: Budget, needle: Any, value: Any) -> bool:
    if is_missing(value):
        return False
    return any(is_deeply_equal(budget, needle, item) for item in as_list(value))


def _without(budget: Budget, value: Any, *left_out: Any) -> list[Any]:
    budget.step(len(as_list(value)))
    return [item for item in as_list(value) if not any(is_deeply_equal(budget, item, gone) for gone in left_out)]


def _uniq(budget: Budget, value: Any) -> list[Any]:
    found: list[Any] = []
    for item in as_list(value):
        if not any(is_deeply_equal(budget, item, held) for held in found):
            found.append(item)
    return found


def _sort_alpha(budget: Budget, value: Any) -> list[Any]:
    """Sort strings by their bytes. As in Go, a `[]string` is sorted in place."""
    if not isinstance(value, list):
        return strings([to_string(budget, value)])
    budget.step(len(value))
    found = sorted(to_strings(budget, value), key=str.encode)
    if isinstance(value, Slice) and value.element == "string":
        value[:] = found
        return value
    return strings(found)


def _compact(budget: Budget, value: Any) -> list[Any]:
    budget.step(len(as_list(value)))
    return [item for item in as_list(value) if not is_empty(item)]


LISTS: Final[Mapping[str, Callable[..., Any]]] = {
    "list": _list, "tuple": _list, "first": _first, "last": _last, "rest": _rest, "initial": _initial,
    "append": _append, "push": _append, "prepend": _prepend,
    "reverse": lambda budget, value: _part(budget, as_list(value)[::-1]), "slice": _slice, "has": _has,
    "without": _without, "uniq": _uniq, "compact": _compact, "sortAlpha": _sort_alpha, "concat": _concat,
}  # fmt: skip
