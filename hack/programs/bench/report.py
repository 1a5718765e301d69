"""Medians and ratios, in a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: the floor's and our values, one a round, in seconds; `at_most` is the ratio to be reached."""

    name: str
    floor: Sequence[float]
    ours: Sequence[float]
    at_most: float

    @property
    def ratio(self) -> float:
        """Our median over the floor's."""
        return statistics.median(self.ours) / statistics.median(self.floor)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(lines: Sequence[Line]) -> None:
    """Print the figures."""
    print(f"\n{'':<44}{'floor':>11}{'ours':>11}{'ratio':>8}{'to reach':>10}")
    for line in lines:
        floor, ours = (_seconds(statistics.median(values)) for values in (line.floor, line.ours))
        mark = "" if line.ratio <= line.at_most else "  missed"
        print(f"{line.name:<44}{floor:>11}{ours:>11}{line.ratio:>7.2f}x{line.at_most:>9.2f}x{mark}")


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"
