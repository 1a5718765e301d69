"""`hack/faults`: does faults to a group on real control planes, under observation, and says what came of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.catalogue import Fault


def main(options: argparse.Namespace) -> int:
    """List the faults, or do some; return the exit code."""
    from tests.chaos import families  # noqa: F401 - enters all faults into the catalogue
    from tests.chaos.catalogue import FAULTS
    from tests.chaos.report import play_random, run, run_side_by_side, survived

    if options.list:
        return _list()
    if options.random:
        outcome = play_random(sys.stdout, seed=options.seed, minutes=options.minutes, keep=options.keep)
        return 0 if outcome.is_good else 1
    faults = _chosen(options.names, everything=options.all)
    if not faults:
        print("hack/faults: name some faults, or --all, or --random; --list shows them", file=sys.stderr)
        return 2
    if options.groups > 1:
        done = run_side_by_side(faults, groups=options.groups, seed=options.seed, keep=options.keep)
    else:
        done = run(faults, seed=options.seed, keep=options.keep)
    outcomes = []
    for outcome in done:
        outcome.show(sys.stdout)
        outcomes.append(outcome)
    print(
        survived(outcomes, FAULTS.values()) if options.all else f"{sum(o.is_good for o in outcomes)} of {len(outcomes)}"
    )
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="hack/faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names or numbers of faults")
    parser.add_argument("--list", action="store_true", help="say what there is, what it does, and what is missing")
    parser.add_argument("--all", action="store_true", help="do all, and say how many of the 28 were survived")
    parser.add_argument("--random", action="store_true", help="random faults at once under random work, from one seed")
    parser.add_argument("--groups", type=int, default=1, help="how many groups side by side share the faults (1)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long --random breaks things")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="put the logs of what was broken there")
    parser.add_argument("--seed", type=int, default=1, help="of the workload, and of --random")
    return parser


def _chosen(names: Sequence[str], *, everything: bool) -> list[Fault]:
    from tests.chaos.catalogue import FAULTS

    if everything:
        return sorted(FAULTS.values(), key=lambda fault: (fault.size, fault.number))
    found = []
    for name in names:
        matching = [one for one in FAULTS.values() if name in (one.name, str(one.number))]
        if not matching:
            raise SystemExit(f"hack/faults: there is no fault {name}; --list shows them")
        found += matching
    return found


def _list() -> int:
    from tests.chaos.catalogue import FAULTS, TITLES

    for number, title in TITLES.items():
        print(f"{number:2}  {title}")
        faults = [fault for fault in FAULTS.values() if fault.number == number]
        for fault in faults:
            print(f"      {fault.name}: {fault.what}")
            print(f"        undone: {fault.undone}")
            if fault.needs:
                print(f"        needs: {fault.needs}")
            if fault.missing:
                print(f"        MISSING: {fault.missing}")
        if not faults:
            print("      NOT BUILT")
    return 0


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
