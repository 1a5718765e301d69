"""A heartbeat: how late the states of all sites are at all others, while connections begin anew now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hack.controlplane import ApiError
from tests.chaos.bed import Site, wait
from tests.chaos.play import Play
from tests.chaos.workload import WANTED, path_of

LATE_S = 15.0  # the longest that a change may be under way while credentials are replaced
_BEAT_S = 1.0
_RESET_S = 20.0
_LOOK_S = 2.0


class Beat:
    """One object at each site that changes all the time, and how late each state was at each other site, in seconds.

    `except_` are the ways (taker, giver) of which nothing is asked just now.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites
        self._written: dict[str, list[tuple[int, float]]] = {site.name: [] for site in sites}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, name="beat", daemon=True),
            threading.Thread(target=self._look, name="beat seen", daemon=True),
        ]
        self.except_: set[tuple[str, str]] = set()
        self.states = 0
        self.latest_s: dict[tuple[str, str], float] = {}

    def __enter__(self) -> Beat:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def spare(self, ways: set[tuple[str, str]]) -> None:
        """Ask nothing of these ways; of those that were spared before, only for what comes from now on."""
        for taker, giver in self.except_ - ways:
            wait(lambda taker=taker, giver=giver: self._late_s(taker, giver) < LATE_S / 3, within_s=90)
        self.except_ = ways

    def _write(self) -> None:
        while not self._stop.wait(_BEAT_S):
            self.states += 1
            for site in self._sites:
                name, data = f"beat-{site.name}", {"n": f"beat {self.states}"}
                body = {"metadata": {"name": name, "labels": WANTED}, "data": data}
                path = path_of("cm", name)
                if site.write("PATCH", path, body, content_type="application/merge-patch+json") is None:
                    body |= {"apiVersion": "v1", "kind": "ConfigMap"}
                    if site.write("POST", path_of("cm"), body) is None:
                        continue
                self._written[site.name].append((self.states, time.monotonic()))

    def _look(self) -> None:
        while not self._stop.wait(_BEAT_S / 2):
            for taker in self._sites:
                for giver in self._sites:
                    way = (taker.name, giver.name)
                    if taker is not giver and way not in self.except_:
                        self.latest_s[way] = max(self.latest_s.get(way, 0.0), self._late_s(*way))

    def _late_s(self, taker: str, giver: str) -> float:
        """How long the oldest state that is not there has been under way."""
        site = next(site for site in self._sites if site.name == taker)
        try:
            seen = int(site.cluster.api.get(path_of("cm", f"beat-{giver}"))["data"]["n"].split()[1])
        except (ApiError, KeyError, ValueError, IndexError):
            seen = 0
        missing = [at for state, at in list(self._written[giver]) if state > seen]
        return time.monotonic() - missing[0] if missing else 0.0


def pass_time(play: Play, seconds: float, look: Callable[[], object] = lambda: None) -> None:
    """Let time pass, look now and then, and have everybody show their credentials again: streams are not asked."""
    until, reset_at = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < until:
        if time.monotonic() >= reset_at:
            for edge in list(play.bed.wires.edges.values()):
                edge.reset_all()
            reset_at += _RESET_S
        look()
        time.sleep(min(_LOOK_S, max(0.0, until - time.monotonic())))
