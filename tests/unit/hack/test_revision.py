"""The revision in the label of the image, which `hack/image` reads from git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hack.programs.image import build

_AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *_AUTHOR, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _commit(folder: Path, file: str, text: str) -> str:
    (folder / file).write_text(text)
    _git(folder, "add", file)
    _git(folder, "commit", "--quiet", "--message", file)
    return _git(folder, "rev-parse", "HEAD")


def test_the_revision_is_the_last_commit_of_the_images_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    _git(tmp_path, "init", "--quiet")
    assert build.revision() == "unknown"
    of_image = _commit(tmp_path, "Dockerfile", "FROM scratch")
    assert _commit(tmp_path, "other", "text") != of_image
    (tmp_path / "other").write_text("changed")
    assert build.revision() == of_image
    (tmp_path / "Dockerfile").write_text("FROM other")
    assert build.revision() == f"{of_image}-dirty"


def test_the_revision_is_unknown_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert build.revision() == "unknown"


def test_the_revision_is_unknown_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.revision() != "unknown"
    monkeypatch.setenv("PATH", "")
    assert build.revision() == "unknown"
