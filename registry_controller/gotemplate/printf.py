"""Go's fmt: Printf, Sprint and Sprintln for the values that templates have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.values import Object, float_text, is_missing, text_of, type_of

_VERB: Final = re.compile(r"%([-+# 0]*)(\*|[0-9]+)?(?:(\.)(\*|[0-9]+)?)?(.)?", re.DOTALL)
_WIDEST: Final = 1_000_000
_INTEGERS: Final = {"d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X", "v": "d"}


class _Form(NamedTuple):
    flags: str
    width: int | None
    precision: int | None
    verb: str


def printf(budget: Budget, pattern: str, *given: Any) -> str:
    """Write values by a pattern, mistakes included, as Go does."""
    written: list[str] = []
    values = list(given)
    used, at = 0, 0
    for found in _VERB.finditer(pattern):
        budget.step()
        written.append(pattern[at : found.start()])
        at = found.end()
        flags, width_text, point, precision_text, verb = found.groups()
        width, used, bad_width = _star(width_text, values, used)
        precision, used, bad_precision = _star(precision_text, values, used)
        if point and precision is None:
            precision = 0
        if width is not None and width < 0:
            flags, width = flags + "-", -width
        if precision is not None and precision < 0:
            precision = None
        if max(width or 0, precision or 0) > _WIDEST:
            written.append("%!(BADWIDTH)" if (width or 0) > _WIDEST else "%!(BADPREC)")
            continue
        budget.make(max(width or 0, precision or 0))
        written += ["%!(BADWIDTH)"] * bad_width + ["%!(BADPREC)"] * bad_precision
        if verb is None:
            written.append("%!(NOVERB)")
        elif verb == "%":
            written.append("%")
        elif used >= len(values):
            written.append(f"%!{verb}(MISSING)")
        else:
            written.append(_one(budget, _Form(flags, width, precision, verb), values[used]))
            used += 1
    written.append(pattern[at:])
    if used < len(values):
        extra = (
            f"{type_of(value)}={text_of(value, budget)}" if not is_missing(value) else "<nil>"
            for value in values[used:]
        )
        written.append(f"%!(EXTRA {', '.join(extra)})")
    text = "".join(written)
    budget.make(len(text))
    return text


def sprint(budget: Budget, *given: Any) -> str:
    """Write values, with a space between two of which none is a text."""
    parts: list[str] = []
    for index, value in enumerate(given):
        if index and not isinstance(value, str) and not isinstance(given[index - 1], str):
            parts.append(" ")
        parts.append(text_of(value, budget))
    text = "".join(parts)
    budget.make(len(text))
    return text


def sprintln(budget: Budget, *given: Any) -> str:
    """Write values with spaces between all, and the end of a line."""
    text = " ".join(text_of(value, budget) for value in given) + "\n"
    budget.make(len(text))
    return text


def _star(text: str | None, values: list[Any], used: int) -> tuple[int | None, int, bool]:
    if text != "*":
        return (min(int(text), _WIDEST + 1) if text else None), used, False
    if used >= len(values):
        return None, used, True
    value = values[used]
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WIDEST
    return (int(value) if good else None), used + 1, not good


def _one(budget: Budget, form: _Form, value: Any) -> str:
    if form.verb == "T":
        return _pad(type_of(value), form)
    if is_missing(value):
        return _pad("<nil>", form) if form.verb == "v" else f"%!{form.verb}(<nil>)"
    if isinstance(value, Object):
        raise TemplateError("printf: a whole object cannot be written; take its fields")
    if isinstance(value, bool):
        shown = "true" if value else "false"
        return _pad(shown, form, zero="0" in form.flags) if form.verb in "tv" else _bad(budget, form, value)
    if isinstance(value, int):
        return _integer(budget, form, value)
    if isinstance(value, float):
        return _float(budget, form, value)
    if isinstance(value, str):
        return _text(budget, form, value)
    return _compound(budget, form, value)


def _bad(budget: Budget, form: _Form, value: Any) -> str:
    """Name the mistake; the value stands in it in the form that was asked for."""
    return f"%!{form.verb}({type_of(value)}={_one(budget, form._replace(verb='v'), value)})"


def _pad(text: str, form: _Form, *, zero: bool = False) -> str:
    missing = (form.width or 0) - len(text)
    if missing <= 0:
        return text
    if "-" in form.flags:
        return text + " " * missing
    return ("0" if zero else " ") * missing + text


def _integer(budget: Budget, form: _Form, value: int) -> str:
    number = int(value)
    verb = form.verb
    if verb == "c":
        return _pad(chr(number) if 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd", form)
    if verb == "q":
        shown = chr(number) if 0 <= number < 0x110000 else "\ufffd"
        return _pad("'" + {"'": "\\'", "\\": "\\\\"}.get(shown, _quote(shown)[1:-1].replace('\\"', '"')) + "'", form)
    if verb == "U":
        return _pad(f"U+{number:04X}", form)
    if verb not in _INTEGERS:
        return _bad(budget, form, value)
    digits = format(abs(number), _INTEGERS[verb])
    if form.precision is not None:
        digits = "" if form.precision == 0 and number == 0 else digits.rjust(form.precision, "0")
    prefix = {"b": "0b", "o": "0", "O": "0o", "x": "0x", "X": "0X"}.get(verb, "") if "#" in form.flags else ""
    prefix = "0o" if verb == "O" else prefix
    sign = "-" if number < 0 else "+" if "+" in form.flags else " " if " " in form.flags else ""
    if "0" in form.flags and "-" not in form.flags and form.width and form.precision is None:
        digits = digits.rjust(form.width - len(sign), "0")
        return sign + prefix + digits
    return _pad(sign + prefix + digits, form)


def _float(budget: Budget, form: _Form, value: float) -> str:
    verb = form.verb
    if verb in "xX" and form.precision is None and not form.flags:
        mantissa, _, power = value.hex().partition("p")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        digits = f"{mantissa}p{power[0]}{int(power[1:]):02d}"
        return _pad(digits.upper() if verb == "X" else digits, form)
    if verb not in "eEfFgGv":
        return _bad(budget, form, value)
    if math.isinf(value) or math.isnan(value):
        digits = float_text(abs(value)).lstrip("+")
        sign = "-" if value < 0 else "+" if "+" in form.flags or math.isinf(value) else ""
        return _pad(sign + digits, form)
    number = abs(value)
    if verb in "fF":
        digits = f"{number:.{6 if form.precision is None else form.precision}f}"
    elif verb in "eE":
        digits = f"{number:.{6 if form.precision is None else form.precision}{verb}}"
    elif form.precision is None:
        digits = float_text(number)
        digits = digits.upper() if verb == "G" else digits
    else:
        digits = f"{number:.{form.precision or 1}{'G' if verb == 'G' else 'g'}}"
    sign = "-" if math.copysign(1.0, value) < 0 else "+" if "+" in form.flags else " " if " " in form.flags else ""
    if "0" in form.flags and "-" not in form.flags and form.width:
        return sign + digits.rjust(form.width - len(sign), "0")
    return _pad(sign + digits, form)


def _text(budget: Budget, form: _Form, value: str) -> str:
    if form.verb in ("x", "X"):
        data = value.encode() if form.precision is None else value.encode()[: form.precision]
        digits = data.hex(" ") if " " in form.flags else data.hex()
        return _pad(digits.upper() if form.verb == "X" else digits, form, zero="0" in form.flags)
    cut = value if form.precision is None else value[: form.precision]
    if form.verb in ("s", "v"):
        quoted = _quote(cut) if form.verb == "v" and "#" in form.flags else cut
        return _pad(quoted, form, zero="0" in form.flags)
    if form.verb == "q":
        plain = "#" in form.flags and "`" not in cut and cut.isprintable()
        return _pad(f"`{cut}`" if plain else _quote(cut), form, zero="0" in form.flags)
    return _bad(budget, form, value)


def _compound(budget: Budget, form: _Form, value: Any) -> str:
    if "#" in form.flags and form.verb == "v":
        raise TemplateError("printf: %#v of lists and dicts is not supported")
    if isinstance(value, Mapping):
        parts = [f"{_text(budget, form, key)}:{_element(budget, form, value[key])}" for key in sorted(value)]
        text = f"map[{' '.join(parts)}]"
    else:
        text = f"[{' '.join(_element(budget, form, item) for item in value)}]"
    budget.make(len(text))
    return text


def _element(budget: Budget, form: _Form, value: Any) -> str:
    budget.step()
    return _one(budget, form, value)


def quote(value: str) -> str:
    """Quote a text as %q does."""
    return _quote(value)


def _quote(value: str) -> str:
    special = {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        '"': '\\"',
        "\\": "\\\\",
    }
    parts = []
    for char in value:
        code = ord(char)
        if char in special:
            parts.append(special[char])
        elif char == " " or (char.isprintable() and char not in "\u00ad"):
            parts.append(char)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(parts)}"'


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Spell JSON as Go's encoder does: keys sorted, and <, > and & escaped."""
    text = _json(value, "" if indent is None else " " * indent, "\n")
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _json(value: Any, indent: str, end: str) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateError("toJson: JSON has no word for this number")
        return float_text(value, small=-6, big=21).replace("e-0", "e-").replace("e+0", "e+")
    if not isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    if not value:
        return opening + closing
    inner = end + indent
    if isinstance(value, Mapping):
        colon = ": " if indent else ":"
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}{colon}{_json(value[key], indent, inner)}" for key in sorted(value)
        ]
    else:
        parts = [_json(item, indent, inner) for item in value]
    if not indent:
        return f"{opening}{','.join(parts)}{closing}"
    return f"{opening}{inner}{f',{inner}'.join(parts)}{end}{closing}"
