"""Commands that wait for slow members show that work is under way, on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Write a kubeconfig of an API server that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": there}],
            "users": [{"name": "a", "user": {"token": "a-token"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }  # fmt: skip
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config), encoding="utf-8")
        yield path


@contextlib.contextmanager
def terminal(kubeconfig: Path, *arguments: str) -> Iterator[int]:
    """Run a command whose standard error is a terminal; yield the other end of the terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "registry_controller", *arguments, "--kubeconfig", str(kubeconfig)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(words: str, source: int) -> str:
    """Read a terminal until it shows some words, or ends."""
    shown = ""
    with contextlib.suppress(OSError):  # a terminal ends so
        while words not in shown and (part := os.read(source, 4096)):
            shown += part.decode(errors="replace")
    return shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check",), "checking the clusters and their peers"),
        (("check", "--pre"), "checking the clusters"),
        (("status",), "reading the members of the group"),
        (("status", "--watch"), "reading the members of the group"),
    ],
    ids=" ".join,
)
def test_a_slow_member_is_waited_for_with_a_sign_of_it(
    kubeconfig: Path, arguments: tuple[str, ...], words: str
) -> None:
    with terminal(kubeconfig, *arguments) as source:
        assert words in read_until(words, source)


@pytest.mark.parametrize("command", ["check", "status"])
def test_without_a_terminal_nothing_but_the_answer_is_printed(tmp_path: Path, command: str) -> None:
    missing = str(tmp_path / "none")
    done = subprocess.run(
        [sys.executable, "-m", "registry_controller", command, "--kubeconfig", missing],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: kubeconfig {missing}: there is no such file")
