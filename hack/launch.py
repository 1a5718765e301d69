#!/usr/bin/env python3
"""Runs a program of `hack/programs` in `.venv`: each link to this file runs the program of the link's name.

Law: arguments are parsed before anything is installed, so `--help` and wrong arguments need Python alone.
Therefore a program's module imports only the standard library; its `main` imports the rest.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Parse the arguments with the running Python, create `.venv`, and replace this process by the program in it."""
    name = Path(sys.argv[0]).name
    os.chdir(ROOT)
    if sys.version_info >= (3, 11):  # noqa: UP036 - hack/venv finds a newer one
        sys.path[0] = str(ROOT)
        importlib.import_module(f"hack.programs.{name}").parser().parse_args()
    if code := subprocess.run(["hack/venv"], check=False).returncode:
        sys.exit(code)
    python = ".venv/bin/python"
    # The order of sets is random in each process unless this is fixed, and a seed would not replay its schedule.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    os.execve(python, [python, "-u", "-m", f"hack.programs.{name}", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
