"""Which rules are carried out, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.core.accept import read_and_accept


def rule(**spec: Any) -> dict[str, Any]:
    gvk = {"version": "v1", "kind": "Secret"}
    return {"metadata": {"name": "r"}, "spec": {"groupVersionKind": gvk, "rules": [{"mutations": {}}], **spec}}


def entry(**mutations: Any) -> list[dict[str, Any]]:
    return [{"match": [{"objectKey": {"name": "a"}}], "mutations": mutations}]


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": entry(overrides=[{"type": "replace", "path": "/a?", "value": "{{ .Object.GetName }}"}])},
        {"rules": entry(overrides=[{"type": "remove", "path": "/a/-1"}])},
        {"rules": entry(syncStatus=True)},
        {"deletionPolicy": "Delete"},
        {"targetClusters": {"names": ["a"], "matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {"targetClusters": {}},
    ],
)
def test_all_that_a_rule_can_say_is_accepted(spec: dict[str, Any]) -> None:
    _, verdict = read_and_accept(rule(**spec))
    assert (verdict.accepted, verdict.message, verdict.warnings) == (True, "", ())


STRAY_DASH = [
    {"match": [{"objectKey": {"name": "one"}}], "mutations": {}},
    {"mutations": {"labels": {"add": {"copied": "true"}}}},
]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"groupVersionKind": {"kind": "Secret"}}, "spec.groupVersionKind.version"),
        ({"groupVersionKind": {"version": "v1"}}, "spec.groupVersionKind.kind"),
        ({"groupVersionKind": None}, "spec.groupVersionKind"),
        ({"rules": STRAY_DASH}, "spec.rules[1].match"),
        (
            {"rules": [{"match": [{"content": [{"key": "a|b", "value": "1"}]}]}]},
            "spec.rules[0].match[0].content[0].key",
        ),
        ({"rules": [{"match": [{"content": [{"key": "a"}]}]}]}, "spec.rules[0].match[0].content[0].value"),
        ({"rules": [{"match": [{"name": "a"}]}]}, "spec.rules[0].match[0].name"),
        ({"rules": entry(overrides=[{"type": "add", "path": "/a"}])}, "spec.rules[0].mutations.overrides[0].type"),
        ({"rules": entry(overrides=[{"type": "replace"}])}, "spec.rules[0].mutations.overrides[0].path"),
        ({"rules": entry(overrides=[{"type": "replace", "path": "a"}])}, "spec.rules[0].mutations.overrides[0].path"),
        (
            {"rules": entry(overrides=[{"type": "replace", "path": "/a", "value": "{{ if }}"}])},
            "spec.rules[0].mutations.overrides[0].value",
        ),
        ({"targetClusters": {"matchExpressions": [{"key": "a"}]}}, "spec.targetClusters.matchExpressions[0].operator"),
        ({"rules": entry(labels={"add": {"a b": "1"}})}, "spec.rules[0].mutations.labels.add[a b]"),
        ({"rules": entry(labels={"add": {"a": "no label value!"}})}, "spec.rules[0].mutations.labels.add[a]"),
        ({"rules": entry(labels={"remove": ["a", "/"]})}, "spec.rules[0].mutations.labels.remove[1]"),
        ({"rules": entry(annotations={"add": {"a/b/c": "1"}})}, "spec.rules[0].mutations.annotations.add[a/b/c]"),
        ({"deletionPolicy": "Sometimes"}, "spec.deletionPolicy"),
        ({"rules": "all"}, "spec.rules"),
    ],
)
def test_a_mistake_is_refused_with_the_fields_path(spec: dict[str, Any], path: str) -> None:
    _, verdict = read_and_accept(rule(**spec))
    assert (verdict.accepted, verdict.reason) == (False, "InvalidSpec")
    assert verdict.message.startswith(f"{path}: ")


def test_a_rule_that_cannot_be_read_gives_no_rule() -> None:
    assert read_and_accept(rule(rules="all"))[0] is None
    assert read_and_accept(rule(groupVersionKind={}))[0] is not None


def test_every_mistake_is_named() -> None:
    _, verdict = read_and_accept(rule(groupVersionKind={}, rules=STRAY_DASH))
    for path in ("groupVersionKind.version", "groupVersionKind.kind", "rules[1].match"):
        assert f"spec.{path}: " in verdict.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"rules": [{"mutations": {}}]},
        {"rules": entry(annotations={"add": {"a": "any text, even this: {}"}, "remove": ["Example.com/a"]})},
        {"rules": entry(syncStatus=False, overrides=[])},
        {"deletionPolicy": "Orphan", "suspend": True, "createNamespaces": True},
        {"rules": [{"match": [{"content": [{"key": "type", "value": 0}]}]}]},
    ],
)
def test_a_rule_that_can_be_carried_out_is_accepted_without_a_word(spec: dict[str, Any]) -> None:
    _, verdict = read_and_accept(rule(**spec))
    assert (verdict.accepted, verdict.reason, verdict.message, verdict.warnings) == (True, "Accepted", "", ())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"rules": [{"match": [{}]}]}, "spec.rules[0].match[0]: has no condition"),
        ({"rules": [{"match": [{"objectKey": {}, "labels": [{}]}]}]}, "spec.rules[0].match[0]: has no condition"),
        (
            {"rules": [{"match": [{"objectKey": {"name": "a"}, "syncStatus": True}]}]},
            "spec.rules[0].match[0].syncStatus: has no effect here",
        ),
        ({"rules": []}, "spec.rules: is empty"),
    ],
)
def test_what_may_be_meant_otherwise_is_warned_of(spec: dict[str, Any], words: str) -> None:
    _, verdict = read_and_accept(rule(**spec))
    assert verdict.accepted
    assert any(warning.startswith(words) for warning in verdict.warnings)


@pytest.mark.parametrize(("value", "warnings"), [("false", 1), ("true", 0), ("", 0)])
def test_sync_disabled_false_is_warned_of(value: str, warnings: int) -> None:
    manifest = rule()
    manifest["metadata"]["annotations"] = {meta.SYNC_DISABLED: value}
    found, verdict = read_and_accept(manifest)
    assert found is not None
    assert found.sync_disabled
    assert len(verdict.warnings) == warnings
