"""Sprig's functions on dicts. They change what the template itself made, and nothing that it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, kept, own_table, shown, table, text
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.sprig_values import copied, is_empty
from registry_controller.gotemplate.values import Dict, TextMap, is_missing, strings


def _dict(budget: Budget, *given: Any) -> Dict:
    budget.hold(len(given))
    made = Dict()
    for index in range(0, len(given), 2):
        made[shown(budget, given[index])] = kept(given[index + 1]) if index + 1 < len(given) else ""
    return made


def _keys(budget: Budget, *given: Any) -> list[Any]:
    budget.hold(sum(len(table(one)) for one in given))
    return strings(key for one in given for key in sorted(table(one)))


def _values(budget: Budget, value: Any) -> list[Any]:
    found = table(value)
    budget.hold(len(found))
    return [found[key] for key in sorted(found)]


def _pluck(_: Budget, key: Any, *given: Any) -> list[Any]:
    name = text(key)
    return [table(one)[name] for one in given if name in table(one)]


def _pick(_: Budget, value: Any, *wanted: Any) -> Dict:
    found = table(value)
    return Dict({text(key): found[key] for key in wanted if text(key) in found})


def _omit(budget: Budget, value: Any, *left_out: Any) -> Dict:
    gone = {text(key) for key in left_out}
    budget.hold(len(table(value)))
    return Dict({key: child for key, child in table(value).items() if key not in gone})


def _set(budget: Budget, value: Any, key: Any, child: Any) -> Dict:
    budget.hold(1)
    found = own_table(value)
    found[text(key)] = kept(child)
    return found


def _unset(_: Budget, value: Any, key: Any) -> Dict:
    if is_missing(value):
        return Dict()
    found = own_table(value)
    found.pop(text(key), None)
    return found


def _merged(budget: Budget, overwrite: bool, *given: Any) -> Dict:
    count(given, 1)
    into = own_table(given[0])
    for one in given[1:]:
        _merge(budget, into, table(one), overwrite)
    return into


def _merge(budget: Budget, into: dict[str, Any], other: Mapping[str, Any], overwrite: bool) -> None:
    """Do as mergo does. A dict below that is not the template's own becomes so before it is changed.

    What is merged into may be below the other one, and so change it: its keys are those that it has now.
    """
    takes = not isinstance(into, TextMap) or isinstance(other, TextMap)
    budget.hold(len(other))
    for key in list(other):
        budget.step()
        value, held = other[key], into.get(key)
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            own = held if isinstance(held, Dict | TextMap) else copied(budget, held)
            _merge(budget, own, value, overwrite)
            into[key] = own if own else _fit(value, takes=takes)
        elif isinstance(value, Mapping):
            if is_empty(held):
                into[key] = _fit(value, takes=takes)
        elif value is None:
            if overwrite:
                into[key] = _fit(None, takes=takes)
        elif overwrite or is_empty(held):
            into[key] = _fit(value, takes=takes)


def _fit(value: Any, *, takes: bool) -> Any:
    if not takes:
        raise TemplateError("labels and annotations take no values of other dicts")
    return value


DICTS: Final[Mapping[str, Callable[..., Any]]] = {
    "dict": _dict, "hasKey": lambda _, value, key: text(key) in table(value), "keys": _keys, "values": _values,
    "pluck": _pluck, "pick": _pick, "omit": _omit, "set": _set, "unset": _unset,
    "merge": lambda budget, *given: _merged(budget, False, *given),
    "mergeOverwrite": lambda budget, *given: _merged(budget, True, *given),
}  # fmt: skip
