"""Counters of control groups, of version 1 or 2."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .needs import CGROUPS


class Usage(NamedTuple):
    """The memory of a group now and at its most, in bytes, and its CPU time, in seconds."""

    memory: int
    peak: int
    cpu_s: float


def read_usage(pattern: str) -> Usage:
    """Read the counters of the only group that the pattern matches below the root of each tree.

    FileNotFoundError names the file that the kernel lacks: in version 2, `memory.peak` needs Linux 5.19.
    """
    if (CGROUPS / "cgroup.controllers").exists():
        [group] = CGROUPS.glob(pattern)
        times = dict(line.split() for line in (group / "cpu.stat").read_text(encoding="ascii").splitlines())
        return Usage(_number(group / "memory.current"), _number(group / "memory.peak"), int(times["usage_usec"]) / 1e6)
    [memory] = (CGROUPS / "memory").glob(pattern)
    [cpu] = (CGROUPS / "cpuacct").glob(pattern)
    return Usage(
        _number(memory / "memory.usage_in_bytes"),
        _number(memory / "memory.max_usage_in_bytes"),
        _number(cpu / "cpuacct.usage") / 1e9,
    )


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
