"""Checks and converts the arguments of functions, as the types of Go's parameters do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry_controller.gotemplate.formats import text_of
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import (
    Int,
    MissingKey,
    MutableDict,
    TemplateObject,
    UntypedFloat,
    UntypedInt,
    is_missing,
    type_of,
)


def as_string(value: Any) -> str:
    """Return a string argument."""
    if not isinstance(value, str):
        raise TemplateError(f"wrong type of argument; expected string; got {type_of(value)}")
    return value


def as_int(value: Any) -> int:
    """Return an argument of Go's type int: a constant, or a result such as `len`. A number in an object is an int64."""
    if isinstance(value, UntypedFloat) and value.is_integer():
        return int(value)
    if not isinstance(value, Int):
        raise TemplateError(f"wrong type of argument; expected int; got {type_of(value)}")
    return int(value)


def as_float64(value: Any) -> float:
    """Return an argument of Go's type float64: a numeric constant, or a float."""
    if not isinstance(value, UntypedInt | float):
        raise TemplateError(f"wrong type of argument; expected float64; got {type_of(value)}")
    return float(value)


def as_list(value: Any) -> list[Any]:
    """Return a list argument."""
    if not isinstance(value, list):
        raise TemplateError(f"wrong type of argument; expected a list; got {type_of(value)}")
    return value


def as_dict(value: Any) -> Mapping[str, Any]:
    """Return a dict argument; a missing key is an empty dict."""
    if isinstance(value, MissingKey):
        return {}
    if isinstance(value, TemplateObject):
        raise TemplateError("a whole object is not a dict; use .Object.Object")
    if not isinstance(value, Mapping):
        raise TemplateError(f"wrong type of argument; expected a dict; got {type_of(value)}")
    return value


def as_mutable_dict(value: Any) -> MutableDict:
    """Return a dict argument that the template may change, because the template created it."""
    if isinstance(value, MutableDict):
        return value
    as_dict(value)
    raise TemplateError("only a dict that the template created can be changed; use deepCopy")


def as_element(value: Any) -> Any:
    """Convert a value to an element of a list or dict: every kind of nil becomes None."""
    return None if is_missing(value) else value


def to_string(budget: Budget, value: Any) -> str:
    """Convert any value to a string, as sprig's strval does."""
    return value if isinstance(value, str) else text_of(value, budget)


def to_strings(budget: Budget, value: Any) -> list[str]:
    """Convert the elements of a list, or one value, to strings without nils, as sprig's strslice does."""
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
    """Raise TemplateError unless the number of arguments is between `least` and `most`."""
    if len(given) < least or (most is not None and len(given) > most):
        raise TemplateError(f"wrong number of arguments: {len(given)}")
