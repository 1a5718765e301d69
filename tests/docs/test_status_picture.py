"""The picture of `status` in the README, and its text: the tables of the program, and nothing from the network."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

from registry_controller.admin.group_status import GroupStatus
from registry_controller.api.daemon_report import CopyCounts, RuleReport
from registry_controller.cli.status_tables import build_sections
from tests.docs.documents import ROOT, blocks
from tests.unit.admin.test_group_status import NOW, lease, peer, report, view

PICTURE = ROOT / "docs" / "images" / "status.svg"
XMLNS = "http://www.w3.org/2000/svg"
NAMES = ("a", "b", "c")


def _shown() -> str:
    """Return the text in the README, below the picture."""
    (block,) = (one for one in blocks(ROOT / "README.md") if one.language == "text")
    return block.text


def _headings() -> list[list[str]]:
    """Return the titles and headings that the program prints for three members with a copied object."""
    rule = RuleReport("greetings", "True", owners=(CopyCounts("b", in_step=2),))
    views = [
        view(name, lease(report(name, *(peer(other) for other in NAMES if other != name), rules=(rule,))))
        for name in NAMES
    ]
    sections = build_sections(GroupStatus(views), now=NOW)
    tables = [replace(one.table, rows=[]).select_columns(is_wide=False) for one in sections]
    return [[heading for heading in table.headings if heading not in NAMES] for table in tables]


def test_the_text_has_the_headings_of_the_program() -> None:
    lines = [re.split(r"\s{2,}", line.strip()) for line in _shown().splitlines()]
    for headings in _headings():
        assert any(line[: len(headings)] == headings for line in lines), headings


def test_the_picture_shows_the_text() -> None:
    drawn = "".join(ET.parse(PICTURE).getroot().itertext()).replace("\u00a0", " ")
    words = {word for line in _shown().splitlines() for word in line.split()}
    assert {word for word in words if word not in drawn} == set()


def test_the_picture_loads_nothing_from_the_network() -> None:
    text = PICTURE.read_text(encoding="utf-8").replace(XMLNS, "")
    assert "://" not in text
    assert "@font-face" not in text
    assert "images/status.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
