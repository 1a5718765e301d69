"""Formats one value as Go's fmt does: `%5.2f`, `%-8s`, `%#x`, and Go's text for a wrong verb.

Law: the budget is charged for a width or a precision before the text is created.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from registry_controller.gotemplate.floats import binary_text, float_text, general_text, hex_text
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.quoting import can_be_raw, is_printable, quote
from registry_controller.gotemplate.values import Byte, TemplateObject, is_missing, type_of

_BASES: Final = {"d": "d", "v": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_PREFIXES: Final = {"b": "0b", "x": "0x", "X": "0X"}
_LAST: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """A directive: its verb, and the flags, width and precision before it. `go_syntax` is `%#v`."""

    verb: str = "v"
    flags: frozenset[str] = frozenset()
    width: int | None = None
    precision: int | None = None
    go_syntax: bool = False


PLAIN: Final = FormatSpec()


def format_value(budget: Budget, form: FormatSpec, value: Any) -> str:
    """Format a value that is an argument, not an element of one."""
    budget.step()
    budget.reserve((form.width or 0) + (form.precision or 0))
    if is_missing(value):
        return _pad(form, "<nil>") if form.verb in "vT" else f"%!{form.verb}(<nil>)"
    if form.verb == "T":
        return _pad(form, _cut(form, type_of(value)))
    if form.verb == "p" and isinstance(value, Mapping | list | TemplateObject):
        raise TemplateError("%p is not supported: a memory address is never printed")
    if form.verb == "w":
        return _wrong_verb(budget, form, value)
    return _value(budget, form, value)


def text_of(value: object, budget: Budget) -> str:
    """Format a value as %v does."""
    if isinstance(value, str):
        budget.step()
        return str(value)
    return format_value(budget, PLAIN, value)


def _value(budget: Budget, form: FormatSpec, value: Any) -> str:
    if isinstance(value, bool):
        shown = "true" if value else "false"
        return _pad(form, shown) if form.verb in "tv" else _wrong_verb(budget, form, value)
    if isinstance(value, int):
        return _integer(budget, form, value)
    if isinstance(value, float):
        return _float(budget, form, value)
    if isinstance(value, str):
        return _text(budget, form, value)
    if isinstance(value, TemplateObject):
        raise TemplateError("a whole object cannot be printed; use a field, or toJson of .Object.Object")
    if not isinstance(value, Mapping | list):
        raise TemplateError(f"a value of type {type_of(value)} cannot be printed")
    return _compound(budget, form, value)


def _wrong_verb(budget: Budget, form: FormatSpec, value: Any) -> str:
    """Return Go's text for a wrong verb. It contains the value, formatted by the directive with the verb v."""
    return f"%!{form.verb}({type_of(value)}={_value(budget, replace(form, verb='v'), value)})"


def _pad(form: FormatSpec, text: str, *, zeros: bool = True) -> str:
    missing = (form.width or 0) - len(text)
    if missing <= 0:
        return text
    if "-" in form.flags:
        return text + " " * missing
    return ("0" if zeros and "0" in form.flags else " ") * missing + text


def _integer(budget: Budget, form: FormatSpec, value: int) -> str:
    number, verb = int(value), form.verb
    if verb in "cqU":
        return _character(form, number)
    if verb not in _BASES:
        return _wrong_verb(budget, form, value)
    if verb == "v" and form.go_syntax and isinstance(value, Byte):
        form, verb = replace(form, flags=form.flags | {"#"}), "x"
    digits = format(abs(number), _BASES[verb])
    sign = "-" if number < 0 else "+" if "+" in form.flags else " " if " " in form.flags else ""
    least = 0
    if form.precision is not None:
        least = form.precision
        if least == 0 and number == 0:
            return " " * (form.width or 0)
    elif "0" in form.flags and "-" not in form.flags and form.width is not None:
        least = form.width - len(sign)
    digits = digits.rjust(least, "0")
    if "#" in form.flags:
        digits = _PREFIXES.get(verb, "0" if verb in "oO" and not digits.startswith("0") else "") + digits
    if verb == "O":
        digits = "0o" + digits
    return _pad(form, sign + digits, zeros=False)


def _character(form: FormatSpec, number: int) -> str:
    char = chr(number) if 0 <= number <= _LAST and not 0xD800 <= number < 0xE000 else "\ufffd"
    if form.verb == "c":
        return _pad(form, char)
    if form.verb == "q":
        return _pad(form, quote(char, mark="'", ascii_only="+" in form.flags))
    digits = f"{number % 2**64:0{max(form.precision or 0, 4)}X}"
    named = f" '{char}'" if "#" in form.flags and 0 <= number <= _LAST and is_printable(chr(number)) else ""
    return _pad(form, f"U+{digits}{named}", zeros=False)


