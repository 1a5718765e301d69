"""The CPU time of the sink's daemon for each change, and, with `--profile`, where it goes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_POLL_S = 0.01
_TIMEOUT_S = 10.0
_FUNCTIONS = 12
_OTHER_THREADS = "other threads"


Sums = dict[str, float]
"""CPU seconds by the name of a part."""


@dataclass(slots=True)
class Usage:
    """CPU seconds for some changes, and their sums by package, function and task when the daemon is sampled."""

    changes: int = 0
    cpu_s: float = 0.0
    packages: Sums = field(default_factory=lambda: defaultdict(float))
    functions: Sums = field(default_factory=lambda: defaultdict(float))
    tasks: Sums = field(default_factory=lambda: defaultdict(float))

    def as_json(self, name: str) -> dict[str, Any]:
        """Return the usage as plain data, in microseconds for one change."""
        groups = {"packages": self.packages, "tasks": self.tasks, "functions": self.functions}
        sums = {title: {part: self._us(s) for part, s in _largest_first(sums) if s} for title, sums in groups.items()}
        return {"name": name, "changes": self.changes, "cpuMicrosecondsPerChange": self._us(self.cpu_s), **sums}

    def show(self, name: str) -> None:
        """Print the CPU time for one change, and its parts."""
        total = f"{self._us(self.cpu_s):,.0f} us"
        print(f"{name}: {total} of CPU in the sink's daemon for each of {self.changes:,} changes")
        for title, sums, most in (("package", self.packages, 99), ("task", self.tasks, 99)):
            self._show_parts(title, sums, most=most)
        self._show_parts("function", self.functions, most=_FUNCTIONS)

    def _show_parts(self, title: str, sums: Sums, *, most: int) -> None:
        if sums:
            print(f"  by {title}:")
        for part, seconds in _largest_first(sums)[:most]:
            if self._us(seconds) >= 1:
                print(f"    {part:<76}{self._us(seconds):>9,.0f} us{100 * seconds / self.cpu_s:>5.0f} %")

    def _us(self, seconds: float) -> float:
        return round(seconds * 1e6 / max(1, self.changes), 1)


class Meter:
    """Measures a daemon while it works. `samples` is the file of `sampled`, None when it does not run the daemon."""

    def __init__(self, pid: int, *, samples: Path | None = None) -> None:
        self.usages: dict[str, Usage] = {}
        self._pid = pid
        self._samples = samples

    def cpu_s(self) -> float:
        """Return the CPU seconds of the daemon's threads so far (/proc/PID/task/TID/schedstat, nanoseconds)."""
        files = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9

    @contextmanager
    def working(self, name: str, *, changes: int) -> Iterator[None]:
        """Add the block's CPU time to the usage of that name."""
        cpu_s, sums = self.cpu_s(), self._sums()
        yield
        usage = self.usages.setdefault(name, Usage())
        usage.changes += changes
        after = self._sums()
        if not after:
            usage.cpu_s += self.cpu_s() - cpu_s
            return
        usage.cpu_s += after["process"] - sums["process"]
        for title, into in (("packages", usage.packages), ("functions", usage.functions), ("tasks", usage.tasks)):
            for part, seconds in after[title].items():
                into[part] += seconds - sums[title].get(part, 0.0)
        usage.packages[_OTHER_THREADS] = 0.0
        usage.packages[_OTHER_THREADS] = usage.cpu_s - sum(usage.packages.values())

    def _sums(self) -> dict[str, Any]:
        """Make the daemon write its sums, and return them; empty when the daemon is not sampled."""
        if self._samples is None:
            return {}
        self._samples.unlink(missing_ok=True)
        os.kill(self._pid, signal.SIGUSR2)
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._samples.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the daemon wrote no sums within {_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
        sums: dict[str, Any] = json.loads(self._samples.read_text(encoding="utf-8"))
        return sums


def _largest_first(sums: Sums) -> list[tuple[str, float]]:
    return sorted(sums.items(), key=lambda item: -item[1])
