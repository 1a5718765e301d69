"""Which rules are carried out, and what is said of the others."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.cache.crds import OF_RULES, read_bundled
from registry_controller.core.rules.schema import find_unknown_fields
from registry_controller.core.rules.validation import find_problems, read_and_validate


def rule(**spec: Any) -> dict[str, Any]:
    gvk = {"version": "v1", "kind": "Secret"}
    return {"metadata": {"name": "r"}, "spec": {"groupVersionKind": gvk, "rules": entry(), **spec}}


def entry(**mutations: Any) -> list[dict[str, Any]]:
    return [{"match": [{"objectKey": {"name": "a"}}], "mutations": mutations}]


def matching(**match: Any) -> dict[str, Any]:
    return {"rules": [{"match": [match]}]}


def overriding(*overrides: tuple[str, str, str], **mutations: Any) -> dict[str, Any]:
    """Build a spec with overrides: their type, path and value."""
    written = [{"type": kind, "path": path, "value": value} for kind, path, value in overrides]
    return {"rules": entry(overrides=written, **mutations)}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


CLUSTERS = {"group": meta.GROUP, "version": "v1alpha1", "kind": "Cluster"}


def registry_secrets() -> dict[str, Any]:
    """Build a spec for the registry's own Secrets."""
    typed = matching(content=[{"key": "type", "value": meta.REGISTRY_SECRET_TYPE}])
    return {"groupVersionKind": {"version": "v1", "kind": "Secret"}, **typed}


MATCH, OVERRIDES = "spec.rules[0].match[0]", "spec.rules[0].mutations.overrides"


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": entry(overrides=[{"type": "replace", "path": "/a?", "value": "{{ .Object.GetName }}"}])},
        {"rules": entry(overrides=[{"type": "remove", "path": "/a/-1"}])},
        {"rules": entry(syncStatus=True)},
        {"deletionPolicy": "Delete"},
        {"targetClusters": {"names": ["a"], "matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {"targetClusters": {}},
        {"objectTargets": "Ignore"},
        {"objectTargets": "Required", "targetClusters": {"names": ["a"]}},
        {"objectTargets": "Ignore", "groupVersionKind": CLUSTERS},
    ],
)
def test_all_that_a_rule_can_say_is_accepted(spec: dict[str, Any]) -> None:
    _, verdict = read_and_validate(rule(**spec))
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
        (matching(name="a", objectKey={"name": "b"}), "spec.rules[0].match[0].name"),
        (matching(name=1), "spec.rules[0].match[0].name"),
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
        ({"objectTargets": "required"}, "spec.objectTargets"),
        ({"objectTargets": True}, "spec.objectTargets"),
        ({"objectTargets": "Required", "groupVersionKind": CLUSTERS}, "spec.objectTargets"),
        ({"objectTargets": "Required", "rules": entry(groupVersionKind={"group": meta.GROUP})}, "spec.objectTargets"),
        ({"objectTargets": "Required", **registry_secrets()}, "spec.objectTargets"),
        ({"rules": "all"}, "spec.rules"),
        ({"groupVersionKind": {"version": "apps/v1", "kind": "Deployment"}}, "spec.groupVersionKind.version"),
        ({"groupVersionKind": {"group": "apps/v1", "version": "v1", "kind": "A"}}, "spec.groupVersionKind.group"),
        (
            {"rules": entry(groupVersionKind={"version": "apps/v1"})},
            "spec.rules[0].mutations.groupVersionKind.version",
        ),
        (matching(labels=[{}, {"matchLabels": {"bad key!": "a"}}]), f"{MATCH}.labels[1].matchLabels[bad key!]"),
        (matching(labels=[{"matchLabels": {"a/b": "not a value"}}]), f"{MATCH}.labels[0].matchLabels[a/b]"),
        (matching(labels=[expression("a b", "DoesNotExist")]), f"{MATCH}.labels[0].matchExpressions[0].key"),
        (matching(labels=[expression("a", "NotIn", "b", "c d")]), f"{MATCH}.labels[0].matchExpressions[0].values[1]"),
        (matching(annotations=[{"matchAnnotations": {"a b": ""}}]), f"{MATCH}.annotations[0].matchAnnotations[a b]"),
        ({"clusterFeatureMatch": [{"matchLabels": {"a": "b c"}}]}, "spec.clusterFeatureMatch[0].matchLabels[a]"),
        ({"clusterFeatureMatch": [{"featureName": "a"}] * 17}, "spec.clusterFeatureMatch"),
        ({"targetClusters": expression("a", "In", "b c")}, "spec.targetClusters.matchExpressions[0].values[0]"),
        (overriding(("replace", "/kind", "ConfigMap")), f"{OVERRIDES}[0].path"),
        (overriding(("replace", "/a?", ""), ("replace", "/apiVersion", "v2")), f"{OVERRIDES}[1].path"),
        (overriding(("remove", "/apiVersion?", "")), f"{OVERRIDES}[0].path"),
        (overriding(("replace", "/kind/a?", "{{ .Object.GetKind }}")), f"{OVERRIDES}[0].path"),
    ],
)
def test_a_mistake_is_refused_with_the_fields_path(spec: dict[str, Any], path: str) -> None:
    _, verdict = read_and_validate(rule(**spec))
    assert (verdict.accepted, verdict.reason) == (False, "InvalidSpec")
    assert verdict.message.startswith(f"{path}: ")


