"""Builds log lines and formats them: JSON for programs, key=value for people.

Laws: formatting never raises · a library's message is cut where a printed object or body would begin.
"""

from __future__ import annotations

import enum
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
from registry_controller.api.meta import ObjectKey, Target

OURS: Final = "registry_controller"
_RESERVED: Final = frozenset({"ts", "level", "logger", "msg"})
_FOREIGN_LIMIT: Final = 300
"""Characters of a library's message."""
_OBJECT: Final = re.compile(r"[{<\n]|\[[{'\"]|\bb['\"]")
_QUOTED: Final = re.compile(r"['\"](?:.*['\"]|.*)", re.DOTALL)
"""From the first quotation mark to the last one: the marks between them may belong to the data."""
_BREAKS: Final = re.compile(r"[\s\"'=\x00-\x1f\x7f]")
_LEVELS: Final = {level: logging.getLevelName(level).lower() for level in (10, 20, 30, 40, 50)}

Fields = dict[str, object]
"""A line before it is formatted: ts, level, logger, msg, then values; error and traceback last."""


def our_fields(
    name: str, level: int, message: str, values: Mapping[str, object], error: BaseException | None
) -> Fields:
    """Build a line of this project's code. A value with a reserved key gets `_` at the end of its key."""
    fields: Fields = {"ts": rfc3339(datetime.now(UTC)), "level": _LEVELS[level], "logger": name, "msg": message}
    for key, value in values.items():
        fields[f"{key}_" if key in _RESERVED else key] = _plain(value)
    return _with_error(fields, error)


def foreign_fields(record: logging.LogRecord) -> Fields:
    """Build the line of a library's record."""
    fields: Fields = {
        "ts": rfc3339(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": harmless(record.getMessage()),
    }
    return _with_error(fields, record.exc_info[1] if record.exc_info else None)


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC with milliseconds: `2026-01-01T00:00:00.000Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_json(fields: Fields) -> str:
    """Format a line as one JSON object."""
    try:
        return orjson.dumps(fields).decode()
    except TypeError:  # text that UTF-8 cannot encode, or a number beyond 64 bits
        return _encodable(json.dumps(fields, ensure_ascii=False, default=str))


def as_text(fields: Fields) -> str:
    """Format a line for people: time, level, logger, message, then key=value."""
    rest = dict(fields)
    trace: Any = rest.pop("traceback", [])
    head = f"{rest.pop('ts')} {str(rest.pop('level')).upper():<7} {rest.pop('logger')}: {rest.pop('msg')}"
    line = " ".join([head, *(f"{key}={_quoted(_in_text(value))}" for key, value in rest.items())])
    return _encodable("\n".join([line, *(f"    {step}" for step in trace)]))


def harmless(text: str) -> str:
    """Cut a library's message at the end of its first line, and where a printed object or body would begin."""
    line = _OBJECT.split(text, maxsplit=1)[0].rstrip()
    return line[:_FOREIGN_LIMIT] + ("…" if len(line) > _FOREIGN_LIMIT or line != text.rstrip() else "")


def describe(error: BaseException) -> str:
    """Format an unexpected exception in a line: its class, and its message without data.

    The messages of RegistryError hold no data and stay whole; quoted text in other messages may be data.
    """
    text = _text(error)
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
    """Turn a value into what JSON holds; the name of an object into `{"kind", "group", "namespace", "name"}`."""
    match value:
        case None | str() | bool():
            return value.value if isinstance(value, enum.Enum) else value
        case int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)  # JSON has no infinity
        case Target():
            return _without_empty(
                {"kind": value.kind, "group": value.group, "namespace": value.namespace, "name": value.name}
            )
        case ObjectKey():
            return _without_empty({"namespace": value.namespace, "name": value.name})
        case datetime():
            return rfc3339(value)
        case enum.Enum():
            return _plain(value.value)
        case list() | set() | frozenset():
            return [_plain(part) for part in value]
        case tuple() if type(value) is tuple:
            return [_plain(part) for part in value]
    return _text(value)


def _without_empty(fields: Mapping[str, str]) -> Mapping[str, str]:
    if all(fields.values()):
        return fields
    return {key: text for key, text in fields.items() if text}


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<unprintable {type(value).__name__}>"


def _in_text(value: object) -> str:
    """Format a value for people: an object as `Kind.group namespace/name`, a list with commas."""
    if isinstance(value, dict):
        kind = ".".join(value[key] for key in ("kind", "group") if key in value)
        name = "/".join(value[key] for key in ("namespace", "name") if key in value)
        return f"{kind} {name}".strip()
    if isinstance(value, list):
        return ",".join(_in_text(part) for part in value)
    return str(value)


def _quoted(text: str) -> str:
    return repr(text) if _BREAKS.search(text) or not text else text


def _encodable(line: str) -> str:
    """Escape what UTF-8 cannot encode, so that the line is not lost."""
    return line.encode(errors="backslashreplace").decode()
