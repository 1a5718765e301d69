"""`python -m hack.demo [CONTEXT CONTEXT CONTEXT] [--image IMAGE]`; `make demo` calls it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from hack.controlplane import ControlPlaneError

from .own import OwnStage
from .stage import Stage
from .story import tell
from .terminal import StoryError
from .theirs import TheirStage

_TAIL_LINES = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Tell the story; return the exit code."""
    options = _parser().parse_args(argv)
    if options.contexts and len(options.contexts) != 3:
        print('the demo is told with three clusters: CONTEXTS="a b c"', file=sys.stderr)
        return 2
    if len(set(options.contexts)) != len(options.contexts):
        print("a context is named twice: the demo needs three different clusters", file=sys.stderr)
        return 2
    if options.image and not options.contexts:
        print("an image needs clusters that run it: give CONTEXTS, too", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with TheirStage(options.contexts, image=options.image) if options.contexts else OwnStage() as stage:
            return _play(stage)
    except (StoryError, ControlPlaneError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _play(stage: Stage) -> int:
    try:
        tell(stage)
    except (StoryError, ControlPlaneError):
        for name, log in stage.logs().items():
            text = log.read_text(encoding="utf-8", errors="replace") if isinstance(log, Path) else log
            print(f"\n--- the daemon of {name} said last:", file=sys.stderr)
            print("\n".join(text.splitlines()[-_TAIL_LINES:]), file=sys.stderr)
        raise
    print("\nThat is all: no hub, no leader, and every daemon writes only in its own cluster.", flush=True)
    if not sys.stdin.isatty():
        print("Nobody watches: cleaning up.", flush=True)
        return 0
    print(f"Look around from another terminal:\n\n{stage.farewell()}\n\nCtrl-C ends it and cleans up.", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("\ncleaning up", flush=True)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Turn the first signal into KeyboardInterrupt; more of them must not disturb the cleaning up."""
    del number, frame
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("contexts", nargs="*", metavar="CONTEXT", help="three contexts of your kubeconfig")
    parser.add_argument("--image", help="run this image in those clusters, instead of processes here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
