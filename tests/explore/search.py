"""Searches all states of the abstract network, breadth first, and reports the first broken law with its shortest trace.

Law: the search is complete unless it says which bound ended it.
"""

from __future__ import annotations

import gc
import resource
import struct
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.explore.draft import Draft
from tests.explore.fold import NAMINGS, Fold, Naming, renamed_step, then, undo
from tests.explore.laws import Breach, check_rest, check_step, forget_joined
from tests.explore.network import Network
from tests.explore.steps import ACTS, GHOST, LEFT, State, Step, Table
from tests.explore.world import MEMBERS, TICKS, known

COMPLETE: Final = "no bound: every state was searched"


_PACKED: Final = struct.Struct(f"{LEFT + 1}I")


def _pack(state: State) -> bytes:
    return _PACKED.pack(*state)


def _unpack(packed: bytes) -> State:
    return _PACKED.unpack(packed)


_STATES_BETWEEN_LOOKS: Final = 500
"""To ask for the used memory takes longer than to search a state."""


def _used_mib() -> int:
    """Return the most memory that this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def replay(trace: Sequence[Step], *, kinds: Iterable[str] = ACTS, has_newcomer: bool = False) -> Breach | None:
    """Play a trace from the beginning; return the law that is broken in it, or at its end.

    Where `kinds` have no act on the rule, each member has its own.
    """
    net = Network(acts=kinds, has_newcomer=has_newcomer)
    state = net.begin(sum(step.kind in ACTS for step in trace))
    for step in trace:
        before, draft = net.draft(state), net.take(state, step)
        if breach := check_step(step, before, draft):
            return breach
        draft.ghost = forget_joined(step, draft.ghost)
        state = draft.state()
    last = net.draft(state)
    return check_rest(last.clusters, last.ghost) if net.is_quiet(state) else None


@dataclass(frozen=True)
class Found:
    """The result of a search. `broken` is the law, None for none, `trace` the shortest way to it."""

    states: int
    steps: int
    depth: int
    duration_s: float
    reactions: int
    rests: int
    ended_by: str
    broken: Breach | None = None
    trace: tuple[Step, ...] = ()

    def __str__(self) -> str:
        rate = self.states / max(self.duration_s, 1e-9)
        lines = [
            f"{self.states:,} states, {self.steps:,} steps, depth {self.depth}, {self.rests:,} states at rest, "
            f"{self.reactions:,} reactions of daemons, {self.duration_s:.0f} s, {rate:,.0f} states a second",
            f"ended by: {self.ended_by}",
        ]
        if self.broken is None and self.ended_by != COMPLETE:
            lines.append(f"every schedule of at most {self.depth} steps was searched, and keeps the laws")
        if self.broken:
            lines += [f"broken: {self.broken}", *(f"  {n}. {step}" for n, step in enumerate(self.trace, 1))]
        return "\n".join(lines)


class Search:
    """One search.

    Without `is_folded` the names of members count, without `is_reduced` all orders of deliveries, without `is_narrow`
    each change of a cluster is an event for its readers. With `is_on_rule` one act of each schedule deletes the rule.
    With `has_newcomer` there are two members at first, and a third cluster joins by a swap with one of them.
    """

    def __init__(
        self,
        *,
        acts: int,
        kinds: Iterable[str] = ACTS,
        is_folded: bool = True,
        is_narrow: bool = True,
        is_reduced: bool = True,
        is_on_rule: bool = False,
        has_newcomer: bool = False,
    ) -> None:
        self._net = Network(
            acts=kinds, is_narrow=is_narrow, is_reduced=is_reduced, is_on_rule=is_on_rule, has_newcomer=has_newcomer
        )
        self._fold = Fold(self._net) if is_folded else None
        self._begin = self._net.begin(acts)
        # Packed, because there are millions of them: the states, the state that each came from, and how.
        self._numbers: dict[bytes, int] = {_pack(self._begin): 0}
        self._parents = array("I", [0])
        self._hows = array("I", [0])
        self._all_hows: Table[tuple[Step, int]] = Table()
        self._steps = 0
        self._rests: set[State] = set()

    @property
    def net(self) -> Network:
        """The network that was searched."""
        return self._net

    def states(self) -> Iterator[State]:
        """Yield the states that were found."""
        return map(_unpack, self._numbers)

    def list_rests(self) -> frozenset[tuple[object, ...]]:
        """List the groups that were found at rest, as values that another search can be compared with.

        Of what a daemon knows of its peers, only what it reads counts.
        """
        return frozenset(map(self._values, self._rests))

    def _values(self, state: State) -> tuple[object, ...]:
        clusters = [known(self._net.seats[state[who]].cluster, who) for who in MEMBERS]
        return (*clusters, self._net.ghosts[state[GHOST]], state[LEFT])

    def run(self, *, at_most_s: float = 60.0, at_most_states: int = 0, at_most_mib: int = 0) -> Found:
        """Search until a law is broken, a bound is reached, or nothing is left. A bound of 0 is none."""
        was_enabled = gc.isenabled()
        gc.disable()  # nothing here refers to itself, and the collector would walk through millions of states
        try:
            return self._run(at_most_s, at_most_states, at_most_mib)
        finally:
            if was_enabled:
                gc.enable()

    def _run(self, at_most_s: float, at_most_states: int, at_most_mib: int) -> Found:
        began_s = time.monotonic()
        level: list[bytes] = [_pack(self._begin)]
        depth = 0

        def found(ended_by: str, broken: Breach | None = None, trace: Sequence[Step] = ()) -> Found:
            duration_s = time.monotonic() - began_s
            return Found(
                len(self._numbers), self._steps, depth, duration_s, self._net.reactions, len(self._rests), ended_by,
                broken, tuple(trace),
            )  # fmt: skip

        while level:
            following: list[bytes] = []
            for index, packed in enumerate(level):
                if time.monotonic() - began_s > at_most_s:
                    return found(f"time, {at_most_s:.0f} s")
                if at_most_states and len(self._numbers) >= at_most_states:
                    return found(f"memory, {at_most_states:,} states")
                if at_most_mib and index % _STATES_BETWEEN_LOOKS == 0 and _used_mib() >= at_most_mib:
                    return found(f"memory, {at_most_mib:,} MiB")
                broken, last = self._expand(packed, following)
                if broken is not None:
                    trace, names = self._trace(self._numbers[packed], last)
                    broken = broken._replace(who=names[broken.who], other=names[broken.other])
                    return found("a broken law", broken, trace)
            level = following
            depth += bool(level)
        return found(COMPLETE)

    def _expand(self, packed_before: bytes, following: list[bytes]) -> tuple[Breach | None, Step | None]:
        """Take every step from a state; return the law that one breaks, and the step, None for a law at rest."""
        net, number, state = self._net, self._numbers[packed_before], _unpack(packed_before)
        before: Draft | None = None
        changed_by_time = False
        for step, draft in net.after(state):
            self._steps += 1
            if isinstance(draft, Draft):
                before = before or net.draft(state)
                broken = check_step(step, before, draft)
                if broken is not None:
                    return broken, step
                draft.ghost = forget_joined(step, draft.ghost)
                reached = draft.state()
                net.keep(state, step, draft, reached)
            else:
                reached = draft
            if step.kind in TICKS:
                changed_by_time = changed_by_time or reached[:-2] != state[:-2]
            naming = 0
            if self._fold is not None:
                reached, naming = self._fold.canonical(reached)
            packed = _pack(reached)
            if packed not in self._numbers:
                self._numbers[packed] = len(self._parents)
                self._parents.append(number)
                self._hows.append(self._all_hows.number((step, naming)))
                following.append(packed)
        if net.is_quiet(state) and net.is_whole(state) and not changed_by_time:
            self._rests.add(state)
            last = net.draft(state)
            return check_rest(last.clusters, last.ghost), None
        return None, None

    def _trace(self, number: int, last: Step | None) -> tuple[Sequence[Step], Naming]:
        """Return the steps to a state, and one more, under the names at the beginning, and those of the state then."""
        came = []
        while number:
            step, naming = self._all_hows[self._hows[number]]
            came.append((step, NAMINGS[naming]))
            number = self._parents[number]
        steps: list[Step] = []
        names: Naming = MEMBERS  # the present name of each member
        for step, naming in reversed(came):
            steps.append(renamed_step(step, undo(names)))
            names = then(names, naming)
        if last is not None:
            steps.append(renamed_step(last, undo(names)))
        return steps, undo(names)
