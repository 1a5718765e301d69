"""How often copied rules may change: together, so many times at once, and then at intervals."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from registry_controller.api.errors import ChangesTooOften
from registry_controller.sync.pace import AT_ONCE, OPEN_S, PAUSE_S, Pace


def passes(pace: Pace, now: float) -> bool:
    with contextlib.suppress(ChangesTooOften):
        pace.enter(now=now)
        return True
    return False


def worn_out(pace: Pace, *, since: float = 0.0) -> float:
    """Change without pause until a change has to wait, and tell when that was."""
    return next(since + second for second in itertools.count() if not passes(pace, since + second))


def test_what_changes_together_counts_once() -> None:
    pace = Pace()
    for opening in range(AT_ONCE):
        begin = opening * OPEN_S
        assert all(passes(pace, begin + OPEN_S * part / 1000) for part in range(1000))
    # It has rested meanwhile, so it opens some times more.
    assert AT_ONCE * OPEN_S <= worn_out(pace, since=AT_ONCE * OPEN_S) < AT_ONCE * OPEN_S * 1.2


def test_changes_without_pause_pass_once_in_each_pause() -> None:
    pace = Pace()
    begin = worn_out(pace)
    passed = [second for second in range(3600) if passes(pace, begin + second)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(passed) if later - earlier > 1]
    assert len(passed) == pytest.approx(3600 / PAUSE_S * OPEN_S, abs=OPEN_S)
    assert min(gaps) >= PAUSE_S - OPEN_S


def test_who_waits_as_long_as_was_said_passes() -> None:
    pace = Pace()
    now = worn_out(pace)
    with pytest.raises(ChangesTooOften, match="without pause") as caught:
        pace.enter(now=now)
    assert 0 < caught.value.retry_after_s <= PAUSE_S
    assert not passes(pace, now + caught.value.retry_after_s - 1)
    assert passes(pace, now + caught.value.retry_after_s + 0.001)


def test_rest_gives_back_no_more_than_there_was() -> None:
    pace = Pace()
    begin = worn_out(pace) + 30 * AT_ONCE * PAUSE_S
    assert worn_out(pace, since=begin) - begin == worn_out(Pace())
