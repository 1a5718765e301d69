"""The workflows of `.github`, which only GitHub runs: their actions, and their calls of programs of this project."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.programs.wheels import PYTHONS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
_PIN = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
_CALL = re.compile(r"^hack/([a-z]+)(?: .*)?$", re.MULTILINE)


def _jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


def _steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in _jobs(path).values():
        yield from job["steps"]


def _calls() -> list[tuple[str, str]]:
    """List the calls of the programs of `hack/programs`: the program's name and the line."""
    texts = [step.get("run", "") for path in WORKFLOWS for step in _steps(path)]
    found = [(match[1], match[0]) for text in texts for match in _CALL.finditer(text)]
    return [(name, line) for name, line in found if (ROOT / "hack" / name).is_symlink()]


def _words(line: str) -> list[str]:
    """Split a call as a shell does; each number that a shell computes is 1."""
    return shlex.split(re.sub(r"\$\(\(.*?\)\)", "1", line))[1:]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_pinned_to_a_commit_and_its_version_is_a_comment(path: Path) -> None:
    """A tag can be moved to other code; a commit cannot."""
    used = re.findall(r"^ *(?:- )?uses: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(used) == sum("uses" in step for step in _steps(path)) > 0
    assert [found for found in used if not _PIN.fullmatch(found)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    lines = {line.strip("- ") for path in WORKFLOWS for line in path.read_text(encoding="utf-8").splitlines()}
    pins = [line.removeprefix("uses: ") for line in lines if line.startswith("uses: ")]
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


def test_the_night_tests_the_oldest_and_the_newest_python() -> None:
    job = _jobs(ROOT / ".github" / "workflows" / "nightly.yaml")["test"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert job["strategy"]["matrix"]["python"] == [named[0], named[-1]] == [PYTHONS[0], PYTHONS[-1]]
    assert project["requires-python"].startswith(f">={named[0]}")
    assert {"python-version": "${{ matrix.python }}"} in [step.get("with") for step in job["steps"]]


@pytest.mark.parametrize(("name", "line"), _calls(), ids=lambda found: found)
def test_a_call_has_arguments_of_the_program(name: str, line: str) -> None:
    importlib.import_module(f"hack.programs.{name}").parser().parse_args(_words(line))


def test_a_release_publishes_the_kubectl_plugin_and_its_manifest() -> None:
    """The sums and the files of the release are those of `dist`, so the program has to write there before."""
    [(name, line)] = [(name, line) for name, line in _calls() if name == "zipapp"]
    options = importlib.import_module(f"hack.programs.{name}").parser().parse_args(_words(line))
    assert (options.out, options.platforms, options.pythons) == ("dist", [], None)
    assert options.url.endswith("/$GITHUB_REPOSITORY/releases/download/$GITHUB_REF_NAME")
    runs = "\n".join(step.get("run", "") for step in _steps(ROOT / ".github" / "workflows" / "release.yaml"))
    places = [runs.index(text) for text in (line, "sha256sum", 'gh release create "$GITHUB_REF_NAME"')]
    assert places == sorted(places)
