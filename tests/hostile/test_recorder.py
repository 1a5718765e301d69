"""P4: the recorder hears what would break it; its silence would prove nothing otherwise."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hostile.recorder import recorded


def _dial() -> None:
    with socket.socket() as found:
        found.settimeout(1)
        found.connect(("127.0.0.1", 9))


_DEEDS = {
    "open": lambda: Path(__file__).read_bytes(),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 1),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
    "socket.connect": _dial,
    "subprocess.Popen": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "os.posix_spawn": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
    "os.system": lambda: os.system("true"),
    "import": lambda: __import__("this_module_is_nowhere"),
}


@pytest.mark.parametrize("event", _DEEDS)
def test_the_recorder_hears(event: str) -> None:
    """P4: or its silence would prove nothing."""
    with recorded() as obj, contextlib.suppress(OSError, ImportError):
        _DEEDS[event]()
    assert any(found.startswith(f"{event} ") for found in obj), obj
    count = len(obj)
    Path(__file__).read_bytes()
    assert len(obj) == count


def test_the_recorder_hears_other_threads() -> None:
    """P4: names are resolved in a thread."""
    with recorded() as obj:
        thread = threading.Thread(target=Path(__file__).read_bytes)
        thread.start()
        thread.join()
    assert any(found.startswith("open ") for found in obj), obj
