"""Log lines: a constant message and key/values, as JSON or for eyes, on stderr.

Laws: logging never raises; what other libraries say below WARNING never gets out, whatever the verbosity (kopf logs
whole objects at DEBUG), and what they say above it is cut where a printed object would begin.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from pythonjsonlogger.orjson import OrjsonFormatter

from registry_controller.api.errors import RegistryError

OURS: Final = "registry_controller"
_RESERVED: Final = frozenset({"ts", "level", "logger", "msg"})
_FOREIGN_LIMIT: Final = 300
"""Characters of a message that is not ours."""
_QUIET: Final = ("kopf", "aiohttp", "kubernetes", "urllib3", "concurrent", "pythonjsonlogger")
_OBJECT: Final = re.compile(r"[{<\n]|\[[{'\"]|\bb['\"]")
_QUOTED: Final = re.compile(r"'[^']*'?|\"[^\"]*\"?")
_RETRIES: Final = "Request attempt"
"""How kopf begins its line for every failed try of every watch."""
_RETRIES_EVERY_S: Final = 60.0
_NOT_NEWS: Final = ("OS signals are ignored", "Unresolved resources cannot be served")
"""What kopf warns of and we do on purpose: it runs in a thread, and it may start before the CRDs are there."""

_Excepted = tuple[type[BaseException], BaseException, TracebackType | None]


class Logger:
    """Say things with key/values. Values are numbers, booleans, None, or what `str` makes of them."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, **values: object) -> None:
        """Say a detail: a Skip."""
        self._log(logging.DEBUG, message, values)

    def info(self, message: str, /, **values: object) -> None:
        """Say a change."""
        self._log(logging.INFO, message, values)

    def warning(self, message: str, /, **values: object) -> None:
        """Say what somebody should look at."""
        self._log(logging.WARNING, message, values)

    def error(self, message: str, /, **values: object) -> None:
        """Say what does not work."""
        self._log(logging.ERROR, message, values)

    def exception(self, message: str, /, *, error: BaseException | None = None, **values: object) -> None:
        """Say what should not have happened, with the traceback of `error`, or of the exception being handled."""
        found = error if error is not None else sys.exception()
        self._log(logging.ERROR, message, values, found)

    def enabled(self, level: int) -> bool:
        """Say whether lines of that level get out."""
        return self._logger.isEnabledFor(level)

    def _log(self, level: int, message: str, values: Mapping[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            caught = (type(error), error, error.__traceback__) if error is not None else None
            self._logger.log(level, "%s", message, exc_info=caught, extra={"values": values})


def get_logger(name: str) -> Logger:
    """Make the logger of a module: `get_logger(__name__)`. Names outside the package are put under it."""
    inside = name == OURS or name.startswith(f"{OURS}.")
    return Logger(logging.getLogger(name if inside else f"{OURS}.{name}"))


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


def _spell(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<unprintable {type(value).__name__}>"


def _encodable(line: str) -> str:
    """Escape what UTF-8 cannot spell: writing it would lose the line."""
    return line.encode(errors="backslashreplace").decode()


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value if value is None or isinstance(value, bool | int | float | str) else _spell(value)


def _trace(caught: _Excepted) -> list[str]:
    """List the lines of a traceback with its causes: files, lines, functions; no source, no locals."""
    lines: list[str] = []
    seen: set[int] = set()
    error: BaseException | None = caught[1]
    while error is not None and id(error) not in seen and len(lines) < 200:
        seen.add(id(error))
        lines.append(describe(error))
        frames = traceback.extract_tb(error.__traceback__)
        lines.extend(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-50:])
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions[:10]:
                lines.extend(f"  | {line}" for line in _trace((type(part), part, part.__traceback__)))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Take a record apart; the keys of the values never hide our own."""
    ours = record.name == OURS or record.name.startswith(f"{OURS}.")
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields: dict[str, object] = {
        "ts": moment.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name.removeprefix(f"{OURS}."),
        "msg": record.getMessage() if ours else harmless(record.getMessage()),
    }
    values = getattr(record, "values", None)
    if ours and isinstance(values, Mapping):
        fields |= {f"{key}_" if key in _RESERVED else key: _plain(value) for key, value in values.items()}
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = describe(record.exc_info[1])
        fields["traceback"] = _trace(record.exc_info)
    return fields


class _Json(OrjsonFormatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            fields = _fields(record)
            try:
                return self.jsonify_log_record(fields)
            except TypeError:  # what UTF-8 cannot spell
                return _encodable(json.dumps(fields, ensure_ascii=False, default=str))
        except Exception:  # a line that cannot be spelled must not end what it speaks of
            return f'{{"level":"error","logger":"logs","msg":"a log line could not be spelled","at":"{record.lineno}"}}'


class _Console(logging.Formatter):
    """For eyes: time, level, logger, message, then key=value."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            fields = _fields(record)
            trace: Any = fields.pop("traceback", [])
            head = (
                f"{fields.pop('ts')} {str(fields.pop('level')).upper():<7} {fields.pop('logger')}: {fields.pop('msg')}"
            )
            line = " ".join([head, *(f"{key}={_quoted(value)}" for key, value in fields.items())])
            return _encodable("\n".join([line, *(f"    {step}" for step in trace)]))
        except Exception:
            return f"a log line could not be spelled, at {record.lineno}"


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if re.search(r"[\s\"'=\x00-\x1f\x7f]", text) or not text else text


class _Policy(logging.Filter):
    """What gets out: ours by its level, the others from WARNING on, asyncio's only errors."""

    def __init__(self) -> None:
        super().__init__()
        self._next_retry_line_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == OURS or record.name.startswith(f"{OURS}."):
            return True
        if record.name.startswith("asyncio"):
            return record.levelno >= logging.ERROR  # "slow callback" warnings print the arguments of callbacks
        if str(record.msg).startswith(_RETRIES):
            if record.created < self._next_retry_line_s:
                return False
            self._next_retry_line_s = record.created + _RETRIES_EVERY_S
        return record.levelno >= logging.WARNING and not str(record.msg).startswith(_NOT_NEWS)


def configure(*, format: str, verbosity: int) -> None:  # noqa: A002  the option's own name
    """Send the process's log to stderr: `format` json or console; `verbosity` 0 is INFO, more is DEBUG of ours.

    Also says what ends a thread or the process unexpectedly in the same form. Calling it again replaces the first.
    """
    logging.raiseExceptions = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if format == "json" else _Console())
    handler.addFilter(_Policy())
    root = logging.getLogger()
    for old in root.handlers[:]:
        if any(isinstance(kept, _Policy) for kept in old.filters):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    logging.getLogger(OURS).setLevel(logging.DEBUG if verbosity > 0 else logging.INFO)
    _install_hooks()


def _install_hooks() -> None:
    log = get_logger("crash")

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.exception("the daemon ends: unexpected error", error=error.with_traceback(trace))

    def on_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            name = args.thread.name if args.thread is not None else ""
            log.exception("a thread ended: unexpected error", error=args.exc_value, thread=name)

    def on_unraisable(args: Any) -> None:
        log.exception("an error could not be raised", error=args.exc_value)

    sys.excepthook = on_exception
    threading.excepthook = on_thread
    sys.unraisablehook = on_unraisable
