"""Finds values in an object's body, and compares them with the values that a rule asks for.

Laws: a path that cannot be evaluated is an error, never "no match"; a path that finds nothing does not match · values
are charged to a budget before they are read, so that no rule stalls the daemon.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.api.syncrule import ContentMatch
from registry_controller.core.rules.gjson import (
    ContentPath,
    EachStep,
    Glob,
    KeyStep,
    LengthStep,
    PathStep,
    QueryStep,
    WildcardStep,
    compile_path,
)
from registry_controller.gotemplate.limits import Budget, Pool, TemplateError

_DIGITS, _HEX_DIGITS, _EXPONENT = r"\d(?:_?\d)*", r"[\da-f](?:_?[\da-f])*", r"[+-]?\d(?:_?\d){0,3}"
_NUMBER: Final = re.compile(
    rf"[+-]?(({_DIGITS}(\.({_DIGITS})?)?|\.{_DIGITS})(e{_EXPONENT})?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_HEX_NUMBER: Final = re.compile(
    rf"[+-]?0x(_?{_HEX_DIGITS}(\.({_HEX_DIGITS})?)?|\.{_HEX_DIGITS})p{_EXPONENT}", re.ASCII | re.IGNORECASE
)
_INTEGER: Final = re.compile(r"-?(?=\d)0*+(\d{0,18}+)", re.ASCII)
_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


_CHARACTERS_A_STEP: Final = 64
_KEY_CHARACTERS_A_STEP: Final = 4
"""Characters of a path, which is compiled again for an object when it is no longer in the cache."""


class _Missing:
    """The result of a path that finds nothing; null is a value."""


_MISSING: Final = _Missing()


def find_value(document: object, path: ContentPath, *, budget: Budget | None = None) -> tuple[bool, Any]:
    """Return whether there is a value at a path (null is one), and the value; raise TemplateError for too many steps.

    `document` is decoded JSON.
    """
    found = _find(document, path.steps, budget or Budget())
    return (False, None) if found is _MISSING else (True, found)


def _find(value: object, steps: tuple[PathStep, ...], budget: Budget) -> object:
    budget.step()
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping):
        return _find_in_object(value, step, rest, budget)
    if isinstance(value, list):
        return _find_in_array(value, step, rest, budget)
    return _MISSING


def _find_in_object(value: Mapping[str, Any], step: PathStep, rest: tuple[PathStep, ...], budget: Budget) -> object:
    match step:
        case KeyStep():
            return _find(value[step.name], rest, budget) if step.name in value else _MISSING
        case WildcardStep():
            budget.step_for_lookups(2 * len(value))  # all keys are sorted, even if the first one fits
            fitting = (
                _find(value[key], rest, budget) for key in sorted(value) if _glob_matches(step.glob, key, budget)
            )
            return next((found for found in fitting if found is not _MISSING), _MISSING)
        case LengthStep():
            return value.get("#", _MISSING)
        case EachStep():
            return _find(value["#"], step.rest, budget) if "#" in value else _MISSING
        case QueryStep():
            return _MISSING


def _find_in_array(value: list[Any], step: PathStep, rest: tuple[PathStep, ...], budget: Budget) -> object:
    match step:
        case KeyStep():
            is_there = step.index is not None and step.index < len(value)
            return _find(value[step.index or 0], rest, budget) if is_there else _MISSING
        case WildcardStep():
            return _MISSING
        case LengthStep():
            return len(value)
        case EachStep():
            return [found for item in value if (found := _find(item, step.rest, budget)) is not _MISSING]
        case QueryStep():
            fitting = (item for item in value if _query_matches(step, item, budget))
            if step.every:
                return [found for item in fitting if (found := _find(item, rest, budget)) is not _MISSING]
            first = next(fitting, _MISSING)
            return first if first is _MISSING else _find(first, rest, budget)


def _query_matches(query: QueryStep, item: object, budget: Budget) -> bool:
    budget.step()
    if query.steps is None:
        # gjson compares the value of an object's empty key.
        found = item.get("", _MISSING) if isinstance(item, Mapping) else _MISSING if isinstance(item, list) else item
    else:
        found = _find(item, query.steps, budget)
    if found is _MISSING:
        return False
    if not query.operator:
        return True
    if isinstance(found, bool):
        return _compare_boolean(found, query)
    if isinstance(found, str):
        if query.operator in ("%", "!%"):
            return _glob_matches(query.glob, found, budget) == (query.operator == "%")
        return _ORDER[query.operator](found, query.operand)
    if isinstance(found, (int, float)) and query.operator in _ORDER:
        return _ORDER[query.operator](found, _read_operand(query.operand))
    return False


def _glob_matches(glob: Glob, text: str, budget: Budget) -> bool:
    budget.step(glob.cost(text))
    return glob.matches(text)


@functools.lru_cache(maxsize=1024)
def _read_operand(text: str) -> float:
    """Read a number as Go's ParseFloat does; any other text is 0."""
    plain = text.replace("_", "")  # allowed between digits
    if _HEX_NUMBER.fullmatch(text):
        return float.fromhex(plain)
    return float(plain) if _NUMBER.fullmatch(text) else 0.0


