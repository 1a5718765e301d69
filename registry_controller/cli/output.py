"""Prints answers: data to the standard output, words to the standard error.

On a terminal `rich` formats tables and colors; elsewhere tables are plain text, aligned as kubectl does.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, TextIO

import click

from registry_controller.api.meta import GroupKind, Manifest, metadata_of

_UNLIMITED: Final = 10_000  # columns, where no terminal limits them
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters but tab and newline: with them, text from a cluster could drive a terminal."""


class Form(StrEnum):
    """A form of output."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    DIFF = "diff"


class Tone(Enum):
    """The color of a text: its meaning, and the style of `rich`."""

    PLAIN = ""
    GOOD = "green"
    WARNING = "yellow"
    BAD = "red"
    MINOR = "dim"
    STRONG = "bold"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a color."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its headings, its rows, and the headings of columns that only the form `wide` has."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    only_wide: frozenset[str] = frozenset()

    def select_columns(self, *, is_wide: bool) -> Table:
        """Return the table with the columns of a form."""
        kept = [index for index, heading in enumerate(self.headings) if is_wide or heading not in self.only_wide]
        rows = [[row[index] for index in kept] for row in self.rows]
        return Table([self.headings[index] for index in kept], rows)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints the answer of a command in the form that the user wants."""

    form: Form = Form.TEXT
    color: str = "auto"

    @property
    def is_for_programs(self) -> bool:
        """Return whether the answer is a document or names, not text."""
        return self.form in (Form.JSON, Form.YAML, Form.NAME)

    def print_document(self, document: Any) -> None:
        """Print plain data as YAML for the form `yaml`, and otherwise as JSON."""
        click.echo(format_document(document, self.form), nl=False)

    def print_documents(self, documents: Iterable[Any]) -> None:
        """Print plain data as YAML documents, which kubectl reads."""
        click.echo("---\n".join(format_document(document, Form.YAML) for document in documents), nl=False)

    def print_names(self, names: Iterable[str]) -> None:
        """Print a name a line."""
        for name in names:
            click.echo(remove_controls(name))

    def print_text(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Print text to the standard output."""
        click.echo(self._paint(text, tone, sys.stdout))

    def print_table(self, table: Table) -> None:
        """Print a table; without rows, nothing."""
        shown = table.select_columns(is_wide=self.form is Form.WIDE)
        if not shown.rows:
            return
        if self._is_rich(sys.stdout):
            self._print_rich(shown)
        else:
            click.echo(align_columns([shown.headings, *([_text_of(cell) for cell in row] for row in shown.rows)]))

    def say(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Print words for a person to the standard error."""
        click.echo(self._paint(text, tone, sys.stderr), err=True)

    @contextlib.contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Show that work is under way, on the terminal of the standard error; elsewhere nothing.

        Without colors it is a plain line: a spinner needs escape sequences.
        """
        if not sys.stderr.isatty():
            yield
            return
        if not is_color_wanted(self.color, is_terminal=True):
            self.say(text)
            yield
            return
        from rich.console import Console  # noqa: PLC0415  late, as below
        from rich.text import Text  # noqa: PLC0415

        with Console(file=sys.stderr, highlight=False, no_color=False).status(Text(remove_controls(text))):
            yield

    def _is_rich(self, stream: TextIO) -> bool:
        return stream.isatty() or self.color == "always"

    def _paint(self, text: str, tone: Tone, stream: TextIO) -> str:
        clean = remove_controls(text)
        if tone is Tone.PLAIN or not is_color_wanted(self.color, is_terminal=stream.isatty()):
            return clean
        return click.style(
            clean,
            fg=None if tone in (Tone.MINOR, Tone.STRONG) else tone.value,
            dim=tone is Tone.MINOR or None,
            bold=tone is Tone.STRONG or None,
        )

    def _print_rich(self, table: Table) -> None:
        # Imported late: rich takes a tenth of a second.
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table as RichTable  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        is_terminal = sys.stdout.isatty()
        has_color = is_color_wanted(self.color, is_terminal=is_terminal)
        console = Console(
            file=sys.stdout,
            force_terminal=True,
            no_color=not has_color,
            color_system="auto" if is_terminal else "standard",
            width=None if is_terminal else _UNLIMITED,
            highlight=False,
            soft_wrap=False,
        )
        shown = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold" if has_color else "")
        for heading in table.headings:
            shown.add_column(Text(heading), overflow="fold")
        for row in table.rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            shown.add_row(*(Text(remove_controls(cell.text), style=cell.tone.value) for cell in cells))
        needed = console.measure(shown, options=console.options.update_width(_UNLIMITED))
        if needed.minimum > console.width:  # words would be cut into letters: the terminal wraps whole lines instead
            console.width = needed.maximum
        console.print(shown)


def object_name(kind: GroupKind, name: str) -> str:
    """Return the name of an object as kubectl prints it: `secret/x`, `deployment.apps/x`."""
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.kind.lower()}{group}/{name}"


def hide_managers(manifest: Manifest) -> Manifest:
    """Return an object without its managedFields, as kubectl prints it."""
    info = metadata_of(manifest)
    if "managedFields" not in info:
        return manifest
    return {**manifest, "metadata": {key: value for key, value in info.items() if key != "managedFields"}}


def list_document(objects: Iterable[Any]) -> dict[str, Any]:
    """Return objects as the one document that kubectl reads."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def say(text: str) -> None:
    """Print words for a person to the standard error."""
    click.echo(remove_controls(text), err=True)


def format_document(document: Any, form: Form) -> str:
    """Format plain data as YAML for the form `yaml`, and otherwise as JSON; the text ends in a newline."""
    import orjson  # noqa: PLC0415  help and completion need neither of the two
    import yaml  # noqa: PLC0415

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    try:
        raw = orjson.dumps(document, option=options)
    except orjson.JSONEncodeError:  # a text is not UTF-8, such as the name of a file
        raw = orjson.dumps(_make_texts_valid(document), option=options)
    if form is not Form.YAML:
        return raw.decode()
    return yaml.safe_dump(orjson.loads(raw), sort_keys=False, allow_unicode=True)


def _make_texts_valid(value: Any) -> Any:
    """Replace the parts of texts that are not UTF-8 by `?`, in plain data."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {_make_texts_valid(key): _make_texts_valid(item) for key, item in value.items()}
    return [_make_texts_valid(item) for item in value] if isinstance(value, list | tuple) else value


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Align columns as kubectl does, with three spaces between them."""
    clean = [[remove_controls(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*clean, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in clean)
    return "\n".join(line.rstrip() for line in lines)


def remove_controls(text: str) -> str:
    """Replace the control characters of a text by `?`; tabs and newlines stay."""
    return _CONTROL.sub("?", text)


def is_color_wanted(color: str, *, is_terminal: bool) -> bool:
    """Return whether to use colors: `--color` decides, and with `auto` the terminal, its TERM and NO_COLOR."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return color == "always" or (color == "auto" and is_terminal and not is_plain)


def _text_of(cell: str | Cell) -> str:
    return cell if isinstance(cell, str) else cell.text
