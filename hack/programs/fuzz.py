"""Run the differential tests and the property tests on new random examples for some time: `hack/fuzz`.

Law: a divergence is printed as the smallest case that shows it, with the seed that found it, and the exit code is 1.
The exit code is also 1 for a run with so few cases that finding none proves little.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import multiprocessing
import os
import queue
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "tests" / "property"
LAWS: Final = "laws"
PAUSE_S: Final = 20.0
LEAST_AN_HOUR: Final = 20_000
"""Cases of all differential tests together; an idle core runs fifteen times as many."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of one target. `message` is empty when nothing was found."""

    target: str
    seed: int
    cases: int
    took_s: float
    message: str = ""


@dataclass(slots=True)
class Tally:
    """The results of all rounds."""

    started: float
    cases: Counter[str] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)
    found: list[Round] = field(default_factory=list)

    def add(self, done: Round) -> None:
        """Count a round; print a new finding at once."""
        self.cases[done.target] += done.cases
        self.rounds[done.target] += 1
        if done.message and done.message not in [known.message for known in self.found]:
            self.found.append(done)
            print(f"\n--- {done.target}, seed {done.seed}\n{done.message}\n", flush=True)

    def line(self, now: float) -> str:
        """Return a line about the progress."""
        total, took_s = self.cases.total(), now - self.started
        return f"hack/fuzz: {took_s:.0f} s, {total} cases, {self.rate(now):.0f} an hour, {len(self.found)} divergences"

    def rate(self, now: float) -> float:
        """Return the number of cases an hour."""
        return self.cases.total() / (now - self.started) * 3600


def targets() -> dict[str, Path]:
    """Return the differential tests by file and function (`content.a_path_finds`), and the property tests as one."""
    found: dict[str, Path] = {}
    for path in sorted(FOLDER.glob("test_oracle_*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in itertools.pairwise(lines):
            if before.startswith("@given") and line.startswith("def test_"):
                name = line.removeprefix("def test_").partition("(")[0]
                found[f"{path.stem.removeprefix('test_oracle_')}.{name}"] = path
    return found | {LAWS: FOLDER}


def differ(target: str, path: Path, seed: int) -> Round:
    """Run one differential test on random examples in this process."""
    from hypothesis import seed as seeded  # the profile is chosen before

    from tests.oracle.oracle import the_oracle

    module = importlib.import_module(f"tests.property.{path.stem}")
    test: Callable[[], None] = seeded(seed)(getattr(module, f"test_{target.partition('.')[2]}"))
    oracle, started = the_oracle(), time.monotonic()
    before = oracle.asked
    message = ""
    try:
        test()
    except Exception as error:
        message = _format(error)
    return Round(target, seed, oracle.asked - before, time.monotonic() - started, message)


def _format(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(map(_format, error.exceptions))
    return "\n".join([f"{type(error).__name__}: {error}"[:4000], *getattr(error, "__notes__", ())])


def hold_laws(seed: int) -> Round:
    """Run the property tests without an oracle, in their own process."""
    started = time.monotonic()
    files = [str(path) for path in sorted(FOLDER.glob("test_*_laws.py")) + sorted(FOLDER.glob("test_group.py"))]
    flags = ("-q", "-x", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}")
    command = [sys.executable, "-m", "pytest", *flags, *files]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": LAWS}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return Round(LAWS, seed, 0, time.monotonic() - started, "" if done.returncode == 0 else done.stdout[-6000:])


def work(chosen: list[str], seeds: Iterator[int], until: float, results: Any) -> None:
    """Run rounds, one target after another, until the time is over."""
    os.environ["HYPOTHESIS_PROFILE"] = "fuzz"
    sys.path.insert(0, str(ROOT))
    importlib.import_module("tests.property.conftest")
    known = targets()
    while time.monotonic() < until:
        for target in chosen:
            seed = next(seeds)
            results.put(hold_laws(seed) if target == LAWS else differ(target, known[target], seed))
            if time.monotonic() >= until:
                break


def _seeds(start: int) -> Iterator[int]:
    chance = random.Random(start)
    while True:
        yield chance.randrange(2**32)


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser("hack/fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="duration (5)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the cases of a run with this seed (random)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only targets whose name contains the text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (one for each core)")
    parser.add_argument("--list", action="store_true", help="print the targets")
    return parser


def main(options: argparse.Namespace) -> int:
    """Run the targets; return 1 for a divergence or for too few cases, and 2 when no target was chosen."""
    chosen = [name for name in targets() if options.only in name]
    if options.list or not chosen:
        print("\n".join(targets()))
        return 0 if options.list else 2
    seed = random.randrange(2**32) if options.seed is None else options.seed
    plan = f"{len(chosen)} targets, {options.jobs} processes, {options.minutes:g} minutes"
    print(f"hack/fuzz: seed {seed}, {plan}", flush=True)
    tally = _run(chosen, seed=seed, jobs=options.jobs, seconds=options.minutes * 60)
    return _conclude(tally, chosen, time.monotonic())


def _run(chosen: list[str], *, seed: int, jobs: int, seconds: float) -> Tally:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    started = time.monotonic()
    tally, until = Tally(started), started + seconds
    workers = []
    for number in range(jobs):
        # Each process starts at another target, so that a short run reaches all; one process alone runs the slow laws.
        turn = number * len(chosen) // jobs
        named = [name for name in chosen[turn:] + chosen[:turn] if not number or name != LAWS or len(chosen) == 1]
        mine = (named, seed + number, until, results)
        workers.append(context.Process(target=_work, args=mine, daemon=True, name=f"fuzz-{number}"))
    for worker in workers:
        worker.start()
    shown = started
    while any(worker.is_alive() for worker in workers) or not results.empty():
        with contextlib.suppress(queue.Empty):
            tally.add(results.get(timeout=1.0))
        if time.monotonic() - shown > PAUSE_S:
            shown = time.monotonic()
            print(tally.line(shown), flush=True)
    for worker in workers:
        worker.join()
        if worker.exitcode:
            tally.add(Round(worker.name, seed, 0, 0.0, f"the process ended with {worker.exitcode}"))
    return tally


def _work(chosen: list[str], start: int, until: float, results: Any) -> None:
    work(chosen, _seeds(start), until, results)


def _conclude(tally: Tally, chosen: list[str], now: float) -> int:
    took_s = now - tally.started
    width = max(map(len, chosen))
    print(f"\n{'target':{width}}  {'rounds':>6}  {'cases':>8}  {'an hour':>9}")
    for name in chosen:
        cases = tally.cases[name]
        print(f"{name:{width}}  {tally.rounds[name]:6}  {cases:8}  {cases / took_s * 3600:9.0f}")
    print(tally.line(now))
    too_little = (
        any(name != LAWS for name in chosen) and tally.rate(now) < LEAST_AN_HOUR
    )  # the property tests count no cases
    if too_little:
        few = f"{tally.rate(now):.0f} cases an hour are too few, {LEAST_AN_HOUR} the least"
        print(f"hack/fuzz: {few}: run nothing else on this machine, or allow more time (--minutes)")
    return 1 if tally.found or too_little else 0


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
