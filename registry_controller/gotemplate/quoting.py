"""Quotes strings and characters as Go's strconv does, and encodes values as Go's JSON encoder does."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from registry_controller.gotemplate.floats import float_text
from registry_controller.gotemplate.limits import TemplateError

_SHORT_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
}  # fmt: skip
_JSON: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def is_printable(char: str) -> bool:
    """Return whether Go prints a character unchanged."""
    return char == " " or char.isprintable()


def quote(value: str, *, mark: str = '"', ascii_only: bool = False) -> str:
    """Quote a string as %q does, or, with the mark `'`, a character."""
    parts = []
    for char in value:
        code = ord(char)
        if char == mark:
            parts.append("\\" + mark)
        elif char in _SHORT_ESCAPES:
            parts.append(_SHORT_ESCAPES[char])
        elif is_printable(char) and (code < 0x80 or not ascii_only):
            parts.append(char)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f"{mark}{''.join(parts)}{mark}"


def can_be_raw(value: str) -> bool:
    """Return whether a string can be written between backquotes."""
    return not any(char in "`\x7f\ufeff" or (char < " " and char != "\t") for char in value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Encode a value as JSON as Go's encoder does: with sorted keys, and <, > and & escaped."""
    return _json(value, "" if indent is None else " " * indent, "\n")


def _json(value: Any, indent: str, end: str) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateError("JSON cannot represent this number")
        return float_text(value, small=-6, big=21).replace("e-0", "e-").replace("e+0", "e+")
    if getattr(value, "is_nil", False):
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False).translate(_JSON)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    if not value:
        return opening + closing
    inner = end + indent
    if isinstance(value, Mapping):
        colon = ": " if indent else ":"
        parts = [f"{_json(key, indent, inner)}{colon}{_json(value[key], indent, inner)}" for key in sorted(value)]
    else:
        parts = [_json(item, indent, inner) for item in value]
    if not indent:
        return f"{opening}{','.join(parts)}{closing}"
    return f"{opening}{inner}{f',{inner}'.join(parts)}{end}{closing}"
