"""`hack/sim --schedules N --seed S`: plays random schedules on simulated groups, and prints every broken law."""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.schedule.play import Outcome
    from tests.sim.schedule.tally import Tally

_BATCH = 5
_TASKS = 100
"""Batches for each process of a pool, before a new pool takes over: after thousands of schedules, a process slows down.

The executor's max_tasks_per_child is not used: when more tasks wait than its processes may run, it can stop for
ever (Python 3.11 to 3.14 as of July 2026, https://github.com/python/cpython/issues/115634).
"""
_LARGE = 1000
"""From so many schedules on, a deed, effect or reason that never occurred is a failure: it may be missed."""
_SHOWN = 3
_SAID_EVERY_S = 60.0
_LINES = 60
_ROOT = Path(__file__).parents[2]
_SOURCES = ("registry_controller", "tests/sim")


@dataclass
class Report:
    """The result of some schedules: the first broken law of each seed that broke one."""

    tally: Tally
    played: set[int] = field(default_factory=set)
    broken: dict[int, str] = field(default_factory=dict)

    def add(self, other: Report) -> None:
        """Add another result."""
        self.played |= other.played
        self.broken |= other.broken
        self.tally.add(other.tally)


class Record:
    """The results of the same run so far, in a file: the next run plays the rest.

    Schedules of other sources would be other ones, so a file of other sources raises ValueError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sources = digest_sources()

    def read(self) -> Report:
        """Read the results; empty without a file. Raises ValueError, which names the file."""
        from tests.sim.schedule.tally import Tally

        if not self._path.exists():
            return Report(Tally())
        found: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        if found["sources"] != self._sources:
            raise ValueError(f"{self._path}: is of other sources; delete it")
        tally = Tally(**{name: Counter(counts) for name, counts in found["tally"].items()})
        return Report(tally, set(found["played"]), {int(seed): words for seed, words in found["broken"].items()})

    def write(self, report: Report) -> None:
        """Replace the results."""
        found = {
            "sources": self._sources,
            "played": sorted(report.played),
            "broken": report.broken,
            "tally": vars(report.tally),
        }
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(self._path)


def digest_sources() -> str:
    """Return the digest of the files on which the course of a schedule depends."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _SOURCES for path in (_ROOT / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def play_some(seeds: Sequence[int]) -> Report:
    """Play the schedules of these seeds."""
    from tests.sim.schedule.play import play
    from tests.sim.schedule.schedule import draw
    from tests.sim.schedule.tally import Tally

    report = Report(Tally())
    gc.freeze()  # the collector skips all objects that exist by now
    for seed in seeds:
        outcome = play(draw(seed))
        report.played.add(seed)
        report.tally.add(outcome.tally)
        if outcome.broken:
            wrong = outcome.broken[0]
            report.broken[seed] = f"{wrong.clause}: {wrong.where}: {wrong.words}"
    gc.collect()
    return report


def main(options: argparse.Namespace) -> int:
    """Play the schedules, and print counts and broken laws; return the exit code."""
    from tests.sim.schedule.tally import Tally

    record = Record(options.record) if options.record is not None else None
    try:
        report = record.read() if record is not None else Report(Tally())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    began_s, before = time.monotonic(), len(report.played)
    _play(options, report, record)
    took_s, count = time.monotonic() - began_s, len(report.played) - before
    _show_counts(report.tally)
    _show_all_broken(options, report)
    print(f"{count} schedules in {took_s:.0f} s, {count / took_s:.1f} a second, with {options.workers} workers")
    if before:
        print(f"{len(report.played)} schedules with the earlier runs")
    never = list_missing(report.tally)
    if never:
        print(f"never occurred: {', '.join(never)}")
    print(f"{len(report.broken)} broke a law" if report.broken else "no law was broken")
    return 1 if report.broken or (never and len(report.played) >= _LARGE) else 0


