"""The oracle: what the original's own Go libraries make of a case.

Law: the answers are theirs. The program is built from the sources beside this file, once for each content of them,
in the cache of the control planes' programs; whoever has no Go must point TEST_ASSET_ORACLE at a built one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import select
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from hack.controlplane.build import RECIPES, Recipe, ensure_binaries

_HERE = Path(__file__).resolve().parent
_NAME = "oracle"
_PATIENCE_S = 120.0  # Go takes its time to die of a stack of 1 GiB, on a machine with other things to do


@dataclass(frozen=True, slots=True)
class Answer:
    """What Go says: a value, or `error` (never empty then)."""

    value: Any = None
    error: str = ""

    @property
    def ok(self) -> bool:
        """Say whether there is a value."""
        return not self.error


class OracleError(Exception):
    """The oracle is dead or silent: an error of the test bed, never an answer. The next case finds another oracle."""


class OracleDied(OracleError):
    """Go itself ended of a case, as the original would."""


def build_oracle() -> Path:
    """Return the program's path, built when its sources are new; BuildError says what to do."""
    digest = hashlib.sha256()
    for source in sorted(_HERE.glob("*.go")):
        digest.update(f"{source.name}\0".encode() + source.read_bytes())
    # The cache tells programs apart by go.mod, go.sum and flags: as a stamp the sources are among the flags.
    stamps = (f"main.sources={digest.hexdigest()}",)
    RECIPES[_NAME] = Recipe(str(_HERE), ".", "github.com/cppforlife/go-patch", stamps, 60)
    return ensure_binaries((_NAME,))[_NAME]


class Oracle:
    """The program, running; one case at a time, so a case that kills it is known."""

    def __init__(self) -> None:
        self._process = _start()
        self._turn = threading.Lock()
        self.asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _t: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _start_again(self) -> None:
        self.close()
        self._process = _start()

    def ask(self, case: Mapping[str, Any]) -> Answer:
        """Ask one case: `op` and the operation's fields, as main.go names them."""
        return self.ask_all((case,))[0]

    def ask_all(self, cases: Iterable[Mapping[str, Any]]) -> list[Answer]:
        """Ask many cases; the answers come in their order."""
        with self._turn:
            return [self._ask(case) for case in cases]

    def _ask(self, case: Mapping[str, Any]) -> Answer:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self.asked += 1
        try:
            stdin.write(json.dumps(case).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            self._start_again()
            raise OracleError(f"the oracle died before the case {case!r}") from None
        # Nothing is buffered on our side: an answer is one line, read whole before the next case goes out.
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            self._start_again()
            raise OracleError(f"the oracle has not answered within {_PATIENCE_S} s: {case!r}")
        line = stdout.readline()
        if not line:
            self._start_again()
            raise OracleDied(f"the oracle died of the case {case!r}")
        said = json.loads(line)
        return Answer(value=said.get("value")) if said["ok"] else Answer(error=said["error"] or "error")


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(build_oracle())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


@functools.cache
def the_oracle() -> Oracle:
    """Return the one oracle of this process."""
    oracle = Oracle()
    atexit.register(oracle.close)
    return oracle


def is_available() -> bool:
    """Say whether there is Go to build the oracle with, or a built one; anything else that is wrong is an error."""
    return bool(os.environ.get("TEST_ASSET_ORACLE")) or shutil.which("go") is not None


def main() -> NoReturn:
    """Answer the cases on stdin, one JSON object a line: `python -m tests.oracle.oracle < cases`."""
    os.execv(build_oracle(), [_NAME])


if __name__ == "__main__":
    main()
