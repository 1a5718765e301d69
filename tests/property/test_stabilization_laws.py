"""Laws of stabilized observations, over all histories of an observation. W3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.stabilization import Stabilized, stabilize

WINDOW_S = 30.0
HISTORIES = st.lists(
    st.tuples(st.floats(0.1, 45.0), st.sampled_from([True, False, None])), min_size=1, max_size=20
)  # seconds since the last observation, and the observation


def play(history: list[tuple[float, bool | None]]) -> list[tuple[float, bool | None, Stabilized]]:
    """Observe a history; the facts are known from its first observation on."""
    now_s, before, seen = 1000.0, None, []
    began_s = now_s + history[0][0]
    for passed_s, observed in history:
        now_s += passed_s
        before = stabilize(observed, before, now_s=now_s, window_s=WINDOW_S, unchanged_since_s=began_s)
        seen.append((now_s, observed, before))
    return seen


@pytest.mark.clause("W3")
@given(HISTORIES)
def test_what_is_there_counts_at_once(history: list[tuple[float, bool | None]]) -> None:
    assert all(found.value is True for _, observed, found in play(history) if observed)


@pytest.mark.clause("W3")
@given(HISTORIES)
def test_what_was_there_within_the_window_counts(history: list[tuple[float, bool | None]]) -> None:
    seen = play(history)
    for index, (_, _, found) in enumerate(seen):
        true = [number for number in range(index + 1) if seen[number][1]]
        if not true:
            continue
        lost = next((at_s for at_s, observed, _ in seen[true[-1] : index + 1] if not observed), None)
        if lost is not None and seen[index][0] < lost + WINDOW_S:
            assert found.value is True


@pytest.mark.clause("W3")
@given(HISTORIES)
def test_false_needs_the_whole_window_without_a_gap(history: list[tuple[float, bool | None]]) -> None:
    seen = play(history)
    for index, (now_s, _, found) in enumerate(seen):
        if found.value is not False:
            continue
        since_s = now_s
        for at_s, observed, _ in reversed(seen[: index + 1]):
            if observed is not False:
                break
            since_s = at_s
        assert since_s <= now_s - WINDOW_S


@pytest.mark.clause("W3")
@given(HISTORIES)
def test_only_time_changes_a_value_and_only_when_it_is_due(history: list[tuple[float, bool | None]]) -> None:
    for now_s, observed, found in play(history):
        for later_s in (0.0, 5.0, 29.9, 30.0, 45.0):
            again = stabilize(observed, found, now_s=now_s + later_s, window_s=WINDOW_S, unchanged_since_s=now_s)
            is_due = found.due_s is not None and now_s + later_s >= found.due_s
            assert again.value == found.value or is_due


@pytest.mark.clause("W3")
@given(HISTORIES)
def test_without_a_window_an_observation_counts_as_it_is(history: list[tuple[float, bool | None]]) -> None:
    now_s, before = 1000.0, None
    for passed_s, observed in history:
        now_s += passed_s
        before = stabilize(observed, before, now_s=now_s, window_s=0.0, unchanged_since_s=now_s)
        assert before.value is observed
        assert before.due_s is None
