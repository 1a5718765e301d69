"""Puts the logging of the process back: it is one for all tests of a worker."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator

from registry_controller.report import logs

_LIBRARIES = ("asyncio", *logs._QUIET)


@contextlib.contextmanager
def restored_logging() -> Iterator[None]:
    """Undo what `logs.configure` does in the block."""
    root = logging.getLogger()
    handlers, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    levels = {name: logging.getLogger(name).level for name in _LIBRARIES}
    outlet = dict(vars(logs._outlet))
    hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    try:
        yield
    finally:
        root.handlers[:], root.level, logging.raiseExceptions = handlers, level, raises
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        vars(logs._outlet).clear()
        vars(logs._outlet).update(outlet)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)
