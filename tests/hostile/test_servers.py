"""The table of hostile API servers: whole, and in the docs. `tests/e2e/test_hostile_servers.py` plays it."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.tables import FAMILIES, markdown

CASES = [case for family in FAMILIES for case in family.cases]


def test_the_table_is_whole() -> None:
    """P4, P5: every row once, and each either says something or shows that the good object comes all the same."""
    names = [case.does for case in CASES]
    assert len(set(names)) == len(names) > 100
    for case in CASES:
        assert case.said or case.copied or case.may_come, case.does
        assert "|" not in case.does + case.happens + case.told, case.does


def test_the_docs_have_the_table() -> None:
    """As it is here, row by row."""
    docs = Path(__file__).parents[2] / "docs" / "security.md"
    assert markdown() in docs.read_text(encoding="utf-8")
