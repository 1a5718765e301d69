"""Writes log lines to stderr: a constant message with key/values, as JSON or for people.

A program that uses this project as a library configures nothing here: its own handlers get the lines.

Laws: logging never raises · nothing that a library logs below WARNING is written, at any verbosity (kopf logs
whole objects at DEBUG). A line of this project makes no LogRecord: there is one for every copy that is written.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TextIO

from registry_controller.report.lines import OURS, Fields, as_json, as_text, foreign_fields, our_fields

_QUIET: Final = ("kopf", "aiohttp", "kubernetes", "urllib3", "concurrent")
_RETRY: Final = re.compile(r"Request attempt(?: \S+ failed; [^:]*: (\S+ \S+))?")
"""kopf's line for each failed try of each watch; its rest prints an exception."""
_RETRIES_EVERY_S: Final = 60.0
_ENDED: Final = re.compile(r"(?:Watcher for |Multidimensional multitasker).* has failed")
"""kopf's lines when a watch, and then itself, ends: the daemon starts it again, and reports the error."""
_INTENDED: Final = ("OS signals are ignored", "Unresolved resources cannot be served")
"""kopf's warnings about intended settings: it runs in a thread, and it may start before the CRDs exist."""


class _Outlet:
    """The stream of log lines, their format and lowest level; nothing is written before it is configured."""

    level: int = logging.CRITICAL + 1
    format: Callable[[Fields], str] = staticmethod(as_json)
    stream: TextIO | None = None

    def write(self, fields: Fields) -> None:
        try:
            line = self.format(fields)
        except Exception:  # the work that the line reports must go on
            line = (
                '{"level":"error","logger":"logs","msg":"a log line could not be formatted",'
                f'"source":"{fields["logger"]}"}}'
            )
        try:
            if self.stream is not None:
                self.stream.write(line + "\n")  # one write, so that lines of threads do not mix
                self.stream.flush()
        except (OSError, ValueError):  # the reading end is closed
            pass


_outlet = _Outlet()


class Logger:
    """Logs constant messages with key/values; keys are lowerCamelCase.

    Values are numbers, booleans, None, texts, times, lists of these, and names of objects (Target, ObjectKey), which
    become `{"kind", "group", "namespace", "name"}`. `str` formats all other values.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, /, **values: object) -> None:
        """Log a detail, such as a skipped object."""
        self._log(logging.DEBUG, message, values)

    def info(self, message: str, /, **values: object) -> None:
        """Log a change."""
        self._log(logging.INFO, message, values)

    def warning(self, message: str, /, **values: object) -> None:
        """Log a problem that may need a person."""
        self._log(logging.WARNING, message, values)

    def error(self, message: str, /, **values: object) -> None:
        """Log a failure."""
        self._log(logging.ERROR, message, values)

    def exception(self, message: str, /, *, error: BaseException | None = None, **values: object) -> None:
        """Log a bug, with the traceback of `error`, or of the exception that is being handled."""
        self._log(logging.ERROR, message, values, error if error is not None else sys.exception())

    def _log(self, level: int, message: str, values: Mapping[str, object], error: BaseException | None = None) -> None:
        if level >= _outlet.level:
            _outlet.write(our_fields(self._name, level, message, values, error))
        elif _outlet.stream is None:
            _pass_on(self._name, level, message, values, error)


def _pass_on(name: str, level: int, message: str, values: Mapping[str, object], error: BaseException | None) -> None:
    """Log with the standard library, for a program that uses this one as a library; it prints warnings by default."""
    logger = logging.getLogger(f"{OURS}.{name}")
    if logger.isEnabledFor(level):
        rest = "".join(f" {key}={value}" for key, value in values.items())
        logger.log(level, "%s%s", message, rest, exc_info=error)


def get_logger(name: str) -> Logger:
    """Make the logger of a module: `get_logger(__name__)`."""
    return Logger(name.removeprefix(f"{OURS}."))


class _ForeignHandler(logging.Handler):
    """Writes the lines of libraries: from WARNING on, and only errors of asyncio."""

    def __init__(self) -> None:
        super().__init__()
        self._next_retry_line_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            retry = _RETRY.match(str(record.msg))
            if not self._is_written(record, is_retry=retry is not None):
                return
            fields = foreign_fields(record)
            if retry is not None:  # kopf's level is ERROR, but it tries again
                fields |= {"level": "warning", "msg": "request of kopf failed", "request": retry[1] or ""}
            elif record.name.startswith("kopf") and _ENDED.match(str(record.msg)):
                fields |= {"level": "warning"}
            _outlet.write(fields)
        except Exception:
            _outlet.write({"level": "error", "logger": "logs", "msg": "a library's log line could not be read"})

    def _is_written(self, record: logging.LogRecord, *, is_retry: bool) -> bool:
        if record.name.startswith("asyncio"):
            return record.levelno >= logging.ERROR  # "slow callback" warnings print the arguments of callbacks
        if is_retry:
            if record.created < self._next_retry_line_s:
                return False
            self._next_retry_line_s = record.created + _RETRIES_EVERY_S
        return record.levelno >= logging.WARNING and not str(record.msg).startswith(_INTENDED)


def configure(*, format: str, verbosity: int) -> None:  # noqa: A002  the option's own name
    """Send the process's log to stderr: `format` json or console; `verbosity` 0 is INFO, more is DEBUG of ours.

    Exceptions that end a thread or the process are logged in the same format. A second call replaces the first.
    """
    logging.raiseExceptions = False
    _outlet.level = logging.DEBUG if verbosity > 0 else logging.INFO
    _outlet.format = as_json if format == "json" else as_text
    _outlet.stream = sys.stderr
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old, _ForeignHandler):
            root.removeHandler(old)
    root.addHandler(_ForeignHandler())
    root.setLevel(logging.WARNING)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    _install_hooks()


def _install_hooks() -> None:
    log = get_logger("crash")

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.exception("daemon ends after an unexpected error", error=error.with_traceback(trace))

    def on_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            name = args.thread.name if args.thread is not None else ""
            log.exception("thread ended after an unexpected error", error=args.exc_value, thread=name)

    def on_unraisable(args: Any) -> None:
        log.exception("exception was ignored", error=args.exc_value)

    sys.excepthook = on_exception
    threading.excepthook = on_thread
    sys.unraisablehook = on_unraisable