def _compare_boolean(found: bool, query: QueryStep) -> bool:
    """Compare as gjson does: false is less than true, and other operands cannot be compared with them."""
    if query.operator in ("=", "!="):
        return (query.operand == ("true" if found else "false")) == (query.operator == "=")
    if query.operator == (">" if found else "<"):
        return query.operand == ("false" if found else "true")
    return query.operator == (">=" if found else "<=")


_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


class ObjectContent:
    """The body of one object, for one rule: it is decoded at the first use, and all clauses share one budget."""

    __slots__ = ("_body", "_budget", "_pool", "_read")

    def __init__(self, read: Callable[[], Manifest], *, pool: Pool | None = None) -> None:
        self._read = read
        self._pool = pool
        self._body: Manifest | None = None
        self._budget: Budget | None = None

    def matches(self, wanted: ContentMatch, *, known: str | None = None) -> bool:
        """Return whether the body fulfils a clause; `known` is the value when it is known without the body.

        Raises InvalidObject when the clause cannot be evaluated, or takes too many steps together with those before.
        """
        if self._budget is None:
            self._budget = Budget(pool=self._pool)
        if known is not None:
            return _compare_value(wanted, known, self._budget)
        if self._body is None:
            self._body = self._read()
        return content_matches(wanted, self._body, budget=self._budget)


def content_matches(wanted: ContentMatch, document: object, *, budget: Budget | None = None) -> bool:
    """Return whether the body has the wanted value; raise InvalidObject when the key cannot be evaluated."""
    budget = budget or Budget()
    compiled = compile_path(wanted.key, path=f"{wanted.path}.key")
    try:
        budget.step(len(wanted.key) // _KEY_CHARACTERS_A_STEP)
        exists, found = find_value(document, compiled, budget=budget)
    except TemplateError as error:
        raise _build_exhausted_error(wanted, error) from None
    return exists and _compare_value(wanted, found, budget)


def _compare_value(wanted: ContentMatch, found: object, budget: Budget) -> bool:
    try:
        return value_matches(wanted.value, found, budget=budget)
    except TemplateError as error:
        raise _build_exhausted_error(wanted, error) from None


def _build_exhausted_error(wanted: ContentMatch, error: TemplateError) -> InvalidObject:
    return InvalidObject(f"{wanted.path}.key", f"{error}, together with the clauses before it")


def value_matches(wanted: str | int, found: object, *, budget: Budget) -> bool:
    """Compare a value with the one that a rule asks for; raise TemplateError for too many steps."""
    if isinstance(wanted, str):
        return _format_as_string(found, budget) == wanted
    if isinstance(found, str):
        budget.step(len(found) // _CHARACTERS_A_STEP)
    return _read_integer(found) == wanted


def _format_as_string(found: object, budget: Budget) -> str:
    """Format a value as gjson's String() does; objects and arrays as Go writes JSON."""
    if found is None:
        return ""
    if isinstance(found, str):
        return found
    if isinstance(found, float) and math.isfinite(found):
        return _format_number(found)
    return _format_json(found, budget).translate(_ESCAPED)


def _format_json(value: object, budget: Budget) -> str:
    """Format JSON as Go does: sorted keys, no spaces, whole numbers without a fraction."""
    budget.step()
    if isinstance(value, Mapping):
        return (
            "{"
            + ",".join(f"{_format_json(key, budget)}:{_format_json(value[key], budget)}" for key in sorted(value))
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(_format_json(item, budget) for item in value) + "]"
    if isinstance(value, float) and math.isfinite(value):
        has_exponent = value != 0 and not 1e-6 <= abs(value) < 1e21
        return repr(value).replace("e-0", "e-") if has_exponent else _format_number(value)
    if isinstance(value, str):
        budget.step(len(value) // _CHARACTERS_A_STEP)
    return json.dumps(value, ensure_ascii=False)


def _format_number(number: float) -> str:
    """Format a number without an exponent."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read_integer(found: object) -> int:
    """Read a value as gjson's Int() does: a value that is not a number is 0."""
    if isinstance(found, float):
        return int(found) if math.isfinite(found) else 0
    if isinstance(found, (bool, int)):
        return int(found)
    if isinstance(found, str) and (digits := _INTEGER.fullmatch(found)):
        number = int(digits[1] or 0)
        return -number if found.startswith("-") else number
    return 0