def test_a_rule_that_cannot_be_read_gives_no_rule() -> None:
    assert read_and_validate(rule(rules="all"))[0] is None
    assert read_and_validate(rule(groupVersionKind={}))[0] is not None


def test_every_mistake_is_named() -> None:
    _, verdict = read_and_validate(rule(groupVersionKind={}, rules=STRAY_DASH))
    for path in ("groupVersionKind.version", "groupVersionKind.kind", "rules[1].match"):
        assert f"spec.{path}: " in verdict.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        matching(
            annotations=[{"matchAnnotations": {"Example.com/a": "any text!"}}, expression("a", "In", "any text!")]
        ),
        matching(objectKey={"name": "system:a", "namespace": "b"}, namespaces=["b", "c"]),
        matching(content=[{"key": "a.$b", "value": "$/"}, {"key": "a/b.c", "value": ""}]),
        {"clusterFeatureMatch": [{"featureName": "a"}, {"matchLabels": {"a": ""}}]},
        overriding(("replace", "/metadata/kind?", "a"), ("remove", "/spec/apiVersion?", "")),
        {"rules": entry(annotations={"add": {"a": "any text, even this: {}"}, "remove": ["Example.com/a"]})},
        {"rules": entry(syncStatus=False, overrides=[])},
        {"deletionPolicy": "Orphan", "suspend": True, "createNamespaces": True},
        {"rules": [{"match": [{"content": [{"key": "type", "value": 0}]}]}]},
    ],
)
def test_a_rule_that_can_be_carried_out_is_accepted_without_a_word(spec: dict[str, Any]) -> None:
    _, verdict = read_and_validate(rule(**spec))
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
        ({"rules": [{}]}, "spec.rules[0].match: has no condition"),
        ({"rules": [{"mutations": {}}]}, "spec.rules[0].match: has no condition"),
        ({"rules": [{"match": []}]}, "spec.rules[0].match: has no condition"),
        ({"clusterFeatureMatch": [{"featureName": "a"}, {}]}, "spec.clusterFeatureMatch[1]: has no condition"),
        (matching(namespaces=["a", "Bad_NS"]), f"{MATCH}.namespaces[1]: no namespace can have this name"),
        (matching(namespaces=["shop*"]), f"{MATCH}.namespaces[0]: no namespace can have this name: it is compared"),
        (matching(objectKey={"namespace": "a/b"}), f"{MATCH}.objectKey.namespace: no namespace can have this name"),
        (matching(objectKey={"name": "set*"}), f"{MATCH}.objectKey.name: is compared exactly"),
        (matching(objectKey={"name": "a/b"}), f"{MATCH}.objectKey.name: no object can have this name"),
        (
            matching(objectKey={"namespace": "b"}, namespaces=["c"]),
            f"{MATCH}.objectKey.namespace: is not in the list `namespaces`",
        ),
        (matching(content=[{"key": "$.data.x", "value": ""}]), f"{MATCH}.content[0].key: is read as a gjson path"),
        (matching(content=[{"key": "/data/x", "value": ""}]), f"{MATCH}.content[0].key: is read as a gjson path"),
        (overriding(("replace", "/kind", "Secret")), f"{OVERRIDES}[0].path: must not change kind"),
        (overriding(("replace", "/apiVersion", "{{ .a }}")), f"{OVERRIDES}[0].path: must not change apiVersion"),
        (
            overriding(("replace", "/kind", "A"), ("replace", "/kind", "Secret")),
            f"{OVERRIDES}[0].path: must not change kind",
        ),
        (
            overriding(("replace", "/apiVersion", "a.b/v2"), groupVersionKind={"group": "a.b", "version": "v2"}),
            f"{OVERRIDES}[0].path: must not change apiVersion",
        ),
    ],
)
def test_what_may_be_meant_otherwise_is_warned_of(spec: dict[str, Any], words: str) -> None:
    _, verdict = read_and_validate(rule(**spec))
    assert verdict.accepted
    assert any(warning.startswith(words) for warning in verdict.warnings)


