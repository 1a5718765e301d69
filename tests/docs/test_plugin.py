"""The kubectl plugin: kubectl finds the executable that the package installs, and krew accepts its manifest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from hack.controlplane.build import ensure_binaries
from hack.programs import zipapp
from registry_controller import __version__

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


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


def test_krew_accepts_the_manifest(tmp_path: Path) -> None:
    checker = ensure_binaries(["validate-krew-manifest"])["validate-krew-manifest"]
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in zipapp.PLATFORMS}
    template = (ROOT / ".krew.yaml").read_text(encoding="utf-8")
    manifest = tmp_path / "cluster-registry.yaml"

    def check(text: str) -> subprocess.CompletedProcess[str]:
        manifest.write_text(text, encoding="utf-8")
        command = [str(checker), "-skip-install", "-manifest", str(manifest)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    filled = zipapp.fill_manifest(template, __version__, "https://example.com/v1", sums)
    assert check(filled).returncode == 0, check(filled).stderr
    assert check(filled.replace("bin: ", "bun: ")).returncode != 0