def _float(budget: Budget, form: FormatSpec, value: float) -> str:
    verb = "g" if form.verb == "v" else "f" if form.verb == "F" else form.verb
    if verb not in "bgGxXfeE":
        return _wrong_verb(budget, form, value)
    sign = "-" if math.copysign(1.0, value) < 0 and not math.isnan(value) else "+"
    if " " in form.flags and sign == "+" and "+" not in form.flags:
        sign = " "
    if not math.isfinite(value):
        is_signed = "+" in form.flags or " " in form.flags or math.isinf(value)
        shown = "Inf" if math.isinf(value) else "NaN"
        return _pad(form, sign + shown if is_signed else shown, zeros=False)
    digits = _digits(form, verb, abs(value))
    if "#" in form.flags and verb != "b":
        digits = _with_point(form, verb, digits)
    if "+" in form.flags or sign != "+":
        if "0" in form.flags and "-" not in form.flags and form.width is not None:
            return sign + digits.rjust(form.width - 1, "0")
        return _pad(form, sign + digits)
    return _pad(form, digits)


def _digits(form: FormatSpec, verb: str, number: float) -> str:
    precision = form.precision
    if verb == "b":
        return binary_text(number)
    if verb in "xX":
        digits = hex_text(number, precision)
        return digits.upper() if verb == "X" else digits
    if verb in "gG":
        digits = float_text(number) if precision is None else general_text(number, precision)
        return digits.upper() if verb == "G" else digits
    return f"{number:.{6 if precision is None else precision}{verb}}"


def _with_point(form: FormatSpec, verb: str, digits: str) -> str:
    """Add the decimal point and the trailing zeros that the flag `#` requires."""
    wanted = 0
    if form.verb in "vgG" or verb == "x":
        wanted = 6 if form.precision is None else form.precision
    mark = next((char for char in ("pP" if verb in "xX" else "eE") if char in digits), "")
    body, mark, power = digits.partition(mark) if mark else (digits, "", "")
    seen = body.replace(".", "").lstrip("0")
    missing = wanted - len(seen)
    if "." not in body:
        missing -= body == "0"
        body += "."
    return body + "0" * max(missing, 0) + mark + power


def _cut(form: FormatSpec, text: str) -> str:
    return text if form.precision is None else text[: form.precision]


def _text(budget: Budget, form: FormatSpec, value: str) -> str:
    match form.verb:
        case "x" | "X":
            budget.reserve(2 * len(value))
            return _hexadecimal(form, value)
        case "q":
            budget.reserve(len(value))
            return _quoted(form, value)
        case "v" if form.go_syntax:
            budget.reserve(len(value))
            return _quoted(form, value)
        case "s" | "v":
            return _pad(form, _cut(form, value))
        case _:
            return _wrong_verb(budget, form, value)


def _quoted(form: FormatSpec, value: str) -> str:
    cut = _cut(form, value)
    if "#" in form.flags and can_be_raw(cut):
        return _pad(form, f"`{cut}`")
    return _pad(form, quote(cut, ascii_only="+" in form.flags))


def _hexadecimal(form: FormatSpec, value: str) -> str:
    data = value.encode()
    data = data if form.precision is None else data[: form.precision]
    between = " " if " " in form.flags else ""
    prefix = "0x" if "#" in form.flags and data else ""
    digits = prefix + (data.hex(" ").replace(" ", " " + prefix) if between else data.hex())
    return _pad(form, digits.upper() if form.verb == "X" else digits)


def _compound(budget: Budget, form: FormatSpec, value: Any) -> str:
    name = type_of(value) if form.go_syntax else "map" if isinstance(value, Mapping) else ""
    if form.go_syntax and getattr(value, "is_nil", False):
        return f"{name}(nil)"
    parts = []
    if isinstance(value, Mapping):
        for key in sorted(value):
            parts.append(f"{_element(budget, form, key)}:{_element(budget, form, value[key])}")
    else:
        parts = [_element(budget, form, item) for item in value]
    opening, between, closing = ("{", ", ", "}") if form.go_syntax else ("[", " ", "]")
    budget.reserve(sum(map(len, parts)) + 2 * len(parts))
    return f"{name}{opening}{between.join(parts)}{closing}"


def _element(budget: Budget, form: FormatSpec, value: Any) -> str:
    budget.step()
    budget.reserve((form.width or 0) + (form.precision or 0))
    if is_missing(value):
        return "interface {}(nil)" if form.go_syntax else "<nil>"
    return _value(budget, form, value)
