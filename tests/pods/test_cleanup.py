"""A run that ends by a signal leaves nothing: no process, and with it no namespace; no mount, no group, no folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane.guardian import start_time
from hack.pods.cleanup import run_name
from hack.pods.needs import CGROUPS
from hack.pods.watcher import ROOT
from tests.e2e.group import eventually

_RUN = """
import os, signal, subprocess, sys
from hack.pods.cleanup import make_group, run_name
from hack.pods.node import alone
from hack.pods.watcher import watched

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
run = run_name(os.getpid())
with watched(run) as folder:
    make_group(f"{run}-1")
    subprocess.run([*alone(), "/bin/sh", "-c", sys.argv[1], "run", f"{run}-1", folder], check=True)
"""
# As a node does: a mount on the folder, and a process in a group below the one of the run.
_IN_NAMESPACES = """
set -e
mount -t tmpfs tmpfs "$2"
for group in /sys/fs/cgroup/*/"$1" /sys/fs/cgroup/"$1"; do
  if [ -d "$group" ]; then mkdir "$group/pod" && echo 0 >"$group/pod/cgroup.procs"; fi
done
touch "$2/made"
sleep 600 &
echo made
wait
"""


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """Start a process that makes what a run makes; its output begins when all of it is there."""
    command = [sys.executable, "-c", _RUN, _IN_NAMESPACES]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_remains_of_a_run_that_is_killed(running: subprocess.Popen[str], ending: signal.Signals) -> None:
    assert running.stdout is not None
    assert running.stdout.readline() == "made\n"
    name = run_name(running.pid)
    folder = Path("/var/tmp", name)
    groups = list(CGROUPS.rglob(f"{name}-1"))
    born = {
        pid: start_time(pid)
        for group in groups
        for pid in map(int, (group / "pod" / "cgroup.procs").read_text(encoding="ascii").split())
    }
    assert len(born) == 2
    assert all(Path(f"/proc/{pid}/root{folder}/made").exists() for pid in born)
    assert list(folder.iterdir()) == [], "the mount is not in the namespaces of the run"
    running.send_signal(ending)
    eventually(lambda: not folder.exists() and not any(group.exists() for group in groups), what="groups and folder")
    assert [pid for pid, at in born.items() if start_time(pid) == at] == []
