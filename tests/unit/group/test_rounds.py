"""The rounds in which the collector asks about owners that no watch shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from registry_controller.api.meta import Target
from registry_controller.group.rounds import AGAIN_S, AT_ONCE, ROUND_S, Rounds, next_after


def targets(count: int) -> Sequence[Target]:
    return [Target("", "ConfigMap", "default", f"x{number:05}") for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 59, 60, 61, 1000, 1200])
def test_each_object_comes_once_in_a_round(count: int) -> None:
    rounds, found = Rounds(now_s=0.0), list[Target]()
    for now_s in range(int(2 * ROUND_S)):
        taken = rounds.take(lambda: targets(count), now_s=float(now_s))
        assert len(taken) <= AT_ONCE
        assert now_s >= ROUND_S or not taken
        found.extend(taken)
    assert found == targets(count)


def test_a_round_of_very_many_takes_longer() -> None:
    rounds, found = Rounds(now_s=0.0), list[Target]()
    for step in range(int(ROUND_S / AGAIN_S), 10_000):
        found.extend(rounds.take(lambda: targets(5000), now_s=step * AGAIN_S))
        if len(found) == 5000:
            break
    assert found == targets(5000)
    assert step * AGAIN_S - ROUND_S == pytest.approx(5000 / AT_ONCE * AGAIN_S, abs=AGAIN_S)


def test_the_next_ones_follow_the_last_and_begin_again() -> None:
    found = targets(AT_ONCE + 5)
    first = next_after(None, found)
    assert list(first) == found[:AT_ONCE]
    assert list(next_after(first[-1], found)) == [*found[AT_ONCE:], *found[: AT_ONCE - 5]]
    assert list(next_after(first[-1], found[:3])) == found[:3]
