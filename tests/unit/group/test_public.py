"""What the library promises: its names, and what each of them takes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from registry_controller import group
from registry_controller.api.errors import InvalidOption

_PUBLIC = {
    "CollectionHalt": ("cluster", "since", "waiting", "command"),
    "Collector": ("group", "members", "access"),
    "Controller": ("group", "reconcile", "workers", "follow"),
    "Event": ("member", "type", "object", "reason", "is_relisted", "skipped"),
    "Group": ("source", "local", "connect", "connect_by_context"),
    "Key": ("member", "namespace", "name"),
    "LocalObjects": ("access",),
    "Member": ("connection", "is_local"),
    "Object": (
        "kind", "namespace", "name", "uid", "revision", "created", "is_deleting", "generation", "labels",
        "annotations", "_partial", "_origin",
    ),
    "Owner": ("cluster", "group", "kind", "namespace", "name", "uid"),
    "Watch": ("selection", "labels", "reads_caches", "is_engaged", "ended"),
}  # fmt: skip
_ERRORS = {"Conflict", "Forbidden", "RegistryError"}
_METHODS = {
    "Collector": {"halts", "kept", "on_owned", "owns", "problem", "run"},
    "Controller": {"add", "owns", "run", "watches"},
    "Group": {
        "collector", "controller", "is_running", "kopf", "from_cluster", "from_contexts", "from_secrets", "local",
        "problem", "unreadable", "wait_known", "watch",
        "get", "items", "keys", "values",
    },
    "LocalObjects": {
        "add_finalizer", "apply", "apply_status", "delete", "event", "get", "owner_of", "remove_finalizer",
    },
    "Member": {
        "as_owner", "cluster_id", "get", "is_alive", "is_connected", "is_stale", "list", "name", "owner_of", "problem",
        "silence_s",
    },
    "Object": {"has_body", "key", "manifest"},
    "Watch": {"close", "on_change", "on_state", "pending"},
}  # fmt: skip
_CONSTRUCTORS = {
    "from_cluster": ("operator", "operator_namespace", "kubeconfig", "context", "network_name"),
    "from_contexts": ("contexts", "operator", "operator_namespace", "local_context", "kubeconfig"),
    "from_secrets": (
        "namespace", "label_selector", "operator", "operator_namespace", "local_context", "kubeconfig", "context",
    ),
}  # fmt: skip
_FIELDS = {
    "Object": {
        "annotations", "created", "generation", "is_deleting", "kind", "labels", "name", "namespace", "revision", "uid",
    },
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(group.__all__) == {*_PUBLIC, *_ERRORS, "EventType"}


@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_a_public_class_takes_these_arguments(name: str) -> None:
    found = getattr(group, name)
    assert tuple(inspect.signature(found).parameters) == _PUBLIC[name]


@pytest.mark.parametrize("name", sorted(_METHODS))
def test_a_public_class_has_these_methods(name: str) -> None:
    found = {word for word in dir(getattr(group, name)) if not word.startswith("_")}
    assert found - _FIELDS.get(name, set()) == _METHODS[name]


@pytest.mark.parametrize("name", sorted(_CONSTRUCTORS))
def test_a_group_is_made_with_these_arguments(name: str) -> None:
    assert tuple(inspect.signature(getattr(group.Group, name)).parameters) == _CONSTRUCTORS[name]


@pytest.mark.parametrize("arguments", [{"operator": "x"}, {"local_context": "a"}])
def test_an_operator_over_contexts_names_the_cluster_where_it_writes(arguments: dict[str, str]) -> None:
    for make in (group.Group.from_contexts, group.Group.from_secrets):
        given: dict[str, Any] = {"contexts": ["a"]} if make == group.Group.from_contexts else {"namespace": "fleet"}
        with pytest.raises(InvalidOption, match="operator and local_context: give both"):
            make(**given, **arguments)


@pytest.mark.parametrize("use", ["local", "collector"])
def test_a_group_without_an_operator_writes_nothing(use: str) -> None:
    with pytest.raises(InvalidOption, match="give operator=NAME"):
        getattr(group.Group.from_cluster(), use)


def test_a_controller_owns_for_owners_that_it_watches() -> None:
    async def reconcile(key: group.Key) -> None: ...

    controller = group.Group.from_cluster(operator="x").controller(reconcile)
    with pytest.raises(InvalidOption, match="call watches first"):
        controller.owns("jobs.batch")


def test_the_types_of_events_are_these() -> None:
    assert [one.value for one in group.EventType] == ["ADDED", "MODIFIED", "DELETED", "SYNCED", "STALE", "LEFT"]
