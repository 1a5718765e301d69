"""Runs `tests/pods` in namespaces of its own: `python -m hack.pods [ARGUMENT OF PYTEST ...]`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from hack.controlplane.build import NODE_PROGRAMS, ensure_binaries
from hack.controlplane.cluster import PROGRAMS
from hack.controlplane.errors import BuildError
from hack.pods import cleanup, needs
from hack.pods.node import alone
from hack.pods.watcher import ROOT, watched
from hack.programs.image.build import ensure_image
from hack.programs.image.packages import ensure_test_packages

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
        ensure_binaries((*PROGRAMS, *NODE_PROGRAMS, "helm", "helm3"))
        image = ensure_image()
        packages = ensure_test_packages(image)
    except BuildError as error:
        print(f"make test-pods: {error}", file=sys.stderr)
        return 1
    cleanup.remove_remains()  # of runs whose watcher was killed too
    run = cleanup.run_name(os.getpid())
    command = [*alone(), sys.executable, "-m", "pytest", "-n", "0"]
    variables = {"PODS_RUN": run, "PODS_IMAGE": str(image.archive.parent), "PODS_PACKAGES": str(packages)}
    has_paths = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
    chosen = [] if has_paths else ["tests/pods"]
    with watched(run) as scratch:
        variables["PODS_SCRATCH"] = str(scratch)
        return subprocess.run(
            [*command, *chosen, *arguments], cwd=ROOT, env={**os.environ, **variables}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
