"""Groups that are known beyond the command that started them: one state file each, in the cache folder.

Law: a process is named by its id and its start time; nobody is signalled who only inherited the number.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .build import cache_directory
from .errors import ControlPlaneError
from .files import replace_file
from .group import Group
from .guardian import start_time

_POLL_S = 0.1
_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """A group, and the process that holds it."""

    prefix: str
    pid: int
    born: int
    kubeconfig: str
    servers: dict[str, str]

    @property
    def is_alive(self) -> bool:
        """Whether the very process that wrote the file still runs."""
        return start_time(self.pid) == self.born


def publish(group: Group) -> Path:
    """Write the state file of a group that this process holds."""
    born = start_time(os.getpid())
    assert born is not None
    servers = {cluster.name: cluster.server for cluster in group}
    state = Running(group.prefix, os.getpid(), born, str(group.kubeconfig), servers)
    path = _file(group.prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(asdict(state)).encode())
    return path


def running(prefix: str | None = None) -> list[Running]:
    """Read the groups that are up (or the one of that prefix); files of dead ones are removed."""
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
    """Start `up` in a session of its own and wait until its group is ready."""
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


def end(state: Running) -> None:
    """Ask the holder to end its group, and wait for it."""
    if state.is_alive:
        os.kill(state.pid, signal.SIGTERM)
    while state.is_alive:
        time.sleep(_POLL_S)


def _spawn(argv: Sequence[str], *, log: Path) -> int:
    """Start a command that is nobody's child: the shell that starts it leaves at once."""
    script = '"$@" >"$0" 2>&1 </dev/null & echo $!'
    shell = ["/bin/sh", "-c", script, str(log), *argv]
    return int(subprocess.run(shell, check=True, capture_output=True, cwd=_CHECKOUT, start_new_session=True).stdout)


def _file(prefix: str) -> Path:
    return cache_directory() / "running" / f"{prefix}.json"
