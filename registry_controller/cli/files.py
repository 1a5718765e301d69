"""The option `-f FILE|DIR|-`, which several commands have, and the files that it names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from registry_controller.cli.global_options import Decorator

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
STDIN: Final = Path("-")


def file_option(*, help: str, required: bool = True, name: str = "files") -> Decorator:  # noqa: A002  click's word
    """Add `-f FILE|DIR|-`, repeatable; the command gets a list of Path as its argument `name`."""
    return click.option(
        "-f",
        "--filename",
        name,
        multiple=True,
        required=required,
        metavar="FILE|DIR|-",
        callback=lambda _ctx, _param, value: list_files(value),
        type=click.Path(path_type=Path, allow_dash=True),
        help=f"{help} A folder stands for its .yaml, .yml and .json files, - for standard input. Repeatable.",
    )


def list_files(paths: Iterable[Path]) -> Sequence[Path]:
    """List files, and the YAML and JSON files of folders, in the order of their names, as kubectl does.

    `-` is standard input. UsageError for a folder without such files, and for `-` twice.
    """
    found: list[Path] = []
    for path in paths:
        if path == STDIN and path in found:
            raise click.UsageError("standard input (-) can be read only once")
        if not _is_folder(path):
            found.append(path)
            continue
        try:
            inside = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
        except OSError as error:
            raise click.UsageError(f"{path}: this folder cannot be read: {error.strerror}") from None
        if not inside:
            raise click.UsageError(f"{path}: this folder has no .yaml, .yml or .json file")
        found += inside
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a text that is no path, or a folder above it that may not be read: the reader reports that
        return False
