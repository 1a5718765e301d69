"""Fault 1, exhaustively: a daemon is killed before and after each API call of a scenario, one call after the other.

The scenario: while the daemon is down, its peer changes, deletes and makes objects and people edit a copy; then it
starts, and while it works another object is made, changed and deleted. All its calls pass a script, at home and at
the peers, which counts them, and at the chosen one kills the process: before anything of the call is passed on, or
when the answer has come and before anything of it is passed back. However it was killed, the group must end the same;
that is seen after each kill, and in the history of them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable

from tests.faults.bed import Site, begins, wait
from tests.faults.calls import Answer, Call, Drop
from tests.faults.catalogue import fault
from tests.faults.play import Play
from tests.faults.scripts import Pass
from tests.faults.workload import MERGE, path_of

_NAMES = ("kill-changes", "kill-goes", "kill-edited", "kill-late")
_MOST = 400
_PARTS = 4


Which = Callable[[Call], bool]


def writes(call: Call) -> bool:
    """Whether a call would change something."""
    return call.method != "GET"


class KillAt(Pass):
    """Kill a daemon at its n-th call, or at its n-th call of some; with n = 0 only count."""

    def __init__(self, site: Site, *, which: Which) -> None:
        self._site, self._which = site, which
        self.arm(0, after=False)

    def arm(self, number: int, *, after: bool) -> None:
        """Choose the call, and count from the beginning."""
        self.number, self.is_after = number, after
        self.count = 0
        self.killed: Call | None = None
        self._chosen: Call | None = None

    async def before(self, call: Call) -> Answer | None:
        self.count += self._which(call)
        if self.count == self.number and self._chosen is None and self._which(call):
            self._chosen = call
            if not self.is_after:
                self._kill(call)
        return None

    async def after(self, call: Call) -> None:
        if self._chosen is call and self.is_after:
            self._kill(call)

    def _kill(self, call: Call) -> None:
        self.killed = call
        for pid in self._site.daemon.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise Drop


def _scenario(play: Play, taker: Site, owner: Site) -> None:
    """Do everything once; when it returns, the group is as it must be."""
    taker.daemon.stop(grace_s=5)
    for name in _NAMES[:1]:
        play.work.put(owner, name, "cm")
    play.work.delete(owner, _NAMES[1], "cm")
    play.work.put(owner, _NAMES[2], "cm")
    body = {"data": {"n": "edited"}}
    taker.write("PATCH", path_of("cm", _NAMES[2]), body, content_type=MERGE)
    wait(lambda: begins(taker), within_s=30)
    play.work.put(owner, _NAMES[3], "cm")
    play.work.put(owner, _NAMES[0], "secret")
    play.rest(within_s=60, steady_s=0.1)
    play.work.put(owner, _NAMES[3], "cm")
    play.work.put(owner, _NAMES[1], "cm")
    play.work.delete(owner, _NAMES[0], "secret")
    play.rest(within_s=60, steady_s=0.1)
    play.work.delete(owner, _NAMES[3], "cm")
    play.rest(within_s=60, steady_s=0.1)


def kill_everywhere(
    play: Play, *, first: int = 1, step: int = 1, most: int = _MOST, which: Which = lambda call: True
) -> Counter[str]:
    """Kill at every `step`-th call of some from the `first` on, before and after; return at what, and how often."""
    taker, owner = play.sites[0], play.sites[1]
    killed: Counter[str] = Counter()
    script = KillAt(taker, which=which)
    with contextlib.ExitStack() as stack:
        for giver in play.sites:
            stack.enter_context(play.bed.scripted(play.bed.way(taker, giver), giver, script))
        for name in _NAMES[:3]:
            play.work.put(owner, name, "cm")
        play.rest()
        _scenario(play, taker, owner)
        calls = script.count
        play.say(f"the scenario takes {calls} such calls when nobody is killed")
        for number in range(first, most, step):
            for is_after in (False, True):
                script.arm(number, after=is_after)
                _scenario(play, taker, owner)
                deadline = time.monotonic() + (2.0 if number <= calls else 0.5)
                while script.killed is None and time.monotonic() < deadline:
                    time.sleep(0.1)
                if script.killed is None:
                    play.say(f"no {number}th call came; {killed.total()} kills at {len(killed)} kinds of calls")
                    return killed
                play.kills[taker.name] += 1
                moment = "after" if is_after else "before"
                play.say(f"killed {moment} call {number}, {script.killed.method} {script.killed.path}")
                killed[f"{script.killed.method} {'watch ' * script.killed.is_watch}{moment}"] += 1
                script.arm(0, after=False)
    return killed


@fault(
    1,
    "kill-at-writes",
    what="the daemon is killed before and after each call of a scenario that changes something, one after the other",
    undone="the kubelet starts another one",
    within_s=60,
    minutes=5,
)
def kill_at_writes(play: Play) -> None:
    _kill_all(play, kill_everywhere(play, which=writes), least=16)


def _kill_at_every(first: int) -> None:
    """Enter one of the parts into which the calls are dealt out, so that groups side by side can share them."""

    @fault(
        1,
        f"kill-points-{first}",
        what=f"the same at every {_PARTS}th call from number {first} on, also those that only read, at home "
        "and to peers, until the scenario has no further call; some 130 kills",
        undone="the kubelet starts another one",
        within_s=60,
        minutes=15,
    )
    def kill_points(play: Play) -> None:
        _kill_all(play, kill_everywhere(play, first=first, step=_PARTS), least=200 // _PARTS)


for _first in range(1, _PARTS + 1):
    _kill_at_every(_first)


def _kill_all(play: Play, killed: Counter[str], *, least: int) -> None:
    for what, count in killed.items():
        play.bite(f"kills {what}", count)
    assert killed.total() >= least, f"only {killed}"
    for name in _NAMES:
        play.work.delete(play.sites[1], name, "cm")
