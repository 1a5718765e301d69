"""docs/security.md is a threat model that one reads in ten minutes; its numbers and tests are in appendices."""

from __future__ import annotations

import re

from tests.docs.documents import ROOT, tables

DOCS = ROOT / "docs"
WORDS_A_MINUTE = 240


def test_the_threat_model_is_read_in_ten_minutes() -> None:
    text = re.sub(r"\]\([^)]*\)", "]", (DOCS / "security.md").read_text(encoding="utf-8"))
    words = [word for word in text.split() if any(letter.isalnum() for letter in word)]
    assert len(words) <= 10 * WORDS_A_MINUTE


def test_its_tables_are_short() -> None:
    assert max(len(rows) for rows in tables(DOCS / "security.md")) <= 12


def test_the_appendices_have_the_long_tables() -> None:
    assert [len(rows) > 100 for rows in tables(DOCS / "security-tests.md")] == [True, True]
    assert max(len(rows) for rows in tables(DOCS / "security-limits.md")) > 25


def test_each_clause_that_it_names_exists() -> None:
    clauses = set(
        re.findall(r"^- \*\*([A-Z]\d+)\*\*", (DOCS / "behaviour.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = set(re.findall(r"\b([OPRWA]\d+)\b", (DOCS / "security.md").read_text(encoding="utf-8")))
    assert len(named) > 10
    assert named <= clauses
