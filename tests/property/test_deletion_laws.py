"""Laws of the limit on deletions, over all histories of copies that go and come (W4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Delete, Reason
from registry_controller.core.decision.deletion_limit import (
    ALWAYS,
    LENGTH,
    Charge,
    LimitVerdict,
    Window,
    charge_of,
    joined,
    judge,
    spell,
    stored_form,
    sum_windows,
    window_of,
)
from registry_controller.sync.deletion_count import DeletionCount

pytestmark = pytest.mark.clause("W4")

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
OWNER = ClusterUID("owner")


class Act(NamedTuple):
    """So many copies come back, are to go because their owner deleted them, or are to go and count each time."""

    what: str
    count: int
    restarts: bool


ACTS = st.lists(
    st.builds(Act, st.sampled_from(("comes", "deleted", "goes")), st.integers(1, 120), st.booleans()),
    min_size=1,
    max_size=25,
)


class Bench:
    """Copies that go and come within one window, and what was let go of them."""

    def __init__(self, count: int) -> None:
        self.all = [Target("", "ConfigMap", "default", f"m-{number}") for number in range(count)]
        self.here = set(self.all)
        self.lost: set[Target] = set()
        self.now = NOW
        self.gross = 0
        self.count = self.restarted(None)

    def restarted(self, stored: Window | None) -> DeletionCount:
        return DeletionCount(stored, is_here=self.here.__contains__)

    def play(self, act: Act, *, percent: int = 50) -> None:
        """Let an act happen; a set goes as the verdict says."""
        self.now = min(self.now + timedelta(seconds=3), NOW + LENGTH - timedelta(seconds=1))
        if act.restarts and self.count.window is not None:
            self.count = self.restarted(window_of(stored_form(self.count.window)))
        if act.what == "comes":
            self.here |= set(sorted(set(self.all) - self.here - self.lost)[: act.count])
            return
        wanted = sorted(self.here)[: act.count]
        if not wanted:
            return
        found = self.count.judge(
            stored=None, present=len(self.here), wanted=len(wanted), now=self.now, percent=percent, allowed="",
            is_anew=False,
        )  # fmt: skip
        self.count.keep(found)
        if found.verdict is LimitVerdict.HALT:
            self.count.end_halt()  # what is wanted changes before the next act
            return
        for target in wanted:
            if act.what == "goes":
                self.count.count(target, present=len(self.here), now=self.now)
                self.gross += 1
            else:
                self.lost.add(target)
            self.here.discard(target)


@given(ACTS, st.integers(1, 300), st.integers(1, 100))
def test_within_a_window_no_more_go_each_time_than_the_limit(acts: list[Act], count: int, percent: int) -> None:
    """However often they come back, and over restarts, which remember what was stored."""
    bench = Bench(count)
    for act in acts:
        bench.play(act, percent=percent)
    limit = max(ALWAYS, count * percent // 100)
    assert bench.gross <= limit
    assert len(bench.lost) <= limit


@given(ACTS, st.integers(1, 300))
def test_what_an_owner_deletes_is_added_to_what_counts_each_time(acts: list[Act], count: int) -> None:
    """A copy that comes back makes up for no copy that its owner deleted."""
    bench = Bench(count)
    for act in acts:
        bench.play(act._replace(restarts=False))
    assert bench.gross + len(bench.lost) <= max(ALWAYS, count // 2)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.booleans()), min_size=1, max_size=6))
def test_the_windows_of_all_rules_show_what_their_owner_lost(rules: list[tuple[int, int, bool]]) -> None:
    """However it counts. What a person allowed does not count, nor does a window that is over."""
    windows, past = list[tuple[Window, int]](), spell(NOW - LENGTH)
    for here, gone, is_gross in rules:
        windows.append((Window(spell(NOW), here + gone, gone, counted=gone * is_gross), here))
        windows.append((Window(spell(NOW), here + gone, gone, allowed=gone, counted=gone * is_gross), here))
        windows.append((Window(past, 1000, 1000), here))
    gone = sum(number for _, number, _ in rules)
    gross = sum(number for _, number, is_gross in rules if is_gross)
    expected = Window(spell(NOW), 700 + gone, gone, counted=gross)
    assert sum_windows(windows, present=700, now=NOW) == expected
    assert sum_windows(windows[2:3], present=700, now=NOW) is None


@given(st.integers(0, 300), st.integers(1, 40))
def test_what_is_born_and_deleted_by_its_owner_never_halts(count: int, at_once: int) -> None:
    """However many of them there are within a window."""
    window: Window | None = None
    for number in range(100):
        now = NOW + timedelta(seconds=2 * number)
        window, verdict = judge(
            window, present=count + at_once, wanted=at_once, now=now, percent=50, allowed="", absent=0
        )
        assert verdict is LimitVerdict.GO


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 100))
def test_what_is_shown_anew_has_no_free_number(present: int, wanted: int, percent: int) -> None:
    wanted = min(wanted, present)
    _, verdict = judge(None, present=present, wanted=wanted, now=NOW, percent=percent, allowed="", is_anew=True)
    assert (verdict is LimitVerdict.HALT) == (wanted > present * percent // 100)


@given(st.integers(1, 400), st.lists(st.tuples(st.integers(1, 400), st.booleans()), min_size=1, max_size=10))
def test_a_halt_of_losses_lasts_while_anything_waits(present: int, later: list[tuple[int, bool]]) -> None:
    """The sources may come back one by one; a restart remembers it."""
    window, verdict = judge(None, present=present, wanted=present, now=NOW, percent=50, allowed="", is_anew=True)
    for wanted, restarts in later:
        assert verdict is LimitVerdict.HALT
        window = window_of(stored_form(window)) if restarts else window
        assert window is not None
        wanted = min(wanted, present)
        window, verdict = judge(window, present=present, wanted=wanted, now=NOW, percent=50, allowed="", is_anew=False)
    _, verdict = judge(window, present=present, wanted=1, now=NOW, percent=50, allowed=window.halted_at)
    assert verdict is LimitVerdict.GO


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_of_two_daemons_the_stricter_counts(counted: int, theirs: int, percent: int, their_percent: int) -> None:
    one = Window("2026-01-01T12:00:00Z", 100, counted=counted, percent=percent)
    found = joined(one, Window("2026-01-01T12:00:00Z", 100, counted=theirs, percent=their_percent), now=NOW)
    assert (found.counted, found.percent) == (max(counted, theirs), min(percent, their_percent))
    assert window_of(stored_form(found)) == found


@given(
    st.builds(Delete, st.just("uid"), st.just(1), st.sampled_from(Reason), st.just(OWNER), st.booleans()),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_only_an_order_and_a_move_count_nowhere(
    deletion: Delete, stands: bool, is_repeated: bool, is_first_of_rule: bool
) -> None:
    charge = charge_of(deletion, stands=stands, is_repeated=is_repeated, is_first_of_rule=is_first_of_rule)
    is_order = deletion.is_order or (deletion.reason is Reason.RULE_GONE and is_first_of_rule)
    assert (charge is Charge.ORDER) == is_order
    assert (charge is Charge.MOVE) == (not is_order and deletion.reason is Reason.MOVED and stands)
    if charge is Charge.NET:
        assert deletion.reason is Reason.SOURCE_DELETED
        assert not is_repeated
