"""What functions ask of their arguments, as the types of Go's parameters do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry_controller.gotemplate.formats import text_of
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import (
    Int,
    Missing,
    MutableDict,
    TemplateObject,
    UntypedFloat,
    UntypedInt,
    is_missing,
    type_of,
)


def as_string(value: Any) -> str:
    """Ask for a text."""
    if not isinstance(value, str):
        raise TemplateError(f"wrong type of argument; expected string; got {type_of(value)}")
    return value


def as_int(value: Any) -> int:
    """Ask for Go's int: a constant, or what a function such as `int` or `len` gave. A number of an object is none."""
    if isinstance(value, UntypedFloat) and value.is_integer():
        return int(value)
    if not isinstance(value, Int):
        raise TemplateError(f"wrong type of argument; expected int; got {type_of(value)}")
    return int(value)


def as_float64(value: Any) -> float:
    """Ask for Go's float64: any number that is a constant, or a float."""
    if not isinstance(value, UntypedInt | float):
        raise TemplateError(f"wrong type of argument; expected float64; got {type_of(value)}")
    return float(value)


def as_list(value: Any) -> list[Any]:
    """Ask for a list."""
    if not isinstance(value, list):
        raise TemplateError(f"wrong type of argument; expected a list; got {type_of(value)}")
    return value


def as_dict(value: Any) -> Mapping[str, Any]:
    """Ask for a dict; a key that is missing stands for an empty one."""
    if isinstance(value, Missing):
        return {}
    if isinstance(value, TemplateObject):
        raise TemplateError("a whole object is no dict; take .Object.Object")
    if not isinstance(value, Mapping):
        raise TemplateError(f"wrong type of argument; expected a dict; got {type_of(value)}")
    return value


def as_mutable_dict(value: Any) -> MutableDict:
    """Ask for a dict that the template may change: one that it made."""
    if isinstance(value, MutableDict):
        return value
    as_dict(value)
    raise TemplateError("only what the template made can be changed; take a deepCopy")


def as_element(value: Any) -> Any:
    """Make a value fit to be an element: nil is nil there, wherever it came from."""
    return None if is_missing(value) else value


def to_string(budget: Budget, value: Any) -> str:
    """Make a text of anything, as sprig's strval does."""
    return value if isinstance(value, str) else text_of(value, budget)


def to_strings(budget: Budget, value: Any) -> list[str]:
    """Make texts of a list's elements without nils, or of one value, as sprig's strslice does."""
    if is_missing(value):
        return []
    made = []
    for item in value if isinstance(value, list) else [value]:
        budget.step()
        if not is_missing(item):
            made.append(to_string(budget, item))
            budget.reserve(len(made[-1]))
    return made


def check_count(given: tuple[Any, ...], least: int, most: int | None = None) -> None:
    """Hold that so many arguments were given."""
    if len(given) < least or (most is not None and len(given) > most):
        raise TemplateError(f"wrong number of arguments: {len(given)}")
