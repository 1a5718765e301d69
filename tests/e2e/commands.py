"""Runs the program as a user does, with the contexts of a group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(sys.executable).parent / "registry-controller"


class Ended(NamedTuple):
    """The end of a command."""

    code: int
    stdout: str
    stderr: str


def run(kubeconfig: Path, *arguments: str, timeout_s: float = 280, stdin: str = "") -> Ended:
    """Run a command with this kubeconfig."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
    done = subprocess.run(
        [str(PROGRAM), *arguments], env=env, input=stdin, capture_output=True, text=True, check=False,
        timeout=timeout_s,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def contexts(names: Iterable[str]) -> list[str]:
    """Return the flags for these contexts."""
    return [word for name in names for word in ("--context", name)]
