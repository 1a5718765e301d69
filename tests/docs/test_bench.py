"""The benches run for a moment, so that they cannot rot; what they measure is nobody's business here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hack.programs.bench.report import Line, percentile
from tests.docs.documents import ROOT


def test_the_benches_run_and_print_their_ratios(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.programs.bench", "relay", "bulk", "--quick"], cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\d\.\d\dx", done.stdout)) == 2 * 5


def test_an_unknown_bench_is_named() -> None:
    command = [sys.executable, "-m", "hack.programs.bench", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("speed:")


def test_a_ratio_is_that_of_the_medians() -> None:
    assert Line("x", floor=[1.0, 2.0, 30.0], ours=[4.0, 1.0, 50.0], at_most=1.0).ratio == 2.0


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (50.0, 99.0, 7.0)
