"""Sprig's functions for dicts. They change only dicts that the template created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import (
    as_dict,
    as_element,
    as_mutable_dict,
    as_string,
    check_count,
    to_string,
)
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.sprig_values import deep_copied, is_empty
from registry_controller.gotemplate.values import MutableDict, StringMap, is_missing, strings


def _dict(budget: Budget, *given: Any) -> MutableDict:
    budget.reserve_elements(len(given))
    made = MutableDict()
    for index in range(0, len(given), 2):
        made[to_string(budget, given[index])] = as_element(given[index + 1]) if index + 1 < len(given) else ""
    return made


def _keys(budget: Budget, *given: Any) -> list[Any]:
    budget.reserve_elements(sum(len(as_dict(one)) for one in given))
    return strings(key for one in given for key in sorted(as_dict(one)))


def _values(budget: Budget, value: Any) -> list[Any]:
    found = as_dict(value)
    budget.reserve_elements(len(found))
    return [found[key] for key in sorted(found)]


def _pluck(_: Budget, key: Any, *given: Any) -> list[Any]:
    name = as_string(key)
    return [as_dict(one)[name] for one in given if name in as_dict(one)]


def _pick(_: Budget, value: Any, *wanted: Any) -> MutableDict:
    found = as_dict(value)
    return MutableDict({as_string(key): found[key] for key in wanted if as_string(key) in found})


def _omit(budget: Budget, value: Any, *left_out: Any) -> MutableDict:
    gone = {as_string(key) for key in left_out}
    budget.reserve_elements(len(as_dict(value)))
    return MutableDict({key: child for key, child in as_dict(value).items() if key not in gone})


def _set(budget: Budget, value: Any, key: Any, child: Any) -> MutableDict:
    budget.reserve_elements(1)
    found = as_mutable_dict(value)
    found[as_string(key)] = as_element(child)
    return found


def _unset(_: Budget, value: Any, key: Any) -> MutableDict:
    if is_missing(value):
        return MutableDict()
    found = as_mutable_dict(value)
    found.pop(as_string(key), None)
    return found


def _merged(budget: Budget, overwrite: bool, *given: Any) -> MutableDict:
    check_count(given, 1)
    into = as_mutable_dict(given[0])
    for one in given[1:]:
        _merge(budget, into, as_dict(one), overwrite)
    return into


def _merge(budget: Budget, into: dict[str, Any], other: Mapping[str, Any], overwrite: bool) -> None:
    """Merge as mergo does. A nested dict that the template did not create is copied before it is changed.

    `into` may be nested in `other`, which then changes, too. So the keys of `other` are listed before any change.
    """
    takes = not isinstance(into, StringMap) or isinstance(other, StringMap)
    budget.reserve_elements(len(other))
    for key in list(other):
        budget.step()
        value, held = other[key], into.get(key)
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            own = held if isinstance(held, MutableDict | StringMap) else deep_copied(budget, held)
            _merge(budget, own, value, overwrite)
            into[key] = own if own else _checked_value(value, takes=takes)
        elif isinstance(value, Mapping):
            if is_empty(held):
                into[key] = _checked_value(value, takes=takes)
        elif value is None:
            if overwrite:
                into[key] = _checked_value(None, takes=takes)
        elif overwrite or is_empty(held):
            into[key] = _checked_value(value, takes=takes)


def _checked_value(value: Any, *, takes: bool) -> Any:
    if not takes:
        raise TemplateError("only labels and annotations can be merged into labels and annotations")
    return value


DICTS: Final[Mapping[str, Callable[..., Any]]] = {
    "dict": _dict, "hasKey": lambda _, value, key: as_string(key) in as_dict(value), "keys": _keys, "values": _values,
    "pluck": _pluck, "pick": _pick, "omit": _omit, "set": _set, "unset": _unset,
    "merge": lambda budget, *given: _merged(budget, False, *given),
    "mergeOverwrite": lambda budget, *given: _merged(budget, True, *given),
}  # fmt: skip
