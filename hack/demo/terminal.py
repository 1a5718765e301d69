"""The output of the demo: steps, the commands as a user would type them, and their output.

Law: the commands that change a cluster are shown as they run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
_POLL_S = 0.3
_COMMAND_TIMEOUT_S = 300.0


class StoryError(Exception):
    """A step failed; the message has the command and its output."""


class Terminal:
    """Runs and shows the commands of a story; `env` is their environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = dict(env)
        self._colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._steps = 0

    def step(self, title: str) -> None:
        """Start a step."""
        self._steps += 1
        print(f"\n{self._style(f'{self._steps}. {title}', '1')}", flush=True)

    def explain(self, text: str) -> None:
        """Print an explanation."""
        print(self._style(text, "2"), flush=True)

    def run(self, command: str, *, quiet: bool = False) -> str:
        """Show a shell command, run it and show its output; StoryError when it fails."""
        self._show(command)
        done = self._execute(command)
        if done.returncode != 0:
            raise StoryError(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if not quiet:
            self._print(done.stdout)
        return done.stdout

    def until(self, command: str, holds: Callable[[str], bool], *, condition: str, timeout_s: float = 60.0) -> str:
        """Show a command, repeat it until its output is as expected, and show that; StoryError when it is late.

        `condition` describes the expected output.
        """
        self._show(command)
        started = time.monotonic()
        while True:
            done = self._execute(command)
            if done.returncode == 0 and holds(done.stdout):
                break
            if time.monotonic() - started > timeout_s:
                raise StoryError(
                    f"{command}\nnot after {timeout_s:g} s: {condition}; the output is\n{done.stdout}{done.stderr}"
                )
            time.sleep(_POLL_S)
        self._print(done.stdout)
        waited_s = time.monotonic() - started
        if waited_s > 2 * _POLL_S:
            self.explain(f"({condition}: after {waited_s:.1f} s)")
        return done.stdout

    def read(self, command: str) -> str:
        """Run a command without showing it, and return its output; StoryError when it fails."""
        done = self._execute(command)
        if done.returncode != 0:
            raise StoryError(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def succeeds(self, command: str) -> bool:
        """Run a command without showing it; return whether it succeeded."""
        return self._execute(command).returncode == 0

    def _execute(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=_CHECKOUT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_TIMEOUT_S,
        )

    def _show(self, command: str) -> None:
        print(f"{self._style('$', '32')} {self._style(command, '36')}", flush=True)

    def _print(self, text: str) -> None:
        for line in text.rstrip().splitlines():
            print(f"  {line}", flush=True)

    def _style(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colours else text