@pytest.mark.parametrize(
    ("gvk", "fix"),
    [
        ({"version": "apps/v1", "kind": "Deployment"}, "write `group: apps` and `version: v1`"),
        ({"group": "apps/v1", "version": "v1", "kind": "Deployment"}, "write `group: apps` and `version: v1`"),
        ({"version": "-/v1", "kind": "Deployment"}, "is not a valid API version"),
    ],
)
def test_a_group_and_a_version_in_one_field_are_taken_apart(gvk: dict[str, str], fix: str) -> None:
    assert read_and_validate(rule(groupVersionKind=gvk))[1].message.endswith(fix)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, 'must be a string or an integer, not a boolean; write it as a string: "true"'),
        (1.5, "must be a string or an integer, not a number with a fraction; write it as a string, in quotes"),
        (["x"], "must be a string or an integer, not a list"),
        (2**31, "must fit into 32 bits; write it as a string"),
    ],
)
def test_a_value_of_another_type_is_told_how_it_is_written(value: object, words: str) -> None:
    _, verdict = read_and_validate(rule(**matching(content=[{"key": "a", "value": value}])))
    assert verdict.message == f"{MATCH}.content[0].value: {words}"


@pytest.mark.parametrize("match", [{"namespaces": ["A"] * 9000}, {"labels": [expression("a", "In", *["/"] * 9000)]}])
def test_of_thousands_of_mistakes_in_one_rule_some_are_kept(match: dict[str, Any]) -> None:
    manifest = rule(**matching(**match))
    assert len(find_problems(manifest)[1]) == 9000
    _, verdict = read_and_validate(manifest)
    assert len(verdict.warnings) + len(verdict.message.split("; ")) in (50, 51)


def test_the_daemons_own_rules_mean_everything_and_are_not_warned_of() -> None:
    manifest = rule(rules=[{"mutations": {}}])
    manifest["metadata"]["labels"] = {meta.CORE_RESOURCE: "true"}
    assert read_and_validate(manifest)[1].warnings == ()


@pytest.mark.parametrize(("value", "warnings"), [("false", 1), ("true", 0), ("", 0)])
def test_sync_disabled_false_is_warned_of(value: str, warnings: int) -> None:
    manifest = rule()
    manifest["metadata"]["annotations"] = {meta.SYNC_DISABLED: value}
    found, verdict = read_and_validate(manifest)
    assert found is not None
    assert found.sync_disabled
    assert len(verdict.warnings) == warnings


DEFINITION = read_bundled()[OF_RULES]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"newer": 1}, ["spec.newer"]),
        ({"targetClusters": {"newer": {"a": "b"}}}, ["spec.targetClusters.newer"]),
        ({"rules": [{}, {"match": [{"newer": []}], "newer": ""}]},
         ["spec.rules[1].match[0].newer", "spec.rules[1].newer"]),
        ({"rules": [{"mutations": {"labels": {"add": {"newer": "1"}, "newer": {}}}}]},
         ["spec.rules[0].mutations.labels.newer"]),
        ({"newer": None}, []),
        ({"rules": [{"match": [{"labels": [{"matchLabels": {"newer": "1"}}]}]}]}, []),
        ({"rules": [{"match": [{"name": "x", "namespace": "y"}]}]}, []),
        ({"rules": "newer"}, []),
    ],
)  # fmt: skip
def test_fields_of_a_later_release_are_found(spec: dict[str, Any], paths: list[str]) -> None:
    manifest = {"metadata": {"name": "r"}, "spec": {"groupVersionKind": {"version": "v1", "kind": "Secret"}, **spec}}
    assert [*find_unknown_fields(manifest, definition=DEFINITION, version=meta.VERSION)] == paths
    _, verdict = read_and_validate(manifest, definition=DEFINITION)
    assert (verdict.reason == "UnknownFields") is bool(paths)
    if paths:
        assert not verdict.accepted
        assert verdict.message.startswith(", ".join(paths))


def test_a_daemon_of_an_earlier_release_does_nothing_for_a_rule_that_asks_what_objects_name() -> None:
    """A8: its definition lacks the field, so it knows that it does not know it."""
    earlier = copy.deepcopy(DEFINITION)
    (version,) = earlier["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["objectTargets"]
    _, verdict = read_and_validate(rule(objectTargets="Required"), definition=earlier)
    assert (verdict.accepted, verdict.reason) == (False, "UnknownFields")
    assert verdict.message.startswith("spec.objectTargets: ")


@pytest.mark.parametrize(
    "match",
    [
        {"objectKey": None, "name": "x", "namespace": "y"},
        {"name": "x", "namespace": "y"},
        {"objectKey": {"namespace": "y"}, "name": "x"},
        {"objectKey": {"name": "x", "namespace": ""}, "namespace": "y"},
        {"objectKey": {"name": "x", "namespace": "y"}, "name": "x"},
    ],
)
def test_a_name_that_was_stored_one_level_too_high_is_read_as_it_was_meant(match: dict[str, Any]) -> None:
    """And reported, as is the namespace."""
    found, verdict = read_and_validate(rule(rules=[{"match": [match]}]), definition=DEFINITION)
    assert found is not None
    assert (found.entries[0].matches[0].name, found.entries[0].matches[0].namespace) == ("x", "y")
    assert verdict.accepted
    misplaced = [part for part in ("name", "namespace") if part in match]
    assert [warning.partition(":")[0] for warning in verdict.warnings] == [f"{MATCH}.{part}" for part in misplaced]
