"""`hack/wheels`: which entries of a lock file it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.programs.wheels import PYTHONS, TARGETS, Target, entries_for

_LOCK = """\
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:aa
    # via click
plain==1.0 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
uvloop==0.23.0 ; implementation_name == 'cpython' and sys_platform != 'win32' \\
    --hash=sha256:dd
"""
_LOCK_FILE = Path(__file__).resolve().parents[3] / "requirements" / "otel.lock"


def _names(target: Target) -> list[str]:
    return [entry.split("==")[0] for entry in entries_for(_LOCK, target=target, python="3.14")]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_markers_are_those_of_the_target(target: Target) -> None:
    expected = ["colorama", "plain"] if target.system == "win32" else ["plain", "uvloop"]
    assert _names(target) == expected


def test_entries_keep_their_hashes_and_lose_their_markers() -> None:
    [_, plain] = list(entries_for(_LOCK, target=TARGETS[-1], python="3.14"))
    assert plain == "plain==1.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_no_uvloop_on_windows_only(python: str) -> None:
    lock = _LOCK_FILE.read_text(encoding="utf-8")
    without = {
        target.name
        for target in TARGETS
        if not any(entry.startswith("uvloop==") for entry in entries_for(lock, target=target, python=python))
    }
    assert without == {"windows-amd64"}
