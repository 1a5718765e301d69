"""Runs faults, each on a group that is at rest, and says what came of it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TextIO

from tests.chaos.catalogue import FAULTS, TITLES, Fault
from tests.chaos.chance import Schedule
from tests.chaos.laws import Violation
from tests.chaos.play import NoBite, Play

_LINES = 14
_LONG = 10
"""Minutes from which on a random schedule shows nothing when it leaves out what takes longest."""


@dataclass
class Outcome:
    """What came of one fault, or of one random schedule."""

    name: str
    seconds: float = 0.0
    rest_s: float = 0.0
    felt: Counter[str] = field(default_factory=Counter)
    writes: int = 0
    checked: dict[str, int] = field(default_factory=dict)
    failure: str = ""
    violations: list[Violation] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.failure and not self.violations

    def show(self, out: TextIO) -> None:
        """Print it: one line when it is good, and else all that there is."""
        state = "survived" if self.is_good else "BROKEN"
        felt = "; ".join(f"{count} {what}" for what, count in self.felt.items()) or "nothing"
        checked = ", ".join(f"{law} {count}" for law, count in sorted(self.checked.items()))
        print(
            f"{state:9} {self.name}: {self.seconds:.0f} s, whole again after {self.rest_s:.1f} s; felt: {felt}",
            file=out,
        )
        print(
            f"          {self.writes} writes observed; checked: {checked}; violations: {len(self.violations)}", file=out
        )
        if self.failure:
            print(f"          {self.failure}", file=out)
        for violation in self.violations[:_LINES]:
            print(f"    {violation}", file=out)
        if not self.is_good:
            for line in self.trace:
                print(f"    schedule: {line}", file=out)
        out.flush()


def attempt(play: Play, fault: Fault) -> Outcome:
    """Do one fault on a group at rest, wait until it is whole again, and judge its whole history."""
    outcome = Outcome(fault.name)
    began, felt = time.monotonic(), play.bites.copy()
    seen = len(play.trace)
    try:
        fault.do(play)
        play.bed.mend()
        outcome.rest_s = play.rest(within_s=fault.within_s)
    except NoBite as error:
        outcome.failure = str(error)
    except Exception as error:  # whatever it is, it is this fault's, and the others are still to be done
        outcome.failure = "".join(traceback.format_exception(error)[-3:])
    play.bed.mend()
    finish(play, outcome, began=began, felt=felt, seen=seen)
    return outcome


def finish(play: Play, outcome: Outcome, *, began: float, felt: Counter[str], seen: int) -> None:
    """Judge, and fill in what was felt and seen since."""
    try:
        verdict = play.judge()
        outcome.writes, outcome.checked, outcome.violations = verdict.writes, verdict.checked, verdict.violations
    except Exception as error:
        outcome.failure += f"\nnot judged: {''.join(traceback.format_exception(error)[-2:])}"
    outcome.felt = play.bites - felt
    outcome.trace = play.trace[seen:]
    outcome.seconds = time.monotonic() - began


def run(faults: Iterable[Fault], *, seed: int = 1, keep: Path | None = None) -> Iterator[Outcome]:
    """Do faults on one group, and on a new one after each that broke it or that needs another size."""
    play: Play | None = None
    was_good = True
    try:
        for fault in faults:
            if play is not None and (not was_good or len(play.sites) != fault.size):
                play.__exit__(None, None, None)
                play = None
            if play is None:
                play = Play(fault.size, seed=seed).__enter__()
                with play.working(gentle=True):
                    time.sleep(3)
                play.rest()
            outcome = attempt(play, fault)
            was_good = outcome.is_good
            if keep is not None and not was_good:
                play.keep(keep / fault.name)
            yield outcome
    finally:
        if play is not None:
            play.__exit__(None, None, None)


def run_side_by_side(
    faults: Sequence[Fault], *, groups: int, seed: int = 1, keep: Path | None = None
) -> Iterator[Outcome]:
    """Do faults on several groups at once, each in a process of its own; those that take longest begin."""
    context = multiprocessing.get_context("spawn")
    waiting, done = context.SimpleQueue(), context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(waiting, done, seed, keep), name=f"group {number}")
        for number in range(groups)
    ]
    for worker in workers:
        worker.start()
    for fault in sorted(faults, key=lambda fault: (fault.size, -fault.minutes)):
        waiting.put(fault.name)
    for _ in workers:
        waiting.put("")
    left = {fault.name for fault in faults}
    running = len(workers)
    while running:
        outcome = done.get()
        if outcome is None:
            running -= 1
            continue
        left.discard(outcome.name)
        yield outcome
    for worker in workers:
        worker.join()
    for name in sorted(left):
        yield Outcome(name, failure="it was not done: its group could not be set up")


def _work(waiting: SimpleQueue[str], done: SimpleQueue[Outcome | None], seed: int, keep: Path | None) -> None:
    """Do what waits, until the empty name comes."""
    from tests.chaos import families  # noqa: F401  which enters all faults: this process has just begun

    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        for outcome in run((FAULTS[name] for name in iter(waiting.get, "")), seed=seed, keep=keep):
            done.put(outcome)
    finally:
        done.put(None)


def _end_with_parent() -> None:
    """End with whoever would hear the outcomes; the clusters' guardian ends what was started."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def play_random(out: TextIO, *, seed: int, minutes: float, size: int = 3, keep: Path | None = None) -> Outcome:
    """Play one random schedule on a group of its own, and print all of it."""
    outcome = Outcome(f"seed {seed}")
    with Play(size, seed=seed) as play:
        began, felt = time.monotonic(), play.bites.copy()
        schedule = Schedule(play, seed=seed)
        try:
            with play.working():
                schedule.run(minutes=minutes)
            play.bed.mend()
            outcome.rest_s = play.rest(within_s=180, meanwhile=schedule.help)
        except Exception as error:
            outcome.failure = "".join(traceback.format_exception(error)[-3:])
        play.bites.update(schedule.done)
        if minutes >= _LONG and not outcome.failure and not schedule.done["left and joined"]:
            outcome.failure = "nobody left: this schedule shows nothing of leaving and joining"
        finish(play, outcome, began=began, felt=felt, seen=0)
        if outcome.is_good:
            for line in outcome.trace:
                print(f"    schedule: {line}", file=out)
        if keep is not None and not outcome.is_good:
            play.keep(keep / f"seed-{seed}")
        print(f"    people: {dict(play.work.done)}", file=out)
    outcome.show(out)
    return outcome


def survived(outcomes: Iterable[Outcome], known: Iterable[Fault]) -> str:
    """Sum up by the numbers of the faults: a number is survived when all that stands for it is, and nothing is
    missing.
    """
    outcomes = list(outcomes)
    good = {outcome.name for outcome in outcomes if outcome.is_good}
    by_number: dict[int, list[Fault]] = {number: [] for number in TITLES}
    for fault in known:
        by_number[fault.number].append(fault)
    whole = [n for n, faults in by_number.items() if faults and all(f.name in good for f in faults)]
    partly = [n for n in whole if any(fault.missing for fault in by_number[n])]
    not_built = [n for n, faults in by_number.items() if not faults]
    violations = sum(len(outcome.violations) for outcome in outcomes)
    return (
        f"{len(whole)} of {len(TITLES)} faults survived, {violations} violations"
        + (f"; of {', '.join(map(str, partly))} a part is not done here" if partly else "")
        + (f"; not built: {', '.join(map(str, not_built))}" if not_built else "")
    )
