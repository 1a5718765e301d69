"""W1: why a rule does not match: the first clause that fails, of the match that comes nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature
from registry_controller.api.meta import ObjectKey
from registry_controller.api.syncrule import SyncRule, read_rule
from registry_controller.core.rules.mismatch import find_feature_mismatch, find_mismatch

BODY = {"data": {"a": "hush-hush"}}


@dataclass(frozen=True)
class Object:
    key: ObjectKey = field(default=ObjectKey("apps", "one"))
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    kind_type: str = ""


def rule(*entries: dict[str, Any], kind: str = "ConfigMap", **spec: Any) -> SyncRule:
    gvk = {"version": "v1", "kind": kind}
    return read_rule({"metadata": {"name": "r"}, "spec": {"groupVersionKind": gvk, "rules": list(entries), **spec}})


FIRST = "spec.rules[0].match[0]"


@pytest.mark.parametrize(
    ("match", "found", "said"),
    [
        ({"objectKey": {"name": "two"}}, Object(), '.objectKey.name: the name is "one", the rule asks for "two"'),
        (
            {"objectKey": {"name": "one", "namespace": "web"}}, Object(),
            '.objectKey.namespace: the namespace is "apps", the rule asks for "web"',
        ),
        (
            {"namespaces": ["web", "db"]}, Object(),
            '.namespaces: the namespace is "apps", the rule asks for "web" or "db"',
        ),
        (
            {"labels": [{"matchLabels": {"sync": "yes"}}]}, Object(labels={"sync": "no"}),
            '.labels[0]: label sync is "no", the rule asks for "yes"',
        ),
        (
            {"labels": [{"matchLabels": {"sync": "yes"}}]}, Object(),
            '.labels[0]: label sync is missing, the rule asks for "yes"',
        ),
        (
            {"labels": [{"matchExpressions": [{"key": "sync", "operator": "NotIn", "values": ["no", "never"]}]}]},
            Object(labels={"sync": "no"}),
            '.labels[0]: label sync is one of "never" or "no", which the rule excludes',
        ),
        (
            {"labels": [{"matchExpressions": [{"key": "sync", "operator": "Exists"}]}]}, Object(),
            ".labels[0]: label sync is missing, the rule asks for objects that have it",
        ),
        (
            {"labels": [{"matchExpressions": [{"key": "sync", "operator": "DoesNotExist"}]}]},
            Object(labels={"sync": ""}),
            ".labels[0]: label sync is set, the rule asks for objects without it",
        ),
        (
            {"labels": [{"matchLabels": {"a": "1", "b": "2"}}, {"matchLabels": {"a": "2", "b": "2"}}]},
            Object(labels={"a": "2"}),
            '.labels[1]: label b is missing, the rule asks for "2"',
        ),
        (
            {"annotations": [{"matchAnnotations": {"note": "wanted"}}]}, Object(annotations={"note": "hush-hush"}),
            '.annotations[0]: annotation note has another value, the rule asks for "wanted"',
        ),
        (
            {"content": [{"key": "data.a", "value": "b"}]}, Object(),
            ".content[0]: data.a does not have the value that the rule asks for",
        ),
    ],
)  # fmt: skip
def test_the_first_clause_that_fails_is_named_with_its_field(match: dict[str, Any], found: Object, said: str) -> None:
    miss = find_mismatch(rule({"match": [match]}), found, lambda: BODY)
    assert str(miss) == FIRST + said
    assert "hush-hush" not in str(miss)


def test_of_several_matches_the_nearest_is_named() -> None:
    far = {"objectKey": {"namespace": "web"}}
    near = {"objectKey": {"name": "one", "namespace": "apps"}, "labels": [{"matchLabels": {"a": "1"}}]}
    miss = find_mismatch(rule({"match": [far]}, {"match": [far, near]}), Object(), lambda: BODY)
    assert miss is not None
    assert miss.path == "spec.rules[1].match[1].labels[0]"


def test_a_secrets_type_is_no_secret() -> None:
    wanted = rule({"match": [{"content": [{"key": "type", "value": "Opaque"}]}]}, kind="Secret")
    miss = find_mismatch(wanted, Object(kind_type="kubernetes.io/tls"), dict)
    assert str(miss) == f'{FIRST}.content[0]: the type is "kubernetes.io/tls", the rule asks for "Opaque"'


@pytest.mark.parametrize("entry", [{}, {"match": [{}]}], ids=["no match", "an empty match"])
def test_what_everything_leaves_out_is_said(entry: dict[str, Any]) -> None:
    """W7."""
    miss = find_mismatch(rule(entry), Object(ObjectKey("kube-system", "one")), dict)
    assert "excludes objects that every cluster has itself" in str(miss)


@pytest.mark.parametrize(
    ("entry", "path"),
    [({}, "spec.rules[0].match.objectKey.name"), ({"match": [{"namespaces": ["apps"]}]}, f"{FIRST}.objectKey.name")],
)
def test_what_has_to_be_named_is_said(entry: dict[str, Any], path: str) -> None:
    """W7."""
    miss = find_mismatch(rule(entry), Object(ObjectKey("apps", "kube-root-ca.crt")), dict)
    assert str(miss) == f'{path}: Kubernetes itself creates "kube-root-ca.crt" in every cluster: a match must name it'


@pytest.mark.parametrize("match", [{}, {"namespaces": ["apps"]}])
def test_a_type_that_has_to_be_asked_for_is_said(match: dict[str, Any]) -> None:
    """W7."""
    found = Object(kind_type="bootstrap.kubernetes.io/token")
    miss = find_mismatch(rule({"match": [match]}, kind="Secret"), found, dict)
    assert str(miss).startswith(f'{FIRST}.content: the type is "bootstrap.kubernetes.io/token"')


def test_what_the_daemon_made_itself_is_said() -> None:
    """W7."""
    miss = find_mismatch(rule({"match": [{}]}), Object(labels={meta.CORE_RESOURCE: "true"}), dict)
    assert "the daemon itself created it" in str(miss)


def test_a_rule_without_entries_says_so() -> None:
    assert str(find_mismatch(rule(), Object(), dict)) == "spec.rules: is empty and matches nothing"


def test_what_matches_misses_nothing() -> None:
    assert find_mismatch(rule({"match": [{"objectKey": {"name": "no"}}, {}]}), Object(), dict) is None


def test_content_that_cannot_be_evaluated_is_an_error() -> None:
    wanted = rule({"match": [{"content": [{"key": "data|@this", "value": "1"}]}]})
    with pytest.raises(InvalidObject, match=r"spec\.rules\[0\]\.match\[0\]\.content\[0\]\.key"):
        find_mismatch(wanted, Object(), dict)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([("mesh", {"role": "a"}), ("db", {})], None),
        ([("mesh", {"role": "a"})], "[1]: that cluster has no ClusterFeature with featureName db"),
        (
            [("mesh", {}), ("db", {})],
            "[0]: that cluster has no ClusterFeature with featureName mesh and the labels that the rule asks for",
        ),
    ],
)
def test_a_feature_that_a_peer_lacks_is_named(features: list[tuple[str, dict[str, str]]], said: str | None) -> None:
    asked = [{"featureName": "mesh", "matchLabels": {"role": "a"}}, {"featureName": "db"}]
    wanted = rule({"match": [{}]}, clusterFeatureMatch=asked)
    held = tuple(Feature(name, name, labels) for name, labels in features)
    miss = find_feature_mismatch(wanted.features, held)
    assert (str(miss) if miss else None) == (f"spec.clusterFeatureMatch{said}" if said else None)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "that cluster has no ClusterFeature at all"),
        ({"matchLabels": {"role": "a"}}, "that cluster has no ClusterFeature with the labels that the rule asks for"),
    ],
)
def test_a_feature_without_a_name_that_a_peer_lacks_is_said_in_whole_words(asked: dict[str, Any], said: str) -> None:
    wanted = rule({"match": [{}]}, clusterFeatureMatch=[asked])
    assert str(find_feature_mismatch(wanted.features, ())) == f"spec.clusterFeatureMatch[0]: {said}"
