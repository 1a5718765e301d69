"""A few faults, done to a real group for a moment each: so that the harness cannot rot."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.chaos.calls import Answer
from tests.chaos.killpoints import kill_everywhere, writes
from tests.chaos.play import NoBite, Play
from tests.chaos.scripts import Refuse
from tests.chaos.weather import CUT, HALF_OPEN, Weather

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Two clusters at rest, with people's first deeds done; at the end the laws have held over all that happened."""
    with Play(2) as play:
        with play.working(pause_s=0.05):
            time.sleep(1.5)
        play.rest()
        yield play
        hold(play)


@pytest.fixture(autouse=True)
def _whole(play: Play) -> Iterator[None]:
    """Wait after each test until all is whole again."""
    yield
    play.bed.mend()
    play.rest(within_s=60, steady_s=0.2)


def hold(play: Play) -> None:
    """Hold the laws over the whole history."""
    verdict = play.judge()
    assert not verdict.violations, "\n".join(map(str, verdict.violations))
    assert verdict.checked["order"]
    assert verdict.checked["peers"]


def test_cuts_of_all_ways_are_survived(play: Play) -> None:
    """P6, O5: between the clusters, and to the own API servers."""
    assert not play.bed.unused(), "a way that nobody takes cannot be cut"
    one, other = play.sites
    with play.working(pause_s=0.05):
        for edges in ([play.bed.way(one, other), play.bed.way(other, one)], [one.home, other.home]):
            with play.weather(edges, CUT, "refused"):
                time.sleep(2)


def test_bytes_that_are_spoiled_or_cut_short_are_survived(play: Play) -> None:
    one, other = play.sites
    edges = [play.bed.way(one, other), other.home]
    with play.working(pause_s=0.05):
        with play.weather(edges, Weather(corrupt_every=4), "corrupted"):
            time.sleep(1.5)
        with play.weather(edges, Weather(reset_after_bytes=10_000), "reset"):
            time.sleep(1.5)


def test_answers_that_are_none_are_survived(play: Play) -> None:
    """P6, A4: 503, 429 and a page of somebody else, at home and at the peer, with a restart of the API server
    between.
    """
    one, other = play.sites
    with play.working(pause_s=0.05):
        for answer in (Answer(503), Answer(429, b"{}", (("Retry-After", "1"),)), Answer(200, b"<html>")):
            script = Refuse(answer)
            with play.bed.scripted(one.home, one, script), play.bed.scripted(play.bed.way(one, other), other, script):
                time.sleep(1.5)
            play.bite(f"answers {answer.status}", script.count)


def test_a_daemon_that_is_killed_at_its_calls_ends_the_same(play: Play) -> None:
    """Before and after one write; `hack/faults 1` takes them all."""
    killed = kill_everywhere(play, first=3, last=3, which=writes)
    assert killed.total() == 2


def test_a_fault_that_nobody_felt_is_a_failure(play: Play) -> None:
    with pytest.raises(NoBite), play.weather([play.bed.wires.edge("nobody", target=1)], HALF_OPEN, "swallowed up"):
        pass
    with pytest.raises(NoBite):
        play.bite("nothing", 0)


def test_what_daemons_may_not_do_is_seen_on_real_clusters(play: Play) -> None:
    """The observer is not blind: a hand with the daemon's rights that writes a value nobody had is found, and its
    deed cited.
    """
    hold(play)
    one, other = play.sites
    play.work.put(other, "watched", "cm")
    play.rest(steady_s=0.1)
    token = one.kubectl("-n", "cluster-registry", "create", "token", "cluster-registry-controller").strip()
    patch = '{"data":{"n":"a value that nobody had"}}'
    ca = str(one.cluster.pki.server_ca)
    identity = ["--kubeconfig", "/dev/null", "--server", one.cluster.server, "--certificate-authority", ca, "--token"]
    one.kubectl(*identity, token, "patch", "cm", "watched", "--type=merge", "-p", patch)
    verdict = play.judge()
    assert {one.law for one in verdict.violations} >= {"order"}
    assert "a value that nobody had" in str(verdict.violations[0])
    play.rest()
    play.judge()  # what follows from that deed is said here, and not again after this test
