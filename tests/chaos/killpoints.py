"""Fault 1, exhaustively: a daemon is killed before and after each API call of a scenario, one call after the other.

The scenario: while the daemon is down, its peer changes, deletes and makes objects and people edit a copy; then it
starts, and while it works another object is made, changed and deleted. All its calls pass a script, at home and at
the peers, which counts them, and at the chosen one kills the process: before anything of the call is passed on, or
when the answer has come and before anything of it is passed back. However it was killed, the group must end the same;
that is seen after each kill, and in the history of them all. Which call is next, and whether one is missing, is said
in `aims`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable

from tests.chaos.aims import Aim, Aims, Met
from tests.chaos.bed import Site, begins, wait
from tests.chaos.calls import Answer, Call, Drop
from tests.chaos.catalogue import fault
from tests.chaos.play import Play
from tests.chaos.scripts import Pass
from tests.chaos.workload import MERGE, path_of

_NAMES = ("kill-changes", "kill-goes", "kill-edited", "kill-late")
_COUNTED = 2
_PARTS = 4


Which = Callable[[Call], bool]


def writes(call: Call) -> bool:
    """Whether a call would change something."""
    return call.method != "GET"


class KillAt(Pass):
    """Kill a daemon at one of its calls, or of some of them; with no aim only count. `kills` is by the site's name."""

    def __init__(self, site: Site, *, which: Which, kills: Counter[str]) -> None:
        self._site, self._which, self._kills = site, which, kills
        self._aim: Aim | None = None
        self._take(None)

    async def arm(self, aim: Aim | None) -> None:
        """Choose the call, and count from the beginning; in the thread of the wires, so that no kill is amid it."""
        self._take(aim)

    async def disarm(self) -> None:
        """Kill no more, and keep what came of it; in the thread of the wires, too."""
        self._aim = None

    def _take(self, aim: Aim | None) -> None:
        self._aim = aim
        self.count = 0
        self.killed: Call | None = None
        self._chosen: Call | None = None
        self._callers: list[int] = []

    @property
    def met(self) -> Met:
        """What came of the aim until now: a call that was begun may still be answered."""
        if self.killed is not None:
            return Met.KILLED
        return Met.NOTHING if self._chosen is None else Met.LOST

    async def before(self, call: Call) -> Answer | None:
        if not self._which(call):
            return None
        self.count += 1
        if self._aim is not None and self.count == self._aim.number:
            self._chosen, self._callers = call, list(self._site.daemon.pids)
            if not self._aim.is_after:
                self._kill(call)
        return None

    async def after(self, call: Call) -> None:
        if self._chosen is call and self._aim is not None and self._aim.is_after:
            self._kill(call)

    def _kill(self, call: Call) -> None:
        """Kill whoever called, but not one that was started since."""
        for pid in set(self._callers) & set(self._site.daemon.pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed = call
                self._kills[self._site.name] += 1
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
    play: Play, *, first: int = 1, step: int = 1, last: int | None = None, which: Which = lambda call: True
) -> Counter[str]:
    """Kill at every `step`-th call of some from the `first` on, before and after; return at what, and how often.

    AssertionError when a call of the scenario is missing in the end.
    """
    taker, owner = play.sites[0], play.sites[1]
    killed: Counter[str] = Counter()
    script = KillAt(taker, which=which, kills=play.kills)
    with contextlib.ExitStack() as stack:
        for giver in play.sites:
            stack.enter_context(play.bed.scripted(play.bed.way(taker, giver), giver, script))
        for name in _NAMES[:3]:
            play.work.put(owner, name, "cm")
        play.rest()
        aims = Aims(_count(play, script), first=first, step=step, last=last)
        for aim in aims:
            play.bed.wires.do(script.arm(aim))
            _scenario(play, taker, owner)
            deadline = time.monotonic() + (2.0 if aim.number <= aims.calls else 0.5)
            while script.met is not Met.KILLED and time.monotonic() < deadline:
                time.sleep(0.1)
            play.bed.wires.do(script.disarm())
            aims.met(script.met, calls=script.count)
            if (call := script.killed) is None:
                play.say(f"{script.met.value}: no kill {aim} of {script.count} calls")
                continue
            moment = "after" if aim.is_after else "before"
            play.say(f"killed {aim}, {call.method} {call.path}")
            killed[f"kills {call.method} {'watch ' * call.is_watch}{moment}"] += 1
    play.say(f"{killed.total()} kills at {len(killed)} kinds of calls, up to call {aims.reached} of {aims.calls}")
    aims.assert_whole()
    if aims.lost:
        killed["calls that were always over before a kill was possible"] = len(aims.lost)
    return killed


def _count(play: Play, script: KillAt) -> int:
    """Count the calls of the scenario when nobody is killed: those that it always has."""
    counts = []
    for _ in range(_COUNTED):
        play.bed.wires.do(script.arm(None))
        _scenario(play, *play.sites[:2])
        counts.append(script.count)
    play.say(f"the scenario takes {counts} such calls when nobody is killed")
    return min(counts)


@fault(
    1,
    "kill-at-writes",
    what="the daemon is killed before and after each call of a scenario that changes something, one after the other",
    undone="the kubelet starts another one",
    within_s=60,
    minutes=5,
)
def kill_at_writes(play: Play) -> None:
    _kill_all(play, kill_everywhere(play, which=writes))


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
        _kill_all(play, kill_everywhere(play, first=first, step=_PARTS))


for _first in range(1, _PARTS + 1):
    _kill_at_every(_first)


def _kill_all(play: Play, killed: Counter[str]) -> None:
    for what, count in killed.items():
        play.bite(what, count)
    for name in _NAMES:
        play.work.delete(play.sites[1], name, "cm")
