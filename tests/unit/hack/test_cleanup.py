"""Control groups and folders of runs that have ended, and of runs that have not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hack.pods import cleanup


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A tree of one controller, and the folder of the runs' folders; both are plain folders here."""
    trees, folders = tmp_path / "cgroup", tmp_path / "folders"
    (trees / "memory").mkdir(parents=True)
    (trees / "memory" / "cgroup.procs").touch()
    folders.mkdir()
    monkeypatch.setattr(cleanup, "CGROUPS", trees)
    monkeypatch.setattr(cleanup, "_FOLDERS", folders)
    return trees / "memory", folders


def _ended_run() -> str:
    """The name of a run whose process has ended."""
    with subprocess.Popen(["sleep", "60"]) as child:
        name = cleanup.run_name(child.pid)
        child.kill()
    return name


def test_only_ended_runs_lose_their_groups(places: tuple[Path, Path]) -> None:
    tree, folders = places
    ended, running = _ended_run(), cleanup.run_name(os.getpid())
    for run in (ended, running):
        cleanup.make_group(f"{run}-1")
        (tree / f"{run}-1" / "kubepods" / "pod").mkdir(parents=True)
        cleanup.make_folder(run)
    (tree / "other").mkdir()
    assert cleanup.remove_remains() == []
    assert {path.name for path in tree.iterdir() if path.is_dir()} == {f"{running}-1", "other"}
    assert [path.name for path in folders.iterdir()] == [running]


def test_a_run_removes_its_own_groups_only(places: tuple[Path, Path]) -> None:
    tree, folders = places
    run = cleanup.run_name(os.getpid())
    cleanup.make_group(f"{run}-1")
    cleanup.make_group(f"{run}0-1")
    cleanup.make_folder(run)
    assert cleanup.remove_remains(run) == []
    assert [path.name for path in tree.iterdir() if path.is_dir()] == [f"{run}0-1"]
    assert list(folders.iterdir()) == []


def test_a_folder_that_is_not_empty_stays_and_is_named(places: tuple[Path, Path]) -> None:
    _, folders = places
    run = cleanup.run_name(os.getpid())
    (cleanup.make_folder(run) / "file").touch()
    assert cleanup.remove_remains(run) == [str(folders / run)]
