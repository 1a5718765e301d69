"""hack/words: which texts of a file it reads, and what it finds in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.programs.words import WORDS, findings, main, parser


def _found(source: str) -> list[tuple[int, str]]:
    return [(line, word) for line, word, _ in findings(source, is_python=True)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Say how many."""\n', [(1, 'docstring begins with "Say"'), (1, '"Say"')]),
        ('def f():\n    """Name the owner."""\n', [(2, 'docstring begins with "Name"')]),
        ('def f():\n    """Name of the owner."""\n', []),
        ('def f():\n    """Look up the kind."""\n', []),
        ('def f():\n    """Look for the kind."""\n', [(2, 'docstring begins with "Look"')]),
        ('"""Return the kind.\n\nThe peer tells it.\n"""\n', [(3, '"tells"')]),
        ("x = 1  # nobody reads it\n", [(1, '"nobody"')]),
        ('log.info("copy heard", target=key)\n', [(1, '"heard"')]),
        ('raise ValueError(f"{name} says no")\n', [(1, '"says"')]),
        ('said = heard("fate")\n', []),
        ('"""Return `said`, the last message."""\n', []),
        ('"""Return the text that a user who applies a rule reads."""\n', []),
        ('"""Return the cluster who owns it."""\n', [(1, '"who"')]),
        ('"""Edited by hand, in $HOME or the home directory."""\n', []),
    ],
)  # fmt: skip
def test_a_word_is_found_where_people_read_it(source: str, expected: list[tuple[int, str]]) -> None:
    assert _found(source) == expected


def test_each_line_of_other_files_is_read() -> None:
    assert [(line, word) for line, word, _ in findings("a: 1\n# for whoever\n", is_python=False)] == [(2, '"whoever"')]


def test_a_finding_has_its_file_and_line_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.py"
    file.write_text('"""Return it."""\n\n# said before\n', encoding="utf-8")
    assert main(parser().parse_args([str(tmp_path)])) == 1
    assert capsys.readouterr().out == f'{file}:3: "said": {WORDS["says?|said|saying"]}\n'
    file.write_text('"""Return it."""\n', encoding="utf-8")
    assert main(parser().parse_args([str(tmp_path)])) == 0
