"""What the library promises: its names, and what each of them takes."""

from __future__ import annotations

import inspect

import pytest

from registry_controller import group

_PUBLIC = {
    "Controller": ("group", "reconcile", "workers"),
    "Event": ("member", "type", "object", "reason", "is_relisted", "skipped"),
    "Group": ("source", "connect", "connect_by_context"),
    "Key": ("member", "namespace", "name"),
    "Member": ("connection", "is_local"),
    "Object": (
        "kind", "namespace", "name", "uid", "revision", "created", "is_deleting", "generation", "labels",
        "annotations", "_partial",
    ),
    "Watch": ("namespace", "labels", "ended"),
}  # fmt: skip
_METHODS = {
    "Controller": {"add", "run", "watches"},
    "Group": {
        "controller", "is_running", "kopf", "from_cluster", "from_contexts", "from_secrets", "problem", "wait_known",
        "watch",
        "get", "items", "keys", "values",
    },
    "Member": {
        "cluster_id", "get", "is_alive", "is_connected", "is_stale", "list", "name", "problem", "silence_s",
    },
    "Object": {"has_body", "key", "manifest"},
    "Watch": {"close", "on_change", "on_state", "pending"},
}  # fmt: skip
_FIELDS = {
    "Object": {
        "annotations", "created", "generation", "is_deleting", "kind", "labels", "name", "namespace", "revision", "uid",
    },
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(group.__all__) == {*_PUBLIC, "EventType"}


@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_a_public_class_takes_these_arguments(name: str) -> None:
    found = getattr(group, name)
    assert tuple(inspect.signature(found).parameters) == _PUBLIC[name]


@pytest.mark.parametrize("name", sorted(_METHODS))
def test_a_public_class_has_these_methods(name: str) -> None:
    found = {word for word in dir(getattr(group, name)) if not word.startswith("_")}
    assert found - _FIELDS.get(name, set()) == _METHODS[name]


def test_the_types_of_events_are_these() -> None:
    assert [one.value for one in group.EventType] == ["ADDED", "MODIFIED", "DELETED", "SYNCED", "STALE", "LEFT"]
