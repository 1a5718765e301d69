"""Reads constants in Go's syntax: strings and characters in quotes, and numbers."""

from __future__ import annotations

import re
from typing import Final

from registry_controller.gotemplate.limits import TemplateError
from registry_controller.gotemplate.values import UntypedFloat, UntypedInt

_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))"
)
_INTEGER: Final = re.compile(
    r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)", re.ASCII
)
_FLOAT: Final = re.compile(
    r"[+-]?([0-9](_?[0-9])*\.?([0-9](_?[0-9])*)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?", re.ASCII
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](_?[0-9a-fA-F](_?[0-9a-fA-F])*\.?([0-9a-fA-F](_?[0-9a-fA-F])*)?|\.[0-9a-fA-F](_?[0-9a-fA-F])*)"
    r"[pP][+-]?[0-9](_?[0-9])*",
    re.ASCII,
)
_LONGEST: Final = 1000


def read_text(source: str) -> str:
    """Return the value of a constant in double, single or back quotes. Raises TemplateError if Go refuses it."""
    mark = source[0]
    if mark == "`":
        return source[1:-1].replace("\r", "")

    def unescape(match: re.Match[str]) -> str:
        simple, two, four, eight, octal, other = match.groups()
        if other is not None or (simple in ("'", '"') and simple != mark):
            raise TemplateError("unknown escape sequence")
        if simple is not None:
            return _ESCAPES[simple]
        code = int(octal, 8) if octal else int(two or four or eight, 16)
        limit = 0x80 if two or octal else 0x110000
        if code >= limit or 0xD800 <= code < 0xE000:
            raise TemplateError("an escape sequence for an invalid character")
        return chr(code)

    return _ESCAPE.sub(unescape, source[1:-1])


def read_character(source: str) -> UntypedInt:
    """Return the code point of a character in single quotes."""
    text = read_text(source)
    if len(text) != 1:
        raise TemplateError("a character constant must have one character")
    return UntypedInt(ord(text))


def read_number(source: str) -> UntypedInt | UntypedFloat:
    """Return the value of a number. Raises TemplateError if Go refuses it, or if it is beyond 64 bits."""
    if source.endswith("i"):
        raise TemplateError("complex numbers are not supported")
    if len(source) > _LONGEST:
        raise TemplateError("the number is beyond 64 bits")
    plain = source.replace("_", "")
    if _INTEGER.fullmatch(source):
        sign, digits = (-1 if plain[0] == "-" else 1, plain.lstrip("+-").lower())
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        number = sign * int(digits, 8 if octal else 0)
        if not -(2**63) <= number < 2**63:
            raise TemplateError("the number is beyond 64 bits")
        has_exponent = source[0] in "+-" and digits.startswith("0x") and "e" in digits
        # After a sign, Go reads the hexadecimal digit `e` as an exponent.
        return UntypedFloat(number) if has_exponent else UntypedInt(number)
    if _FLOAT.fullmatch(source) and set(source) & set(".eE"):
        found = float(plain)
    elif _HEX_FLOAT.fullmatch(source):
        found = float.fromhex(plain)
    else:
        raise TemplateError("invalid number")
    if found in (float("inf"), float("-inf")):
        raise TemplateError("the number is beyond 64 bits")
    return UntypedFloat(found)
