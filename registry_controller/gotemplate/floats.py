"""Formats floats as Go's strconv does."""

from __future__ import annotations

import math
from typing import Final

_MANTISSA_BITS: Final = 52
_BIAS: Final = 1074


def float_text(number: float, *, small: int = -4, big: int = 6) -> str:
    """Return the shortest decimal that reads back as the number.

    The form with an exponent is used if the exponent is below `small`, or at least `big`.
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    text = repr(number)
    mantissa, _, power = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    mantissa = mantissa.lstrip("-")
    whole, _, fraction = mantissa.partition(".")
    raw = (whole + fraction).lstrip("0")
    shift = int(power or 0) + len(whole)
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    exponent = shift - leading - 1
    raw = raw.rstrip("0") or "0"
    if raw == "0":
        return f"{sign}0"
    if exponent < small or exponent >= big:
        rest = f".{raw[1:]}" if len(raw) > 1 else ""
        return f"{sign}{raw[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{raw}"
    if len(raw) <= exponent + 1:
        return f"{sign}{raw}{'0' * (exponent + 1 - len(raw))}"
    return f"{sign}{raw[: exponent + 1]}.{raw[exponent + 1 :]}"


def general_text(number: float, precision: int) -> str:
    """Format a float with at most `precision` digits, as %g does."""
    return f"{number:.{precision or 1}g}"


def binary_text(number: float) -> str:
    """Format a float as %b does: an integer and a power of two."""
    sign, mantissa, power = _parts(number)
    return f"{sign}{mantissa}p{power:+d}"


def hex_text(number: float, precision: int | None) -> str:
    """Format a float as %x does: with the shortest hexadecimal mantissa, or with `precision` digits."""
    sign, mantissa, power = _parts(number)
    if mantissa == 0:
        power = 0
        digits = 13
    else:
        shift = _MANTISSA_BITS + 1 - mantissa.bit_length()
        mantissa <<= shift
        power += _MANTISSA_BITS - shift
        digits = 13
    if precision is not None and precision < digits:
        drop = 4 * (digits - precision)
        half, rest = 1 << (drop - 1), mantissa & ((1 << drop) - 1)
        mantissa >>= drop
        mantissa += rest > half or (rest == half and mantissa & 1)
        digits = precision
        if mantissa >> (4 * digits) > 1:
            mantissa >>= 1
            power += 1
    whole, fraction = mantissa >> (4 * digits), mantissa & ((1 << (4 * digits)) - 1)
    shown = f"{fraction:0{digits}x}" if digits else ""
    shown = shown.rstrip("0") if precision is None else shown.ljust(precision, "0")
    point = f".{shown}" if shown else ""
    return f"{sign}0x{whole}{point}p{power:+03d}"


def _parts(number: float) -> tuple[str, int, int]:
    """Return the sign of a finite float, its integer mantissa, and the power of two by which to multiply it."""
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    fraction, exponent = math.frexp(abs(number))
    power = max(exponent - _MANTISSA_BITS - 1, -_BIAS) if fraction else -_BIAS
    return sign, int(math.ldexp(fraction, exponent - power)), power
