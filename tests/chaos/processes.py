"""Faults of the daemon's own process: 1, 22, 24, 28."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.bed import begins, wait
from tests.chaos.catalogue import fault
from tests.chaos.figures import read_status
from tests.chaos.links import between
from tests.chaos.play import Play
from tests.chaos.weather import CUT
from tests.chaos.workload import path_of

_NO_DESCRIPTOR = "no file descriptor left"  # in what a daemon logs
_DEPLOYMENT = "/apis/apps/v1/namespaces/cluster-registry/deployments/cluster-registry-controller"


@fault(
    1,
    "random-kills",
    what="one daemon after the other is killed (SIGKILL) at a random moment, 25 times, while people work",
    undone="the kubelet starts another one",
)
def random_kills(play: Play) -> None:
    chance = random.Random(1)
    kills = play.kills.total()
    with play.working():
        for _ in range(25):
            time.sleep(chance.uniform(0.1, 2.0))
            play.kill(chance.choice(play.sites))
    play.bite("kills", play.kills.total() - kills)


@fault(
    22,
    "two-replicas",
    what="two daemons in each cluster for a minute, one of them stopped (SIGSTOP) for 30 s and then let go",
    undone="one daemon, as before",
)
def two_replicas(play: Play) -> None:
    for site in play.sites:
        site.kubectl("-n", "cluster-registry", "scale", "deployment", "cluster-registry-controller", "--replicas=2")
        wait(lambda site=site: len(site.daemon.pids) == 2, within_s=30)
        site.daemon.wait_ready(timeout_s=60)
    try:
        with play.working():
            time.sleep(10)
            paused = [pod for site in play.sites for pod in site.daemon._pods[:1]]
            for pod in paused:
                pod.freeze()
            play.say("one daemon of two is stopped in each cluster")
            try:
                time.sleep(30)
            finally:
                for pod in paused:
                    pod.thaw()
            play.bite("daemons paused for 30 s", len(paused))
            time.sleep(10)
        play.rest()
    finally:
        for site in play.sites:
            site.kubectl("-n", "cluster-registry", "scale", "deployment", "cluster-registry-controller", "--replicas=1")
            wait(lambda site=site: len(site.daemon.pids) == 1, within_s=60)


@fault(
    24,
    "every-order",
    what="all daemons and API servers end, objects change and go meanwhile in the one that comes first, and "
    "all come up in each of the orders, 1.5 s apart",
    undone="all are up",
    within_s=120,
)
def every_order(play: Play) -> None:
    orders = 0
    for order in itertools.permutations(play.sites):
        for site in play.sites:
            site.daemon.kill()
            site.cluster.apiserver.kill()
        for number, site in enumerate(order):
            site.cluster.apiserver.start()
            site.cluster.apiserver.wait_ready()
            if not number:
                play.work.put(site, f"{site.name}-0", "cm")
                play.work.delete(site, f"{site.name}-1", "cm")
            wait(lambda site=site: begins(site), within_s=60)
            time.sleep(1.5)
        play.work.put(order[-1], f"{order[-1].name}-1", "cm")
        play.rest(within_s=90, steady_s=0.5)
        orders += 1
    play.bite("orders", orders)


@fault(
    28,
    "few-descriptors",
    what="each daemon may open three descriptors more than it has, and its connections are reset and refused for 10 s: "
    "it lives on; then again, with half of those that it has, so that there are none for new connections: its liveness "
    "probe may end it, and it begins anew without the limit",
    undone="the limit is lifted",
)
def few_descriptors(play: Play) -> None:
    with play.working():
        with _descriptors(play, lambda held: held[-1] + 3):
            before = [site.daemon.pid for site in play.sites]
            with play.weather(between(play), CUT, "refused"):
                time.sleep(10)
            time.sleep(5)
            assert [site.daemon.pid for site in play.sites] == before, "a daemon ended"
        said = _count(play, _NO_DESCRIPTOR)
        with _descriptors(play, lambda held: held[len(held) // 2]):
            play.say("with half of the descriptors, and cut again")
            for edge in between(play):
                edge.set(CUT)  # which may refuse nobody, because nobody can ask
            time.sleep(10)
            for edge in between(play):
                edge.mend()
            time.sleep(5)
    play.bite("times that there was no descriptor", _count(play, _NO_DESCRIPTOR) - said)
    play.forgive()


@contextlib.contextmanager
def _descriptors(play: Play, limit: Callable[[list[int]], int]) -> Iterator[None]:
    """Limit each daemon's descriptors to those below a number; what is open beyond it stays open."""
    before = {}
    for site in play.sites:
        pid = site.daemon.pid
        held = sorted(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
        before[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The hard limit could not be lifted again.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit(held), before[pid][1]))
    try:
        yield
    finally:
        for pid, limits in before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


@fault(28, "tenth-of-a-core", what="each daemon runs for 30 ms of every 300 ms, for 30 s", undone="it runs again")
def tenth_of_a_core(play: Play) -> None:
    pids = [site.daemon.pid for site in play.sites]
    pauses = 0
    with play.working():
        until = time.monotonic() + 30
        try:
            while time.monotonic() < until:
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(0.27)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
                time.sleep(0.03)
                pauses += 1
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    play.bite("pauses", pauses)


@fault(
    28,
    "little-memory",
    what="a daemon's address space is limited to 24 MiB more than it has, and 40 objects of 900 KB come at "
    "once: it may end, and then begins anew without the limit",
    undone="objects and limit go",
)
def little_memory(play: Play) -> None:
    taker, giver, _ = play.sites
    pid = taker.daemon.pid
    limit = (read_status(pid, "VmSize") + 24 * 1024) * 1024
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, before[1]))
    names = [f"large-{number}" for number in range(40)]
    for name in names:
        play.work.put(giver, name, "cm", large="x" * 900_000)
    wait(lambda: all(taker.cluster.api.missing(path_of("cm", name)) is None for name in names), within_s=90)
    has_ended = not Path(f"/proc/{pid}").exists() or taker.daemon.pid != pid
    play.bite("times that memory was short", has_ended or read_status(pid, "VmPeak") * 1024 > limit - 8 * 1024 * 1024)
    if not has_ended:
        resource.prlimit(pid, resource.RLIMIT_AS, before)
    play.say(f"the daemon {'ended and began anew' if has_ended else 'went on'}")
    play.forgive()
    for name in names:
        play.work.delete(giver, name, "cm")


def _count(play: Play, words: str) -> int:
    """Say how often the logs of all daemons hold words."""
    logs = (log for site in play.sites for log in site.daemon.log_directory.glob("*.log"))
    return sum(log.read_text(errors="replace").count(words) for log in logs)
