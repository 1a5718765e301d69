"""Pictures of the terminal for the documentation: SVG without fonts of the network, and the same as text."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_TEMPLATE: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
        font-variant-east-asian: full-width;
    }}
    .{unique_id}-title {{
        font-size: 18px;
        font-weight: bold;
        font-family: sans-serif;
    }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""
"""The template of rich without its @font-face, which loads a font from the network."""


def write_picture(output: str, path: Path, *, title: str) -> None:
    """Write the output of a command, with its colors, as SVG."""
    from rich.console import Console  # noqa: PLC0415  late: only this needs rich
    from rich.text import Text  # noqa: PLC0415

    text = Text.from_ansi(output.rstrip())
    width = max(len(line) for line in remove_colors(output).splitlines())
    console = Console(record=True, file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    console.print(text, soft_wrap=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = console.export_svg(title=title, code_format=_TEMPLATE, unique_id=path.stem)
    path.write_text("\n".join(line.rstrip() for line in made.splitlines()) + "\n", encoding="utf-8")


def remove_colors(output: str) -> str:
    """Return the output of a command without colors and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in _ANSI.sub("", output).rstrip().splitlines()) + "\n"
