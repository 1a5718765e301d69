"""The completion of the shell: commands, flags, and the contexts of the kubeconfig."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from registry_controller.cli import program
from registry_controller.cli.completion import SHELLS

KUBECONFIG = "contexts: [{name: kind-a}, {name: kind-b}, {name: other}]"


def complete(*words: str, incomplete: str = "") -> list[str]:
    found = BashComplete(program, {}, "registry-controller", "_X").get_completions(list(words), incomplete)
    return [item.value for item in found]


def test_commands_and_flags_are_completed() -> None:
    assert complete(incomplete="pl") == ["plan"]
    assert set(complete("--context", "a", "plan", incomplete="--co")) == {"--context", "--color"}
    assert complete("plan", "-o", incomplete="w") == ["wide"]
    assert complete("completion", incomplete="") == [*SHELLS]


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    assert complete("plan", "--kubeconfig", str(file), "--context", incomplete="kind") == ["kind-a", "kind-b"]
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert complete("plan", "--context", incomplete="o") == ["other"]
    more = tmp_path / "more"
    more.write_text("contexts: [{name: other}, {name: outer}]")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "missing"), str(file), "", str(more)]))
    assert complete("plan", "--context", incomplete="o") == ["other", "outer"]
    monkeypatch.setenv("KUBECONFIG", str(file))
    file.write_text("a: [")
    assert complete("plan", "--context") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_of_its_shell(shell: str) -> None:
    found = CliRunner().invoke(program, ["completion", shell])
    assert found.exit_code == 0
    assert f"_REGISTRY_CONTROLLER_COMPLETE={shell}_complete" in found.stdout
    if found_shell := shutil.which(shell):  # not every machine has each of them
        assert not subprocess.run([found_shell, "-n"], input=found.stdout, text=True, check=False).returncode
