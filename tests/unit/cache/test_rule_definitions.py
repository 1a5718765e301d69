"""Which definition of rules was here together with each rule. W3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import ClusterUID, GroupKind
from registry_controller.cache.crds import OF_RULES, Definition, DefinitionCache
from registry_controller.cache.registry import Registry
from registry_controller.kube.object import decode_object
from tests.unit.clusters.builders import rule_manifest

RULES = "resourcesyncrules"


class Stage:
    """The rules of a store and its definition of rules, as their two watches show them."""

    def __init__(self) -> None:
        self.registry = Registry(local=ClusterUID("local"), on_change=lambda plural, name: None)
        self.definitions = DefinitionCache(
            on_change=lambda: None,
            rules_change=self.registry.rule_definitions.on_definition,
            features_change=lambda: None,
        )
        self.found = self.registry.rule_definitions.found

    def define(self, uid: str, *, revision: int) -> None:
        metadata = {"name": OF_RULES, "uid": uid, "resourceVersion": str(revision)}
        self.definitions.on_object(decode_object(json.dumps({"metadata": metadata, "spec": {}}).encode()))

    def rule(self, *, uid: str = "uid", revision: int) -> dict[str, Any]:
        return {**rule_manifest("r"), "metadata": {"name": "r", "uid": uid, "resourceVersion": str(revision)}}

    def event(self, kind: str, *, uid: str = "uid", revision: int) -> None:
        self.registry.apply(RULES, kind, self.rule(uid=uid, revision=revision))


@pytest.mark.parametrize("is_defined_first", [True, False])
@pytest.mark.parametrize(
    ("revision", "listed", "is_known"),
    [(10, 0, True), (2, 10, True), (9, 9, False)],
    ids=["written with it", "listed with it", "not seen since it came"],
)
def test_a_definition_was_here_with_a_rule_that_was_seen_since(
    revision: int, listed: int, is_known: bool, is_defined_first: bool
) -> None:
    """W3: the watch of either may be behind, and the clock of the API server set back."""
    stage = Stage()
    if is_defined_first:
        stage.define("crd", revision=10)
    stage.event("ADDED", revision=revision)
    if listed:
        stage.registry.replace(RULES, [stage.rule(revision=revision)], revision=listed)
    if not is_defined_first:
        stage.define("crd", revision=10)
    assert stage.found == ({("r", "uid"): "crd"} if is_known else {})


def test_a_rule_keeps_its_definition_when_that_is_written_or_replaced() -> None:
    stage = Stage()
    stage.define("crd", revision=3)
    stage.event("ADDED", revision=5)
    stage.define("crd", revision=8)
    stage.event("MODIFIED", revision=6)
    stage.define("another", revision=9)
    assert stage.found == {("r", "uid"): "crd"}, "the watch of rules is behind"
    stage.event("DELETED", revision=7)
    assert not stage.found
    stage.event("ADDED", uid="uid-2", revision=10)
    assert stage.found == {("r", "uid-2"): "another"}


def test_a_rule_of_a_name_that_another_had_is_another() -> None:
    """Its ADDED may come before the DELETED of the other one."""
    stage = Stage()
    stage.define("crd", revision=3)
    stage.event("ADDED", revision=5)
    stage.event("ADDED", uid="uid-2", revision=8)
    stage.event("DELETED", revision=7)
    assert stage.found == {("r", "uid-2"): "crd"}


def test_a_rule_that_a_list_lacks_has_no_definition() -> None:
    """W3: after the restore of an etcd, a copy that names it would show that it was deleted."""
    stage = Stage()
    stage.define("crd", revision=3)
    stage.event("ADDED", revision=5)
    stage.registry.replace(RULES, [], revision=4)
    assert not stage.found


def test_a_restored_definition_is_there_since_the_revision_that_it_has_now() -> None:
    stage = Stage()
    stage.define("crd", revision=50)
    stage.registry.replace(RULES, [stage.rule(revision=30)], revision=40)
    assert not stage.found
    stage.define("crd", revision=20)
    assert stage.found == {("r", "uid"): "crd"}
    assert stage.definitions.of_rules == Definition("crd", deleting=False, revision=20)


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_definitions_are_reported_once_when_they_are_known_or_cannot_be(is_refused: bool) -> None:
    reported: list[Definition | None] = []
    cache = DefinitionCache(on_change=lambda: None, rules_change=reported.append, features_change=lambda: None)
    assert not cache.is_listed
    for _ in range(2):
        if is_refused:
            cache.on_error(Forbidden("list definitions: 403"))
        else:
            cache.on_synced(5)
        assert cache.is_listed
    assert reported == [None]


def test_a_definition_that_changed_is_reported_with_its_kind() -> None:
    """Not one that is new, nor a change of its status."""
    reported: list[GroupKind] = []
    cache = DefinitionCache(
        on_change=lambda: None,
        rules_change=lambda _: None,
        features_change=lambda: None,
        schema_change=reported.append,
    )
    spec = {"group": "sim.example", "names": {"kind": "Widget"}}
    for revision, generation in enumerate((1, 1, 2, 2), 5):
        metadata = {"name": "w", "uid": "u", "resourceVersion": str(revision), "generation": generation}
        cache.on_object(decode_object(json.dumps({"metadata": metadata, "spec": spec}).encode()))
    assert reported == [GroupKind("sim.example", "Widget")]
