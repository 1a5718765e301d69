"""The guardian: a small process that ends shortly after its parent, and cleans up.

Law: it reads a pipe whose only write end belongs to the parent, so that it notices even a SIGKILL of the parent. The
guardian knows a process before its program runs: the process starts as a shell that waits for one line. When the parent
ends before it writes the line, the shell reads EOF and exits. PR_SET_PDEATHSIG would be shorter, but it fires when the
*thread* that started the child ends.

The file is run as a script as well (`python -I guardian.py`): it may import nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_GATE = 'read -r go && exec "$@" </dev/null'
_SWEEP_TIMEOUT_S = 20.0


class GuardianGoneError(Exception):
    """The guardian was closed or killed: no process may start, because no guardian would end it."""


def start_time(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot (proc_pid_stat(5), field 22); None after its end.

    A zombie has ended. A pid and its start time identify a process; the kernel uses a pid again.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


class Guardian:
    """The parent's end of the pipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path | str = "/"
    ) -> subprocess.Popen[bytes]:
        """Start a program as the leader of its own session; its output is appended to the log."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "gate", *argv],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        assert child.stdin is not None
        with child.stdin as gate:
            try:
                self._send(f"process {child.pid} {start_time(child.pid) or 0}")
                gate.write(b"go\n")
            except GuardianGoneError:
                child.kill()
                child.wait()
                raise
        return child

    def forget(self, pid: int) -> None:
        """Remove a process that has been waited for."""
        with contextlib.suppress(GuardianGoneError):
            self._send(f"forget {pid}")

    def own(self, directory: Path) -> None:
        """Remove the directory at the end, after the processes have ended."""
        self._send(f"directory {directory}")

    def refuse(self) -> None:
        """Refuse to start processes from now on."""
        with self._lock:
            self._open = False

    def close(self) -> None:
        """Make the guardian end all processes and remove all directories, and wait. A second call does nothing."""
        self.refuse()
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        with self._lock:
            if not self._open or self._process.stdin is None:
                raise GuardianGoneError("the group has been stopped: nothing can be started in it any more")
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise GuardianGoneError("the guardian process was killed") from error


def _kill(processes: dict[int, int]) -> None:
    """Kill the sessions, youngest first: the controller manager, the API server, etcd.

    A group that has lost its leader is killed too: its number cannot be used again while a member lives.
    SIGKILL reaches stopped processes as well, without SIGCONT.
    """
    for pid, born in reversed(processes.items()):
        if start_time(pid) in (None, born):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def _sweep(processes: dict[int, int], directories: Sequence[str]) -> None:
    _kill(processes)
    deadline = time.monotonic() + _SWEEP_TIMEOUT_S
    while any(start_time(pid) == born for pid, born in processes.items()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for directory in directories:
        for _ in range(3):  # a dying writer may add a file while the tree is being removed
            shutil.rmtree(directory, ignore_errors=True)
            if not Path(directory).exists():
                break
            time.sleep(0.1)


def main() -> None:
    """Read lines until EOF, then clean up. Signals are ignored: the parent handles them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes: dict[int, int] = {}
    directories: list[str] = []
    for line in sys.stdin.buffer:
        verb, _, value = line.decode().rstrip("\n").partition(" ")
        match verb:
            case "process":
                pid, born = value.split()
                processes[int(pid)] = int(born)
            case "forget":
                processes.pop(int(value), None)
            case "directory":
                directories.append(value)
            case unknown:
                raise ValueError(unknown)
    _sweep(processes, directories)


if __name__ == "__main__":
    main()
