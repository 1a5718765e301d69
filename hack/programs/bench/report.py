"""Figures beside their floors: medians, bounds, a table, and JSON with the card of the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any


class Bound(Enum):
    """The comparison of a figure with its floor."""

    RATIO = "ratio"
    """Our median over the floor's."""
    EXTRA = "extra"
    """Our median less the floor's, in seconds."""
    COUNT = "count"
    """Our largest value; there is no floor."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: the values of the floor and ours, in seconds or counts, and the most that the figure should be."""

    name: str
    floor: Sequence[float]
    ours: Sequence[float]
    at_most: float
    bound: Bound = Bound.RATIO

    @property
    def ratio(self) -> float:
        """Our median over the floor's."""
        return statistics.median(self.ours) / statistics.median(self.floor)

    @property
    def figure(self) -> float:
        """The value that is compared with `at_most`."""
        match self.bound:
            case Bound.RATIO:
                return self.ratio
            case Bound.EXTRA:
                return statistics.median(self.ours) - statistics.median(self.floor)
            case Bound.COUNT:
                return max(self.ours)

    @property
    def is_reached(self) -> bool:
        """Whether the figure is within its bound."""
        return self.figure <= self.at_most

    def as_json(self) -> dict[str, Any]:
        """Return the line as plain data."""
        return {
            "name": self.name,
            "bound": self.bound.value,
            "floor": list(self.floor),
            "ours": list(self.ours),
            "figure": self.figure,
            "reach": self.at_most,
            "isReached": self.is_reached,
        }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(lines: Sequence[Line]) -> None:
    """Print the figures."""
    print(f"\n{'':<58}{'floor':>11}{'ours':>11}{'figure':>11}{'reach':>11}")
    for line in lines:
        is_count = line.bound is Bound.COUNT
        floor = "" if is_count else _seconds(statistics.median(line.floor))
        ours = f"{max(line.ours):,.0f}" if is_count else _seconds(statistics.median(line.ours))
        figures = "".join(f"{_figure(value, line.bound):>11}" for value in (line.figure, line.at_most))
        print(f"{line.name:<58}{floor:>11}{ours:>11}{figures}{'' if line.is_reached else '  missed'}")


def card(*, kubernetes: str, fsync: bool, load: float) -> dict[str, Any]:
    """Return the machine and the versions on which the figures depend. `load` is the load average before the start."""
    models = [line for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "kubernetes": kubernetes,
        "etcdSyncsToDisk": fsync,
        "loadBeforeStart": round(load, 2),
    }


def write_json(file: Path, *, card: dict[str, Any], lines: Sequence[Line], profiles: Sequence[dict[str, Any]]) -> None:
    """Write the card, all figures and the profiles."""
    document = {"card": card, "figures": [line.as_json() for line in lines], "profiles": list(profiles)}
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="replace").splitlines() if Path(path).exists() else []


def _figure(value: float, bound: Bound) -> str:
    match bound:
        case Bound.RATIO:
            return f"{value:.2f}x"
        case Bound.EXTRA:
            return f"+{value * 1000:.0f} ms"
        case Bound.COUNT:
            return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"
