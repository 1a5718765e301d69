"""The messages in the code that users read, and the fragments of messages that docs/troubleshooting.md explains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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
    "message about an answer": [
        "clusters/clones.py", "clusters/metadata.py", "kube/connect.py", "kube/discover.py", "kube/listing.py",
        "kube/object.py", "kube/responses.py", "kube/translate.py", "kube/transport.py", "kube/watch.py",
        "sync/lost_fields.py", "sync/remaining_content.py", "watch/limits.py", "watch/lister.py", "watch/reflector.py",
    ],
    "message about this cluster": [
        "local/cluster_profiles.py", "local/controller.py", "local/kubeconfig_secret.py", "local/own_cluster.py",
        "local/reader_token.py",
    ],
    "message at the start": ["api/optiontext.py", "process.py", "report/listening.py", "settings.py"],
    "message about a rule": [
        "core/decision/stored_spec.py", "core/rules/destinations.py", "core/status/missing_rules.py",
        "core/status/rule.py", "report/reasons.py", "status/rules.py", "sync/contention.py", "sync/pace.py",
    ],
    "message about a copy": [
        "app.py", "cache/rule_evaluator.py", "sync/applier.py", "sync/copy_updater.py", "sync/copy_writer.py",
        "sync/container_copies.py", "sync/digest.py", "sync/outcomes.py", "sync/reconciler.py", "sync/stored_form.py",
    ],
    "message of join, status or check": ["admin/*.py", "kube/handshake.py", "kube/pod_exec.py", "local/client.py"],
    "message of the command line": [
        "cli/*.py", "kube/rest_config.py", "membership/leave.py", "planner/dry_run.py", "status/readiness.py",
    ],
}  # fmt: skip
"""For each table of the page, the modules whose messages it explains."""

ELSEWHERE = {
    "security-tests.md#the-table-of-kubeconfigs": [
        "kube/address.py", "kube/kubeconfig.py", "kube/pem.py", "kube/strict_yaml.py",
    ],
    "reasons.md#of-a-rules-conditions": [
        "api/*.py", "core/diff/*.py", "core/mutation/*.py", "core/rules/*.py", "core/status/cluster_info.py",
        "gotemplate/*.py",
    ],
    "explain-and-plan.md#why-is-my-object-not-copied": ["planner/*.py"],
    "operators.md#write-an-operator-over-a-group": ["group/*.py"],
}  # fmt: skip
"""For each place in docs, the modules whose messages it explains: they name a field, an argument or a value."""

NOT_SHOWN = [
    "cache/definition_state.py", "clusters/connection.py", "clusters/orphans.py", "core/decision/*.py", "handlers.py",
    "report/health.py", "report/logs.py", "report/metrics.py",
]  # fmt: skip
"""Modules whose texts are no messages: descriptions of values, names of tasks, help of metrics, constant log lines."""

ONLY_ERRORS = ("cli/", "settings.py", "process.py")
"""Of these modules only the texts of exceptions count: the remaining texts are help, names of tasks and answers."""

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


def modules_with_messages() -> list[Path]:
    """List the modules that have messages, or texts that look like messages."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if _messages_of(path, only_errors=False)]


def modules_of(patterns: Iterable[str]) -> set[Path]:
    """List the modules that match patterns; each pattern matches one at least."""
    found = {pattern: set(PACKAGE.glob(pattern)) for pattern in patterns}
    assert all(found.values()), [pattern for pattern, paths in found.items() if not paths]
    return set().union(*found.values())


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
    if isinstance(node, ast.Call) and _name_of(node.func) == AssertionError.__name__:  # a mistake in this program
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
