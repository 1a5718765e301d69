"""Values in an object's body, and how they compare with what a rule asks for.

Law: a path that cannot be evaluated is an error, never "no match"; a path that finds nothing does not match.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from registry_controller.api.syncrule import ContentMatch
from registry_controller.core.gjson import ContentPath, Each, Key, Length, Query, Step, Wild, compile_path

__all__ = ["ContentPath", "compile_path", "content_matches", "lookup", "value_matches"]

_DIGITS, _HEX_DIGITS, _EXPONENT = r"\d(?:_?\d)*", r"[\da-f](?:_?[\da-f])*", r"[+-]?\d(?:_?\d){0,3}"
_NUMBER: Final = re.compile(
    rf"[+-]?(({_DIGITS}\.?({_DIGITS})?|\.{_DIGITS})(e{_EXPONENT})?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_HEX_NUMBER: Final = re.compile(
    rf"[+-]?0x(_?{_HEX_DIGITS}\.?({_HEX_DIGITS})?|\.{_HEX_DIGITS})p{_EXPONENT}", re.ASCII | re.IGNORECASE
)
_INTEGER: Final = re.compile(r"-?0*(\d{1,18})", re.ASCII)
_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class _Missing:
    """What a path finds where nothing is; null is something."""


_MISSING: Final = _Missing()


def lookup(document: object, path: ContentPath) -> tuple[bool, Any]:
    """Find a value: whether something is there (null is), and what."""
    found = _find(document, path.steps)
    return (False, None) if found is _MISSING else (True, found)


def _find(value: object, steps: tuple[Step, ...]) -> object:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping):
        return _find_in_object(value, step, rest)
    if isinstance(value, list):
        return _find_in_array(value, step, rest)
    return _MISSING


def _find_in_object(value: Mapping[str, Any], step: Step, rest: tuple[Step, ...]) -> object:
    match step:
        case Key():
            return _find(value[step.name], rest) if step.name in value else _MISSING
        case Wild():
            fitting = (_find(value[key], rest) for key in sorted(value) if step.glob.matches(key))
            return next((found for found in fitting if found is not _MISSING), _MISSING)
        case Length():
            return value.get("#", _MISSING)
        case Each():
            return _find(value["#"], step.rest) if "#" in value else _MISSING
        case Query():
            return _MISSING


def _find_in_array(value: list[Any], step: Step, rest: tuple[Step, ...]) -> object:
    match step:
        case Key():
            return _find(value[step.index], rest) if step.index is not None and step.index < len(value) else _MISSING
        case Wild():
            return _MISSING
        case Length():
            return len(value)
        case Each():
            return [found for item in value if (found := _find(item, step.rest)) is not _MISSING]
        case Query():
            fitting = (item for item in value if _holds(step, item))
            if step.every:
                return [found for item in fitting if (found := _find(item, rest)) is not _MISSING]
            first = next(fitting, _MISSING)
            return first if first is _MISSING else _find(first, rest)


def _holds(query: Query, item: object) -> bool:
    if query.steps is None:
        # An object is asked for its empty key, as gjson does.
        found = item.get("", _MISSING) if isinstance(item, Mapping) else _MISSING if isinstance(item, list) else item
    else:
        found = _find(item, query.steps)
    if found is _MISSING:
        return False
    if not query.operator:
        return True
    if isinstance(found, bool):
        return _compare_flag(found, query)
    if isinstance(found, str):
        if query.operator in ("%", "!%"):
            return query.glob.matches(found) == (query.operator == "%")
        return _ORDER[query.operator](found, query.operand)
    if isinstance(found, (int, float)) and query.operator in _ORDER:
        return _ORDER[query.operator](found, _read_operand(query.operand))
    return False


def _read_operand(text: str) -> float:
    """Read a number as Go's ParseFloat does; what is none is 0."""
    plain = text.replace("_", "")  # which may stand between digits
    if _HEX_NUMBER.fullmatch(text):
        return float.fromhex(plain)
    return float(plain) if _NUMBER.fullmatch(text) else 0.0


def _compare_flag(found: bool, query: Query) -> bool:
    """Compare as gjson does: false is less than true, and no other operand has a place in that order."""
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


def content_matches(wanted: ContentMatch, document: object) -> bool:
    """Say whether the body holds the value; raise InvalidObject when the key cannot be evaluated."""
    exists, found = lookup(document, compile_path(wanted.key, path=f"{wanted.path}.key"))
    return exists and value_matches(wanted.value, found)


def value_matches(wanted: str | int, found: object) -> bool:
    """Compare a value that is there with what a rule asks for."""
    return _text(found) == wanted if isinstance(wanted, str) else _whole(found) == wanted


def _text(found: object) -> str:
    """Spell a value as gjson's String() does; objects and arrays as Go writes JSON."""
    if found is None:
        return ""
    if isinstance(found, str):
        return found
    if isinstance(found, float) and math.isfinite(found):
        return _plain_number(found)
    return _spell(found).translate(_ESCAPED)


def _spell(value: object) -> str:
    """Write JSON as Go does: keys sorted, nothing spaced, whole numbers without a fraction."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_spell(key)}:{_spell(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_spell, value)) + "]"
    if isinstance(value, float) and math.isfinite(value):
        has_exponent = value != 0 and not 1e-6 <= abs(value) < 1e21
        return repr(value).replace("e-0", "e-") if has_exponent else _plain_number(value)
    return json.dumps(value, ensure_ascii=False)


def _plain_number(number: float) -> str:
    """Write a number without an exponent."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _whole(found: object) -> int:
    """Read a value as gjson's Int() does: what is no number is 0."""
    if isinstance(found, float):
        return int(found) if math.isfinite(found) else 0
    if isinstance(found, (bool, int)):
        return int(found)
    if isinstance(found, str) and (digits := _INTEGER.fullmatch(found)):
        return -int(digits[1]) if found.startswith("-") else int(digits[1])
    return 0