def _play(options: argparse.Namespace, report: Report, record: Record | None) -> None:
    """Play the schedules that a report lacks, and add their results."""
    said_s = time.monotonic()
    seeds = [seed for seed in range(options.seed, options.seed + options.schedules) if seed not in report.played]
    parts = _parts(seeds, workers=options.workers, size=1 if options.until_broken else _BATCH)
    for part in parts:
        report.add(part)
        if record is not None:
            record.write(report)
        for seed, words in part.broken.items():
            print(f"seed {seed}: {words}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(report.played)} of {options.schedules}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - said_s >= _SAID_EVERY_S:
            said_s = time.monotonic()
            print(f"{len(report.played)} of {options.schedules}", file=sys.stderr, flush=True)
        if options.until_broken and report.broken:
            parts.close()


def _show_all_broken(options: argparse.Namespace, report: Report) -> None:
    from tests.sim.schedule.play import play
    from tests.sim.schedule.schedule import draw

    for seed in sorted(report.broken)[: options.show]:
        _show_broken(play(draw(seed)), shrink_s=options.shrink)


def _parts(seeds: Sequence[int], *, workers: int, size: int) -> Generator[Report, None, None]:
    """Play in `workers` processes; yield the result of each batch."""
    batches = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    if workers == 1 or len(batches) == 1:
        yield from map(play_some, batches)
        return
    spawn, share = multiprocessing.get_context("spawn"), workers * _TASKS
    for start in range(0, len(batches), share):
        with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
            try:
                for done in as_completed([pool.submit(play_some, batch) for batch in batches[start : start + share]]):
                    yield done.result()
            finally:
                pool.shutdown(cancel_futures=True)


def _show_counts(tally: Tally) -> None:
    for title, counts in (
        ("decisions", tally.reasons),
        ("clauses", tally.clauses),
        ("faults", tally.faults),
        ("deeds", tally.deeds),
        ("effects", tally.effects),
    ):
        print(f"{title}:")
        _show_table(counts)


def _show_table(counts: Counter[str]) -> None:
    cells = [f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    width = max(map(len, cells), default=0) + 2
    columns = max(1, 118 // width)
    for start in range(0, len(cells), columns):
        print("  " + "".join(f"{cell:<{width}}" for cell in cells[start : start + columns]).rstrip())


def list_missing(tally: Tally) -> list[str]:
    """List the reasons, clauses, effects and deeds that never occurred."""
    from tests.sim.schedule.stage import DEEDS
    from tests.sim.schedule.tally import CLAUSES, EFFECTS

    missing = tally.missing_reasons()
    missing += [clause for clause in CLAUSES if not tally.clauses[clause]]
    missing += [effect for effect in EFFECTS if not tally.effects[effect]]
    return missing + [
        name for name, found in DEEDS.items() if not (tally.faults if found.is_fault else tally.deeds)[name]
    ]


def _show_broken(outcome: Outcome, *, shrink_s: float) -> None:
    from tests.sim.schedule.shrink import shrink

    seed, steps = outcome.schedule.seed, len(outcome.schedule.steps)
    if not outcome.broken:
        print(f"\nseed {seed} breaks no law when it is played again: the schedule depends on more than its seed")
        return
    if shrink_s > 0:
        outcome = shrink(outcome, within_s=shrink_s)
    print(f"\nseed {seed}, {len(outcome.schedule.steps)} of {steps} steps left:")
    for at, words in outcome.trace[-_LINES:]:
        print(f"  {at:10.3f}  {words}")
    for wrong in outcome.broken:
        print(f"  {wrong.clause}: {wrong.where}: {wrong.words}")
    print(outcome.schedule.spell())


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    words = "Play random schedules on simulated groups with the real engine."
    parser = argparse.ArgumentParser(prog="hack/sim", description=words)
    parser.add_argument("--schedules", type=int, default=200, metavar="N", help="number of schedules (200)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the first schedule (1)")
    parser.add_argument("--workers", type=int, default=2, metavar="W", help="number of processes (2)")
    parser.add_argument("--show", type=int, default=_SHOWN, help=f"broken schedules to print in full ({_SHOWN})")
    parser.add_argument("--shrink", type=float, default=60.0, metavar="S", help="seconds to shorten each of these (60)")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="keep the results in a file, and go on from it when run again"
    )
    parser.add_argument("--until-broken", action="store_true", help="stop at the first batch that breaks a law")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
