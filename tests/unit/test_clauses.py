"""docs/behaviour.md does not promise what nothing shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEHAVIOUR = (ROOT / "docs" / "behaviour.md").read_text(encoding="utf-8")
CLAUSES = dict(re.findall(r"^- \*\*([A-Z]\d+)\*\* \*\((holds|planned)[;)]", BEHAVIOUR, re.MULTILINE))
ALL = (
    [f"P{n}" for n in range(1, 12)] + [f"R{n}" for n in range(1, 7)] + [f"O{n}" for n in range(1, 11)]
    + [f"W{n}" for n in range(1, 8)] + [f"A{n}" for n in range(1, 9)] + [f"S{n}" for n in range(1, 4)]
)  # fmt: skip
_MARK = re.compile(r"mark\.clause\(([^)]*)\)")


def _shown() -> set[str]:
    """Find the clauses that tests on real control planes, or of the laws, are marked with."""
    found: set[str] = set()
    for folder in ("e2e", "property"):
        for path in (ROOT / "tests" / folder).rglob("test_*.py"):
            for arguments in _MARK.findall(path.read_text(encoding="utf-8")):
                found |= set(re.findall(r'"([A-Z]\d+)"', arguments))
    return found


def test_every_clause_is_there_once_and_in_order() -> None:
    assert re.findall(r"^- \*\*([A-Z]\d+)\*\*", BEHAVIOUR, re.MULTILINE) == ALL
    assert list(CLAUSES) == ALL


@pytest.mark.parametrize("clause", [clause for clause, state in CLAUSES.items() if state == "holds"])
def test_a_clause_that_holds_is_shown_by_a_test(clause: str) -> None:
    assert clause in _shown(), f'mark the test that shows it: @pytest.mark.clause("{clause}")'


def test_tests_are_marked_with_clauses_that_exist() -> None:
    assert _shown() <= set(CLAUSES)
