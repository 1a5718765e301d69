"""Log lines: a constant message and key/values, as JSON or for eyes, on stderr.

Laws: logging never raises; what other libraries say below WARNING never gets out, whatever the verbosity (kopf logs
whole objects at DEBUG). Our own lines, one for every copy that is written, take a short way: no LogRecord is made.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TextIO

from registry_controller.report.lines import (
    OURS,
    Fields,
    as_json,
    as_text,
    describe,
    foreign_fields,
    harmless,
    our_fields,
)

__all__ = ["OURS", "Logger", "configure", "describe", "get_logger", "harmless"]

_QUIET: Final = ("kopf", "aiohttp", "kubernetes", "urllib3", "concurrent")
_RETRIES: Final = "Request attempt"
"""How kopf begins its line for every failed try of every watch."""
_RETRIES_EVERY_S: Final = 60.0
_NOT_NEWS: Final = ("OS signals are ignored", "Unresolved resources cannot be served")
"""What kopf warns of and we do on purpose: it runs in a thread, and it may start before the CRDs are there."""


class _Outlet:
    """Where our own lines go, in which form, and from which level on; nowhere until it is configured."""

    level: int = logging.CRITICAL + 1
    spell: Callable[[Fields], str] = staticmethod(as_json)
    stream: TextIO | None = None

    def write(self, fields: Fields) -> None:
        try:
            line = self.spell(fields)
        except Exception:  # a line that cannot be spelled must not end what it speaks of
            line = (
                f'{{"level":"error","logger":"logs","msg":"a log line could not be spelled","at":"{fields["logger"]}"}}'
            )
        try:
            if self.stream is not None:
                self.stream.write(line + "\n")  # one write, so that lines of threads do not mix
                self.stream.flush()
        except (OSError, ValueError):  # nobody reads any more
            pass


_outlet = _Outlet()


class Logger:
    """Say things with key/values. Values are numbers, booleans, None, or what `str` makes of them."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

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
        self._log(logging.ERROR, message, values, error if error is not None else sys.exception())

    def enabled(self, level: int) -> bool:
        """Say whether lines of that level get out."""
        return level >= _outlet.level

    def _log(self, level: int, message: str, values: Mapping[str, object], error: BaseException | None = None) -> None:
        if level >= _outlet.level:
            _outlet.write(our_fields(self._name, level, message, values, error))


def get_logger(name: str) -> Logger:
    """Make the logger of a module: `get_logger(__name__)`."""
    return Logger(name.removeprefix(f"{OURS}."))


class _Foreign(logging.Handler):
    """The lines of libraries: from WARNING on, asyncio's only errors."""

    def __init__(self) -> None:
        super().__init__()
        self._next_retry_line_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._gets_out(record):
                is_retry = str(record.msg).startswith(_RETRIES)  # kopf says ERROR; what is tried again is a warning
                _outlet.write(foreign_fields(record) | ({"level": "warning"} if is_retry else {}))
        except Exception:
            _outlet.write({"level": "error", "logger": "logs", "msg": "a log line could not be read"})

    def _gets_out(self, record: logging.LogRecord) -> bool:
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
    _outlet.level = logging.DEBUG if verbosity > 0 else logging.INFO
    _outlet.spell = as_json if format == "json" else as_text
    _outlet.stream = sys.stderr
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old, _Foreign):
            root.removeHandler(old)
    root.addHandler(_Foreign())
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
