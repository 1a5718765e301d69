"""Sprig's functions on values of any type: defaults, types, comparison, JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import shown, text, texts
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.printf import to_json
from registry_controller.gotemplate.values import Object, Texts, is_missing, kind_of, type_of


def is_empty(value: Any) -> bool:
    """Say whether `default` takes a value for none."""
    return is_missing(value) or (not isinstance(value, Object) and not value)


def _default(_: Budget, fallback: Any, *given: Any) -> Any:
    return fallback if not given or is_empty(given[0]) else given[0]


def _coalesce(_: Budget, *given: Any) -> Any:
    return next((value for value in given if not is_empty(value)), None)


def _ternary(_: Budget, yes: Any, no: Any, choice: Any) -> Any:
    if not isinstance(choice, bool):
        raise TemplateError(f"wrong type of argument; expected bool; got {type_of(choice)}")
    return yes if choice else no


def _fail(_: Budget, words: Any) -> Any:
    text(words)
    raise TemplateError("the template itself says that it fails")


def _plain(budget: Budget, value: Any) -> Any:
    """Make JSON's values of a value, and count them."""
    budget.step()
    if isinstance(value, Object):
        raise TemplateError("a whole object cannot be written; take .Object.Object")
    if is_missing(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(budget, child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(budget, child) for child in value]
    return value


def _to_json(budget: Budget, value: Any) -> str:
    written = to_json(_plain(budget, value))
    budget.make(len(written))
    return written


def _to_pretty_json(budget: Budget, value: Any) -> str:
    written = to_json(_plain(budget, value), indent=2)
    budget.make(len(written))
    return written


def same(one: Any, other: Any) -> bool:
    """Compare as reflect.DeepEqual does: types count."""
    if type_of(one) != type_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return is_missing(one) or bool(one == other)


def _deep_equal(_: Budget, one: Any, other: Any) -> bool:
    return same(one, other)


def _type_of(_: Budget, value: Any) -> str:
    return type_of(value)


def _type_is_like(_: Budget, name: Any, value: Any) -> bool:
    return text(name) in (type_of(value), f"*{type_of(value)}")


VALUES: Final[Mapping[str, Callable[..., Any]]] = {
    "toString": shown, "toStrings": lambda budget, value: Texts(texts(budget, value)), "default": _default,
    "empty": lambda _, value: is_empty(value), "coalesce": _coalesce, "ternary": _ternary, "fail": _fail,
    "toJson": _to_json, "toPrettyJson": _to_pretty_json, "deepCopy": _plain, "deepEqual": _deep_equal,
    "typeOf": _type_of, "kindOf": lambda _, value: kind_of(value),
    "typeIs": lambda _, name, value: text(name) == type_of(value), "typeIsLike": _type_is_like,
    "kindIs": lambda _, name, value: text(name) == kind_of(value),
}  # fmt: skip
