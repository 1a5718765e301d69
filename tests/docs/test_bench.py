"""Each benchmark runs for a moment, so that it cannot rot. The figures are not tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hack.programs.bench import read_works
from hack.programs.bench.report import Bound, Line, percentile
from hack.programs.bench.sampled import package_of
from tests.docs.documents import ROOT

pytestmark = pytest.mark.timeout(1800)


def _run(works: list[str], *, file: Path) -> tuple[str, dict[str, Any]]:
    """Run benches, and return their table and what they stored."""
    done = subprocess.run(
        [sys.executable, "-m", "hack.programs.bench", *works, "--quick", "--profile", "--json", str(file)], cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=1740,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.partition("reach\n")[2]
    found = json.loads(file.read_text(encoding="utf-8"))
    assert {figure["name"].partition(",")[0].split()[0] for figure in found["figures"]} == set(works)
    assert all(figure["name"] in table for figure in found["figures"])
    assert all(figure["ours"] and (figure["floor"] or figure["bound"] == "count") for figure in found["figures"])
    assert {"cores", "cpu", "kernel", "python", "kubernetes", "date"} <= set(found["card"])
    for profile in found["profiles"]:
        assert any(package.startswith("registry_controller") for package in profile["packages"])
        assert sum(profile["packages"].values()) == pytest.approx(profile["cpuMicrosecondsPerChange"], rel=0.05, abs=5)
    return table, found


def test_benches_run_and_print_their_ratios(tmp_path: Path) -> None:
    table, found = _run(["relay", "bulk", "delete"], file=tmp_path / "figures.json")
    relay_and_bulk = "".join(re.findall(r"^(?:relay|bulk).*\n", table, re.MULTILINE))
    assert len(re.findall(r"\d\.\d\dx", relay_and_bulk)) == 2 * 5
    [deletions] = [figure for figure in found["figures"] if "GETs" in figure["name"]]
    assert min(deletions["ours"]) >= 1.0


@pytest.mark.nightly
def test_the_other_benches_run(tmp_path: Path) -> None:
    _run(["burst", "edit", "hot", "join", "library"], file=tmp_path / "figures.json")


def test_an_unknown_bench_is_named() -> None:
    command = [sys.executable, "-m", "hack.programs.bench", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("speed:")


def test_a_ratio_is_that_of_the_medians() -> None:
    assert Line("x", floor=[1.0, 2.0, 30.0], ours=[4.0, 1.0, 50.0], at_most=1.0).ratio == 2.0


def test_an_extra_is_the_difference_of_the_medians() -> None:
    line = Line("x", floor=[1.0, 2.0, 30.0], ours=[4.0, 2.5, 1.0], at_most=0.4, bound=Bound.EXTRA)
    assert (line.figure, line.is_reached) == (0.5, False)


def test_a_count_is_the_largest_value() -> None:
    line = Line("x", floor=[], ours=[1.0, 2.0], at_most=1.0, bound=Bound.COUNT)
    assert (line.figure, line.is_reached) == (2.0, False)


@pytest.mark.parametrize(
    ("words", "works"),
    [
        (["relay"], [("relay", 0)]),
        (["bulk", "hot"], [("bulk", 2000), ("hot", 0)]),
        (["edit", "300", "edit", "3000"], [("edit", 300), ("edit", 3000)]),
    ],
)
def test_a_number_follows_its_work(words: list[str], works: list[tuple[str, int]]) -> None:
    assert read_works(words) == works


@pytest.mark.parametrize("words", [["7"], ["relay", "7"], ["bulk", "many"], ["bulk", "1", "2"]])
def test_a_number_without_a_work_is_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match="not a work"):
        read_works(words)


def test_a_sample_counts_for_the_folder_or_the_package_of_its_frame() -> None:
    from registry_controller.kube import transport

    assert package_of(str(transport.__file__)) == "registry_controller/kube"
    assert package_of(str(pytest.__file__)) == "pytest"
    assert package_of(str(json.__file__)) == ""


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (50.0, 99.0, 7.0)
