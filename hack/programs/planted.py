"""`hack/planted`: plants each bug of `tests/planted/` in a copy of the tree, and reports which check finds it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "planted"
COPIED = ("registry_controller", "tests", "hack", "crds", "pyproject.toml")
_SCHEDULES = 300
_TESTS = ("tests/sim/test_rule_changes.py", "tests/sim/test_replicas.py", "tests/sim/test_group.py", "tests/property")
_HUNG_S = 3600.0
_BROKEN = re.compile(r"^seed (\d+): (.*)", re.MULTILINE)
_PLAYED = re.compile(r"^(\d+) schedules in", re.MULTILINE)
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class Bug(NamedTuple):
    """A bug. `reason` describes it in one line."""

    name: str
    reason: str
    patch: Path


class Finding(NamedTuple):
    """The check that found a bug, as text, empty for none; and the time that the check took."""

    by: str
    after: str


def bugs() -> list[Bug]:
    """Return all bugs."""
    return [Bug(path.stem, path.read_text().partition("\n")[0], path) for path in sorted(PLANTED.glob("*.patch"))]


def plant(bug: Bug, *, at: Path) -> None:
    """Copy the tree with the bug to an empty folder; CalledProcessError if the patch does not apply."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, at / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        else:
            shutil.copy(source, at / name)
    command = ["git", "apply", "--unsafe-paths", "--directory", str(at), str(bug.patch)]
    subprocess.run(command, check=True, cwd=at, capture_output=True)


def find(bug: Bug, *, seed: int, workers: int) -> Finding:
    """Plant a bug, and return the first check that finds it; RuntimeError if the schedules cannot be played."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = Path(folder)
        plant(bug, at=tree)
        began_s = time.monotonic()
        count = 0
        while count < _SCHEDULES:
            found = _run(_simulate(seed + count, _SCHEDULES - count, workers=workers), tree=tree)
            broken, played = _BROKEN.search(found), _PLAYED.search(found)
            if played is None:
                raise RuntimeError(f"{bug.name}: hack/sim ended without a count:\n{found[-2000:]}")
            count += int(played[1])
            if broken and not _is_broken_anyway(broken[1]):
                clause = broken[2].partition(":")[0]
                words = f"{time.monotonic() - began_s:.0f} s, {count} schedules"
                return Finding(f"hack/sim, {clause}, seed {broken[1]}", words)
        tests = ["-m", "pytest", "-q", "-x", "-n", str(workers), *_TESTS]
        if failed := _FAILED.search(_run(tests, tree=tree)):
            return Finding(failed[1].rpartition("/")[2], f"{time.monotonic() - began_s:.0f} s")
    return Finding("", f"{time.monotonic() - began_s:.0f} s")


def _simulate(seed: int, count: int, *, workers: int) -> Sequence[str]:
    options = ["--schedules", str(count), "--seed", str(seed), "--workers", str(workers)]
    return ["-m", "hack.programs.sim", *options, "--show", "0", "--until-broken"]


def _is_broken_anyway(seed: str) -> bool:
    """Return whether a seed breaks a law without the bug, too: then it does not show the bug."""
    alone = ["-m", "hack.programs.sim", "--schedules", "1", "--seed", seed, "--show", "0"]
    return bool(_BROKEN.search(_run(alone, tree=ROOT)))


def _run(arguments: Sequence[str], *, tree: Path) -> str:
    """Run Python in the copied tree, and return its output; after an hour it hangs, and is killed."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    command = [sys.executable, *arguments]
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=_HUNG_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the whole session, with the workers
        return process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # an interrupt or SIGTERM: leave nothing running
        raise


def main(options: argparse.Namespace) -> int:
    """Plant the bugs one at a time, and print the table; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known = {bug.name: bug for bug in bugs()}
    if unknown := [name for name in options.names if name not in known]:
        print(f"{', '.join(unknown)}: not a bug; the bugs are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.names] or list(known.values())
    count = 0
    for bug in chosen:
        found = find(bug, seed=options.seed, workers=options.workers)
        count += bool(found.by)
        print(f"{bug.name:<24} {found.by or 'NOT FOUND':<40} {found.after:<22} {bug.reason}", flush=True)
    print(f"{count} of {len(chosen)} found")
    return 0 if count == len(chosen) else 1


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    words = "Plant bugs, one at a time, and report which check finds each."
    parser = argparse.ArgumentParser(prog="hack/planted", description=words)
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a patch in tests/planted/ (all)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the first schedule (1)")
    parser.add_argument("--workers", type=int, default=2, metavar="W", help="number of processes (2)")
    return parser


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
