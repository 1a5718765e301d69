"""The watcher: a small process that removes the remains of a run as soon as the process of the run has ended.

Law: it reads a pipe whose only write end belongs to the process of the run, so that it notices even a SIGKILL. It
starts before anything is made that it removes.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import cleanup

ROOT: Final = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def watched(run: str) -> Iterator[Path]:
    """Make the folder of a run, and remove its folder and groups afterwards, also when this process is killed.

    run: its name (`cleanup.run_name`). What cannot be removed is printed on stderr.
    """
    # A session of its own: Ctrl-C, or a signal to the group of this process, does not reach it.
    watcher = subprocess.Popen(
        [sys.executable, "-m", "hack.pods.watcher", run],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd=ROOT,
    )
    try:
        yield cleanup.make_folder(run)
    finally:
        watcher.communicate()  # closes the pipe


def main(run: str) -> None:
    """Wait for EOF, then remove the remains of the run. Signals are ignored: they are for the run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for path in cleanup.remove_remains(run):
        print(f"{path} cannot be removed", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
