"""Hears what the interpreter does to the world: processes, files, connections, names, imports.

An audit hook cannot be taken away again, so there is one a process, which hears only while it is told to. It hears
every thread, because names are resolved in one of their own. What OpenSSL opens by itself it cannot hear: the
system's CAs, where a kubeconfig names none, and the path that it is given for a client certificate.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Final

_PREFIXES: Final = (
    "os.",
    "subprocess.",
    "socket.",
    "pty.",
    "shutil.",
    "tempfile.",
    "ctypes.dlopen",
    "urllib.",
    "http.",
)
_NAMES: Final = frozenset({"open", "exec", "import"})

_heard: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _heard is not None and (event in _NAMES or event.startswith(_PREFIXES)):
        _heard.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_hook)


@contextlib.contextmanager
def recorded() -> Iterator[list[str]]:
    """Collect the deeds of a block."""
    global _heard  # noqa: PLW0603
    assert _heard is None
    _heard = obj = []
    try:
        yield obj
    finally:
        _heard = None
