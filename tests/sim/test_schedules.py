"""Random schedules: a few of those that hack/sim plays, always the same ones. O1, O3, O5, O8, W3, A1, A6, R5, S1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.programs.planted import Bug, bugs, plant
from hack.programs.sim import list_missing
from registry_controller.core.decision.decision import Reason
from tests.sim.schedule.schedule import draw
from tests.sim.schedule.stage import DEEDS
from tests.sim.schedule.tally import CLAUSES, EFFECTS, RESTORED, Tally

ROOT = Path(__file__).parent.parent.parent
COUNT = 12


@pytest.mark.timeout(1800)
def test_no_schedule_breaks_a_law() -> None:
    """O1 to O11, W1 to W8, A1 to A11, P5, R5, S1 to S4: in a process of its own, as a seed needs PYTHONHASHSEED."""
    options = ["--schedules", str(COUNT), "--seed", "1", "--workers", "1", "--show", "1", "--shrink", "20"]
    command, env = [sys.executable, "-m", "hack.programs.sim", *options], {**os.environ, "PYTHONHASHSEED": "0"}
    found = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1740)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{COUNT} schedules in" in found.stdout


@pytest.mark.parametrize("seed", range(50))
def test_a_seed_draws_one_schedule_that_is_long_and_troubled_enough(seed: int) -> None:
    """At least three clusters, thirty steps and five faults."""
    schedule = draw(seed)
    assert schedule == draw(seed)
    assert schedule.count >= 3
    assert len(schedule.steps) >= 30
    assert schedule.faults >= 5


def test_what_never_occurred_is_reported() -> None:
    """Each deed, each reason, each clause, and each effect that a deed has only where it can."""
    missing = list_missing(Tally())
    assert set(missing) == {*DEEDS, *(reason.value for reason in Reason), *CLAUSES, *EFFECTS}
    tally = Tally()
    tally.effect(RESTORED)
    assert set(missing).difference(list_missing(tally)) == {RESTORED}


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_a_planted_bug_can_still_be_planted(bug: Bug, tmp_path: Path) -> None:
    """hack/planted says who notices it."""
    plant(bug, at=tmp_path)
    assert bug.reason.endswith(".")


def test_every_bug_is_there_to_plant() -> None:
    """Each is another law broken; none may get lost."""
    assert len(bugs()) >= 37
