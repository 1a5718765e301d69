"""The wheel in an empty virtual environment, as `pipx install` has it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hack.programs.wheels import PYTHONS, TARGETS, Target, missing_wheels
from registry_controller import __version__

ROOT = Path(__file__).resolve().parents[2]
_RULE = ROOT / "docs" / "examples" / "greetings-rule.yaml"
_LIMIT_S = 900
_NO_UVLOOP = "import sys; sys.modules['uvloop'] = None; import asyncio, registry_controller.process as p; "
_IS_PLAIN = "assert p._new_event_loop is asyncio.new_event_loop"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and the locked packages, and return the folder of the programs."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    bin_ = folder / "venv" / "bin"
    pip = [str(bin_ / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run(*pip, "--only-binary", ":all:", "--require-hashes", "-r", str(ROOT / "requirements" / "run.lock"))
    [wheel] = folder.glob("*.whl")
    _run(*pip, str(wheel))
    return bin_


def _run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(2 * _LIMIT_S)
def test_the_installed_program_lints_a_rule(installed: Path, tmp_path: Path) -> None:
    """Outside the checkout, so that nothing is read from there."""
    program = str(installed / "registry-controller")
    assert __version__ in _run(program, "--version", cwd=tmp_path)
    _run(program, "lint", str(_RULE), cwd=tmp_path)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        _RULE.read_text(encoding="utf-8").replace("groupVersionKind:", "groupVersionKinds:"), encoding="utf-8"
    )
    done = subprocess.run([program, "lint", str(wrong)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1


@pytest.mark.timeout(2 * _LIMIT_S)
@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("lint", str(_RULE), "-o", "json"), "[]"),
        (("rbac", "-f", str(_RULE)), "kind: ClusterRole"),
        (("crds",), "kind: CustomResourceDefinition"),
    ],
    ids=lambda found: found[0] if isinstance(found, tuple) else "",
)
def test_the_commands_without_a_cluster_need_no_environment(
    args: tuple[str, ...], shown: str, installed: Path, tmp_path: Path
) -> None:
    """No variable is set, no program is on the PATH, and the folder has no file."""
    command = [str(installed / "registry-controller"), *args]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_all_its_requirements_are_met(installed: Path) -> None:
    _run(str(installed / "python"), "-m", "pip", "check")


def test_the_daemon_loads_without_uvloop(installed: Path, tmp_path: Path) -> None:
    """Some platforms have none."""
    _run(str(installed / "python"), "-c", _NO_UVLOOP + _IS_PLAIN, cwd=tmp_path)


@pytest.mark.timeout(2 * _LIMIT_S)
@pytest.mark.parametrize(
    ("target", "python"),
    [
        pytest.param(
            *(target, python),
            marks=[] if (target.system, python) == ("linux", PYTHONS[-1]) else pytest.mark.nightly,
            id=f"{target.name}-{python}",
        )
        for target in TARGETS
        for python in PYTHONS
    ],
)
def test_every_locked_package_has_a_wheel(target: Target, python: str) -> None:
    """Each day for the image: the newest Python on Linux."""
    assert missing_wheels(target, python=python) is None


@pytest.mark.timeout(2 * _LIMIT_S)
def test_the_bill_of_materials_lists_the_locked_packages(tmp_path: Path) -> None:
    """`hack/sbom` installs its tools once, into .cache."""
    _run(str(ROOT / "hack" / "sbom"), str(tmp_path / "sbom.json"))
    written = json.loads((tmp_path / "sbom.json").read_text(encoding="utf-8"))
    assert written["bomFormat"] == "CycloneDX"
    named = written["metadata"]["component"]
    assert (named["name"], named["version"]) == ("registry-controller", __version__)
    lock = (ROOT / "requirements" / "otel.lock").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w.-]+)==([\w.]+)", lock, re.MULTILINE))
    assert {(component["name"], component["version"]) for component in written["components"]} == pinned
