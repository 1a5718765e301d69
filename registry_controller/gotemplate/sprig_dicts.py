"""Sprig's functions on dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, shown, table, text
from registry_controller.gotemplate.limits import Budget
from registry_controller.gotemplate.sprig_values import is_empty
from registry_controller.gotemplate.values import Texts


def _dict(budget: Budget, *given: Any) -> dict[str, Any]:
    budget.make(len(given))
    made: dict[str, Any] = {}
    for index in range(0, len(given), 2):
        made[shown(budget, given[index])] = given[index + 1] if index + 1 < len(given) else ""
    return made


def _keys(_: Budget, *given: Any) -> list[Any]:
    return Texts(key for one in given for key in sorted(table(one)))


def _values(_: Budget, value: Any) -> list[Any]:
    found = table(value)
    return [found[key] for key in sorted(found)]


def _pluck(_: Budget, key: Any, *given: Any) -> list[Any]:
    return [table(one)[text(key)] for one in given if text(key) in table(one)]


def _pick(_: Budget, value: Any, *wanted: Any) -> dict[str, Any]:
    return {text(key): table(value)[key] for key in wanted if text(key) in table(value)}


def _omit(_: Budget, value: Any, *left_out: Any) -> dict[str, Any]:
    gone = {text(key) for key in left_out}
    return {key: child for key, child in table(value).items() if key not in gone}


def _set(budget: Budget, value: Any, key: Any, child: Any) -> dict[str, Any]:
    """Give a dict with one more key: nothing of an object is ever changed."""
    budget.make(len(table(value)) + 1)
    found = table(value)
    changed = found if isinstance(found, dict) else dict(found)
    return {**changed, text(key): child}


def _merged(budget: Budget, overwrite: bool, *given: Any) -> dict[str, Any]:
    count(given, 1)
    result: dict[str, Any] = dict(table(given[0]))
    for one in given[1:]:
        result = _merge(budget, result, table(one), overwrite)
    return result


def _merge(budget: Budget, into: Mapping[str, Any], other: Mapping[str, Any], overwrite: bool) -> dict[str, Any]:
    budget.make(len(into) + len(other))
    made = dict(into)
    for key, value in other.items():
        held = made.get(key)
        if isinstance(held, Mapping) and isinstance(value, Mapping):
            made[key] = _merge(budget, held, value, overwrite)
        elif is_empty(held) or (overwrite and not is_empty(value)):
            made[key] = value
    return made


DICTS: Final[Mapping[str, Callable[..., Any]]] = {
    "dict": _dict, "hasKey": lambda _, value, key: text(key) in table(value), "keys": _keys, "values": _values,
    "pluck": _pluck, "pick": _pick, "omit": _omit, "set": _set, "unset": _omit,
    "merge": lambda budget, *given: _merged(budget, False, *given),
    "mergeOverwrite": lambda budget, *given: _merged(budget, True, *given),
}  # fmt: skip
