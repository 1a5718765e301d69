"""`hack/explore --acts N`: searches all interleavings of N acts in an abstract group of three, breadth first.

An act is one of a person: two members swap, one leaves, one declares that another has left, an own Cluster is deleted,
or deleted and made again, a Secret is renamed, credentials are withdrawn, a rule is made or deleted, a daemon is killed
or started, a way is cut or mended. Between acts, every order of deliveries and of passing time is tried. The daemon's
own functions decide; the model is `tests/explore`.
"""

from __future__ import annotations

import argparse
import sys


def main(options: argparse.Namespace) -> int:
    """Search, and print the result; return 1 for a broken law, and 2 where a bound ended the search."""
    from tests.explore.search import COMPLETE, Search, replay
    from tests.explore.steps import ABSTRACTED, ACTS

    kinds = frozenset(options.kinds.split(",")) if options.kinds else ACTS
    if unknown := kinds - ACTS:
        print(f"{', '.join(sorted(unknown))}: not an act; the acts are {', '.join(sorted(ACTS))}", file=sys.stderr)
        return 2
    if options.on_rule and "unrule" not in kinds:
        print("--on-rule: unrule is not among the kinds", file=sys.stderr)
        return 2
    print(f"{options.acts} acts of: {', '.join(sorted(kinds))}{', one of them unrule' if options.on_rule else ''}")
    search = Search(acts=options.acts, kinds=kinds, is_on_rule=options.on_rule, has_newcomer=options.newcomer)
    found = search.run(at_most_s=options.seconds, at_most_states=options.states, at_most_mib=options.memory)
    print(found)
    print("abstracted:", *ABSTRACTED, sep="\n  ")
    if found.broken is not None:
        if replay(found.trace, kinds=kinds, has_newcomer=options.newcomer) is None:
            print("these names do not lead there: where relays are equal, the daemon chooses by their IDs")
        return 1
    return 0 if found.ended_by == COMPLETE else 2


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="hack/explore", description=__doc__.partition(": ")[2])
    parser.add_argument("--acts", type=int, default=3, metavar="N", help="how many acts (3)")
    parser.add_argument("--kinds", default="", metavar="ACT,ACT", help="the acts to choose from (all)")
    parser.add_argument("--on-rule", action="store_true", help="only schedules in which the rule is deleted")
    parser.add_argument("--newcomer", action="store_true", help="begin with two members, and a third that may swap")
    parser.add_argument("--seconds", type=float, default=3600.0, metavar="S", help="end after so many seconds (3600)")
    parser.add_argument("--states", type=int, default=0, metavar="N", help="end at so many states (no bound)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB", help="end at so much memory (4096)")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
