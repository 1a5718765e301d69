"""A group that works for long while tokens are replaced and rules come and go, and at first members leave and join.

Law: what that takes is given back: at rest, a daemon holds what it held before. Memory does not grow with time.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from hack.controlplane import ControlPlaneError
from tests.chaos.bed import Site, wait
from tests.chaos.credentials import TOKEN, all_have_credentials
from tests.chaos.endurance import leave_and_join
from tests.chaos.figures import Figures, read_figures
from tests.chaos.play import Play
from tests.chaos.workload import work_rule

LEFT, REPLACED, _CAME = "a member left and joined", "a token was replaced", "a rule came and went"
_SAMPLE_S = 2.0
_LEAST_SAMPLES = 10
_WARM = 0.5
"""The share of the time after which memory is to be flat: until then caches, arenas and code fill up, and members leave
and join, each time with a tombstone of each other member, which stand for 90 days.
"""
_RISE_KIB = 3 * 1024
"""How much it may rise from then on, by the line through all samples: what is made and freed leaves holes."""
_LEAST_A_MINUTE = 5
"""So often a member leaves, joins or has its token replaced, or it is no soak: a hundred times in 20 minutes."""
_LOOSE = Figures(12 * 1024, 6, 4, 2, 6, 0)
"""How much more than before there may be at rest: caches that are full by then and the holes that memory has in use, a
connection that is about to be closed, a watch that is renewed.
"""
_DEEPEST = 2000
_PATIENCE_S = 300.0
"""So long a connection may stay that is used now and then: each is closed after a minute without use."""


class Sample(NamedTuple):
    """Seconds since the beginning, and what one daemon held then."""

    at_s: float
    figures: Figures


@dataclass
class Record:
    """What came of it. `rest` holds what each daemon held at rest, before and after."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    rest: dict[str, tuple[Figures, Figures]] = field(default_factory=dict)
    lasted_s: float = 0.0

    def wrong(self) -> list[str]:
        """Say what did not come back, or grew."""
        found = [words for name, both in self.rest.items() for words in _kept(name, *both)]
        for name, samples in self.samples.items():
            found += _grown(name, samples, lasted_s=self.lasted_s)
        counted = 2 * self.done[LEFT] + self.done[REPLACED]
        if counted < _LEAST_A_MINUTE * int(self.lasted_s / 60):
            found.append(f"members left, joined or had a token replaced only {counted} times")
        return found


def soak(play: Play, *, minutes: float) -> Record:
    """Work for so long, with everything that members do in a year; then rest."""
    record, began_s = Record(), time.monotonic()
    stayers = play.sites[:-1]
    leave_and_join(play, play.sites[-1])  # what is made at the first time stays
    play.rest(within_s=120)
    before = {site.name: _at_rest(site) for site in stayers}
    sampler = _Sampler(stayers, record, began_s)
    with sampler, play.working(pause_s=0.1, gentle=True):
        until = time.monotonic() + 60.0 * minutes
        turn = 0
        while time.monotonic() < until:
            events = _EVENTS if time.monotonic() < until - 60.0 * minutes * _WARM else _STEADY
            for what, happen in events[turn % len(events)].items():
                record.marks.append((time.monotonic() - began_s, what))
                happen(play, turn)
                record.done[what] += 1
            turn += 1
    record.done["deeds of people"] = play.work.done.total()
    record.lasted_s = time.monotonic() - began_s
    play.rest(within_s=180)
    for site in stayers:
        held = before[site.name]
        with suppress(AssertionError):  # what is held on to is told with the rest
            wait(lambda site=site, held=held: not _kept(site.name, held, read_figures(site)), within_s=_PATIENCE_S)
        record.rest[site.name] = (held, read_figures(site))
    return record


def _leaves(play: Play, turn: int) -> None:
    leave_and_join(play, play.sites[-1])


def _rotates(play: Play, turn: int) -> None:
    """Replace a token, once everybody reads everybody: who does not listen yet would have to be given the new one."""
    wait(lambda: not play.unready() and all_have_credentials(play.sites), within_s=120, what="all read all")
    time.sleep(1.0)
    play.sites[turn % len(play.sites)].write("DELETE", TOKEN)
    time.sleep(1.5)
    wait(lambda: not play.unready() and all_have_credentials(play.sites), within_s=120, what="the new token is used")


def _rules(play: Play, turn: int) -> None:
    """Add a rule for what nobody has, edit the one that works, and delete the first again."""
    site, name = play.sites[turn % 2], f"passing-{turn}"
    site.apply(work_rule(name, "ConfigMap", label=name))
    time.sleep(1.0)
    play.work.edit_rule()
    time.sleep(1.0)
    site.write("DELETE", f"/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules/{name}")


_EVENTS = ({LEFT: _leaves, REPLACED: _rotates}, {_CAME: _rules})
_STEADY = ({REPLACED: _rotates}, {_CAME: _rules})


class _Sampler:
    """Reads the figures of some daemons in a thread of its own."""

    def __init__(self, sites: Sequence[Site], record: Record, began_s: float) -> None:
        self._sites, self._record, self._began_s = sites, record, began_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            for site in self._sites:
                try:
                    sample = Sample(time.monotonic() - self._began_s, read_figures(site))
                except (OSError, KeyError, ControlPlaneError):
                    continue
                self._record.samples.setdefault(site.name, []).append(sample)


def _at_rest(site: Site) -> Figures:
    """Read what a daemon holds at rest: the least of some looks."""
    looks = []
    for _ in range(5):
        looks.append(read_figures(site))
        time.sleep(1.0)
    return Figures(*(min(values) for values in zip(*looks, strict=True)))


def _kept(name: str, before: Figures, after: Figures) -> list[str]:
    """Say what is held at rest that was not held before."""
    return [
        f"{name}: {what} at rest were {old}, and are {new}"
        for what, old, new, loose in zip(Figures._fields, before, after, _LOOSE, strict=True)
        if new > old + loose
    ]


def _grown(name: str, samples: Sequence[Sample], *, lasted_s: float) -> list[str]:
    """Say whether memory grew after it was warm, or the queue without bound."""
    warm = [sample for sample in samples if sample.at_s > lasted_s * _WARM]
    if len(warm) < _LEAST_SAMPLES:
        return [f"{name}: too few samples to say anything"]
    line = statistics.linear_regression([one.at_s for one in warm], [one.figures.memory_kib for one in warm])
    rise, found = line.slope * (warm[-1].at_s - warm[0].at_s), []
    if rise > _RISE_KIB:
        found.append(f"{name}: memory rose by {rise / 1024:.1f} MiB in the second half")
    deepest = max(one.figures.queue for one in samples)
    if deepest > _DEEPEST:
        found.append(f"{name}: the queue held {deepest} keys")
    return found
