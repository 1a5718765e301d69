"""Remains of runs outside their namespaces: control groups, and an empty folder on which a run mounts its files.

Law: they are named after the run, that is the process that started it. The remains of ended runs are removed. Control
groups are of version 1 (a tree for each controller) or version 2 (one tree).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hack.controlplane.guardian import start_time

from .needs import CGROUPS

_PREFIX: Final = "rc-pods"
_NAME: Final = re.compile(rf"{_PREFIX}-(\d+)-(\d+)(-\d+)?")
_FOLDERS: Final = Path("/var/tmp")  # a node mounts folders of its own over /run
_TRIES: Final = 100
_POLL_S: Final = 0.1


def run_name(pid: int) -> str:
    """Return the first part of the names of a run's groups: its process, and when that began."""
    return f"{_PREFIX}-{pid}-{start_time(pid)}"


def make_folder(run: str) -> Path:
    """Make the folder of a run."""
    folder = _FOLDERS / run
    folder.mkdir()
    return folder


def make_group(name: str) -> None:
    """Make a group in the tree of each controller."""
    for tree in _trees():
        group = tree / name
        group.mkdir(exist_ok=True)
        children = group / "cgroup.clone_children"  # of version 1: there a new group has no processor and no memory
        if children.exists() and (group / "cpuset.cpus").exists():
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((tree / file).read_text(encoding="ascii"), encoding="ascii")
            children.write_text("1", encoding="ascii")


def remove_remains(run: str | None = None) -> list[str]:
    """Remove the remains of a run, or of every run whose process has ended; return the paths that stay."""
    left = set()
    for tree in _trees():
        left |= {str(group) for group in tree.glob(f"{_PREFIX}-*") if _is_of(group, run) and not _remove(group)}
    for folder in _FOLDERS.glob(f"{_PREFIX}-*"):
        if _is_of(folder, run):
            try:
                folder.rmdir()
            except FileNotFoundError:  # another run has removed it
                pass
            except OSError:
                left.add(str(folder))
    return sorted(left)


def _is_of(path: Path, run: str | None) -> bool:
    found = _NAME.fullmatch(path.name)
    if found is None:
        return False
    return f"{path.name}-".startswith(f"{run}-") if run else start_time(int(found[1])) != int(found[2])


def _remove(group: Path) -> bool:
    """Remove a group with all groups below it, the deepest first, and kill what still runs in them."""
    for _ in range(_TRIES):
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106 - Path.rmdir does the same
        if not group.exists():
            return True
        for folder, _, _ in os.walk(group):
            for pid in _processes(Path(folder)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    return False


def _processes(group: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()]
    return []


def _trees() -> Iterator[Path]:
    """Yield the roots in which groups can be made."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
        return
    for path in sorted(CGROUPS.iterdir()):
        if path.is_dir() and not path.is_symlink() and (path / "cgroup.procs").exists():
            yield path
