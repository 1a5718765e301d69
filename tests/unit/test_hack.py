"""The programs of hack/: what they need before they show their help."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hack.programs

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.stem for path in (ROOT / "hack" / "programs").iterdir() if not path.name.startswith("__"))
SCRIPTS = ["audit", "check", "fix", "lock", "release-tools", "sbom", "venv"]
MODULES = ["hack.controlplane", "hack.demo", "hack.pods"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the tree as a fresh clone has it; `python3` in `bin` finds no third-party package."""
    folder = tmp_path_factory.mktemp("clone")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "tree" / name, follow_symlinks=False)
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize("command", [*(f"hack/{n}" for n in PROGRAMS + SCRIPTS), *(f"python3 -m {m}" for m in MODULES)])
def test_help_installs_nothing(command: str, clone: Path) -> None:
    tree = clone / "tree"
    env = {"PATH": f"{clone}/bin{os.pathsep}{os.defpath}", "HOME": str(clone / "home")}
    done = _run([*command.split(), "--help"], cwd=tree, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
    assert not (tree / ".venv").exists()
    assert not (tree / ".venv.lock").exists()


def test_a_wrong_argument_installs_nothing(clone: Path) -> None:
    env = {"PATH": f"{clone}/bin{os.pathsep}{os.defpath}"}
    done = _run(["hack/sim", "--schedules", "many"], cwd=clone / "tree", env=env)
    assert done.returncode == 2
    assert "--schedules: invalid int value: 'many'" in done.stderr
    assert not (clone / "tree" / ".venv.lock").exists()


def test_each_program_has_a_link_of_its_name_and_is_listed() -> None:
    links = {
        path.name for path in (ROOT / "hack").iterdir() if path.is_symlink() and path.readlink().name == "launch.py"
    }
    assert links == set(PROGRAMS)
    assert re.findall(r"^([a-z]+)  +\S", hack.programs.__doc__ or "", re.MULTILINE) == PROGRAMS
    listed = set(
        re.findall(r"^\| `([a-z]+)` \|", (ROOT / "hack" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert listed >= links


def _run(command: list[str], *, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)
