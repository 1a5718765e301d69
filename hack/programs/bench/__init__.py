"""`hack/bench`: ours against a floor, the barest client that does the same work, in one run on real control planes.

client    the barest client: aiohttp, kept-alive connections, bytes in and out
relaying  the floor of relaying, a program of its own: a watch on one API server, a write to the other, one task
bed       two clusters with the daemons in them
relay     one change at the source until its copy has changed at the sink
bulk      many objects into an empty cluster
report    medians and ratios

Law: floor and ours are measured by the same clock in the same way, in turn (A B B A), on the same machines. What is
printed is ratios; absolute times are beside them only to know the order of magnitude.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

_BULK = 2000


def main(options: argparse.Namespace) -> int:
    """Measure what is asked for and print it."""
    from hack.controlplane import ControlPlaneError

    from . import bulk, relay
    from .bed import make_bed
    from .report import Line, show

    works: dict[str, int] = {}
    for word in options.works:
        if word.isdecimal() and "bulk" in works:
            works["bulk"] = int(word)
        elif word in ("relay", "bulk"):
            works[word] = _BULK
        else:
            print(f"{word}: there is relay, and bulk with a number", file=sys.stderr)
            return 2
    rounds, changes = (1, 5) if options.quick else (options.rounds, options.changes)
    try:
        with make_bed(fsync=options.fsync, profile=options.profile) as bed:
            lines: list[Line] = []
            if "relay" in works:
                print(f"relay: {rounds} rounds of 4 x {changes} changes", flush=True)
                lines += asyncio.run(relay.measure(bed, rounds=rounds, changes=changes))
            if "bulk" in works:
                count = 50 if options.quick else works["bulk"]
                print(f"bulk: {rounds} rounds of 2 x {count} objects", flush=True)
                lines += asyncio.run(bulk.measure(bed, count=count, rounds=rounds))
    except (ControlPlaneError, RuntimeError, TimeoutError) as error:
        print(f"hack/bench: {error!r}", file=sys.stderr)
        return 1
    show(lines)
    print(f"\n{os.cpu_count()} cores for two control planes, both daemons and the bare client;", end=" ")
    print(f"etcd {'syncs' if options.fsync else 'does not sync'} its log to disk. Medians of the rounds, A B B A.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="hack/bench", description="Ours against the barest client, as ratios.")
    parser.add_argument("works", nargs="+", metavar="WORK", help="relay; bulk, with a number of objects behind it")
    parser.add_argument("--rounds", type=int, default=3, help="of A B B A each (3)")
    parser.add_argument("--changes", type=int, default=100, help="of one object, in each block of relay (100)")
    parser.add_argument("--quick", action="store_true", help="only see whether it works")
    parser.add_argument("--fsync", action="store_true", help="let etcd sync its log to disk, as in production")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="leave a cProfile of the sink's daemon there")
    return parser
