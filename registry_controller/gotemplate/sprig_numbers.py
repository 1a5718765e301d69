"""Sprig's arithmetic, in 64 bits as Go's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, text, whole
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Int

_INTEGER: Final = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INT64: Final = range(-(2**63), 2**63)


def to_int64(value: Any) -> int:
    """Make an int64 of anything, 0 of what is no number, as sprig does."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and abs(value) < 2**63 else -(2**63)
    if isinstance(value, str) and len(value) < 64 and _INTEGER.fullmatch(value):
        digits = value.lstrip("+-").lower()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        try:
            number = int(digits, 8 if octal else 0) * (-1 if value[0] == "-" else 1)
        except ValueError:
            return 0
        return number if number in _INT64 else 0
    return 0


def _wrapped(number: int) -> int:
    """Keep 64 bits, as Go's integers do."""
    return (number + 2**63) % 2**64 - 2**63


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        return float(value) if _FLOAT.fullmatch(value) else 0.0
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) else 0.0


def _add(_: Budget, *given: Any) -> int:
    return _wrapped(sum(map(to_int64, given)))


def _sub(_: Budget, one: Any, other: Any) -> int:
    return _wrapped(to_int64(one) - to_int64(other))


def _divided(one: Any, other: Any) -> tuple[int, int]:
    number, by = to_int64(one), to_int64(other)
    if by == 0:
        raise TemplateError("a division by zero")
    quotient = abs(number) // abs(by) * (1 if (number < 0) == (by < 0) else -1)
    return _wrapped(quotient), number - quotient * by


def _mul(_: Budget, *given: Any) -> int:
    count(given, 1)
    product = 1
    for value in given:
        product = _wrapped(product * to_int64(value))
    return product


def _max(_: Budget, *given: Any) -> int:
    count(given, 1)
    return max(map(to_int64, given))


def _min(_: Budget, *given: Any) -> int:
    count(given, 1)
    return min(map(to_int64, given))


def _round(_: Budget, value: Any, places: Any, *half: Any) -> float:
    number, digits = _to_float(value), whole(places)
    if abs(digits) > 300:
        raise TemplateError("round: too many places")
    power = math.pow(10, digits)
    scaled = number * power
    fraction = math.modf(scaled)[0]
    at = _to_float(half[0]) if half else 0.5
    return (math.ceil(scaled) if fraction >= at else math.floor(scaled)) / power


def _until(budget: Budget, end: Any) -> list[Any]:
    number = whole(end)
    return _until_step(budget, Int(0), Int(number), Int(-1 if number < 0 else 1))


def _until_step(budget: Budget, start: Any, stop: Any, step: Any) -> list[Any]:
    first, last, by = whole(start), whole(stop), whole(step)
    if by == 0 or (last < first and by > 0) or (last > first and by < 0):
        return []
    numbers = range(first, last, by)
    budget.make(len(numbers))
    return [Int(number) for number in numbers]


def _int(_: Budget, value: Any) -> Int:
    return Int(to_int64(value))


def _atoi(_: Budget, value: Any) -> Int:
    found = text(value)
    plain = re.fullmatch(r"[+-]?[0-9]{1,19}", found) is not None
    return Int(int(found) if plain and int(found) in _INT64 else 0)


def _to_decimal(_: Budget, value: Any) -> int:
    found = str(value)
    return int(found, 8) if re.fullmatch(r"[0-7]{1,20}", found) else 0


NUMBERS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _add, "add1": lambda _, value: _wrapped(to_int64(value) + 1), "sub": _sub, "mul": _mul,
    "div": lambda _, one, other: _divided(one, other)[0], "mod": lambda _, one, other: _divided(one, other)[1],
    "max": _max, "min": _min, "biggest": _max, "floor": lambda _, value: float(math.floor(_to_float(value))),
    "ceil": lambda _, value: float(math.ceil(_to_float(value))), "round": _round, "until": _until,
    "untilStep": _until_step, "int": _int, "int64": lambda _, value: to_int64(value),
    "float64": lambda _, value: _to_float(value), "atoi": _atoi, "toDecimal": _to_decimal,
}  # fmt: skip
