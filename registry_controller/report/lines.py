"""How one log line is spelled: JSON for machines, key=value for eyes.

Laws: spelling never raises · what is not ours is cut where a printed object or body would begin.
"""

from __future__ import annotations

import json
import logging
import math
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from registry_controller.api.errors import RegistryError

OURS: Final = "registry_controller"
_RESERVED: Final = frozenset({"ts", "level", "logger", "msg"})
_FOREIGN_LIMIT: Final = 300
"""Characters of a message that is not ours."""
_OBJECT: Final = re.compile(r"[{<\n]|\[[{'\"]|\bb['\"]")
_QUOTED: Final = re.compile(r"['\"](?:.*['\"]|.*)", re.DOTALL)
"""From the first quotation mark to the last one: which of those between are data, nobody can tell."""
_BREAKS: Final = re.compile(r"[\s\"'=\x00-\x1f\x7f]")
_LEVELS: Final = {level: logging.getLevelName(level).lower() for level in (10, 20, 30, 40, 50)}

Fields = dict[str, object]
"""A line before it is spelled: ts, level, logger, msg, then values; error and traceback last."""


def our_fields(
    name: str, level: int, message: str, values: Mapping[str, object], error: BaseException | None
) -> Fields:
    """Build a line of our own; the keys of the values never hide the line's."""
    fields: Fields = {
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": _LEVELS[level],
        "logger": name,
        "msg": message,
    }
    for key, value in values.items():
        fields[f"{key}_" if key in _RESERVED else key] = _plain(value)
    return _with_error(fields, error)


def foreign_fields(record: logging.LogRecord) -> Fields:
    """Build the line of a library's record."""
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields: Fields = {
        "ts": moment.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": harmless(record.getMessage()),
    }
    return _with_error(fields, record.exc_info[1] if record.exc_info else None)


def as_json(fields: Fields) -> str:
    """Spell one JSON object."""
    try:
        return orjson.dumps(fields).decode()
    except TypeError:  # what UTF-8 cannot spell, or a number beyond 64 bits
        return _encodable(json.dumps(fields, ensure_ascii=False, default=str))


def as_text(fields: Fields) -> str:
    """Spell for eyes: time, level, logger, message, then key=value."""
    rest = dict(fields)
    trace: Any = rest.pop("traceback", [])
    head = f"{rest.pop('ts')} {str(rest.pop('level')).upper():<7} {rest.pop('logger')}: {rest.pop('msg')}"
    line = " ".join([head, *(f"{key}={_quoted(value)}" for key, value in rest.items())])
    return _encodable("\n".join([line, *(f"    {step}" for step in trace)]))


def harmless(text: str) -> str:
    """Cut a message that is not ours: at its first line's end, and where a printed object or body would begin."""
    line = _OBJECT.split(text, maxsplit=1)[0].rstrip()
    return line[:_FOREIGN_LIMIT] + ("…" if len(line) > _FOREIGN_LIMIT or line != text.rstrip() else "")


def describe(error: BaseException) -> str:
    """Spell an exception in a line. Our own say all they say; in others, what is quoted may be data."""
    text = _spell(error)
    if not isinstance(error, RegistryError):
        text = harmless(text if isinstance(error, OSError) else _QUOTED.sub("'…'", text))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_error(fields: Fields, error: BaseException | None) -> Fields:
    if error is not None:
        fields["error"] = describe(error)
        fields["traceback"] = _trace(error)
    return fields


def _trace(caught: BaseException) -> list[str]:
    """List the lines of a traceback with its causes: files, lines, functions; no source, no locals."""
    lines: list[str] = []
    seen: set[int] = set()
    error: BaseException | None = caught
    while error is not None and id(error) not in seen and len(lines) < 200:
        seen.add(id(error))
        lines.append(describe(error))
        frames = traceback.extract_tb(error.__traceback__)
        lines.extend(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-50:])
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions[:10]:
                lines.extend(f"  | {line}" for line in _trace(part))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines


def _plain(value: object) -> object:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value if isinstance(value, bool | int | float) else _spell(value)


def _spell(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<unprintable {type(value).__name__}>"


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if _BREAKS.search(text) or not text else text


def _encodable(line: str) -> str:
    """Escape what UTF-8 cannot spell: writing it would lose the line."""
    return line.encode(errors="backslashreplace").decode()
