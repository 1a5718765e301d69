"""Sprig's functions for values of any type: defaults, types, comparison, JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_element, as_string, to_string, to_strings
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.quoting import to_json
from registry_controller.gotemplate.values import (
    MutableDict,
    Slice,
    StringMap,
    TemplateObject,
    is_missing,
    kind_of,
    strings,
    type_of,
)


def is_empty(value: Any) -> bool:
    """Return whether `default` replaces a value."""
    return is_missing(value) or (not isinstance(value, TemplateObject) and not value)


def _to_strings(budget: Budget, value: Any) -> Slice:
    """Convert all elements to strings. A `[]string` is returned itself, and may be nil."""
    return value if isinstance(value, Slice) and value.element == "string" else strings(to_strings(budget, value))


def _default(_: Budget, fallback: Any, *given: Any) -> Any:
    return fallback if not given or is_empty(given[0]) else given[0]


def _coalesce(_: Budget, *given: Any) -> Any:
    return next((value for value in given if not is_empty(value)), None)


def _ternary(_: Budget, yes: Any, no: Any, choice: Any) -> Any:
    if not isinstance(choice, bool):
        raise TemplateError(f"wrong type of argument; expected bool; got {type_of(choice)}")
    return yes if choice else no


def _fail(_: Budget, words: Any) -> Any:
    as_string(words)
    raise TemplateError("the template calls fail")


def deep_copied(budget: Budget, value: Any) -> Any:
    """Return a deep copy of a value. The template may change the dicts in it."""
    budget.step()
    if isinstance(value, TemplateObject):
        raise TemplateError("a whole object cannot be copied; use .Object.Object")
    if isinstance(value, StringMap):
        return value
    if isinstance(value, Mapping):
        budget.reserve_elements(len(value))
        return MutableDict({key: deep_copied(budget, child) for key, child in value.items()})
    if isinstance(value, list):
        budget.reserve_elements(len(value))
        children = [deep_copied(budget, child) for child in value]
        return Slice(children, element=value.element, is_nil=value.is_nil) if isinstance(value, Slice) else children
    return as_element(value)


def _deep_copy(budget: Budget, value: Any) -> Any:
    if is_missing(value):
        raise TemplateError("nil cannot be copied")
    return deep_copied(budget, value)


def _to_json(budget: Budget, value: Any, *, indent: int | None = None) -> str:
    """Encode a value as JSON.

    Its size is charged first, because the text of a value that contains another value many times grows with its depth.
    """
    _count(budget, value, 1)
    try:
        text = to_json(as_element(value), indent=indent)
    except TemplateError:
        return ""  # as in sprig, for a number that JSON cannot represent
    budget.reserve(len(text))
    return text


def _count(budget: Budget, value: Any, depth: int) -> None:
    budget.step()
    if isinstance(value, TemplateObject):
        raise TemplateError("a whole object cannot be printed; use .Object.Object")
    if isinstance(value, str):
        budget.reserve(len(value))
    elif isinstance(value, Mapping | list):
        budget.reserve(2 * depth * len(value))
        for child in value.values() if isinstance(value, Mapping) else value:
            _count(budget, child, depth + 1)


def is_deeply_equal(budget: Budget, one: Any, other: Any) -> bool:
    """Compare as reflect.DeepEqual does: values of different types differ."""
    budget.step()
    if type_of(one) != type_of(other) or getattr(one, "is_nil", False) != getattr(other, "is_nil", False):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(is_deeply_equal(budget, *pair) for pair in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(is_deeply_equal(budget, one[key], other[key]) for key in one)
    return is_missing(one) or bool(one == other)


def _type_is_like(_: Budget, name: Any, value: Any) -> bool:
    return type_of(value) in (as_string(name), f"*{as_string(name)}")


VALUES: Final[Mapping[str, Callable[..., Any]]] = {
    "toString": to_string, "toStrings": _to_strings, "default": _default,
    "empty": lambda _, value: is_empty(value), "coalesce": _coalesce, "ternary": _ternary, "fail": _fail,
    "toJson": _to_json, "toPrettyJson": lambda budget, value: _to_json(budget, value, indent=2), "deepCopy": _deep_copy,
    "deepEqual": is_deeply_equal, "typeOf": lambda _, value: type_of(value), "kindOf": lambda _, value: kind_of(value),
    "typeIs": lambda _, name, value: as_string(name) == type_of(value), "typeIsLike": _type_is_like,
    "kindIs": lambda _, name, value: as_string(name) == kind_of(value),
}  # fmt: skip
