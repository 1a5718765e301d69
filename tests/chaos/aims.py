"""Which call a daemon is killed at next, and whether all were taken in the end.

How many calls a scenario takes varies from run to run, and a call may be lost before its answer comes. So a call that
did not come, or was lost, is aimed at again. Law: nothing ends silently. What no kill was possible at is listed, and
`assert_whole` fails when a call of the scenario is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

_TRIES = {True: 4, False: 2}  # for a call that was lost, and for one that did not come
_ENDED = 3  # numbers in turn that had no call: then the scenario has no further ones
_LEAST = 0.7  # of the calls that were counted: a run with fewer did not do the scenario
_LOST_IN = 10  # at one in so many calls the kill may have been impossible


class Met(Enum):
    """What came of an aim: a kill, a call that was begun and over before one was possible, or no such call."""

    KILLED = "killed"
    LOST = "lost"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, order=True)
class Aim:
    """The n-th call from 1 on, before anything of it is passed on or after its answer came."""

    number: int
    is_after: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.number}"


@dataclass(slots=True)
class Aims:
    """Every `step`-th call from the `first` on, before and after, until `last`, or until no further call comes.

    calls: how many the scenario took when nobody was killed, the fewest of all such runs: those it always has. most:
    with more the scenario is not what was meant.
    """

    calls: int
    first: int = 1
    step: int = 1
    last: int | None = None
    most: int = 400
    killed: set[Aim] = field(default_factory=set)
    lost: set[Aim] = field(default_factory=set)
    _counted: int = field(init=False)
    _aim: Aim = field(init=False)
    _tries: Counter[Met] = field(default_factory=Counter)
    _without: int = 0  # numbers in turn that had no call

    def __post_init__(self) -> None:
        self._counted = self.calls
        self._aim = Aim(self.first, is_after=False)

    def __iter__(self) -> Iterator[Aim]:
        """Give one aim after the other; each must be answered with `met`. AssertionError beyond `most` calls."""
        while not self.is_over:
            assert self._aim.number <= self.most, f"the scenario takes more calls than {self.most}"
            yield self._aim

    @property
    def reached(self) -> int:
        """The last number at which there was a call."""
        return max((aim.number for aim in self.killed | self.lost), default=0)

    @property
    def is_over(self) -> bool:
        if self.last is not None:
            return self._aim.number > self.last
        return self._aim.number > self.calls and self._without >= _ENDED

    def met(self, met: Met, *, calls: int) -> None:
        """Take what came of the aim in a run of so many calls, and choose the next one."""
        aim = self._aim
        if met is Met.NOTHING:
            assert calls >= _LEAST * self._counted, f"a run took {calls} calls, and {self._counted} when it was counted"
            self.calls = min(self.calls, calls)
        self._tries[met] += 1
        if met is Met.KILLED:
            self.killed.add(aim)
        elif self._tries.total() < _TRIES[self._tries[Met.LOST] > 0]:
            return
        elif self._tries[Met.LOST]:
            self.lost.add(aim)
        self._next()

    def _next(self) -> None:
        aim, came = self._aim, self._aim in self.killed | self.lost
        self._tries.clear()
        if came and not aim.is_after:
            self._aim = Aim(aim.number, is_after=True)
            return
        self._without = 0 if came or aim.is_after else self._without + 1
        self._aim = Aim(aim.number + self.step, is_after=False)

    def missing(self) -> list[Aim]:
        """List what belongs to the scenario, and was neither killed nor lost."""
        end = self.calls if self.last is None else self.last
        every = {Aim(n, is_after) for n in range(self.first, end + 1, self.step) for is_after in (False, True)}
        return sorted(every - self.killed - self.lost)

    def assert_whole(self) -> None:
        """Fail unless each call of the scenario was killed at before and after, but for a few that were lost."""
        missing = self.missing()
        assert not missing, f"of {self.calls} calls, no kill {_list(missing)}; there were {len(self.killed)}"
        assert self.killed, "nobody was killed"
        assert len(self.lost) * _LOST_IN <= len(self.killed), (
            f"{len(self.killed)} kills, and none was possible {_list(sorted(self.lost))}"
        )


def _list(aims: list[Aim]) -> str:
    return ", ".join(map(str, aims))
