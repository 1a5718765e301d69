"""Since when the rules of copies do not match their sources. W3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.state import Claim, LostMatch, Move, Origin, RuleState, TargetState, Tracking
from registry_controller.sync.lost_matches import LostMatches

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ONE = Target("", "ConfigMap", "default", "one")
OWNER, LOCAL = ClusterUID("owner"), ClusterUID("local")
RIVAL = Claim(
    ClusterUID("rival"),
    ClusterUID("rival"),
    Voice.OWNER,
    GVK("", "v1", "ConfigMap"),
    ObjectKey("default", "one"),
    "uid",
    "2026-01-01",
    7,
    "rule",
)
LOST = Origin("rule", tracking=Tracking.ABSENT, rule_state=RuleState.READS, deletes_unwanted=True)


class Clocks:
    """A loop's clock and a wall clock that go on together."""

    def __init__(self, window_s: float = 30.0) -> None:
        self.now_s = 1000.0
        self.matches = LostMatches(
            window_s=window_s,
            now_s=lambda: self.now_s,
            now=lambda: BEGAN + timedelta(seconds=self.now_s - 1000.0),
        )

    def observe(
        self, origin: Origin = LOST, *, after_s: float = 0.0, claims: tuple[Claim, ...] = ()
    ) -> LostMatch | None:
        self.now_s += after_s
        members = frozenset((OWNER,))
        return self.matches.observe(TargetState(ONE, claims, None, LOCAL, members, members, origin=origin))


@pytest.mark.clause("W3")
def test_a_match_is_lost_once_it_was_missing_for_the_window() -> None:
    clocks = Clocks()
    until = LostMatch(1030.0, "2026-01-01T00:00:30Z")
    assert clocks.observe() == until
    assert clocks.observe(after_s=29.9) == until, "the moment does not change"
    assert clocks.observe(after_s=0.1) is None
    assert clocks.observe(after_s=100.0) is None


OTHERS = {
    "its owner does not show it": LOST._replace(tracking=Tracking.NOT_COMPLETE),
    "it cannot be evaluated": LOST._replace(tracking=Tracking.UNCLEAR),
    "its destinations cannot be read": LOST._replace(tracking=Tracking.UNREADABLE),
    "its rule says nothing": LOST._replace(rule_state=RuleState.SILENT),
    "its rule is gone": LOST._replace(rule_state=RuleState.GONE),
    "the copy stays": LOST._replace(deletes_unwanted=False),
    "the copy moves": LOST._replace(move=Move.WAITS),
}


@pytest.mark.clause("W3")
@pytest.mark.parametrize("origin", OTHERS.values(), ids=OTHERS.keys())
def test_whatever_else_comes_between_begins_the_window_anew_and_nothing_is_kept(origin: Origin) -> None:
    clocks = Clocks()
    clocks.observe()
    assert clocks.observe(origin, after_s=20.0) is None
    assert not clocks.matches.held
    assert clocks.observe(after_s=1.0) == LostMatch(1051.0, "2026-01-01T00:00:51Z")


@pytest.mark.clause("W3")
def test_a_copy_that_stays_waits_where_another_source_would_take_its_place() -> None:
    clocks, stays = Clocks(), LOST._replace(deletes_unwanted=False)
    assert clocks.observe(stays, claims=(RIVAL,)) == LostMatch(1030.0, "2026-01-01T00:00:30Z")
    assert clocks.observe(stays, claims=(RIVAL,), after_s=30.0) is None


@pytest.mark.clause("W3")
def test_a_match_that_returns_is_forgotten() -> None:
    clocks = Clocks()
    clocks.observe()
    clocks.matches.forget(ONE)
    assert not clocks.matches.held
    assert clocks.observe(after_s=29.0) == LostMatch(1059.0, "2026-01-01T00:00:59Z")


@pytest.mark.clause("W3")
def test_a_rule_that_was_edited_is_obeyed_at_once() -> None:
    clocks = Clocks()
    assert clocks.observe(LOST._replace(is_edited=True)) is None
    assert clocks.observe(LOST) is None, "also once it is not known any more what the copy was made by"


@pytest.mark.clause("W3")
def test_without_a_window_nothing_waits_and_nothing_is_kept() -> None:
    clocks = Clocks(window_s=0.0)
    assert clocks.observe() is None
    assert not clocks.matches.held


UNSELECTED = LOST._replace(rule_state=RuleState.UNSELECTED)
NOT_HERE = LOST._replace(rule_state=RuleState.NOT_HERE)


@pytest.mark.clause("A7")
@pytest.mark.parametrize("origin", [UNSELECTED, NOT_HERE], ids=["another owner", "another cluster"])
def test_a_copy_that_another_client_made_counts_as_asked_for_until_the_window_is_over(origin: Origin) -> None:
    clocks = Clocks()
    clocks.matches.on_copy_made(ONE)
    until = LostMatch(1030.0, "2026-01-01T00:00:30Z")
    assert clocks.observe(origin, after_s=1.0) == until
    assert clocks.observe(origin, after_s=28.9) == until
    assert clocks.observe(origin, after_s=0.1) is None
    clocks.matches.on_copy_made(ONE)
    assert clocks.observe(origin) == LostMatch(1060.0, "2026-01-01T00:01:00Z"), "made once more"


@pytest.mark.clause("A7")
@pytest.mark.parametrize("origin", [UNSELECTED, NOT_HERE], ids=["another owner", "another cluster"])
def test_a_copy_that_was_here_before_does_not_wait(origin: Origin) -> None:
    assert Clocks().observe(origin) is None


def test_copies_that_were_made_are_forgotten_after_the_window() -> None:
    clocks = Clocks()
    for number in range(100):
        clocks.matches.on_copy_made(Target("", "ConfigMap", "default", f"m-{number}"))
        clocks.now_s += 1.0
    assert len(clocks.matches.made) <= 30
