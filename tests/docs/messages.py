"""The messages in the code that users read, and the fragments of messages that docs/troubleshooting.md explains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.documents import ROOT, table

PAGE, PACKAGE = ROOT / "docs" / "troubleshooting.md", ROOT / "registry_controller"
GAP = "..."
"""Stands for a value, in a message of the code and in a fragment of the page."""

SOURCES = {
    "message about a connection": ["kube/failures.py"],
    "message about a Cluster": [
        "cache/credentials.py", "clusters/dialer.py", "clusters/resolver.py", "core/status/cluster.py",
        "membership/quota.py", "status/clusters.py",
    ],
    "message about this cluster": ["local/kubeconfig_secret.py", "local/own_cluster.py", "local/reader_token.py"],
    "message about a rule": [
        "core/decision/stored_spec.py", "core/rules/destinations.py", "core/status/missing_rules.py",
        "core/status/rule.py", "report/reasons.py", "status/rules.py", "sync/contention.py", "sync/pace.py",
    ],
    "message of join, status or check": ["admin/*.py", "local/client.py"],
    "message of the command line": [
        "cli/*.py", "kube/rest_config.py", "membership/leave.py", "planner/dry_run.py", "status/readiness.py",
    ],
}  # fmt: skip
"""For each table of the page, the modules whose messages it explains."""

ONLY_ERRORS = ("cli/",)
"""Of these modules only the texts of exceptions count: the remaining texts are help and answers."""

_FEW_WORDS = 4
_NO_MESSAGES = {"compile", "option", "argument", "command", "debug", "info", "warning", "error", "create_task"}
"""Functions whose arguments are regular expressions, help, log lines (constant, explained by their keys) and names."""


def messages(header: str) -> list[str]:
    """List the messages of the modules of a table, with `...` for values."""
    found = []
    for pattern in SOURCES[header]:
        paths = sorted(PACKAGE.glob(pattern))
        assert paths, f"{pattern}: there is no such module"
        for path in paths:
            found += _messages_of(path, only_errors=pattern.startswith(ONLY_ERRORS))
    return found


def fragments(header: str) -> list[str]:
    """List the fragments of a table of the page."""
    return [fragment for row in table(PAGE, header=header) for fragment in re.findall(r"`([^`]+)`", row[0])]


def is_explained(message: str, fragment: str) -> bool:
    """Report whether the parts of a fragment occur in a message, in their order."""
    parts = (re.escape(part.strip()) for part in fragment.split(GAP) if part.strip())
    return re.search(".*?".join(parts), message) is not None


def _messages_of(path: Path, *, only_errors: bool) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    roots = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)] if only_errors else [tree]
    found = (text for root in roots for text in _texts(root))
    return [text for text in found if len(text.replace(GAP, "").split()) >= _FEW_WORDS and _is_message(text)]


def _is_message(text: str) -> bool:
    is_prompt = text[0].isupper() and text.endswith("?")
    return not is_prompt and "(?" not in text  # a regular expression


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings below a node, joined where they are parts of one, without docstrings."""
    if (text := _join(node)) is not None:
        yield text
        return
    if isinstance(node, ast.Call) and _name_of(node.func) in _NO_MESSAGES:
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from _texts(child)


def _join(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _join(node.left), _join(node.right)
        return None if left is None and right is None else f"{left or GAP}{right or GAP}"
    return None


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
