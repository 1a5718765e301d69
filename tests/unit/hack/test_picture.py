"""The pictures of the terminal for the documentation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from hack.demo.picture import remove_colors, write_picture
from registry_controller.cli.output import align_columns

XMLNS = "http://www.w3.org/2000/svg"


def test_a_picture_shows_the_output_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    table = align_columns([["MEMBER", "STATE"], ["a", "Ready"]])
    output = table.replace("Ready", "\x1b[32mReady\x1b[0m") + "   \n\n"
    assert remove_colors(output) == table + "\n"
    write_picture(output, tmp_path / "one.svg", title="status")
    root = ET.parse(tmp_path / "one.svg").getroot()
    assert "Ready" in "".join(root.itertext())
    assert "://" not in (tmp_path / "one.svg").read_text(encoding="utf-8").replace(XMLNS, "")
