"""Faults of time: 10. The clocks of daemons lie, or those of API servers."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos import skew
from tests.chaos.bed import Site, begins, wait
from tests.chaos.catalogue import fault
from tests.chaos.history import moment
from tests.chaos.links import count_copies
from tests.chaos.play import Play

_COMPILER = "a C compiler (cc), to make the library that lies about the time"
_CENTURY_S = 100 * 365.25 * 86400
_UNVERIFIED = "certificate has expired"


@contextlib.contextmanager
def _clocks(sites: Sequence[Site]) -> Iterator[list[skew.Clock]]:
    """Give daemons clocks that can be set, for a while."""
    clocks = [skew.Clock(site.name) for site in sites]
    try:
        for site, clock in zip(sites, clocks, strict=True):
            site.daemon.stop()
            wait(lambda site=site, clock=clock: begins(site, env=clock.env), within_s=30)
            site.daemon.wait_ready(timeout_s=60)
        yield clocks
    finally:
        for site, clock in zip(sites, clocks, strict=True):
            clock.set(0)
            site.daemon.stop()
            wait(lambda site=site: begins(site), within_s=30)
            site.daemon.wait_ready(timeout_s=60)


@fault(
    10,
    "clock-jumps",
    what="the clocks of two daemons jump an hour ahead, fifty minutes back, a day ahead, by random seconds, 20 times, "
    "while people work; then one starts with a clock that is 50 minutes late",
    undone="the clocks are right",
    needs=_COMPILER,
)
def clock_jumps(play: Play) -> None:
    chance = random.Random(10)
    sites = play.sites[:2]
    with _clocks(sites) as clocks:
        began = time.time() - 600
        with play.working():
            for offset_s in (3600, -3000, 86400, 0, *(chance.uniform(-600, 600) for _ in range(16))):
                for clock in clocks:
                    clock.set(offset_s)
                time.sleep(1.5)
            clocks[0].set(-3000)  # certificates here are good from an hour ago on
            play.kill(sites[0])
            time.sleep(4)
        play.rest()
        said = [skew.lies(site.daemon.log, since=began, until=time.time()) for site in sites]
        play.bite("lines that a daemon wrote down under a wrong time", min(said))


@fault(
    10,
    "expired-certificates",
    what="the clock of one daemon jumps a century ahead, when no certificate is good any more, and all its connections "
    "are reset, for 20 s: it can verify nobody, its own API server neither",
    undone="its clock is right",
    needs=_COMPILER,
)
def expired_certificates(play: Play) -> None:
    site, *others = play.sites
    with _clocks([site]) as (clock,), play.working(gentle=True):
        time.sleep(3)
        copies, at = count_copies(play, site), site.daemon.log.stat().st_size
        clock.set(_CENTURY_S)
        for edge in (site.home, *(play.bed.way(site, other) for other in others)):
            edge.reset_all()
        time.sleep(20)
        with site.daemon.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(at)
            said = sum(_UNVERIFIED in line for line in log)
        play.bite("lines that say that a certificate is not good any more", said)
        play.bite("copies that stayed meanwhile", min(copies, count_copies(play, site)))
        clock.set(0)
        play.rest()


@fault(
    10,
    "server-clocks",
    what="the clocks of two API servers jump forty minutes ahead, forty back, half a minute, a day ahead, while people "
    "work: what they create is of then, and the tokens of their own daemons are not good yet, or no longer",
    undone="the clocks are right, and the API servers are those of before",
    needs="Go, to build an API server that lies about the time (four minutes the first time)",
    minutes=3.0,
)
def server_clocks(play: Play) -> None:
    sites = play.sites[:2]
    program = skew.lying_api_server()
    clocks = [skew.Clock(f"server-{site.name}") for site in sites]
    since = [site.cluster.audit_offset() for site in sites]

    def set_all(offset_s: float) -> None:
        for site, clock in zip(sites, clocks, strict=True):
            clock.set(offset_s)
            play.observer.lied(site.name, offset_s)

    before = [_serves(site, program, env=clock.env) for site, clock in zip(sites, clocks, strict=True)]
    began = time.time()
    try:
        with play.working():
            for offset_s in (2400, -2400, 30, -30, 86400):
                set_all(offset_s)
                play.say(f"the API servers of {', '.join(site.name for site in sites)} are {offset_s:+} s off")
                time.sleep(6)
            set_all(0)
        play.rest()
    finally:
        set_all(0)
        for site, old in zip(sites, before, strict=True):
            _serves(site, old, env={})
    lines = [site.cluster.audit(at) for site, at in zip(sites, since, strict=True)]
    play.bite("objects that were made under a wrong time", min(_made_otherwise(one, since=began) for one in lines))
    refused = sum((line.get("responseStatus") or {}).get("code") == 401 for one in lines for line in one)
    play.bite("requests whose tokens were not good any more, or not yet", refused)


def _made_otherwise(lines: Iterable[Mapping[str, Any]], *, since: float) -> int:
    """Count what people made at a moment that cannot have been (s since 1970)."""
    made = (line for line in lines if line["verb"] == "create" and line["user"].get("username") == "kubernetes-admin")
    return sum(not since - 5 < moment(line["requestReceivedTimestamp"]) < time.time() + 5 for line in made)


def _serves(site: Site, program: Path, *, env: Mapping[str, str]) -> Path:
    """Let another program be the API server, and return the one before."""
    server = site.cluster.apiserver
    before = server.program
    server.stop()
    server.replace(program, env=env)
    server.start()
    server.wait_ready()
    return before
