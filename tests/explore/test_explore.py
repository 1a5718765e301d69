"""The exhaustive search of small groups: what it finds, and that its foldings lose nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.programs.planted import PLANTED, Bug, plant
from tests.explore.in_sim import ids, play
from tests.explore.search import COMPLETE, Search, replay
from tests.explore.steps import Step
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.schedule.leaving import knows, shared

_AT_MOST_S = 240.0


def test_every_order_of_two_acts_keeps_the_laws() -> None:
    """O4, O6, P2: all acts, at any moment of any order of deliveries and of time."""
    found = Search(acts=2).run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found


@pytest.mark.parametrize("kinds", ["cut,heal,crash,restart,declare", "leave,swap"])
def test_every_order_of_three_acts_keeps_the_laws(kinds: str) -> None:
    """O5, O6: who is silent, or does not hear, loses nothing, and is not lost."""
    found = Search(acts=3, kinds=kinds.split(",")).run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found


def test_folded_states_stand_for_all() -> None:
    """Without the names of members folded, there are up to six times as many states, and as many laws kept."""
    folded, full = Search(acts=1).run(at_most_s=_AT_MOST_S), Search(acts=1, is_folded=False).run(at_most_s=_AT_MOST_S)
    assert folded.broken is full.broken is None
    assert folded.ended_by == full.ended_by == COMPLETE
    assert folded.states < full.states <= 6 * folded.states
    assert folded.depth == full.depth


def test_a_trace_is_played_again() -> None:
    """Who leaves is removed by all that hear it; nothing of that is broken."""
    steps = [Step("leave", 0, 0), *(Step("deliver", who, 0) for who in (1, 1, 2, 2))]
    assert replay(steps) is None


def test_the_simulation_plays_a_trace() -> None:
    """O6: a cannot reach b and says that b has left, then b leaves itself: whoever hears both removes b."""
    trace = [
        Step("cut", 0, 1),
        Step("window"),
        *(Step("deliver", who, 0) for who in (1, 2)),
        Step("declare", 0, 1),
        *(Step("deliver", who, 0) for who in (1, 2)),
        Step("leave", 1, 1),
        *(Step("deliver", 2, 1) for _ in range(2)),
    ]

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        await play(trace, group)
        await group.settle()
        assert knows(group["c"], "b") == (False, False)

    with virtual_clocks():
        simulate(scenario, n=3, uids=ids("bca"))


@pytest.mark.parametrize(
    ("name", "kinds", "law"),
    [
        ("believe_absence", "delete", "no copy goes without an act"),
    ],
)
def test_planted_bugs_are_found(name: str, kinds: str, law: str, tmp_path: Path) -> None:
    """With the bug, one act is enough; without it, the same search is clean."""
    plant(Bug(name, "", PLANTED / f"{name}.patch"), at=tmp_path)
    command = [sys.executable, "-m", "hack.programs.explore", "--acts", "1", "--kinds", kinds]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=_AT_MOST_S
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"broken: {law}" in ran.stdout
    assert "the own Cluster of" in ran.stdout
    assert Search(acts=1, kinds=kinds.split(",")).run(at_most_s=_AT_MOST_S).broken is None
