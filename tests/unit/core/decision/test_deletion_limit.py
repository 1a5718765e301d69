"""W4: how many copies may go, judged as a set."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.decision.deletion_limit import (
    ALWAYS,
    LENGTH,
    LimitVerdict,
    Window,
    joined,
    judge,
    spell,
    stored_form,
    window_of,
)

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
START = spell(NOW)


def verdict(
    window: Window | None = None,
    *,
    present: int,
    wanted: int,
    now: datetime = NOW,
    percent: int = 50,
    allowed: str = "",
) -> tuple[Window, LimitVerdict]:
    return judge(window, present=present, wanted=wanted, now=now, percent=percent, allowed=allowed)


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        pytest.param(1, 1, LimitVerdict.GO, id="the only one"),
        pytest.param(50, 50, LimitVerdict.GO, id="all of few"),
        pytest.param(51, 51, LimitVerdict.HALT, id="one more than always may"),
        pytest.param(1000, 50, LimitVerdict.GO, id="few of many"),
        pytest.param(1000, 51, LimitVerdict.STORE, id="less than half, once the window is stored"),
        pytest.param(1000, 500, LimitVerdict.STORE, id="half"),
        pytest.param(1000, 501, LimitVerdict.HALT, id="more than half"),
        pytest.param(101, 51, LimitVerdict.HALT, id="half is rounded down"),
    ],
)
def test_half_may_go_and_always_fifty(present: int, wanted: int, expected: LimitVerdict) -> None:
    assert verdict(present=present, wanted=wanted)[1] is expected


def test_what_went_before_counts_within_five_minutes() -> None:
    window, first = verdict(present=200, wanted=80)
    assert first is LimitVerdict.STORE
    later = NOW + LENGTH - timedelta(seconds=1)
    assert verdict(window, present=120, wanted=20, now=later)[1] is LimitVerdict.STORE
    assert verdict(window, present=120, wanted=21, now=later)[1] is LimitVerdict.HALT
    anew, verdict_ = verdict(window, present=120, wanted=60, now=NOW + LENGTH)
    assert (anew.baseline, verdict_) == (120, LimitVerdict.STORE)


def test_a_window_of_an_earlier_process_that_begins_in_the_future_lasts_its_time_from_now_on() -> None:
    """W4: the clock was set back meanwhile."""
    window, _ = verdict(present=200, wanted=80)
    earlier = NOW - timedelta(days=100)
    window, found = verdict(window, present=120, wanted=20, now=earlier)
    assert (window.start, found) == (spell(earlier), LimitVerdict.STORE)
    assert verdict(window, present=100, wanted=1, now=earlier + LENGTH - timedelta(seconds=1))[1] is LimitVerdict.HALT
    assert verdict(window, present=100, wanted=1, now=earlier + LENGTH)[1] is LimitVerdict.GO


def test_a_halt_does_not_end_by_time_but_by_its_moment() -> None:
    window, halted = verdict(present=100, wanted=100)
    assert (halted, window.halted_at) == (LimitVerdict.HALT, START)
    later = NOW + timedelta(days=3)
    window, halted = verdict(window, present=100, wanted=100, now=later)
    assert (halted, window.halted_at) == (LimitVerdict.HALT, START)
    assert verdict(window, present=100, wanted=100, now=later, allowed=spell(later))[1] is LimitVerdict.HALT
    assert verdict(window, present=100, wanted=100, now=later, allowed=START)[1] is LimitVerdict.GO


def test_what_is_allowed_is_that_set_and_nothing_later() -> None:
    """W4: even when one of the set never goes, and over restarts, which remember what was stored."""
    window, _ = verdict(present=1000, wanted=800)
    later = NOW + timedelta(hours=1)
    window, found = verdict(window, present=1000, wanted=800, now=later, allowed=START)
    assert (found, window.halted_at, window.allowed) == (LimitVerdict.GO, "", 800)
    restarted = window_of(stored_form(window))
    assert restarted == window
    assert verdict(restarted, present=600, wanted=400, now=later, allowed=START)[1] is LimitVerdict.STORE
    assert verdict(restarted, present=201, wanted=101, now=later, allowed=START)[1] is LimitVerdict.STORE
    window, found = verdict(restarted, present=201, wanted=102, now=later, allowed=START)
    assert (found, window.halted_at) == (LimitVerdict.HALT, spell(later))
    much_later = later + LENGTH
    assert verdict(restarted, present=201, wanted=101, now=much_later, allowed=START)[1] is LimitVerdict.HALT


def test_a_moment_that_was_named_once_is_no_later_halts() -> None:
    """W4: moments have whole seconds, and who allows may be a program."""
    window, _ = verdict(present=100, wanted=100, allowed=START)
    assert window.halted_at == spell(NOW + timedelta(seconds=1))
    assert verdict(window, present=100, wanted=100, allowed=START)[1] is LimitVerdict.HALT


def test_a_halt_ends_when_fewer_are_to_go() -> None:
    window, _ = verdict(present=100, wanted=100)
    window, found = verdict(window, present=100, wanted=50)
    assert (found, window.halted_at) == (LimitVerdict.GO, "")


@pytest.mark.parametrize("jump", [timedelta(minutes=-2), timedelta(minutes=2)])
def test_a_clock_that_jumps_a_little_does_not_begin_anew(jump: timedelta) -> None:
    window, _ = verdict(present=200, wanted=100)
    assert verdict(window, present=100, wanted=1, now=NOW + jump)[1] is LimitVerdict.HALT


@given(
    sets=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 120), st.booleans()), min_size=1, max_size=20),
    present=st.integers(1, 600),
    percent=st.integers(1, 100),
)
def test_no_more_than_the_share_goes_within_a_window(
    sets: list[tuple[int, int, bool]], present: int, percent: int
) -> None:
    """W4: however the wishes come, with restarts between them, which remember what was stored."""
    limit = max(ALWAYS, present * percent // 100)
    window: Window | None = None
    left, now, waiting = present, NOW, 0
    for wanted, pause_s, restarts in sets:
        now = min(now + timedelta(seconds=pause_s), NOW + LENGTH - timedelta(seconds=1))
        waiting = min(left, waiting + wanted)
        if not waiting:
            continue
        window, found = judge(window, present=left, wanted=waiting, now=now, percent=percent, allowed="")
        if found is not LimitVerdict.HALT:
            left, waiting = left - waiting, 0
        if restarts:
            window = window_of(stored_form(window))
    assert present - left <= limit


@pytest.mark.parametrize(
    "stored", [None, {}, {"baseline": 3}, {"windowStart": 3, "baseline": 3}, {"windowStart": START}]
)
def test_what_cannot_be_used_is_no_window(stored: dict[str, object] | None) -> None:
    assert window_of(stored) is None


_windows = st.builds(
    Window,
    st.integers(0, 400).map(lambda ago_s: spell(NOW - timedelta(seconds=ago_s))),
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from(("", spell(NOW))),
    st.integers(0, 300),
)


@given(_windows, _windows)
def test_what_another_daemon_counted_counts_too(ours: Window, stored: Window) -> None:
    """A7, W4: several daemons do not let go more than one would."""
    found = joined(ours, stored, now=NOW)
    assert found.halted_at == (ours.halted_at or stored.halted_at)
    if NOW - datetime.fromisoformat(stored.start) >= timedelta(minutes=5):
        assert found == replace(ours, halted_at=found.halted_at)
        return
    assert found.start == min(ours.start, stored.start)
    assert found.baseline == max(ours.baseline, stored.baseline)
    assert found.allowed == max(ours.allowed, stored.allowed)
    assert joined(found, stored, now=NOW) == found


def test_without_what_is_stored_our_own_count_stands() -> None:
    window = Window(spell(NOW), 100, 3)
    assert joined(window, None, now=NOW) == window
