"""Laws of a peer's health, over any history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.backoff import backoff_s
from registry_controller.core.peer_health import PROBE_INTERVAL_S, SILENCE_S, PeerHealth

_HISTORY = st.lists(st.tuples(st.booleans(), st.floats(min_value=0.0, max_value=60.0)), max_size=30)


@given(_HISTORY)
def test_a_peer_is_unreachable_exactly_when_the_last_two_signs_were_silence(history: list[tuple[bool, float]]) -> None:
    now = 0.0
    health = PeerHealth(now=now)
    for was_heard, pause_s in history:
        now += pause_s
        if was_heard:
            health.signal_received(now)
        else:
            health.probe_failed(now)
    last = [was_heard for was_heard, _ in history[-2:]]
    assert health.unreachable == (last == [False, False])
    assert health.alive != health.unreachable


@given(_HISTORY)
def test_each_change_is_said_exactly_once(history: list[tuple[bool, float]]) -> None:
    now = 0.0
    health = PeerHealth(now=now)
    for was_heard, pause_s in history:
        now += pause_s
        before = health.alive
        changed = health.signal_received(now) if was_heard else health.probe_failed(now)
        assert changed == (health.alive != before)


@given(_HISTORY)
def test_a_probe_is_never_due_in_the_past_of_what_was_noticed_last(history: list[tuple[bool, float]]) -> None:
    now = 0.0
    health = PeerHealth(now=now)
    for was_heard, pause_s in history:
        now += pause_s
        if was_heard:
            health.signal_received(now)
            assert health.next_probe_at() == now + SILENCE_S
        else:
            health.probe_failed(now)
            assert health.next_probe_at() == now + PROBE_INTERVAL_S


@given(
    attempt=st.integers(min_value=-5, max_value=10**9),
    base=st.floats(min_value=0.001, max_value=10.0),
    cap=st.floats(min_value=0.001, max_value=100.0),
    chance=st.floats(min_value=0.0, max_value=1.0),
)
def test_backoff_is_between_nothing_and_its_cap(attempt: int, base: float, cap: float, chance: float) -> None:
    pause_s = backoff_s(attempt, base=base, cap=cap, chance=chance)
    assert 0.0 <= pause_s <= cap
    assert pause_s <= backoff_s(attempt + 1, base=base, cap=cap, chance=chance)
