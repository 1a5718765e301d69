"""Sprig's arithmetic, in 64 bits as in Go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import as_float64, as_int, as_string, check_count
from registry_controller.gotemplate.formats import text_of
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Int, Slice

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)
_OCTAL: Final = re.compile(r"[+-]?[0-7]{1,100}", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_HEX_FLOAT: Final = re.compile(r"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE)
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


def to_int64(value: Any) -> int:
    """Convert any value to an int64 as sprig does; a value that is not a number becomes 0."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and abs(value) < 2**63 else _LEAST
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        number = int(value)
        return number if _LEAST <= number <= _MOST else 0
    return 0


def _wrapped(number: int) -> int:
    """Wrap around at 64 bits, as Go's integers do."""
    return (number + 2**63) % 2**64 - 2**63


def to_float(value: Any) -> float:
    """Convert any value to a float as sprig does; a value that is not a number becomes 0."""
    if isinstance(value, str):
        if _FLOAT.fullmatch(value):
            found = float(value)
            return 0.0 if math.isinf(found) and "n" not in value.lower() else found
        return float.fromhex(value) if _HEX_FLOAT.fullmatch(value) else 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def _add(_: Budget, *given: Any) -> int:
    return _wrapped(sum(map(to_int64, given)))


def _sub(_: Budget, one: Any, other: Any) -> int:
    return _wrapped(to_int64(one) - to_int64(other))


def _divmod(one: Any, other: Any) -> tuple[int, int]:
    number, by = to_int64(one), to_int64(other)
    if by == 0:
        raise TemplateError("division by zero")
    quotient = abs(number) // abs(by) * (1 if (number < 0) == (by < 0) else -1)
    return _wrapped(quotient), number - quotient * by


def _mul(_: Budget, *given: Any) -> int:
    check_count(given, 1)
    product = 1
    for value in given:
        product = _wrapped(product * to_int64(value))
    return product


def _max(_: Budget, *given: Any) -> int:
    check_count(given, 1)
    return max(map(to_int64, given))


def _min(_: Budget, *given: Any) -> int:
    check_count(given, 1)
    return min(map(to_int64, given))


def _to_whole(number: float, function: Callable[[float], int]) -> float:
    """Round up or down. The sign stays: -0.5 becomes -0."""
    return math.copysign(float(function(number)), number) if math.isfinite(number) else number


def _floor(_: Budget, value: Any) -> float:
    return _to_whole(to_float(value), math.floor)


def _ceil(_: Budget, value: Any) -> float:
    return _to_whole(to_float(value), math.ceil)


def _round(_: Budget, value: Any, places: Any, *half: Any) -> float:
    digits = as_int(places)
    if abs(digits) > 300:
        raise TemplateError("too many decimal places")
    at = as_float64(half[0]) if half else 0.5
    for other in half[1:]:
        as_float64(other)
    power = 10.0**digits
    scaled = power * to_float(value)
    if not math.isfinite(scaled):
        return scaled / power
    fraction = math.modf(scaled)[0]
    return _to_whole(scaled, math.ceil if fraction >= at else math.floor) / power


def _until(budget: Budget, end: Any) -> list[Any]:
    number = as_int(end)
    return _until_step(budget, Int(0), Int(number), Int(-1 if number < 0 else 1))


def _until_step(budget: Budget, start: Any, stop: Any, step: Any) -> list[Any]:
    first, last, by = as_int(start), as_int(stop), as_int(step)
    if by == 0 or (last < first and by > 0) or (last > first and by < 0):
        return Slice(element="int")
    numbers = range(first, last, by)
    size = max(0, (last - first + by - (1 if by > 0 else -1)) // by)  # len() of a range fails beyond 63 bits
    budget.reserve_elements(size)
    return Slice(map(Int, numbers), element="int")


def _int(_: Budget, value: Any) -> Int:
    return Int(to_int64(value))


def _atoi(_: Budget, value: Any) -> Int:
    """Read a decimal number. As in Go's Atoi, a number that is too large becomes the largest int."""
    found = as_string(value)
    return Int(min(max(int(found), _LEAST), _MOST) if _DECIMAL.fullmatch(found) else 0)


def _to_decimal(budget: Budget, value: Any) -> int:
    found = text_of(value, budget)
    number = int(found, 8) if _OCTAL.fullmatch(found) else 0
    return number if _LEAST <= number <= _MOST else 0


NUMBERS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _add, "add1": lambda _, value: _wrapped(to_int64(value) + 1), "sub": _sub, "mul": _mul,
    "div": lambda _, one, other: _divmod(one, other)[0], "mod": lambda _, one, other: _divmod(one, other)[1],
    "max": _max, "min": _min, "biggest": _max, "floor": _floor, "ceil": _ceil, "round": _round, "until": _until,
    "untilStep": _until_step, "int": _int, "int64": lambda _, value: to_int64(value),
    "float64": lambda _, value: to_float(value), "atoi": _atoi, "toDecimal": _to_decimal,
}  # fmt: skip
