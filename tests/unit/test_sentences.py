"""hack/sentences: how it counts the words of a document, and what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.programs.sentences import GUIDES, MAX_WORDS, SPECIFICATIONS, main, mean, parser, sentences

ROOT = Path(__file__).parents[2]


def _counts(source: str) -> list[int]:
    return [sentence.words for sentence in sentences(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("One sentence. And\nanother one here.\n", [2, 4]),
        ("# A heading\nText below.\n", [2]),
        ("It ends with a colon:\n\n```sh\nkubectl get clusters -A\n```\nGo on.\n", [5, 2]),
        ("- An item\n  over two lines\n- and another\n", [5, 2]),
        ("1. First. `kubectl get x` is one word.\n", [1, 4]),
        ("A link to [two words](https://example.com/a/b#c).\n", [5]),
        ("Version 1.30 is e.g. not an end (see below.) Next.\n", [9, 1]),
        ("| a cell | of two words |\n|---|---|\n", [2, 3]),
    ],
)
def test_the_words_of_each_sentence_are_counted(source: str, expected: list[int]) -> None:
    assert _counts(source) == expected


def test_cells_do_not_count_for_the_average() -> None:
    assert mean(list(sentences("Four words are here.\n\n| one | two |\n"))) == 4
    assert mean([]) == 0


def test_a_long_sentence_and_a_heavy_document_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    path.write_text(" ".join(["word"] * (MAX_WORDS + 1)) + ".\n", encoding="utf-8")
    assert main(parser().parse_args([str(path)])) == 1
    printed = capsys.readouterr().out
    assert f"{path}:1: 36 words: word word" in printed
    assert "36.0 words a sentence (at most 17); 1 with more than 35" in printed


def test_a_document_in_order_is_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    path.write_text("One short sentence.\n", encoding="utf-8")
    assert main(parser().parse_args([str(path)])) == 0
    assert capsys.readouterr().out == ""


def test_a_document_that_no_list_names_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "unknown.md").write_text("Short.\n", encoding="utf-8")
    assert main(parser().parse_args([])) == 1
    assert "docs/unknown.md: is neither a guide nor a specification" in capsys.readouterr().out


def test_a_document_is_a_guide_or_a_specification_and_each_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(GUIDES) & set(SPECIFICATIONS) == set()
    monkeypatch.chdir(ROOT)
    assert main(parser().parse_args([])) == 0
