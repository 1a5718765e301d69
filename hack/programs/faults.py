"""`hack/faults`: injects faults into a group on real control planes under observation, and reports the results."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.catalogue import Fault


def main(options: argparse.Namespace) -> int:
    """List or inject faults; return the exit code."""
    from tests.chaos import families  # noqa: F401 - adds all faults to the catalogue
    from tests.chaos.catalogue import FAULTS
    from tests.chaos.report import play_random, run, run_side_by_side, survived

    if options.list:
        return _list()
    if options.random:
        result = play_random(sys.stdout, seed=options.seed, minutes=options.minutes, keep=options.keep)
        return 0 if result.is_good else 1
    faults = _chosen(options.names, everything=options.all)
    if not faults:
        print("hack/faults: give names of faults, --all or --random; --list prints the names", file=sys.stderr)
        return 2
    if options.groups > 1:
        done = run_side_by_side(faults, groups=options.groups, seed=options.seed, keep=options.keep)
    else:
        done = run(faults, seed=options.seed, keep=options.keep)
    results = []
    for result in done:
        result.show(sys.stdout)
        results.append(result)
    print(survived(results, FAULTS.values()) if options.all else f"{sum(r.is_good for r in results)} of {len(results)}")
    return 0 if all(result.is_good for result in results) else 1


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="hack/faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="name or number of a fault")
    parser.add_argument("--list", action="store_true", help="list the faults, their effects, and their missing parts")
    parser.add_argument(
        "--all", action="store_true", help="inject all faults, and report how many of the 28 the group survived"
    )
    parser.add_argument(
        "--random",
        action="store_true",
        help="inject several random faults at once under random work, drawn from one seed",
    )
    parser.add_argument("--groups", type=int, default=1, help="groups that share the faults, side by side (1)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long --random injects faults (10)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for the logs of failed faults")
    parser.add_argument("--seed", type=int, default=1, help="seed of the workload and of --random (1)")
    return parser


def _chosen(names: Sequence[str], *, everything: bool) -> list[Fault]:
    from tests.chaos.catalogue import FAULTS

    if everything:
        return sorted(FAULTS.values(), key=lambda fault: (fault.size, fault.number))
    found = []
    for name in names:
        matching = [fault for fault in FAULTS.values() if name in (fault.name, str(fault.number))]
        if not matching:
            raise SystemExit(f"hack/faults: {name} is not a fault; --list prints the names")
        found += matching
    return found


def _list() -> int:
    from tests.chaos.catalogue import FAULTS, TITLES

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader may stop early, as `head` does
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
