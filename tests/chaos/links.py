"""Faults of the ways between clusters, and between a daemon and its own API server: 2, 3, 4, 5, and 23."""

from __future__ import annotations

import itertools
import time

from tests.chaos.bed import wait
from tests.chaos.catalogue import fault
from tests.chaos.play import Play
from tests.chaos.weather import CUT, HALF_OPEN, STALLED, Weather
from tests.chaos.wire import Edge
from tests.chaos.workload import path_of


def between(play: Play) -> list[Edge]:
    """All edges between two clusters."""
    return [play.bed.way(one, other) for one, other in itertools.permutations(play.sites, 2)]


def homes(play: Play) -> list[Edge]:
    """The edges between daemons and their own API servers."""
    return [site.home for site in play.sites]


@fault(
    2,
    "cut",
    what="all connections between two clusters, then between all, then to the own API servers, are reset "
    "and refused for 10 s each",
    undone="the edges pass again",
)
def cut(play: Play) -> None:
    one, other, _ = play.sites
    with play.working():
        for edges in ([play.bed.way(one, other), play.bed.way(other, one)], between(play), homes(play)):
            with play.weather(edges, CUT, "refused"):
                time.sleep(10)
            time.sleep(2)


@fault(
    3,
    "one-way",
    what="A reads B while B cannot read A; then requests arrive and no answer returns; then nothing arrives "
    "and what was asked before is answered; 20 s each",
    undone="the edges pass again",
)
def one_way(play: Play) -> None:
    one, other, _ = play.sites
    with play.working():
        with play.weather([play.bed.way(other, one)], CUT, "refused"):
            time.sleep(10)
        with play.weather([play.bed.way(one, other), one.home], Weather(swallow_down=True), "swallowed down"):
            time.sleep(20)
        with play.weather([play.bed.way(one, other), one.home], Weather(swallow_up=True), "swallowed up"):
            time.sleep(20)


@fault(
    4,
    "slow",
    what="one peer answers 0.4 s late and with 20 KB/s, then all ways are late by 0.2 s, 15 s each; then its API "
    "server has a tenth of its time for 15 s",
    undone="the edges pass at once, the API server runs",
)
def slow(play: Play) -> None:
    slow_one = play.sites[1]
    with play.working():
        edges = [play.bed.way(site, slow_one) for site in play.sites]
        with play.weather(edges, Weather(latency_s=0.4, bytes_per_s=20_000), "delayed"):
            time.sleep(15)
        with play.weather(between(play), Weather(latency_s=0.2), "delayed"):
            time.sleep(15)
        pauses = 0
        until = time.monotonic() + 15
        try:
            while time.monotonic() < until:
                slow_one.cluster.apiserver.freeze()
                time.sleep(0.45)
                slow_one.cluster.apiserver.thaw()
                time.sleep(0.05)
                pauses += 1
        finally:
            slow_one.cluster.apiserver.thaw()
        play.bite("times that an API server was held up", pauses)


@fault(
    5,
    "half-open",
    what="connections between two clusters, then to the own API server, take everything and give nothing, for "
    "40 s each; then they stall for 20 s; then an API server is stopped (SIGSTOP) for 40 s",
    undone="new connections pass, the stalled ones go on, the API server goes on",
)
def half_open(play: Play) -> None:
    one, other, third = play.sites
    with play.working(pause_s=0.3):
        with play.weather([play.bed.way(one, other), play.bed.way(other, one)], HALF_OPEN, "swallowed up"):
            time.sleep(40)
        with play.weather([third.home], HALF_OPEN, "swallowed up"):
            time.sleep(40)
        with play.weather([play.bed.way(one, other), third.home], STALLED, "stalled"):
            time.sleep(20)
        copies = count_copies(play, one)
        other.cluster.apiserver.freeze()
        play.say(f"the API server of {other.name} is stopped")
        try:
            time.sleep(40)
            play.bite("copies that outlived their owner's silence", min(copies, count_copies(play, one)))
        finally:
            other.cluster.apiserver.thaw()


def count_copies(play: Play, site: object) -> int:
    """Count what a site holds of others."""
    names = {one.name for one in play.sites if one is not site}
    items = site.cluster.api.get(path_of("cm"))["items"]  # type: ignore[attr-defined]
    return sum(item["metadata"]["name"].rsplit("-", 1)[0] in names for item in items)


@fault(
    2,
    "broken-bytes",
    what="answers between clusters, and of the own API servers, have a bit turned over in every tenth chunk, "
    "and connections are reset after 30 KB; 15 s each",
    undone="the edges pass everything as it comes",
)
def broken_bytes(play: Play) -> None:
    with play.working():
        with play.weather([*between(play), *homes(play)], Weather(corrupt_every=10), "corrupted"):
            time.sleep(15)
        with play.weather([*between(play), *homes(play)], Weather(reset_after_bytes=30_000), "reset"):
            time.sleep(15)


@fault(
    23,
    "absent-owner",
    what="while an owner is cut off it deletes an object, makes another one again under its name, and "
    "changes a third; 10 s with a restart of a reader meanwhile",
    undone="the edges pass again",
)
def absent_owner(play: Play) -> None:
    owner, one, other = play.sites
    names = ("absent-goes", "absent-anew", "absent-changes")
    for name in names:
        play.work.put(owner, name, "cm")
    for site in (one, other):
        for name in names:
            wait(lambda site=site, name=name: site.cluster.api.get(path_of("cm", name)), within_s=30)
    with play.weather([play.bed.way(one, owner), play.bed.way(other, owner)], CUT, "refused"):
        play.work.delete(owner, names[0], "cm")
        play.work.delete(owner, names[1], "cm")
        play.work.put(owner, names[1], "cm")
        play.work.put(owner, names[2], "cm")
        time.sleep(3)
        play.kill(one)
        time.sleep(7)
        held = [site.cluster.api.missing(path_of("cm", names[0])) is None for site in (one, other)]
        play.bite("copies that stayed without a proof", sum(held))
    for site in (one, other):
        wait(lambda site=site: site.cluster.api.missing(path_of("cm", names[0])) is not None, within_s=30)
    for name in names[1:]:
        play.work.delete(owner, name, "cm")
