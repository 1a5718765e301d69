"""What functions ask of their arguments, as the types of Go's parameters do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Ideal, Int, Object, is_missing, text_of, type_of


def text(value: Any) -> str:
    """Ask for a text."""
    if not isinstance(value, str):
        raise TemplateError(f"wrong type of argument; expected string; got {type_of(value)}")
    return value


def whole(value: Any) -> int:
    """Ask for Go's int: a constant, or what a function such as `int` or `len` gave. A number of an object is none."""
    if isinstance(value, Ideal) and value.is_integer():
        return int(value)
    if not isinstance(value, Int):
        raise TemplateError(f"wrong type of argument; expected int; got {type_of(value)}")
    return int(value)


def items(value: Any) -> list[Any]:
    """Ask for a list."""
    if not isinstance(value, list):
        raise TemplateError(f"wrong type of argument; expected a list; got {type_of(value)}")
    return value


def table(value: Any) -> Mapping[str, Any]:
    """Ask for a dict."""
    if isinstance(value, Object):
        raise TemplateError("a whole object is no dict; take .Object.Object")
    if not isinstance(value, Mapping):
        raise TemplateError(f"wrong type of argument; expected a dict; got {type_of(value)}")
    return value


def shown(budget: Budget, value: Any) -> str:
    """Make a text of anything, as sprig's strval does."""
    return value if isinstance(value, str) else text_of(value, budget)


def texts(budget: Budget, value: Any) -> list[str]:
    """Make texts of a list's elements without nils, or of one value, as sprig's strslice does."""
    if is_missing(value):
        return []
    found = value if isinstance(value, list) else [value]
    return [shown(budget, item) for item in found if not is_missing(item)]


def count(given: tuple[Any, ...], least: int, most: int | None = None) -> None:
    """Hold that so many arguments were given."""
    if len(given) < least or (most is not None and len(given) > most):
        raise TemplateError(f"wrong number of arguments: {len(given)}")
