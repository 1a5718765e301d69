"""Groups that continue after the command that started them. Each has a state file in the cache folder.

Law: pid and start time identify a process. A process that only has the same pid gets no signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .build import cache_directory
from .errors import ControlPlaneError
from .files import replace_file
from .group import Group
from .guardian import start_time

_POLL_S = 0.1
_ANSWER_S = 2.0
_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """A group, and the process that keeps it up."""

    prefix: str
    pid: int
    born: int
    kubeconfig: str
    servers: dict[str, str]

    @property
    def is_alive(self) -> bool:
        """Whether the process that wrote the file still runs."""
        return start_time(self.pid) == self.born


def publish(group: Group) -> Path:
    """Write the state file of a group that this process keeps up."""
    born = start_time(os.getpid())
    assert born is not None
    servers = {cluster.name: cluster.server for cluster in group}
    state = Running(group.prefix, os.getpid(), born, str(group.kubeconfig), servers)
    path = _file(group.prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(asdict(state)).encode())
    return path


def running(prefix: str | None = None) -> list[Running]:
    """Return the groups that are up, or the group of a prefix; remove the files of ended groups."""
    found = []
    for path in sorted(_file("").parent.glob("*.json")):
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            state = Running(**json.loads(path.read_text(encoding="utf-8")))
            if not state.is_alive:
                path.unlink(missing_ok=True)
            elif prefix in (None, state.prefix):
                found.append(state)
    return found


def detach(arguments: Sequence[str], *, prefix: str) -> Running:
    """Start `up` in its own session, and wait until its group is ready."""
    log = _file(prefix).with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = _spawn([sys.executable, "-m", "hack.controlplane", "up", "--no-detach", *arguments], log=log)
    try:
        while not (up := [state for state in running(prefix) if state.pid == pid]):
            if start_time(pid) is None:
                raise ControlPlaneError(f"the group did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        raise
    return up[0]


def answers(server: str) -> bool:
    """Return whether the API server at a URL accepts connections."""
    place = urlsplit(server)
    try:
        with socket.create_connection((place.hostname or "", place.port or 443), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def end(state: Running) -> None:
    """Send SIGTERM to the process of a group, and wait for its end."""
    if state.is_alive:
        os.kill(state.pid, signal.SIGTERM)
    while state.is_alive:
        time.sleep(_POLL_S)


def _spawn(argv: Sequence[str], *, log: Path) -> int:
    """Start a command without a parent: the shell that starts it exits at once. Its output goes to the log."""
    script = '"$@" >"$0" 2>&1 </dev/null & echo $!'
    shell = ["/bin/sh", "-c", script, str(log), *argv]
    return int(subprocess.run(shell, check=True, capture_output=True, cwd=_CHECKOUT, start_new_session=True).stdout)


def _file(prefix: str) -> Path:
    return cache_directory() / "running" / f"{prefix}.json"
