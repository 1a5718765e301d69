"""Resolves YAML scalars as yaml.v2 2.4 does: to numbers, booleans, null, or strings.

Laws: without a tag, a scalar that is nothing else is a string · with a tag of YAML's own, it must have that type.
"""

from __future__ import annotations

import binascii
import datetime
import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_PREFIX: Final = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR, _BINARY, _TIMESTAMP, _MERGE = (
    _PREFIX + name for name in ("null", "bool", "int", "float", "str", "binary", "timestamp", "merge")
)
_RESOLVED: Final = frozenset(("", _NULL, _BOOL, _INT, _FLOAT, _STR, _TIMESTAMP))
_KEYWORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[bB](?P<b2>[01]+)|0[oO]?(?P<b8>[0-7]+)|0[xX](?P<b16>[0-9a-fA-F]+)|(?P<b10>0|[1-9][0-9]*))"
)
_SIGNED_BINARY: Final = re.compile(r"0b(?P<sign>[+-])(?P<b2>[01]+)")  # Go strips the prefix and reads the rest
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FRACTION: Final = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)
_MAX_INTEGER_LENGTH: Final = 4096  # below what Python refuses to read (4300 digits); zeros may lead
_TIMESTAMP_PATTERN: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)"
    r"([Tt](\d|[01]\d|2[0-3]):[0-5]?\d:[0-5]?\d([.,]\d+)?(Z|[+-]([01]\d|2[0-4]):([0-5]\d|60))"
    r"| +(\d|[01]\d|2[0-3]):[0-5]?\d:[0-5]?\d([.,]\d+)?)?",
    re.ASCII,
)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


class InvalidScalar(Exception):
    """A scalar does not have the type of its tag."""


def is_merge_key(text: str, *, tag: str, is_plain: bool) -> bool:
    """Return whether a key is the merge key `<<`."""
    return text == "<<" and (is_plain or tag == _MERGE)


def read_scalar(text: str, *, tag: str, is_plain: bool) -> Scalar:
    """Resolve a scalar; `tag` is empty without one. Raise InvalidScalar when the text has another type."""
    if tag == _BINARY:
        return _decode_base64(text)
    if tag not in _RESOLVED or tag == _STR or (not tag and not is_plain):
        return text
    kind, value = _resolve(text, may_be_timestamp=tag == _TIMESTAMP)
    if tag == _FLOAT and kind == _INT and value in _INT64:
        return float(value or 0)
    if tag not in ("", kind):
        raise InvalidScalar(f"is not a valid {tag.removeprefix(_PREFIX)}")
    return value


def _resolve(text: str, *, may_be_timestamp: bool) -> tuple[str, Scalar]:
    """Return the tag and the value of a plain scalar; a timestamp stays a string, as in Go."""
    if text in _KEYWORDS:
        value = _KEYWORDS[text]
        kind = _NULL if value is None else _BOOL if isinstance(value, bool) else _FLOAT
        return kind, value
    if text[0] == "." and _FRACTION.fullmatch(text):
        return _FLOAT, float(text)
    if text[0] not in "+-0123456789":
        return _STR, text
    if may_be_timestamp and _is_timestamp(text):
        return _TIMESTAMP, text
    plain = text.replace("_", "")
    integer = _read_integer(plain)
    if integer is not None:
        return _INT, integer
    if _NUMBER.fullmatch(plain) and math.isfinite(number := float(plain)):
        return _FLOAT, number
    return _STR, text


def _read_integer(text: str) -> int | None:
    """Parse an integer as Go does; None for any other text, and for more than 64 bits."""
    found = _INTEGER.fullmatch(text) or _SIGNED_BINARY.fullmatch(text)
    if found is None or len(text) > _MAX_INTEGER_LENGTH:
        return None
    (name, digits), *_ = ((name, digits) for name, digits in found.groupdict().items() if name != "sign" and digits)
    size = int(digits, int(name[1:]))
    number = -size if found["sign"] == "-" else size
    return number if number in _INT64 or (not found["sign"] and number in _UINT64) else None


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP_PATTERN.fullmatch(text)
    if found is None:
        return False
    try:
        datetime.date(int(found[1]) or 4, int(found[2]), int(found[3]))  # the year 0 is a leap year, as 4 is
    except ValueError:
        return False
    return True


def _decode_base64(text: str) -> str:
    digits = text.replace("\r", "").replace("\n", "")
    try:
        if not _BASE64.fullmatch(digits):
            raise ValueError
        return binascii.a2b_base64(digits).decode()
    except ValueError:
        raise InvalidScalar("is not text in base64") from None
