"""JSON objects in annotations that daemons write for each other: reading them, and writing them with further fields.

Law: a field that this version does not know stays where an object is written again (A11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def read_object(text: str, *, most: int) -> Mapping[str, Any]:
    """Return the JSON object in a text; empty where there is none, and for more than `most` characters."""
    try:
        found = orjson.loads(text) if text and len(text) <= most else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def write_object(found: Mapping[str, Any], *, plain: Mapping[str, Any], most: int) -> str:
    """Return the JSON text of an object, with sorted keys.

    `plain` is the object without further fields. It is written where these are nested too deep, or make the text longer
    than `most` characters.
    """
    try:
        text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        text = ""
    return text if 0 < len(text) <= most else orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()


def is_later(found: Mapping[str, Any], *, than: int) -> bool:
    """Return whether the format of an object, 1 where it names none, is a later one: any that this version lacks."""
    return _is_later_number(found.get("format", 1), than=than)


def is_later_text(text: str, *, than: int) -> bool:
    """Return whether the JSON text of a format names a later one, as the value of a label does."""
    try:
        return _is_later_number(orjson.loads(text), than=than)
    except ValueError:
        return True


def _is_later_number(number: object, *, than: int) -> bool:
    # Python counts true as 1.
    return isinstance(number, bool) or number not in range(1, than + 1)
