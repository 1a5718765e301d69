"""One program of a control plane: start, watch, freeze and stop.

Law: `start()` returns at once, and `wait_ready()` waits. When `stop()` returns, the process has been reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from .errors import PortTakenError, ProcessError
from .guardian import Guardian, GuardianGoneError

_POLL_S = 0.05
_LOG_TAIL_BYTES = 2000

Ready = Callable[[], str | None]


class Process:
    """A program with its log. `ready` returns the missing condition, or None when the program is ready."""

    def __init__(
        self,
        name: str,
        *,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        guardian: Guardian,
        ready: Ready,
    ) -> None:
        self.name = name
        self.log = log
        self._argv = tuple(argv)
        self._env = dict(env)
        self._guardian = guardian
        self._ready = ready
        self._child: subprocess.Popen[bytes] | None = None
        self._buried: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether the process runs; a frozen process does."""
        with self._lock:
            return self._child is not None and (self._child.poll() is None or self._bury(self._child))

    @property
    def pid(self) -> int:
        """The process id; ProcessError when it does not run."""
        with self._lock:
            if not self.running or self._child is None:
                raise ProcessError(f"{self.name} does not run{self.tail()}")
            return self._child.pid

    def start(self) -> None:
        """Start the program, unless it runs."""
        with self._lock:
            if self.running:
                return
            self._log_offset = self.log.stat().st_size if self.log.exists() else 0
            try:
                self._child = self._guardian.spawn(self._argv, env=self._env, log=self.log)
            except GuardianGoneError as error:
                raise ProcessError(f"{self.name}: {error}") from error

    @property
    def program(self) -> Path:
        """The path of the program."""
        return Path(self._argv[0])

    def replace(self, program: Path, *, env: Mapping[str, str]) -> None:
        """Use another program with the same arguments, and more environment variables, from the next start on."""
        self._argv = (str(program), *self._argv[1:])
        self._env |= env

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the program is ready; ProcessError with the end of its log when it ends or is late."""
        deadline = time.monotonic() + timeout_s
        while (missing := self._ready()) is not None:
            if not self.running:
                error = PortTakenError if "address already in use" in self.tail() else ProcessError
                raise error(f"{self.name} ended before it was ready{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} was not ready after {timeout_s:.0f} s: {missing}{self.tail()}")
            time.sleep(_POLL_S)

    def stop(self, *, grace_s: float = 15.0) -> None:
        """End the process, also a frozen one, with SIGTERM, and with SIGKILL after the grace period."""
        with self._lock:
            child = self._child
            if child is None or not self.running:
                return
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._signal(signal.SIGKILL)
        with self._lock:
            if self._child is not None:
                self._child.wait()
                self._bury(self._child)

    def freeze(self) -> None:
        """Freeze the process: connections stay open without answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a frozen process."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start the program, and wait until it is ready."""
        self.stop()
        self.start()
        self.wait_ready()

    def _bury(self, child: subprocess.Popen[bytes]) -> Literal[False]:
        """Kill the rest of the session, once: as in a container, no process continues after the first one."""
        if child is not self._buried:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            self._guardian.forget(child.pid)
            self._buried = child
        return False

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self._child is not None and self.running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, number)

    def tail(self) -> str:
        """Return the end of the log of this run."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_offset, end - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace").strip()
        return f"; {self.log} ends with:\n{text}" if text else ""
