"""`hack/bench`: compares the daemon with a floor, the barest client that does the same work, on real control planes.

client      the barest client: aiohttp, kept-alive connections, bytes in and out
bare_relay  the floor of a relay, a program of its own: a watch on one API server, writes to the other
bed         two clusters with a daemon in each
objects     ConfigMaps of 1 KiB, and the best rate at which the barest client writes them
relay       one change at the source, until its copy has changed
bulk        many objects into an empty cluster
burst       many changes as fast as the source takes them
hot         one object, changed 20 times a second
edit        a rule that concerns one object is edited beside a rule that holds many; then the large rule
delete      many objects are deleted at their owner
join        fresh members join one group, on clusters of their own
library     `registry_controller.group` beside a bare watch of one member
usage       CPU time of the sink's daemon for each change, and its parts
sampled     the daemon under a sampler, a program of its own
report      medians, bounds, a table and JSON

Law: floor and ours are measured by the same clock in the same way, in turn (A B B A), on the same machine. Ratios
count; absolute times only show the order of magnitude.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import Line

DEFAULTS = {
    "relay": 0,
    "bulk": 2000,
    "burst": 1000,
    "edit": 3000,
    "delete": 1000,
    "hot": 0,
    "join": 5,
    "library": 10000,
}
"""The works, and how many objects each has; 0 where the work has no number."""
_QUICK = 20


def main(options: argparse.Namespace) -> int:
    """Measure the works and print the figures; return the exit code."""
    try:
        works = read_works(options.works)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    from hack.controlplane import ControlPlaneError

    from .report import show

    try:
        lines, card = _measure(works, options=options)
    except (ControlPlaneError, RuntimeError, TimeoutError, ExceptionGroup) as error:
        print(f"hack/bench: {error!r}", file=sys.stderr)
        return 1
    show(lines)
    print(f"\n{os.cpu_count()} cores for two control planes, both daemons and the bare client;", end=" ")
    print(f"etcd {'syncs' if options.fsync else 'does not sync'} its log to disk. Medians of the rounds, A B B A.")
    print(", ".join(f"{name}: {value}" for name, value in card.items()))
    if card["loadBeforeStart"] > card["cores"] / 2:
        print(
            f"The load average was {card['loadBeforeStart']} before the start: other work makes these figures invalid."
        )
    return 0


def read_works(words: Sequence[str]) -> list[tuple[str, int]]:
    """Return works with their numbers of objects; a number follows its work. ValueError for other words."""
    works: list[tuple[str, int]] = []
    is_number = False
    for word in words:
        if word in DEFAULTS:
            works.append((word, DEFAULTS[word]))
        elif word.isdecimal() and works and works[-1][1] and not is_number:
            works[-1] = (works[-1][0], int(word))
        else:
            known = ", ".join(f"{work} N" if count else work for work, count in DEFAULTS.items())
            raise ValueError(f"{word}: not a work; the works are {known}")
        is_number = word.isdecimal()
    return works


def _measure(works: Sequence[tuple[str, int]], *, options: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """Measure the works in turn on one test bed; return the figures and the card of the machine."""
    import uvloop

    from . import bulk, burst, delete, edit, hot, join, library, relay
    from .bed import make_bed
    from .objects import Effort
    from .report import card, write_json

    counted = {"bulk": bulk, "burst": burst, "edit": edit, "delete": delete, "library": library}
    effort = Effort(options.rounds, changes=options.changes, seconds=options.seconds)
    if options.quick:
        effort = Effort(rounds=1, changes=5, seconds=1.0, connections=(8,), sample=_QUICK)
    load = os.getloadavg()[0]
    joins = [2 if options.quick else number for work, number in works if work == "join"]
    joined: list[Line] = []
    version = ""
    for members in joins:
        print(f"join {members}: {effort.rounds} rounds", flush=True)
        found_lines, version = join.measure(count=members, rounds=effort.rounds)
        joined += found_lines
    works = [(work, number) for work, number in works if work != "join"]
    if not works:
        found = card(kubernetes=version, fsync=False, load=load)
        if options.json:
            write_json(options.json, card=found, lines=joined, profiles=[])
        return joined, found
    with make_bed(fsync=options.fsync, is_sampled=options.profile) as bed:
        version = bed.source.api.get("/version")["gitVersion"]
        lines = joined
        for work, number in works:
            count = _QUICK if options.quick and number else number
            print(f"{work} {count}".removesuffix(" 0") + f": {effort.rounds} rounds", flush=True)
            if work in counted:
                measuring = counted[work].measure(bed, count=count, effort=effort)
            else:
                measuring = {"relay": relay, "hot": hot}[work].measure(bed, effort=effort)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the daemon
                lines += runner.run(measuring)
        for name, usage in bed.meter.usages.items():
            usage.show(name)
        profiles = [usage.as_json(name) for name, usage in bed.meter.usages.items()]
    found = card(kubernetes=version, fsync=options.fsync, load=load)
    if options.json:
        write_json(options.json, card=found, lines=lines, profiles=profiles)
    return lines, found


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="hack/bench", description="Compare the daemon with the barest client.")
    works = ", ".join(f"{work} [N]" if count else work for work, count in DEFAULTS.items())
    made.add_argument("works", nargs="+", metavar="WORK", help=f"{works}; N is the number of objects")
    made.add_argument("--rounds", type=int, default=3, help="rounds of A B B A for each work (3)")
    made.add_argument("--changes", type=int, default=100, help="changes of one object in each block of relay (100)")
    made.add_argument("--seconds", type=float, default=60.0, help="how long each block of hot changes its object (60)")
    made.add_argument("--quick", action="store_true", help="only show that everything runs; the figures mean nothing")
    made.add_argument("--fsync", action="store_true", help="let etcd sync its log to disk, as in production")
    made.add_argument("--json", type=Path, metavar="FILE", help="write figures, CPU times and the card of the machine")
    made.add_argument("--profile", action="store_true", help="sample where the CPU time of the sink's daemon goes")
    return made
