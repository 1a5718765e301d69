"""The printer: the forms, the terminal, colors, and control characters."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from registry_controller.cli.output import Cell, Form, Printer, Table, Tone, align_columns

TABLE = Table(
    ("NAME", "STATE", "ID"),
    [["a", Cell("Ready", Tone.GOOD), "1"], ["long-name", Cell("Failed", Tone.BAD), "2"]],
    only_wide=frozenset({"ID"}),
)


Capture = pytest.CaptureFixture[str]


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the standard output a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_without_a_terminal_a_table_is_plain_text(capsys: Capture) -> None:
    Printer().print_table(TABLE)
    assert capsys.readouterr().out == "NAME        STATE\na           Ready\nlong-name   Failed\n"


def test_the_wide_form_has_all_columns(capsys: Capture) -> None:
    Printer(Form.WIDE).print_table(TABLE)
    assert capsys.readouterr().out.splitlines()[1] == "a           Ready    1"


def test_a_table_without_rows_is_nothing(capsys: Capture) -> None:
    Printer().print_table(Table(("NAME",), []))
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_colors(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    Printer().print_table(TABLE)
    shown = capsys.readouterr().out
    assert "\x1b[32mReady" in shown
    assert "\x1b[31mFailed" in shown


@pytest.mark.parametrize("way", ["NO_COLOR", "TERM", "--color"])
def test_no_color_is_none(capsys: Capture, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    use_terminal(monkeypatch)
    if way == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    if way == "TERM":
        monkeypatch.setenv("TERM", "dumb")
    printer = Printer(color="never" if way == "--color" else "auto")
    printer.print_table(TABLE)
    printer.print_text("bad", Tone.BAD)
    shown = capsys.readouterr().out
    assert "Ready" in shown
    assert "\x1b" not in shown  # nor bold headings


def test_colors_can_be_wanted_without_a_terminal(capsys: Capture) -> None:
    Printer(color="always").print_table(TABLE)
    assert "\x1b[32mReady" in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_text_of_a_cluster_cannot_drive_a_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """A message with escape sequences and markup is shown as it is, without effect."""
    if is_terminal:
        use_terminal(monkeypatch)
    Printer().print_table(Table(("MESSAGE",), [["\x1b]0;title\x07[bold]x[/bold]"]]))
    Printer().print_text("\x1b[2J\x9b1m")
    shown = capsys.readouterr().out
    assert "?]0;title?[bold]x[/bold]" in shown
    assert shown.endswith("?[2J?1m\n")


def test_a_cell_of_several_lines_stays_a_line() -> None:
    assert align_columns([["A", "B"], ["x\ny", "z"]]) == "A     B\nx y   z"


def test_a_document_is_json_or_yaml(capsys: Capture) -> None:
    document = {"b": ("x", 1), "a": None, "on": Form.JSON}
    Printer(Form.JSON).print_document(document)
    Printer(Form.YAML).print_document(document)
    shown = capsys.readouterr().out
    as_json, as_yaml = shown[: shown.index("}\n") + 2], shown[shown.index("}\n") + 2 :]
    assert json.loads(as_json) == yaml.safe_load(as_yaml) == {"b": ["x", 1], "a": None, "on": "json"}
    assert as_yaml.startswith("b:\n- x\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Printer().progress("reading"):
        pass
    out, shown = capsys.readouterr()
    assert out == ""
    assert ("reading" in shown) is ("\x1b" in shown) is is_terminal


@pytest.mark.parametrize("way", ["NO_COLOR", "TERM", "--color"])
def test_progress_without_colors_is_a_plain_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb" if way == "TERM" else "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1" if way == "NO_COLOR" else "")
    with Printer(color="never" if way == "--color" else "auto").progress("reading"):
        pass
    assert capsys.readouterr() == ("", "reading\n")


def test_words_are_on_the_standard_error(capsys: Capture) -> None:
    Printer().say("wait")
    assert capsys.readouterr() == ("", "wait\n")


@pytest.mark.parametrize("form", [Form.JSON, Form.YAML])
def test_a_document_with_a_name_that_is_no_utf_8_is_one_all_the_same(capsys: Capture, form: Form) -> None:
    Printer(form).print_document([{"file": "a\udcff.yaml", "a\udcff": ("b\udcff", 1)}])
    assert yaml.safe_load(capsys.readouterr().out) == [{"file": "a?.yaml", "a?": ["b?", 1]}]


@pytest.mark.parametrize("columns", [1, 20])
def test_a_terminal_that_is_too_narrow_for_the_words_gets_whole_lines(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(columns))
    Printer(color="never").print_table(Table(("NAME", "STATE"), [["a-long-name", "has-no-space"], ["b", "c"]]))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["NAME          STATE", "a-long-name   has-no-space", "b             c"]


def test_a_terminal_that_is_too_narrow_for_the_texts_gets_them_in_several_lines(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    Printer(color="never").print_table(Table(("NAME", "WHY"), [["a", "some words about it"]]))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["NAME   WHY", "a      some words", "       about it"]
