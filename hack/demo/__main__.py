"""`python -m hack.demo [CONTEXT CONTEXT CONTEXT] [--image IMAGE] [--picture FILE]`; `make demo` calls it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from hack.controlplane import ControlPlaneError

from .contexts import ContextStage
from .loopback import LoopbackStage
from .picture import remove_colors, write_picture
from .stage import Stage
from .story import play, status_command
from .terminal import StoryError

_TAIL_LINES = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Play the story; return the exit code."""
    options = _parser().parse_args(argv)
    if options.contexts and len(options.contexts) != 3:
        print('the demo needs three clusters: CONTEXTS="a b c"', file=sys.stderr)
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
        with ContextStage(options.contexts, image=options.image) if options.contexts else LoopbackStage() as stage:
            return _play(stage, picture=options.picture)
    except (StoryError, ControlPlaneError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _play(stage: Stage, *, picture: Path | None) -> int:
    try:
        play(stage, on_synced=None if picture is None else partial(_draw, stage, picture))
    except (StoryError, ControlPlaneError):
        for name, log in stage.logs().items():
            text = log.read_text(encoding="utf-8", errors="replace") if isinstance(log, Path) else log
            print(f"\n--- last lines of the daemon of {name}:", file=sys.stderr)
            print("\n".join(text.splitlines()[-_TAIL_LINES:]), file=sys.stderr)
        raise
    print("\nThis was the demo: no hub, no leader, and each daemon writes only to its own cluster.", flush=True)
    if not sys.stdin.isatty():
        print("No terminal is attached: cleaning up.", flush=True)
        return 0
    print(f"To continue in another terminal:\n\n{stage.next_commands()}\n\nCtrl-C ends it and cleans up.", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("\ncleaning up", flush=True)
    return 0


def _draw(stage: Stage, picture: Path) -> None:
    """Write the status of the three members as a picture, and print it as text."""
    output = stage.terminal.read(f"{status_command(stage.actors)} --color always 2>&1")
    contexts = " ".join(f"--context {actor.context}" for actor in stage.actors)
    write_picture(output, picture, title=f"registry-controller status {contexts}")
    print(f"{picture}:\n{remove_colors(output)}", flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt for the first signal, and ignore later ones, so that the clean-up ends."""
    del number, frame
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("contexts", nargs="*", metavar="CONTEXT", help="three contexts of your kubeconfig")
    parser.add_argument("--image", help="run this image in those clusters, instead of processes here")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="also write the status of the three as SVG, and print its text"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
