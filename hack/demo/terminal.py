"""What the reader sees: steps, the commands as one would type them, and what they print.

Law: what is shown is what runs, and nothing else changes a cluster.
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
    """A step failed; the message says which, and what the command said."""


class Terminal:
    """Runs commands of a story and shows them; `env` is what they run with."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = dict(env)
        self._colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._steps = 0

    def step(self, title: str) -> None:
        """Begin a step."""
        self._steps += 1
        print(f"\n{self._style(f'{self._steps}. {title}', '1')}", flush=True)

    def say(self, text: str) -> None:
        """Say something about what happens."""
        print(self._style(text, "2"), flush=True)

    def run(self, command: str, *, quiet: bool = False) -> str:
        """Show a shell command, run it and show what it prints; StoryError when it fails."""
        self._show(command)
        done = self._execute(command)
        if done.returncode != 0:
            raise StoryError(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if not quiet:
            self._print(done.stdout)
        return done.stdout

    def until(self, command: str, holds: Callable[[str], bool], *, what: str, timeout_s: float = 60.0) -> str:
        """Show a command, repeat it until its output is as expected, and show that; StoryError when it is late.

        `what` says what is waited for.
        """
        self._show(command)
        started = time.monotonic()
        while True:
            done = self._execute(command)
            if done.returncode == 0 and holds(done.stdout):
                break
            if time.monotonic() - started > timeout_s:
                raise StoryError(
                    f"{command}\nstill not after {timeout_s:g} s: {what}; it says\n{done.stdout}{done.stderr}"
                )
            time.sleep(_POLL_S)
        self._print(done.stdout)
        waited_s = time.monotonic() - started
        if waited_s > 2 * _POLL_S:
            self.say(f"({what}: after {waited_s:.1f} s)")
        return done.stdout

    def ask(self, command: str) -> str:
        """Run a command without showing it; return what it prints; StoryError when it fails."""
        done = self._execute(command)
        if done.returncode != 0:
            raise StoryError(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def succeeds(self, command: str) -> bool:
        """Run a command without showing it; tell whether it succeeded."""
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
