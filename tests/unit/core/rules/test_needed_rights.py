"""The rights that rules need."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK
from registry_controller.api.syncrule import SyncRule, read_rule
from registry_controller.core.rules.needed_rights import READ, WRITE, NeededRight, list_needed_rights

SECRET = GVK("", "v1", "Secret")
WIDGET = GVK("example.com", "v1", "Widget")


def made(kind: GVK, *entries: dict[str, Any], **spec: Any) -> SyncRule:
    written = {key: value for key, value in kind._asdict().items() if value}
    return read_rule(
        {
            "apiVersion": meta.API_VERSION,
            "kind": meta.RULE.kind,
            "metadata": {"name": "r"},
            "spec": {"groupVersionKind": written, "rules": [{"match": [{}], **entry} for entry in entries], **spec},
        }
    )


def rights(*rules: SyncRule) -> tuple[set[NeededRight], set[NeededRight]]:
    reader, controller = list_needed_rights(rules)
    return set(reader), set(controller)


def test_other_clusters_read_and_the_daemon_writes() -> None:
    assert rights(made(SECRET, {})) == ({NeededRight(SECRET, READ)}, {NeededRight(SECRET, WRITE)})
    assert READ == ("get", "list", "watch")
    assert (*READ, "create", "update", "delete") == WRITE


def test_a_rule_without_entries_needs_nothing() -> None:
    assert rights(made(SECRET)) == (set(), set())


@pytest.mark.parametrize("kind", [meta.CLUSTER, meta.RULE, meta.FEATURE])
def test_the_registrys_own_kinds_need_nothing(kind: GVK) -> None:
    assert rights(made(kind, {})) == (set(), set())


def test_the_daemon_writes_the_kind_of_the_copy() -> None:
    changed = {"mutations": {"groupVersionKind": {"group": "example.com", "kind": "Gadget"}}}
    again = {"mutations": {"groupVersionKind": {"kind": "Gizmo"}}}
    reader, controller = rights(made(WIDGET, changed, again))
    assert reader == {NeededRight(WIDGET, READ)}
    kinds = {right.kind.kind for right in controller}
    assert kinds == {"Gadget", "Gizmo"}


def test_a_status_and_a_namespace_need_one_verb_each() -> None:
    _, controller = rights(made(WIDGET, {"mutations": {"syncStatus": True}}, {}, createNamespaces=True))
    assert controller == {
        NeededRight(WIDGET, WRITE),
        NeededRight(WIDGET, ("update",), "status"),
        NeededRight(meta.NAMESPACE, ("create",)),
    }
