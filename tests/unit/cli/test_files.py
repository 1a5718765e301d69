"""The files of `-f`: files, folders, standard input."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from registry_controller.cli import program
from registry_controller.cli.files import list_files
from tests.unit.cli.rule_texts import GOOD, STRAY


def test_a_folder_stands_for_its_yaml_and_json_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.md"):
        (tmp_path / name).touch()
    (tmp_path / "d.yaml").mkdir()
    found = list_files([Path("-"), tmp_path, tmp_path / "none.yaml"])
    assert [path.name for path in found] == ["-", "a.yml", "b.yaml", "c.json", "none.yaml"]


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="this folder has no"):
        list_files([tmp_path])


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(click.UsageError, match="this folder cannot be read: Permission denied"):
        list_files([tmp_path])


def test_a_text_in_place_of_a_file_is_a_file_that_cannot_be_read() -> None:
    found = CliRunner().invoke(program, ["lint", "-f", GOOD * 100])
    assert (found.exit_code, "cannot be read: File name too long" in found.output) == (1, True)


def test_standard_input_is_read_once() -> None:
    with pytest.raises(click.UsageError, match="only once"):
        list_files([Path("-"), Path("-")])


def test_lint_takes_files_as_arguments_and_as_flags(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "stray.yaml").write_text(STRAY)
    (tmp_path / "good.yaml").write_text(GOOD)
    found = CliRunner().invoke(program, ["lint", str(tmp_path / "good.yaml"), "-f", str(rules), "-f", "-"], input=STRAY)
    assert found.exit_code == 1
    places = {line.partition(":")[0] for line in found.stdout.splitlines()}
    assert places == {str(rules / "stray.yaml"), "<stdin>"}
