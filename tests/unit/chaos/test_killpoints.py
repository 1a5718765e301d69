"""Kill points are taken all: what is aimed at next after what came of it, and what is said about those that are
missing.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.aims import Aim, Aims, Met
from tests.chaos.calls import Call, Drop
from tests.chaos.killpoints import KillAt, writes

GET, PATCH = Call(1, "GET", "/api", b""), Call(2, "PATCH", "/api", b"")


def _play(aims: Aims, answer: Callable[[Aim, int], Met], *, calls: int = 10**6) -> list[str]:
    """Follow all aims; the answer is told how often this one was aimed at before. calls: of runs without a kill."""
    tried: Counter[Aim] = Counter()
    for aim in aims:
        aims.met(answer(aim, tried[aim]), calls=calls)
        tried[aim] += 1
    return [f"{aim} x{count}" for aim, count in sorted(tried.items())]


def _of(takes: int) -> Callable[[Aim, int], Met]:
    return lambda aim, _: Met.KILLED if aim.number <= takes else Met.NOTHING


def test_each_call_is_aimed_at_before_and_after_until_three_in_turn_do_not_come() -> None:
    aims = Aims(2)
    tried = _play(aims, _of(3))
    once = [f"{moment} {number} x1" for number in (1, 2, 3) for moment in ("before", "after")]
    assert tried == [*once, "before 4 x2", "before 5 x2", "before 6 x2"]
    assert aims.reached == 3
    aims.assert_whole()


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_the_parts_are_dealt_out_and_whole(first: int) -> None:
    aims = Aims(10, first=first, step=4)
    _play(aims, _of(10))
    assert {aim.number for aim in aims.killed} == set(range(first, 11, 4))
    aims.assert_whole()


def test_a_call_that_was_lost_before_its_answer_came_is_aimed_at_again_and_ends_nothing() -> None:
    aims = Aims(9)
    tried = _play(aims, lambda aim, tries: Met.LOST if aim == Aim(1, is_after=True) and tries < 3 else _of(9)(aim, 0))
    assert "after 1 x4" in tried
    assert not aims.lost
    assert len(aims.killed) == 18
    aims.assert_whole()


def test_a_call_at_which_no_kill_is_possible_is_listed_and_ends_nothing() -> None:
    hopeless = Aim(2, is_after=True)
    aims = Aims(9)
    tried = _play(aims, lambda aim, _: Met.LOST if aim == hopeless else _of(9)(aim, 0))
    assert "after 2 x4" in tried
    assert aims.lost == {hopeless}
    assert len(aims.killed) == 17
    aims.assert_whole()


def test_a_script_that_never_kills_after_is_seen() -> None:
    aims = Aims(5)
    _play(aims, lambda aim, _: Met.LOST if aim.is_after and aim.number <= 5 else _of(5)(aim, 0))
    with pytest.raises(AssertionError, match="5 kills, and none was possible after 1, after 2"):
        aims.assert_whole()


def test_a_run_with_fewer_calls_is_made_up_for() -> None:
    aims = Aims(4)
    tried = _play(aims, lambda aim, tries: _of(4 if tries else 3)(aim, 0))
    assert "before 4 x2" in tried
    assert len(aims.killed) == 8
    aims.assert_whole()


def test_what_the_scenario_does_not_always_take_is_not_missing() -> None:
    aims = Aims(10)
    _play(aims, _of(9), calls=9)
    assert (aims.calls, len(aims.killed)) == (9, 18)
    aims.assert_whole()


def test_a_run_that_did_not_do_the_scenario_is_seen() -> None:
    with pytest.raises(AssertionError, match="a run took 6 calls, and 10 when it was counted"):
        _play(Aims(10), _of(6), calls=6)


def test_calls_of_the_scenario_that_never_came_are_named() -> None:
    aims = Aims(4)
    tried = _play(aims, _of(2))
    assert "before 3 x2" in tried
    with pytest.raises(AssertionError, match="of 4 calls, no kill before 3, after 3, before 4, after 4; there were 4"):
        aims.assert_whole()


def test_a_call_that_comes_now_and_then_beyond_the_scenario_does_not_end_it() -> None:
    aims = Aims(1)
    _play(aims, lambda aim, _: Met.KILLED if aim.number in (1, 4) else Met.NOTHING)
    assert {aim.number for aim in aims.killed} == {1, 4}
    aims.assert_whole()


def test_a_scenario_that_does_not_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="the scenario takes more calls than 20"):
        _play(Aims(5, most=20), _of(10**6))


def test_of_a_part_of_the_calls_only_these_are_asked_for() -> None:
    aims = Aims(50, first=3, last=3)
    assert _play(aims, _of(50)) == ["before 3 x1", "after 3 x1"]
    aims.assert_whole()


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _script(*pids: int) -> tuple[KillAt, Counter[str]]:
    site: Any = SimpleNamespace(name="a", daemon=SimpleNamespace(pids=list(pids)))
    kills: Counter[str] = Counter()
    return KillAt(site, which=writes, kills=kills), kills


@pytest.mark.parametrize("is_after", [False, True])
async def test_who_makes_the_chosen_call_is_killed(running: subprocess.Popen[bytes], is_after: bool) -> None:
    script, kills = _script(running.pid)
    await script.arm(Aim(1, is_after=is_after))
    await script.before(GET)
    assert (script.count, script.met) == (0, Met.NOTHING)
    if is_after:
        await script.before(PATCH)
        assert script.met is Met.LOST
    with pytest.raises(Drop):
        await (script.after(PATCH) if is_after else script.before(PATCH))
    assert (script.met, script.killed, kills["a"]) == (Met.KILLED, PATCH, 1)
    assert running.wait() == -signal.SIGKILL


async def test_a_call_whose_caller_is_gone_is_lost_and_its_successor_lives(running: subprocess.Popen[bytes]) -> None:
    script, kills = _script()
    await script.arm(Aim(1, is_after=True))
    await script.before(PATCH)
    script._site.daemon.pids.append(running.pid)
    with pytest.raises(Drop):
        await script.after(PATCH)
    assert (script.met, kills["a"], running.poll()) == (Met.LOST, 0, None)


async def test_who_is_not_aimed_at_any_more_is_not_killed(running: subprocess.Popen[bytes]) -> None:
    script, _ = _script(running.pid)
    await script.arm(Aim(1, is_after=True))
    await script.before(PATCH)
    await script.disarm()
    await script.after(PATCH)
    assert (script.met, running.poll()) == (Met.LOST, None)
