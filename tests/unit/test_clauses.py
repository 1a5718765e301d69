"""docs/behaviour.md does not promise what nothing shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEHAVIOUR = (ROOT / "docs" / "behaviour.md").read_text(encoding="utf-8")
CLAUSES = dict(re.findall(r"^- \*\*([A-Z]\d+)\*\* \*\((holds|planned)[;)]", BEHAVIOUR, re.MULTILINE))
ALL = (
    [f"P{n}" for n in range(1, 14)] + [f"R{n}" for n in range(1, 7)] + [f"O{n}" for n in range(1, 12)]
    + [f"W{n}" for n in range(1, 10)] + [f"A{n}" for n in range(1, 12)] + [f"S{n}" for n in range(1, 6)]
)  # fmt: skip
_MARK = re.compile(r"mark\.clause\(([^)]*)\)")
_CLAUSE = re.compile(r"\b[PROWAS]\d{1,2}\b")


def _marked(text: str) -> set[str]:
    return {clause for arguments in _MARK.findall(text) for clause in re.findall(r'"([^"]+)"', arguments)}


def _named(text: str) -> set[str]:
    """Find the clauses that docstrings name: of the module, a class or a test."""
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, scopes)]
    return {clause for node in nodes for clause in _CLAUSE.findall(ast.get_docstring(node) or "")}


TESTS = [
    path.read_text(encoding="utf-8")
    for folder in ("e2e", "property", "sim") for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
]  # fmt: skip
SHOWN = {clause for text in TESTS for clause in _marked(text) | _named(text)}


def test_every_clause_is_there_once_and_in_order() -> None:
    assert re.findall(r"^- \*\*([A-Z]\d+)\*\*", BEHAVIOUR, re.MULTILINE) == ALL
    assert list(CLAUSES) == ALL


@pytest.mark.parametrize("clause", [clause for clause, state in CLAUSES.items() if state == "holds"])
def test_a_clause_that_holds_is_shown_by_a_test(clause: str) -> None:
    assert clause in SHOWN, f'mark the test that shows it: @pytest.mark.clause("{clause}"), or name it in a docstring'


def test_tests_are_marked_with_clauses_that_exist() -> None:
    assert {clause for text in TESTS for clause in _marked(text)} <= set(CLAUSES)
