"""The command line as one file, built with the locked packages, and started where nothing else is installed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from registry_controller import __version__

ROOT = Path(__file__).resolve().parents[2]
_RULE = ROOT / "docs" / "examples" / "greetings-rule.yaml"
_LIMIT_S = 900
_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def _run(*command: str, env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(2 * _LIMIT_S)
def test_the_file_of_this_platform_runs_without_any_package(tmp_path: Path) -> None:
    """The file of the package for krew, under the name by which kubectl finds it.

    The virtual environment has not even pip, no variable but the cache folder's is set, and the folder is empty.
    """
    name = f"linux-{_MACHINES[platform.machine()]}"
    command = [str(ROOT / "hack" / "zipapp"), name, "--python", _PYTHON, "--out", str(tmp_path / "dist")]
    _run(*command, env=dict(os.environ), cwd=tmp_path)
    with tarfile.open(tmp_path / "dist" / f"kubectl-cluster_registry-{name}.tar.gz") as opened:
        plugin = opened.extractfile("kubectl-cluster_registry")
        assert plugin is not None
        (tmp_path / "kubectl-cluster_registry").write_bytes(plugin.read())
    _run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"), env={}, cwd=tmp_path)
    (tmp_path / "empty").mkdir()

    def ask(*words: str) -> str:
        started = [str(tmp_path / "venv" / "bin" / "python"), str(tmp_path / "kubectl-cluster_registry"), *words]
        return _run(*started, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, cwd=tmp_path / "empty")

    assert ask("version") == f"registry-controller {__version__}\n"
    assert ask("lint", str(_RULE), "-o", "json").strip() == "[]"
    assert ask("plan", "--help").startswith("Usage: kubectl cluster-registry plan ")
