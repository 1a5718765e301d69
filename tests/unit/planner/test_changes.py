"""The changed fields of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.planner.changes import list_field_changes

CANARY = "a-canary-that-must-not-sing"


def shown(before: Any, after: Any, *, is_secret: bool = False) -> list[str]:
    return [f"{change.sign} {change.text}" for change in list_field_changes(before, after, is_secret=is_secret)]


def test_fields_are_added_removed_and_changed() -> None:
    before = {"metadata": {"labels": {"a.b/c": "1"}}, "spec": {"size": 1, "old": True, "ports": [{"name": "x"}]}}
    after = {"metadata": {"labels": {"a.b/c": "2"}}, "spec": {"size": 1, "new": None, "ports": [{"name": "y"}, {}]}}
    assert shown(before, after) == [
        '~ metadata.labels["a.b/c"]: "1" -> "2"',
        "+ spec.new: null",
        "- spec.old: true",
        '~ spec.ports[0].name: "x" -> "y"',
        "+ spec.ports[1]: {}",
    ]


def test_a_new_object_has_each_of_its_values() -> None:
    assert shown({}, {"data": {"a": "1", "b": "2"}, "kind": "ConfigMap"}) == [
        '+ data.a: "1"',
        '+ data.b: "2"',
        '+ kind: "ConfigMap"',
    ]


@pytest.mark.parametrize("field", ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"])
def test_a_field_that_the_server_sets_is_no_change(field: str) -> None:
    assert shown({"metadata": {field: "1"}}, {"metadata": {field: "2"}}) == []
    assert shown({"spec": {field: "1"}}, {"spec": {field: "2"}}) != []


def test_kubectls_annotation_is_no_change() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    assert shown({"metadata": {"annotations": {name: "1"}}}, {"metadata": {"annotations": {name: "2", "x": "y"}}}) == [
        '+ metadata.annotations.x: "y"'
    ]


def test_many_fields_are_counted() -> None:
    found = shown({}, {"data": {f"{number:03}": "" for number in range(60)}})
    assert len(found) == 51
    assert found[-1] == "~ and 10 more fields"


def test_a_long_value_is_cut() -> None:
    (found,) = shown({}, {"a": "x" * 500})
    assert len(found) < 100


def test_no_value_of_a_secret_is_shown() -> None:
    """Neither data, nor annotations, which may repeat it, nor unknown fields."""
    before = {"data": {"a": CANARY}, "metadata": {"annotations": {"note": CANARY}, "labels": {"team": "x"}}}
    after = {
        "data": {"a": "b", "c": CANARY}, "stringData": {"d": CANARY}, "other": {"e": CANARY}, "type": "Opaque",
        "metadata": {"annotations": {"note": "new", "more": CANARY}, "labels": {"team": "y"}},
    }  # fmt: skip
    found = [*shown(before, after, is_secret=True), *shown(after, before, is_secret=True)]
    assert not any(CANARY in line for line in found)
    assert "~ data.a (value hidden)" in found
    assert '~ metadata.labels.team: "x" -> "y"' in found
    assert '+ type: "Opaque"' in found
