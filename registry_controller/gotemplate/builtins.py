"""The built-in functions of Go's text/template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from registry_controller.gotemplate.arguments import as_string, check_count
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.printf import printf, sprint, sprintln
from registry_controller.gotemplate.values import (
    MISSING,
    Byte,
    Int,
    MissingKey,
    StringMap,
    equal,
    is_missing,
    is_true,
    less,
    type_of,
)

_HTML: Final = str.maketrans({'"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"})
_JS: Final = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def _eq(_: Budget, *given: Any) -> bool:
    check_count(given, 2)
    return any(equal(given[0], other) for other in given[1:])


def _ne(_: Budget, *given: Any) -> bool:
    check_count(given, 2, 2)
    return not equal(*given)


def _lt(_: Budget, *given: Any) -> bool:
    check_count(given, 2, 2)
    return less(*given)


def _le(_: Budget, *given: Any) -> bool:
    check_count(given, 2, 2)
    return less(*given) or equal(*given)


def _gt(_: Budget, *given: Any) -> bool:
    check_count(given, 2, 2)
    return not _le(_, *given)


def _ge(_: Budget, *given: Any) -> bool:
    check_count(given, 2, 2)
    return not less(*given)


def _not(_: Budget, *given: Any) -> bool:
    check_count(given, 1, 1)
    return not is_true(given[0])


def _len(_: Budget, *given: Any) -> Int:
    check_count(given, 1, 1)
    (value,) = given
    if isinstance(value, str):
        return Int(len(value.encode()))
    if isinstance(value, Mapping | list):
        return Int(len(value))
    raise TemplateError(f"len of type {type_of(value)}")


def _index(_: Budget, *given: Any) -> Any:
    check_count(given, 1)
    value, *keys = given
    if is_missing(value):
        raise TemplateError("index of nil")
    for key in keys:
        if is_missing(value):
            raise TemplateError("index of nil")
        if isinstance(value, Mapping):
            value = value.get(as_string(key), "" if isinstance(value, StringMap) else MISSING)
        elif isinstance(value, list | str):
            sequence: Any = value.encode() if isinstance(value, str) else value
            if not isinstance(key, int) or isinstance(key, bool):
                raise TemplateError(f"cannot index with type {type_of(key)}")
            if not 0 <= key < len(sequence):
                raise TemplateError(f"index out of range: {int(key)}")
            value = Byte(sequence[key]) if isinstance(sequence, bytes) else sequence[key]
        else:
            raise TemplateError(f"cannot index an item of type {type_of(value)}")
    return MissingKey("the key") if isinstance(value, MissingKey) else value


def _printf(budget: Budget, *given: Any) -> str:
    check_count(given, 1)
    return printf(budget, as_string(given[0]), *given[1:])


def _joined(budget: Budget, given: tuple[Any, ...]) -> str:
    if any(map(is_missing, given)):
        raise TemplateError("cannot print nil")
    return given[0] if len(given) == 1 and isinstance(given[0], str) else sprint(budget, *given)


def _html(budget: Budget, *given: Any) -> str:
    written = _joined(budget, given)
    budget.reserve(6 * len(written))
    return written.translate(_HTML)


def _js(budget: Budget, *given: Any) -> str:
    written = _joined(budget, given)
    budget.reserve(6 * len(written))

    def escape(char: str) -> str:
        if char in _JS:
            return _JS[char]
        if char < " ":
            return f"\\u{ord(char):04X}"
        return char if char.isprintable() or char == "\x7f" else f"\\u{ord(char):04X}"

    return "".join(escape(char) for char in written)


def _urlquery(budget: Budget, *given: Any) -> str:
    written = _joined(budget, given)
    budget.reserve(9 * len(written))
    return quote_plus(written, safe="-_.~")


def _call(_: Budget, *_given: Any) -> Any:
    raise TemplateError("no value in a template is a function")


def _never_called(_: Budget, *_given: Any) -> Any:
    raise AssertionError("the evaluator handles `and` and `or`")


BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    "and": _never_called, "call": _call, "or": _never_called, "not": _not, "len": _len, "index": _index,
    "print": sprint, "println": sprintln,
    "printf": _printf, "html": _html, "js": _js, "urlquery": _urlquery, "eq": _eq, "ne": _ne, "lt": _lt,
    "le": _le, "gt": _gt, "ge": _ge,
}  # fmt: skip
