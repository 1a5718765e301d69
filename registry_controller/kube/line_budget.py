"""Limits the memory of unfinished lines of watches, for one server together.

Law: no line is longer than the largest object, and all lines of a server have a common limit, for any number of
watches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from registry_controller.api.errors import TooMuch
from registry_controller.kube.responses import format_size
from registry_controller.kube.transport import ANSWER_BYTES

ALL_LINES_BYTES: Final = 2 * ANSWER_BYTES


class LineBudget:
    """The unfinished lines of one server's watches, `size_bytes` long together.

    `received_at_s` is the loop's time of the last bytes of a watch; None after a peer has counted them.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.received_at_s: float | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[Line]:
        """Count the lines of one watch until it ends."""
        line = Line(self)
        try:
            yield line
        finally:
            line.end()


class Line:
    """The unfinished line of one watch."""

    def __init__(self, lines: LineBudget) -> None:
        self._lines = lines
        self._size_bytes = 0

    def grow(self, size_bytes: int, *, what: str) -> None:
        """Count more bytes; TooMuch over a limit."""
        self._size_bytes += size_bytes
        self._lines.size_bytes += size_bytes
        if self._size_bytes > ANSWER_BYTES:
            raise TooMuch(f"{what}: a line longer than {format_size(ANSWER_BYTES)}")
        if self._lines.size_bytes > ALL_LINES_BYTES:
            raise TooMuch(f"{what}: lines longer than {format_size(ALL_LINES_BYTES)} together")

    def end(self) -> None:
        """End the line."""
        self._lines.size_bytes -= self._size_bytes
        self._size_bytes = 0
