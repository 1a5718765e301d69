"""Runs `tests/pods` in namespaces of its own: `python -m hack.pods [ARGUMENT OF PYTEST ...]`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from hack.controlplane.build import NODE_PROGRAMS, ensure_binaries
from hack.controlplane.cluster import PROGRAMS
from hack.controlplane.errors import BuildError
from hack.pods import cleanup, needs
from hack.programs.image.build import ensure_image
from hack.programs.image.packages import ensure_test_packages

ROOT: Final = Path(__file__).resolve().parents[2]
_USAGE: Final = "usage: python -m hack.pods [ARGUMENT OF PYTEST ...]\n\nRun tests/pods on clusters with real nodes."


def main(arguments: list[str]) -> int:
    """Prepare what needs the network, then run pytest in new namespaces; return its exit code, or 3 without means."""
    if set(arguments) & {"-h", "--help"}:
        print(_USAGE)
        return 0
    if found := needs.obstacles():
        print("make test-pods cannot run here:", *found, sep="\n  ", file=sys.stderr)
        return 3
    try:
        ensure_binaries((*PROGRAMS, *NODE_PROGRAMS, "helm"))
        image = ensure_image()
        packages = ensure_test_packages(image)
    except BuildError as error:
        print(f"make test-pods: {error}", file=sys.stderr)
        return 1
    cleanup.remove_remains()  # of runs that were killed
    run = cleanup.run_name(os.getpid())
    scratch = cleanup.make_folder(run)
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    command = [*alone, "--mount-proc", "--propagation", "private", sys.executable, "-m", "pytest", "-n", "0"]
    variables = {"PODS_RUN": run, "PODS_IMAGE": str(image.archive.parent), "PODS_PACKAGES": str(packages)}
    variables["PODS_SCRATCH"] = str(scratch)
    try:
        has_paths = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
        chosen = [] if has_paths else ["tests/pods"]
        return subprocess.run(
            [*command, *chosen, *arguments], cwd=ROOT, env={**os.environ, **variables}, check=False
        ).returncode
    finally:
        for name in cleanup.remove_remains(run):
            print(f"{name} cannot be removed", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
