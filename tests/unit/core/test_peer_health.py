"""P5, P6: when a peer counts as alive, when it is probed, how long it is left alone."""

from __future__ import annotations

import pytest

from registry_controller.core.peer_health import PROBE_INTERVAL_S, SILENCE_S, PeerHealth


def test_a_peer_that_was_never_heard_counts_as_alive() -> None:
    health = PeerHealth(now=100.0)
    assert health.alive
    assert health.next_probe_at() == 115.0


def test_one_unanswered_probe_changes_nothing() -> None:
    health = PeerHealth(now=0.0)
    assert health.probe_failed(15.0) is False
    assert health.alive


def test_the_second_unanswered_probe_makes_it_unreachable_and_says_so_once() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(15.0)
    assert health.probe_failed(20.0) is True
    assert health.unreachable
    assert health.probe_failed(25.0) is False


def test_a_sign_of_life_between_two_failures_starts_the_count_again() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(15.0)
    assert health.signal_received(16.0) is False
    assert health.probe_failed(31.0) is False
    assert health.alive


def test_an_unreachable_peer_that_is_heard_is_alive_and_says_so_once() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(15.0)
    health.probe_failed(20.0)
    assert health.signal_received(21.0) is True
    assert health.signal_received(22.0) is False
    assert health.next_probe_at() == 22.0 + SILENCE_S


def test_probes_follow_15_s_after_the_last_sign_and_then_every_5_s() -> None:
    health = PeerHealth(now=0.0)
    health.signal_received(3.0)
    assert health.next_probe_at() == 18.0
    health.probe_failed(18.5)
    assert health.next_probe_at() == 23.5
    health.probe_failed(23.5)
    assert health.next_probe_at() == 28.5


def test_a_probe_that_waited_for_its_timeout_does_not_stretch_the_interval() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(19.9, started_at=15.0)
    assert health.next_probe_at() == 20.0


def test_a_probe_that_began_before_the_last_sign_of_life_is_old_news() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(15.0)
    health.signal_received(17.0)
    assert health.probe_failed(18.0, started_at=16.0) is False
    assert health.probe_failed(37.0) is False
    assert health.alive


def test_an_answered_probe_makes_an_unreachable_peer_alive() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(15.0)
    health.probe_failed(20.0)
    assert health.answered(21.0) is True
    assert health.alive


def test_who_refuses_us_is_probed_at_once_but_not_more_often_than_every_5_s() -> None:
    health = PeerHealth(now=0.0)
    assert health.suspect(1.0)
    assert health.next_probe_at() == 1.0
    assert not health.suspect(1.5)
    health.answered(2.0)
    assert not health.suspect(3.0)
    assert health.next_probe_at() == 17.0
    assert health.suspect(6.0)
    assert health.next_probe_at() == 6.0


def test_a_suspicion_is_not_put_off_by_what_older_streams_bring() -> None:
    health = PeerHealth(now=0.0)
    health.suspect(1.0)
    health.signal_received(2.0)
    assert health.next_probe_at() == 1.0
    assert health.probe_failed(3.0, started_at=1.0) is False  # no answer, and old news: it is in question as before
    health.signal_received(4.0)
    assert health.next_probe_at() == 6.0
    health.answered(6.5)
    assert health.next_probe_at() == 6.5 + SILENCE_S


def test_a_suspicion_does_not_hasten_what_is_already_doubted() -> None:
    health = PeerHealth(now=0.0)
    assert health.suspect(1.0)
    assert health.probe_failed(1.0) is False
    assert not health.suspect(7.0)
    assert health.next_probe_at() == 6.0
    assert health.probe_failed(6.0) is True


def test_who_refuses_us_does_so_until_it_answers_whatever_older_streams_bring() -> None:
    health = PeerHealth(now=0.0)
    health.signal_received(2.0)
    assert health.probe_failed(2.1, started_at=1.0, refused=True) is False
    assert health.refused
    health.signal_received(3.0)
    assert health.refused
    assert health.alive
    assert health.probe_failed(18.0, refused=True) is False
    assert health.probe_failed(23.0, refused=True) is True
    assert health.answered(24.0) is True
    assert not health.refused


@pytest.mark.parametrize("started_at", [0.9, 1.5], ids=["began before it was heard", "began after that"])
def test_who_refused_us_is_asked_again_soon_however_much_older_streams_bring(started_at: float) -> None:
    health = PeerHealth(now=0.0)
    health.signal_received(1.0)
    health.probe_failed(2.0, started_at=started_at, refused=True)
    for moment in range(3, 60):
        health.signal_received(float(moment))
        assert health.next_probe_at() == started_at + PROBE_INTERVAL_S
    health.probe_failed(60.0, started_at=55.0)  # no answer at all, and old news
    assert health.next_probe_at() == 60.0
    health.answered(61.0)
    assert health.next_probe_at() == 61.0 + SILENCE_S


def test_who_answers_after_a_refusal_refuses_no_more() -> None:
    health = PeerHealth(now=0.0)
    health.probe_failed(1.0, refused=True)
    assert health.answered(6.0) is False
    assert not health.refused
