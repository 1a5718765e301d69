"""`kubectl cluster-registry`: kubectl finds the executable that the package installs, and the help has that name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hack.controlplane.build import ensure_binaries
from registry_controller import __version__

BIN = Path(sys.executable).parent


def test_kubectl_runs_the_command_line_as_a_plugin() -> None:
    kubectl = ensure_binaries(["kubectl"])["kubectl"]
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "KUBECONFIG": "/nowhere"}

    def ask(*words: str) -> str:
        command = [str(kubectl), "cluster-registry", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    assert ask("version") == f"registry-controller {__version__}\n"
    assert ask("plan", "--help").startswith("Usage: kubectl cluster-registry plan ")
    assert "  kubectl cluster-registry lint rule.yaml\n" in ask("--help")
