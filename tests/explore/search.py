"""Searches all states of the abstract network, breadth first, and reports the first broken law with its shortest trace.

Law: the search is complete unless it says which bound ended it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.explore.draft import Draft
from tests.explore.fold import NAMINGS, Fold, Naming, renamed_step, then, undo
from tests.explore.laws import Breach, check_rest, check_step, forget_joined
from tests.explore.network import Network
from tests.explore.steps import ACTS, State, Step
from tests.explore.world import MEMBERS, TICKS

COMPLETE: Final = "no bound: every state was searched"


def replay(trace: Sequence[Step]) -> Breach | None:
    """Play a trace from the beginning; return the law that is broken in it, or at its end."""
    net = Network()
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
        if self.broken:
            lines += [f"broken: {self.broken}", *(f"  {n}. {step}" for n, step in enumerate(self.trace, 1))]
        return "\n".join(lines)


class Search:
    """One search."""

    def __init__(self, *, acts: int, kinds: Iterable[str] = ACTS, is_folded: bool = True) -> None:
        self._net = Network(acts=kinds)
        self._fold = Fold(self._net) if is_folded else None
        self._begin = self._net.begin(acts)
        self._numbers: dict[State, int] = {self._begin: 0}
        self._came: list[tuple[int, Step, int]] = [(0, Step("window"), 0)]
        self._steps = 0
        self._rests = 0

    def run(self, *, at_most_s: float = 60.0, at_most_states: int = 10_000_000) -> Found:
        """Search until a law is broken, a bound is reached, or nothing is left."""
        began_s = time.monotonic()
        level: list[State] = [self._begin]
        depth = 0

        def found(ended_by: str, broken: Breach | None = None, trace: Sequence[Step] = ()) -> Found:
            duration_s = time.monotonic() - began_s
            return Found(
                len(self._numbers), self._steps, depth, duration_s, self._net.reactions, self._rests, ended_by,
                broken, tuple(trace),
            )  # fmt: skip

        while level:
            following: list[State] = []
            for state in level:
                if time.monotonic() - began_s > at_most_s:
                    return found(f"time, {at_most_s:.0f} s")
                if len(self._numbers) >= at_most_states:
                    return found(f"memory, {at_most_states:,} states")
                broken, last = self._expand(state, following)
                if broken is not None:
                    trace, names = self._trace(self._numbers[state], last)
                    broken = broken._replace(who=names[broken.who], other=names[broken.other])
                    return found("a broken law", broken, trace)
            level = following
            depth += bool(level)
        return found(COMPLETE)

    def _expand(self, state: State, following: list[State]) -> tuple[Breach | None, Step | None]:
        """Take every step from a state; return the law that one breaks, and the step, None for a law at rest."""
        net, number = self._net, self._numbers[state]
        before = net.draft(state)
        changed_by_time = False
        for step, draft in net.after(state):
            self._steps += 1
            if isinstance(draft, Draft):
                broken = check_step(step, before, draft)
                if broken is not None:
                    return broken, step
                draft.ghost = forget_joined(step, draft.ghost)
                reached = draft.state()
            else:
                reached = draft
            if step.kind in TICKS:
                changed_by_time = changed_by_time or reached[:-2] != state[:-2]
            naming = 0
            if self._fold is not None:
                reached, naming = self._fold.canonical(reached)
            if reached not in self._numbers:
                self._numbers[reached] = len(self._came)
                self._came.append((number, step, naming))
                following.append(reached)
        if net.is_quiet(state) and net.is_whole(state) and not changed_by_time:
            self._rests += 1
            return check_rest(before.clusters, before.ghost), None
        return None, None

    def _trace(self, number: int, last: Step | None) -> tuple[Sequence[Step], Naming]:
        """Return the steps to a state, and one more, under the names at the beginning, and those of the state then."""
        came = []
        while number:
            parent, step, naming = self._came[number]
            came.append((step, NAMINGS[naming]))
            number = parent
        steps: list[Step] = []
        names: Naming = MEMBERS  # the present name of each member
        for step, naming in reversed(came):
            steps.append(renamed_step(step, undo(names)))
            names = then(names, naming)
        if last is not None:
            steps.append(renamed_step(last, undo(names)))
        return steps, undo(names)
