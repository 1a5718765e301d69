"""`python -m hack.controlplane build | up | status | down`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from .build import DEFAULT_PROGRAMS, RECIPES, TEST_PROGRAMS, ensure_binaries
from .cluster import PROGRAMS
from .detached import Running, answers, detach, end, publish, running
from .errors import ControlPlaneError
from .group import Group

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    options = _parser().parse_args(argv)
    try:
        code: int = options.run(options)
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _build(options: argparse.Namespace) -> int:
    names = [*(options.names or DEFAULT_PROGRAMS), *(TEST_PROGRAMS if options.for_tests else ())]
    for name, path in ensure_binaries(names).items():
        print(f"{name}\t{path}")
    return 0


def _up(options: argparse.Namespace) -> int:
    if options.size < 1 or not _DNS_LABEL.fullmatch(options.prefix):
        raise ControlPlaneError("up needs one cluster at least, and a prefix of small letters, digits and -")
    if running(options.prefix):
        raise ControlPlaneError(f"a group {options.prefix} is up already: take another --prefix, or `down`")
    ensure_binaries(PROGRAMS)  # here, where the terminal shows its progress
    gates = [f"--feature-gate={gate}" for gate in options.feature_gate]
    if options.detach:
        kept = [f"--directory={options.directory}"] if options.directory else []
        arguments = [str(options.size), f"--prefix={options.prefix}", *kept, *gates]
        _explain(detach(arguments, prefix=options.prefix))
        print(f"`{sys.executable} -m hack.controlplane down --prefix {options.prefix}` ends it.")
        return 0
    _hold(options)
    return 0


def _hold(options: argparse.Namespace) -> None:
    """Keep a group up until SIGINT, SIGTERM or SIGHUP."""
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    for number in signals:
        signal.signal(number, _interrupt)
    directory = Path(options.directory) if options.directory else None
    try:
        with Group(
            options.size, prefix=options.prefix, directory=directory, feature_gates=options.feature_gate
        ) as group:
            state = publish(group)
            try:
                _explain(running(options.prefix)[0])
                print("Ctrl-C ends it.", flush=True)
                signal.pause()
            finally:
                state.unlink(missing_ok=True)
    except KeyboardInterrupt:
        print("ended", flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt for the first signal, and ignore later ones, so that the clean-up ends."""
    del number, frame
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _status(options: argparse.Namespace) -> int:
    found = running(options.prefix)
    for state in found:
        _explain(state)
    if not found:
        print("no group is up")
    return 0 if found else 1


def _down(options: argparse.Namespace) -> int:
    found = running(options.prefix)
    for state in found:
        end(state)
        print(f"{state.prefix}: ended")
    if not found:
        print("no group is up")
    return 0


def _explain(state: Running) -> None:
    folders = {path.parent: None for path in ensure_binaries(["kubectl", "helm"]).values()}
    print(f"{state.prefix} (pid {state.pid}):")
    for name, server in state.servers.items():
        print(f"  {name}\t{server}{'' if answers(server) else '  (does not answer)'}")
    print(f"  export KUBECONFIG={state.kubeconfig} PATH={os.pathsep.join(map(str, folders))}{os.pathsep}$PATH")
    print(f"  kubectl --context {next(iter(state.servers), state.prefix)} get namespaces", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.controlplane", description="Real control planes on loopback.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build the programs, and print their paths")
    build.add_argument(
        "names",
        nargs="*",
        choices=[*RECIPES, []],
        metavar="NAME",
        help="name of a program (those that a control plane needs)",
    )
    build.add_argument("--for-tests", action="store_true", help="also the programs that only tests run")
    build.set_defaults(run=_build)
    up = commands.add_parser("up", help="start N clusters")
    up.add_argument("size", type=int, metavar="N")
    up.add_argument("--prefix", default="demo", help="clusters are named PREFIX-1 and so on")
    up.add_argument("--directory", help="keep all files in this folder, also after the end")
    up.add_argument(
        "--feature-gate", action="append", default=[], metavar="NAME=BOOL", help="feature gate of the API servers"
    )
    up.add_argument(
        "--detach",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="return when they are ready, and end them with `down` (the default), or hold them until Ctrl-C",
    )
    up.set_defaults(run=_up)
    for name, run, text in (("status", _status, "list the groups"), ("down", _down, "end groups")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--prefix", help="only this group")
        command.set_defaults(run=run)
    return parser
