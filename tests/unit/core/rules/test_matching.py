"""W1, W7: which objects a rule asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.api.syncrule import SyncRule, read_rule
from registry_controller.core.rules.matching import find_matching_entries


@dataclass(frozen=True)
class Object:
    key: ObjectKey = field(default=ObjectKey("apps", "one"))
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    kind_type: str = ""


def rule(*entries: dict[str, Any], kind: str = "ConfigMap", group: str = "") -> SyncRule:
    gvk = {"group": group, "version": "v1", "kind": kind}
    return read_rule({"metadata": {"name": "r"}, "spec": {"groupVersionKind": gvk, "rules": list(entries)}})


def body_is_not_needed() -> Manifest:
    raise AssertionError("the body was asked for")


def matches(match: dict[str, Any], found: Object, *, kind: str = "ConfigMap", group: str = "") -> bool:
    return bool(find_matching_entries(rule({"match": [match]}, kind=kind, group=group), found, body_is_not_needed))


@pytest.mark.parametrize(
    ("match", "found", "expected"),
    [
        ({"objectKey": {"name": "one"}}, Object(), True),
        ({"objectKey": {"name": "two"}}, Object(), False),
        ({"objectKey": {"namespace": "apps"}}, Object(), True),
        ({"objectKey": {"namespace": "other"}}, Object(), False),
        ({"objectKey": {"name": "one", "namespace": "other"}}, Object(), False),
        ({"objectKey": {"namespace": "apps"}}, Object(ObjectKey("", "one")), False),
        ({"namespaces": ["other", "apps"]}, Object(), True),
        ({"namespaces": ["other"]}, Object(), False),
        ({"namespaces": ["app"]}, Object(), False),
        ({"namespaces": ["other"]}, Object(ObjectKey("", "one")), True),
        ({"labels": [{"matchLabels": {"a": "1"}}]}, Object(labels={"a": "1", "b": "2"}), True),
        ({"labels": [{"matchLabels": {"a": "1"}}]}, Object(labels={"a": "2"}), False),
        ({"labels": [{"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "2"}}]}, Object(labels={"b": "2"}), True),
        ({"labels": [{"matchLabels": {"a": "1", "b": "2"}}]}, Object(labels={"b": "2"}), False),
        ({"labels": [{}]}, Object(), True),
        ({"objectKey": {"name": "one"}, "labels": [{"matchLabels": {"a": "1"}}]}, Object(), False),
        ({"annotations": [{"matchAnnotations": {"a": "free text!"}}]}, Object(annotations={"a": "free text!"}), True),
        ({"annotations": [{"matchAnnotations": {"a": "1"}}]}, Object(labels={"a": "1"}), False),
    ],
)
def test_all_parts_of_a_match_must_hold(match: dict[str, Any], found: Object, expected: bool) -> None:
    assert matches(match, found) is expected


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("operator", "values", "found", "expected"),
    [
        ("In", ["1", "2"], {"a": "2"}, True),
        ("In", ["1", "2"], {"a": "3"}, False),
        ("In", ["1"], {}, False),
        ("NotIn", ["1"], {"a": "2"}, True),
        ("NotIn", ["1"], {"a": "1"}, False),
        ("NotIn", ["1"], {}, True),
        ("Exists", None, {"a": ""}, True),
        ("Exists", None, {}, False),
        ("DoesNotExist", None, {}, True),
        ("DoesNotExist", None, {"a": "1"}, False),
    ],
)
def test_expressions_compare_as_in_kubernetes(
    where: str, operator: str, values: list[str] | None, found: dict[str, str], expected: bool
) -> None:
    expression = {"key": "a", "operator": operator, **({"values": values} if values else {})}
    one = Object(labels=found) if where == "labels" else Object(annotations=found)
    assert matches({where: [{"matchExpressions": [expression]}]}, one) is expected


def test_every_entry_that_matches_is_given_in_order() -> None:
    wanted = rule(
        {"match": [{"objectKey": {"name": "one"}}]},
        {"match": [{"objectKey": {"name": "two"}}]},
        {"match": [{"namespaces": ["nowhere"]}, {"namespaces": ["apps"]}]},
    )
    found = find_matching_entries(wanted, Object(), body_is_not_needed)
    assert [entry.path for entry in found] == ["spec.rules[0]", "spec.rules[2]"]


def test_no_rules_match_nothing() -> None:
    assert find_matching_entries(rule(), Object(), body_is_not_needed) == ()


@pytest.mark.parametrize("entry", [{}, {"match": []}, {"match": [{}]}, {"match": [{"objectKey": {}}]}])
def test_no_condition_means_everything_of_the_kind(entry: dict[str, Any]) -> None:
    assert find_matching_entries(rule(entry), Object(), body_is_not_needed)


@pytest.mark.clause("W7")
@pytest.mark.parametrize("entry", [{}, {"match": [{}]}, {"match": [{"labels": [{}], "annotations": [{}]}]}])
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("Secret", Object(kind_type="kubernetes.io/service-account-token")),
        ("Secret", Object(kind_type="bootstrap.kubernetes.io/token")),
        ("Secret", Object(kind_type="helm.sh/release.v1")),
        ("ConfigMap", Object(ObjectKey("apps", "kube-root-ca.crt"))),
        ("ConfigMap", Object(ObjectKey("kube-system", "one"))),
        ("Deployment", Object(ObjectKey("kube-public", "one"))),
    ],
)
def test_what_every_cluster_has_of_its_own_is_left_out_of_everything(
    entry: dict[str, Any], kind: str, found: Object
) -> None:
    assert find_matching_entries(rule(entry, kind=kind), found, body_is_not_needed) == ()


@pytest.mark.clause("W7")
@pytest.mark.parametrize("secret_type", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"])
@pytest.mark.parametrize(
    "match",
    [
        {"labels": [{"matchLabels": {"a": "1"}}]},
        {"annotations": [{"matchLabels": {"a": "1"}}]},
        {"objectKey": {"namespace": "apps", "name": "one"}},
        {"namespaces": ["apps"]},
    ],
)
def test_a_secret_that_lets_somebody_in_is_asked_for_by_its_type(match: dict[str, Any], secret_type: str) -> None:
    """Its owner chooses name, labels and type: what a rule selects by others is not meant to be that."""
    found = Object(ObjectKey("apps", "one"), labels={"a": "1"}, annotations={"a": "1"}, kind_type=secret_type)
    assert not matches(match, found, kind="Secret")
    assert matches(match, replace(found, kind_type="Opaque"), kind="Secret")
    assert matches({**match, "content": [{"key": "type", "value": secret_type}]}, found, kind="Secret")
    assert not matches({**match, "content": [{"key": "type", "value": "Opaque"}]}, found, kind="Secret")


@pytest.mark.clause("W7")
@pytest.mark.parametrize(
    ("kind", "match", "found"),
    [
        (
            "Secret",
            {"labels": [{"matchLabels": {"a": "1"}}]},
            Object(labels={"a": "1"}, kind_type="helm.sh/release.v1"),
        ),
        (
            "Secret",
            {"content": [{"key": "type", "value": "helm.sh/release.v1"}]},
            Object(kind_type="helm.sh/release.v1"),
        ),
        ("ConfigMap", {"objectKey": {"name": "kube-root-ca.crt"}}, Object(ObjectKey("apps", "kube-root-ca.crt"))),
        ("ConfigMap", {"namespaces": ["kube-system"]}, Object(ObjectKey("kube-system", "one"))),
    ],
)
def test_a_match_that_asks_for_something_gets_it(kind: str, match: dict[str, Any], found: Object) -> None:
    assert matches(match, found, kind=kind)


@pytest.mark.clause("W7")
@pytest.mark.parametrize(
    ("group", "kind", "key"),
    [
        ("", "ConfigMap", ObjectKey("apps", "kube-root-ca.crt")),
        ("", "ConfigMap", ObjectKey("kube-system", "kube-root-ca.crt")),
        ("", "ServiceAccount", ObjectKey("apps", "default")),
        ("", "Service", ObjectKey("default", "kubernetes")),
        ("", "Endpoints", ObjectKey("default", "kubernetes")),
        ("discovery.k8s.io", "EndpointSlice", ObjectKey("default", "kubernetes")),
        ("", "Namespace", ObjectKey("", "default")),
        ("", "Namespace", ObjectKey("", "kube-node-lease")),
        ("scheduling.k8s.io", "PriorityClass", ObjectKey("", "system-node-critical")),
    ],
)
def test_what_kubernetes_makes_in_every_cluster_is_asked_for_by_its_name(group: str, kind: str, key: ObjectKey) -> None:
    """No copy can take its place: who selects a namespace, or what lacks a label, does not mean it."""
    without = {"matchExpressions": [{"key": "local", "operator": "DoesNotExist"}]}
    selections: list[dict[str, Any]] = [
        {"namespaces": [key.namespace or "any"]}, {"labels": [without]}, {"annotations": [without]},
    ]  # fmt: skip
    for match in selections:
        assert not matches(match, Object(key), kind=kind, group=group)
        assert matches(match | {"objectKey": {"name": key.name}}, Object(key), kind=kind, group=group)
        assert matches(match, Object(key._replace(name="ours")), kind=kind, group=group)
    assert not matches({}, Object(key), kind=kind, group=group)


@pytest.mark.clause("W7")
def test_what_the_daemon_makes_itself_is_never_a_source() -> None:
    found = Object(ObjectKey("", "sink"), labels={meta.CORE_RESOURCE: "true"})
    for entry in ({}, {"match": [{"objectKey": {"name": "sink"}}]}):
        assert (
            find_matching_entries(rule(entry, kind="ResourceSyncRule", group=meta.GROUP), found, body_is_not_needed)
            == ()
        )


def test_the_body_is_read_once_and_only_when_the_rest_of_the_match_holds() -> None:
    asked: list[int] = []

    def body() -> Manifest:
        asked.append(1)
        return {"data": {"a": "1"}}

    content = [{"key": "data.a", "value": "1"}, {"key": "data.a", "value": 1}]
    wanted = rule({"match": [{"content": content}]}, {"match": [{"content": content, "namespaces": ["apps"]}]})
    assert len(find_matching_entries(wanted, Object(), body)) == 2
    assert asked == [1]
    assert find_matching_entries(rule({"match": [{"namespaces": ["no"], "content": content}]}), Object(), body) == ()
    assert asked == [1]


def test_all_content_must_hold() -> None:
    content = [{"key": "data.a", "value": "1"}, {"key": "data.b", "value": "2"}]
    wanted = rule({"match": [{"content": content}]})
    assert find_matching_entries(wanted, Object(), lambda: {"data": {"a": "1", "b": "2"}})
    assert not find_matching_entries(wanted, Object(), lambda: {"data": {"a": "1"}})


def test_a_secrets_type_needs_no_body() -> None:
    typed = {"match": [{"content": [{"key": "type", "value": "Opaque"}]}]}
    assert find_matching_entries(rule(typed, kind="Secret"), Object(kind_type="Opaque"), body_is_not_needed)
    other = {"match": [{"content": [{"key": "data.a", "value": "1"}]}]}
    for needy in (rule(typed, kind="ConfigMap"), rule(other, kind="Secret")):
        with pytest.raises(AssertionError):
            find_matching_entries(needy, Object(), body_is_not_needed)
    assert not matches(typed["match"][0], Object(kind_type="other"), kind="Secret")
    assert not matches({"content": [{"key": "type", "value": 0}]}, Object(), kind="Secret")


def test_content_that_cannot_be_evaluated_is_an_error_and_never_no_match() -> None:
    wanted = rule({"match": [{"content": [{"key": "data|@this", "value": "1"}]}]})
    with pytest.raises(InvalidObject, match=r"spec\.rules\[0\]\.match\[0\]\.content\[0\]\.key"):
        find_matching_entries(wanted, Object(), dict)
