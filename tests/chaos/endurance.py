"""Faults of number: 25, 27."""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
import threading
import time

from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.credentials import TOKEN
from tests.chaos.figures import Figures, read_figures, read_status
from tests.chaos.identities import carry
from tests.chaos.play import CLUSTERS, Play
from tests.chaos.scripts import Hang, Repeat
from tests.chaos.workload import MERGE, path_of
from tests.e2e.commands import TOMBSTONES, leave

_ROUNDS = 34
_ROTATIONS = 32
_MORE_FILES = 6
_MORE_TASKS = 6
_MORE_KB = 48 * 1024
_PATIENCE_S = 120  # a stream of the own API server that a half-open connection took along is noticed after 90 s
_STORM_S, _LONGEST_S = 20, 180
_EVENTS = 5000 * _STORM_S
_STORMY = 400
_OTHERS = 40  # keys and writes of other objects than those of the storm
_CHANGES_A_SECOND = 50  # of each hand: few, so that two cores are left to those who pass on events and hear them
_TIMES = 80


def leave_and_join(play: Play, site: Site) -> None:
    """Let a site leave by the command, and swap with one other when all have forgotten it."""
    others = [one for one in play.sites if one is not site]
    path = f"{CLUSTERS}/{site.name}"
    spec = site.cluster.api.get(path)["spec"]
    play.observer.leaves(site.name)
    leave(site.cluster.kubeconfig)
    for other in others:
        wait(
            lambda other=other: other.cluster.api.missing(path) is not None,
            within_s=_PATIENCE_S,
            what=f"{other.name} forgets it",
        )
    site.kubectl("delete", "clusterfeatures", "-l", TOMBSTONES)
    wait(lambda: site.write("PATCH", path, {"spec": spec}, content_type=MERGE), within_s=60, what="a new Cluster")
    play.kill(site)
    for giver, taker in ((site, others[0]), (others[0], site)):
        wait(lambda giver=giver, taker=taker: carry(giver, taker), within_s=60, what="a swap")
    play.observer.joins(site.name)


@fault(
    25,
    "joins-and-rotations",
    what=f"one member leaves and joins {_ROUNDS} times, and {_ROTATIONS} times the token of a reader is replaced; then "
    "descriptors, threads and tasks of the others are what they were, and memory is 48 MiB more at most",
    undone="it has joined",
    within_s=150,
    minutes=6,
)
def joins_and_rotations(play: Play) -> None:
    stayers = play.sites[:-1]
    leave_and_join(play, play.sites[-1])  # once before it is measured: what is made at first use stays
    play.rest(within_s=120)
    before = [read_figures(site) for site in stayers]
    for _ in range(_ROUNDS):
        leave_and_join(play, play.sites[-1])
        play.rest(within_s=120, steady_s=0.2)
        play.bite("times that a member left and joined", 1)
    for number in range(_ROTATIONS):
        play.sites[number % len(play.sites)].write("DELETE", TOKEN)
        time.sleep(1.5)
        play.bite("tokens replaced", 1)
    play.rest(within_s=120)
    wait(
        lambda: not _more(before, [read_figures(site) for site in stayers]),
        within_s=70,
        what="what it took is given back",
    )


def _more(before: list[Figures], after: list[Figures]) -> list[str]:
    wrong = [
        f"{old} -> {new}"
        for old, new in zip(before, after, strict=True)
        if new.descriptors > old.descriptors + _MORE_FILES
        or new.threads > old.threads + 2
        or new.tasks > old.tasks + _MORE_TASKS
        or new.memory_kib > old.memory_kib + _MORE_KB
    ]
    assert not wrong, wrong
    return wrong


@fault(
    27,
    "event-storm",
    what=f"two hands change {_STORMY} objects a hundred times a second, and each event comes 80 times, until 5,000 a "
    "second have come for 20 s or, where the machine is slower, as many; every write of the daemon that hears them "
    "hangs; its memory is 64 MiB more at most, its queue holds each object once at most, and each is written but twice",
    undone="writes are answered, and each event comes once",
)
def event_storm(play: Play) -> None:
    taker, owner = play.sites[:2]
    names = [f"storm-{number}" for number in range(_STORMY)]
    for name in names:
        play.work.put(owner, name, "cm")
    play.rest()
    pid, before = taker.daemon.pid, read_status(taker.daemon.pid, "VmRSS")
    script = Hang(600, which=lambda call: call.method in ("PUT", "POST", "PATCH", "DELETE"))
    again = Repeat(_TIMES)
    done: list[int] = []
    with (
        play.bed.scripted(taker.home, taker, script),
        play.bed.scripted(play.bed.way(taker, owner), owner, again),
    ):
        is_over = threading.Event()
        hands = [threading.Thread(target=_storm, args=(play, owner, names[i::2], done, is_over)) for i in range(2)]
        for hand in hands:
            hand.start()
        began, deepest = time.monotonic(), 0
        try:
            while (lasted_s := time.monotonic() - began) < _STORM_S or (
                again.count < _EVENTS and lasted_s < _LONGEST_S
            ):
                deepest = max(deepest, read_figures(taker).queue)
                time.sleep(0.5)
        finally:
            is_over.set()
        for hand in hands:
            hand.join()
        after = read_status(pid, "VmRSS")
        held = script.count
    play.say(f"{len(done)} changes; {again.count} events in {lasted_s:.0f} s; memory {before} -> {after} KiB")
    play.say(f"{held} writes hung; the queue held {deepest} keys")
    play.bite(f"events while writes hung, beyond {_EVENTS}", again.count - _EVENTS)
    play.bite("writes that hung", held)
    assert after < before + 64 * 1024, f"memory grew from {before} to {after} KiB"
    assert deepest <= len(names) + _OTHERS, f"the queue held {deepest} keys for {len(names)} objects"
    assert held <= 2 * len(names) + _OTHERS, f"{held} writes were begun for {len(names)} objects"
    play.rest()
    for name in names:
        play.work.delete(owner, name, "cm")


def _storm(play: Play, site: Site, names: list[str], done: list[int], is_over: threading.Event) -> None:
    tls = ssl.create_default_context(cafile=str(site.cluster.pki.server_ca))
    tls.load_cert_chain(site.cluster.pki.admin.certificate, site.cluster.pki.admin.key)
    connection = http.client.HTTPSConnection("127.0.0.1", site.cluster.port, timeout=10, context=tls)
    began = time.monotonic()
    for own, name in enumerate(itertools.cycle(names)):
        if is_over.wait(max(0.0, began + own / _CHANGES_A_SECOND - time.monotonic())):
            break
        body = json.dumps({"data": {"n": play.work.number()}})
        connection.request("PATCH", path_of("cm", name), body=body, headers={"Content-Type": MERGE})
        response = connection.getresponse()
        response.read()
        done.append(response.status)
    connection.close()
