"""What a daemon takes of its machine, read from outside: /proc and its metrics."""

from __future__ import annotations

import re
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.chaos.bed import Site

_METRIC = re.compile(r"^registrycontroller_(\w+) (\S+)$", re.MULTILINE)


class Figures(NamedTuple):
    """One moment of one daemon. Memory is resident, in KiB; sockets are among the descriptors."""

    memory_kib: int
    descriptors: int
    sockets: int
    threads: int
    tasks: int
    queue: int


def read_figures(site: Site) -> Figures:
    """Read them; OSError or ProcessError while the daemon does not run."""
    pid = site.daemon.pid
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.append(str(file.readlink()))
    with urllib.request.urlopen(site.daemon.metrics_url, timeout=5) as answer:
        metrics = dict(_METRIC.findall(answer.read().decode()))
    return Figures(
        memory_kib=read_status(pid, "VmRSS"),
        descriptors=len(links),
        sockets=sum(link.startswith("socket:") for link in links),
        threads=read_status(pid, "Threads"),
        tasks=int(float(metrics["tasks"])),
        queue=int(float(metrics["workqueue_depth"])),
    )


def read_status(pid: int, what: str) -> int:
    """Read a figure of a process (proc_pid_status(5)): memory in KiB, or a number."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{what}:")))
