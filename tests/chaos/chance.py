"""Random combinations of faults under random work, drawn from one seed.

Law: a seed gives the same deeds and faults in the same order and with the same pauses between them; when each takes
effect is the clusters' matter, so a schedule that broke something breaks it again often, not always.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from hack.controlplane import ApiError
from tests.chaos import etcd
from tests.chaos.bed import Site, wait
from tests.chaos.calls import Answer
from tests.chaos.credentials import TOKEN, all_have_credentials
from tests.chaos.endurance import leave_and_join
from tests.chaos.identities import carry_where_asked
from tests.chaos.play import Play
from tests.chaos.scripts import Hang, Refuse
from tests.chaos.weather import CUT, HALF_OPEN, STALLED, Weather
from tests.chaos.wire import Edge

_DURATIONS_S = (0.5, 2.0, 6.0, 15.0, 25.0)
_AT_ONCE = 3
_WEATHERS = {
    "cut": (CUT, ("refused", "reset")),
    "half-open": (HALF_OPEN, ("swallowed up", "swallowed down")),
    "requests only": (Weather(swallow_down=True), ("swallowed down",)),
    "answers only": (Weather(swallow_up=True), ("swallowed up",)),
    "stalled": (STALLED, ("stalled",)),
    "late": (Weather(latency_s=0.3), ("delayed",)),
    "narrow": (Weather(bytes_per_s=8_000), ("delayed",)),
    "spoiled": (Weather(corrupt_every=6), ("corrupted",)),
    "short": (Weather(reset_after_bytes=20_000), ("reset",)),
}
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


class Schedule:
    """Draws faults one after the other, holds up to three at once, and mends each when its time is over."""

    def __init__(self, play: Play, *, seed: int) -> None:
        self._play = play
        self._chance = random.Random(seed)
        self._held: list[tuple[float, str, Callable[[], None]]] = []
        self._busy: set[str] = set()
        self.done: Counter[str] = Counter()

    def run(self, *, minutes: float) -> None:
        """Break and mend for so long; at the end all is mended."""
        until = time.monotonic() + 60 * minutes
        try:
            while time.monotonic() < until:
                self._mend(until=time.monotonic())
                if len(self._held) < _AT_ONCE:
                    self._draw()
                time.sleep(self._chance.uniform(0.1, 2.5))
        finally:
            self._mend_all()

    def help(self) -> int:
        """Carry credentials over by hand where Clusters ask for it; return how many did."""
        carried = carry_where_asked(self._play.sites)
        if carried:
            self._play.say(f"people carry {carried} Secrets over")
        return carried

    def _mend_all(self) -> None:
        wait(lambda: self._mend(until=float("inf")), within_s=60, what="all is mended")

    def _mend(self, *, until: float) -> bool:
        """Mend what is held until then; false when another fault stands in the way of some, which is tried again."""
        due = [one for one in self._held if one[0] <= until]
        for held in due:
            _, name, mend = held
            with suppress(ApiError):
                mend()
                self._held.remove(held)
                self._play.say(f"{name} is mended")
        return not any(held in self._held for held in due)

    def _draw(self) -> None:
        faults: list[tuple[Callable[[], None], int]] = [
            (self._weather, 10), (self._kill, 5), (self._pause, 3), (self._stop_server, 3), (self._restart_server, 2),
            (self._script, 4), (self._compact, 1), (self._fill, 1), (self._revoke, 1), (self._forbid, 2),
            (self._leave_and_join, 2),
        ]  # fmt: skip
        self._chance.choices([one for one, _ in faults], [weight for _, weight in faults])[0]()

    def _site(self) -> Site:
        return self._chance.choice(self._play.sites)

    def _hold(self, name: str, what: str, mend: Callable[[], None]) -> None:
        """Keep something broken for a random time; one thing is broken in one way at once."""
        duration_s = self._chance.choice(_DURATIONS_S)
        self._play.say(f"{name}, for {duration_s:g} s")
        self._busy.add(what)

        def end() -> None:
            mend()
            self._busy.discard(what)

        self._held.append((time.monotonic() + duration_s, name, end))

    def _edge(self) -> tuple[Edge, Site]:
        taker, giver = self._site(), self._site()
        return self._play.bed.way(taker, giver), giver

    def _weather(self) -> None:
        name = self._chance.choice(list(_WEATHERS))
        edge, _ = self._edge()
        if edge.name in self._busy:
            return
        weather, felt = _WEATHERS[name]
        before = edge.counts.copy()
        edge.set(weather)

        def mend() -> None:
            edge.mend()
            self.done[name] += sum(edge.counts[one] - before[one] for one in felt)

        self._hold(f"{edge.name} is {name}", edge.name, mend)

    def _script(self) -> None:
        edge, giver = self._edge()
        if edge.name in self._busy:
            return
        name, script = self._chance.choice(
            [
                ("answers 503", Refuse(Answer(503, b"unavailable"))),
                ("answers 500", Refuse(Answer(500, b"{}"))),
                ("answers 429", Refuse(Answer(429, b"{}", (("Retry-After", "1"),)))),
                ("answers 401", Refuse(Answer(401, b"{}"))),
                ("answers writes after 5 s", Hang(5.0, which=lambda call: call.method != "GET")),
            ]
        )
        calls = self._play.bed.scripted(edge, giver, script)
        calls.__enter__()

        def mend() -> None:
            calls.__exit__(None, None, None)
            self.done[name] += script.count

        self._hold(f"{edge.name} {name}", edge.name, mend)

    def _kill(self) -> None:
        site = self._site()
        if f"daemon {site.name}" not in self._busy:
            self._play.say(f"the daemon of {site.name} is killed")
            self._play.kill(site)
            self.done["kill"] += 1

    def _pause(self) -> None:
        site = self._site()
        if f"daemon {site.name}" in self._busy or not site.daemon.pids:
            return
        site.daemon.freeze()
        self.done["pause"] += 1
        self._hold(f"the daemon of {site.name} is stopped", f"daemon {site.name}", site.daemon.thaw)

    def _stop_server(self) -> None:
        site = self._site()
        if f"server {site.name}" in self._busy:
            return
        site.cluster.apiserver.freeze()
        self.done["stopped API server"] += 1
        self._hold(f"the API server of {site.name} is stopped", f"server {site.name}", site.cluster.apiserver.thaw)

    def _restart_server(self) -> None:
        site = self._site()
        if f"server {site.name}" in self._busy:
            return
        self._play.say(f"the API server of {site.name} is killed and started")
        site.cluster.apiserver.kill()
        site.cluster.apiserver.start()
        site.cluster.apiserver.wait_ready()
        self.done["restarted API server"] += 1

    def _compact(self) -> None:
        site = self._site()
        if f"server {site.name}" not in self._busy:
            self._play.say(f"{site.name} is compacted at {etcd.compact(site.cluster)}")
            self.done["compaction"] += 1

    def _fill(self) -> None:
        site = self._site()
        if f"etcd {site.name}" in self._busy:
            return
        etcd.set_full(site.cluster, is_full=True)
        self.done["full etcd"] += 1
        mend = lambda: etcd.set_full(site.cluster, is_full=False)  # noqa: E731
        self._hold(f"etcd of {site.name} is full", f"etcd {site.name}", mend)

    def _revoke(self) -> None:
        site = self._site()
        if site.write("DELETE", TOKEN, timeout_s=3) is not None:
            self._play.say(f"the reader's token of {site.name} is deleted")
            self.done["revoked token"] += 1

    def _forbid(self) -> None:
        site, kind = self._site(), self._chance.choice(["reader", "controller"])
        if f"rights {site.name}" in self._busy:
            return
        path = f"{_ROLES}/configmaps-{kind}"
        found = site.write("GET", path, timeout_s=3)
        if found is None:
            return
        info = {key: found["metadata"][key] for key in ("name", "labels")}
        role = {key: found[key] for key in ("apiVersion", "kind", "rules")} | {"metadata": info}
        self.done["lost rights"] += site.write("DELETE", path, timeout_s=3) is not None  # or it is done all the same

        def mend() -> None:
            if site.cluster.api.missing(path):
                site.cluster.api.request("POST", _ROLES, body=role, timeout_s=3)

        self._hold(f"{site.name} grants the {kind} no ConfigMaps", f"rights {site.name}", mend)

    def _leave_and_join(self) -> None:
        """The last site deletes its own Cluster, and joins again by a swap when the others have forgotten it."""
        site = self._play.sites[-1]
        self._mend_all()  # to leave needs a group that hears of it
        wait(self._are_all_heard, within_s=120, what="all hear each other")
        self._play.say(f"{site.name} leaves")
        leave_and_join(self._play, site)
        self._play.say(f"{site.name} has joined again")
        self.done["left and joined"] += 1

    def _are_all_heard(self) -> bool:
        """Say whether all hear each other, and will: of a new token they learn by the old one."""
        return self.help() == 0 and not self._play.unready() and all_have_credentials(self._play.sites)
