"""The shapes of rules that people have written, with definitions like theirs, and what becomes of their copies."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.group import (
    API,
    CONFIG_MAP,
    OWNER,
    SECRET,
    Member,
    config_map,
    eventually,
    grant,
    joined_group,
    rule,
    secret,
    steadily,
)

MESH = "mesh.example.com"
ORIGINAL = "cluster-registry.k8s.cisco.com/original"


def _crd(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{MESH}"},
        "spec": {
            "group": MESH,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
            ],
        },
    }


def _mesh(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": f"{MESH}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **parts}


def _gvk(kind: str) -> dict[str, str]:
    return {"group": MESH, "version": "v1", "kind": kind}


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(2, prefix="rules") as found:
        for member in found:
            member.apply(*(_crd(kind) for kind in ("ControlPlane", "PeerControlPlane", "Gateway", "Route")))
            grant(member, "mesh", [MESH], ["*"])
            member.kubectl("create", "namespace", "elsewhere")
        yield found


def _find(member: Member, kind: str, name: str, *, namespace: str = "default") -> dict[str, Any] | None:
    return member.find("-n", namespace, f"{kind.lower()}s.{MESH}", name)


def test_a_kind_is_changed_the_name_made_by_a_template_and_the_status_brought(members: list[Member]) -> None:
    """W1, W6, W3: per owner, chosen by a feature's name and labels; changes of the status arrive, and deletion."""
    first, second = members
    second.apply(
        {
            "apiVersion": API, "kind": "ClusterFeature", "metadata": {"name": "plane", "labels": {"role": "active"}},
            "spec": {"featureName": "control-plane"},
        },
        _mesh("ControlPlane", "main", spec={"mode": "ACTIVE"}),
    )  # fmt: skip
    second.kubectl(
        "patch", f"controlplanes.{MESH}", "main", "--subresource=status", "--type=merge", "-p", '{"status":{"a":"1"}}'
    )
    name = {
        "type": "replace",
        "path": "/metadata/name",
        "value": '{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}',
    }
    first.apply(
        rule(
            "planes", _gvk("ControlPlane"),
            {"match": [{}], "mutations": {
                "groupVersionKind": {"kind": "PeerControlPlane"}, "overrides": [name], "syncStatus": True,
            }},
            clusterFeatureMatch=[{"featureName": "control-plane", "matchLabels": {"role": "active"}}],
        )
    )  # fmt: skip
    wanted = f"main-{second.name}"
    copy = eventually(lambda: _find(first, "PeerControlPlane", wanted))
    assert copy["spec"] == {"mode": "ACTIVE"}
    assert copy["metadata"]["labels"][f"{ORIGINAL}-name"] == "main"
    assert copy["metadata"]["annotations"][f"{ORIGINAL}-group-version-kind"] == f"ControlPlane.{MESH}/v1"
    eventually(lambda: (_find(first, "PeerControlPlane", wanted) or {}).get("status") == {"a": "1"})
    second.kubectl(
        "patch", f"controlplanes.{MESH}", "main", "--subresource=status", "--type=merge", "-p", '{"status":{"a":"2"}}'
    )
    eventually(lambda: (_find(first, "PeerControlPlane", wanted) or {}).get("status") == {"a": "2"})
    first.kubectl("wait", "--for=condition=Synced", "rsr/planes", "--timeout=180s")
    second.kubectl("delete", f"controlplanes.{MESH}", "main")
    eventually(lambda: _find(first, "PeerControlPlane", wanted) is None)


def test_secrets_are_chosen_by_label_and_content_and_get_a_label(members: list[Member]) -> None:
    """W1: the type is content; others of the same label are left out."""
    first, second = members
    kind = "k8s.example.com/reader-secret"
    made = secret("reader", {"kubeconfig": "nothing to see"}, labels={"reader": "yes"})
    second.create({**made, "type": kind}, secret("other", {"a": "1"}, labels={"reader": "yes"}))
    match = {"labels": [{"matchLabels": {"reader": "yes"}}], "content": [{"key": "type", "value": kind}]}
    first.apply(rule("readers", SECRET, {"match": [match], "mutations": {"labels": {"add": {"remote": "true"}}}}))
    copy = eventually(lambda: first.find("secret", "reader"))
    assert copy["type"] == kind
    assert copy["metadata"]["labels"]["remote"] == "true"
    steadily(lambda: first.find("secret", "other") is None, for_s=1.5)


def test_label_expressions_leave_out_and_any_of_two_matches_is_enough(members: list[Member]) -> None:
    """W1: DoesNotExist, twice."""
    first, second = members

    def without(*keys: str) -> dict[str, Any]:
        expressions = [{"key": key, "operator": "DoesNotExist"} for key in keys]
        return {"labels": [{"matchExpressions": expressions}], "namespaces": ["default"]}

    for name, labels in (("neither", {}), ("one", {"a": "1"}), ("both", {"a": "1", "b": "1"})):
        gateway = _mesh("Gateway", name, spec={"port": 1})
        gateway["metadata"]["labels"] = labels
        second.apply(gateway)
    first.apply(rule("gateways", _gvk("Gateway"), {"match": [without("a", "c"), without("b")]}))
    for name in ("neither", "one"):
        eventually(lambda name=name: _find(first, "Gateway", name))
    steadily(lambda: _find(first, "Gateway", "both") is None, for_s=1.5)


def test_a_name_is_asked_for_in_any_namespace(members: list[Member]) -> None:
    """W1, A3: only the name; the copies are where their sources are."""
    first, second = members
    for namespace in ("default", "elsewhere"):
        second.create(config_map("root-cert", {"n": namespace}, namespace=namespace))
    first.apply(rule("root-certs", CONFIG_MAP, {"match": [{"objectKey": {"name": "root-cert"}}]}))
    for namespace in ("default", "elsewhere"):
        copy = eventually(lambda namespace=namespace: first.find("-n", namespace, "cm", "root-cert"))
        assert copy["data"] == {"n": namespace}


def test_overrides_move_an_object_and_change_an_element_of_a_list(members: list[Member]) -> None:
    """W1, W3: the value stays a text without parseValue; the source's namespace is told by a label."""
    first, second = members
    second.apply(_mesh("Route", "shop", spec={"gateways": ["default/old", "mesh"], "retries": 1}))
    overrides = [
        {"type": "replace", "path": "/metadata/namespace", "value": "elsewhere"},
        {
            "type": "replace",
            "path": "/spec/gateways/0",
            "value": "{{ .Object.GetNamespace }}/{{ .LocalCluster.GetName }}",
        },
        {"type": "replace", "path": "/spec/retries", "value": "{{ add 1 .Object.spec.retries }}", "parseValue": True},
        {"type": "remove", "path": "/spec/missing?"},
    ]
    first.apply(rule("routes", _gvk("Route"), {"match": [{}], "mutations": {"overrides": overrides}}))
    copy = eventually(lambda: _find(first, "Route", "shop", namespace="elsewhere"))
    assert copy["spec"] == {"gateways": [f"default/{first.name}", "mesh"], "retries": 2}
    assert copy["metadata"]["labels"][f"{ORIGINAL}-namespace"] == "default"
    assert _find(first, "Route", "shop") is None


def test_a_rule_without_a_match_takes_everything_of_its_kind(members: list[Member]) -> None:
    """W1, W7: one rule, mutations that ask for nothing."""
    first, second = members
    second.apply(_mesh("ControlPlane", "all", spec={"mode": "PASSIVE"}))
    first.apply(rule("everything", _gvk("ControlPlane"), {"mutations": {"syncStatus": False}}))
    copy = eventually(lambda: _find(first, "ControlPlane", "all"))
    assert copy["metadata"]["annotations"][OWNER] == second.id
    assert "status" not in copy


def test_what_an_override_cannot_do_is_said_with_object_and_path(members: list[Member]) -> None:
    """W1, O5: one source that cannot be evaluated holds up no other, and its copy stays."""
    first, second = members
    for name in ("good", "bad"):
        second.create(config_map(f"override-{name}", {"text": name}, labels={"override": "yes"}))
    override = {"type": "replace", "path": "/data/text", "value": "{{ .Object.data.text }}!"}
    match = {"match": [{"labels": [{"matchLabels": {"override": "yes"}}]}], "mutations": {"overrides": [override]}}
    first.apply(rule("override", CONFIG_MAP, match))
    for name in ("good", "bad"):
        eventually(lambda name=name: first.find("cm", f"override-{name}"))
    second.kubectl("patch", "cm", "override-bad", "--type=json", "-p", '[{"op":"remove","path":"/data/text"}]')
    words = eventually(lambda: "override-bad" in (said := json.dumps(first.get("rsr", "override")["status"])) and said)
    assert "spec.rules[0].mutations.overrides[0].value" in words
    second.kubectl("patch", "cm", "override-good", "--type=merge", "-p", '{"data":{"text":"better"}}')
    eventually(lambda: first.get("cm", "override-good")["data"] == {"text": "better!"})
    assert first.get("cm", "override-bad")["data"] == {"text": "bad!"}


@pytest.mark.parametrize("up", [True, False], ids=["up", "restarted"])
def test_what_a_deleted_rule_leaves_is_its_policy(members: list[Member], up: bool) -> None:
    """W3: Orphan leaves copies, Delete takes them away, also when the daemon was down meanwhile."""
    first, second = members
    names = {policy: f"policy-{policy.lower()}-{'up' if up else 'down'}" for policy in ("Orphan", "Delete")}
    for policy, name in names.items():
        second.create(config_map(name, {"a": "1"}, labels={"policy": name}))
        match = {"match": [{"labels": [{"matchLabels": {"policy": name}}]}]}
        first.apply(rule(name, CONFIG_MAP, match, deletionPolicy=policy))
        eventually(lambda name=name: first.find("cm", name))
    if not up:
        first.daemon.stop(grace_s=10)
    for name in names.values():
        for member in members:  # it has spread
            eventually(lambda member=member, name=name: member.find("rsr", name))
        first.kubectl("delete", "rsr", name)
    if not up:
        first.daemon.start()
    eventually(lambda: first.find("cm", names["Delete"]) is None)
    steadily(lambda: first.find("cm", names["Orphan"]), for_s=2)


def test_a_rule_is_for_the_clusters_that_it_selects(members: list[Member]) -> None:
    """W1, W3: by name and by label of the Cluster object; what it no longer selects gives its copies back."""
    first, second = members
    second.create(config_map("targeted", {"a": "1"}, labels={"targeted": "yes"}))
    match = {"match": [{"labels": [{"matchLabels": {"targeted": "yes"}}]}]}
    chosen = rule("targeted", CONFIG_MAP, match, deletionPolicy="Delete", targetClusters={"matchLabels": {"tier": "a"}})
    first.apply(chosen)
    steadily(lambda: first.find("cm", "targeted") is None, for_s=2)
    first.kubectl("label", "cluster", first.name, "tier=a")
    eventually(lambda: first.find("cm", "targeted"))
    first.kubectl("label", "cluster", first.name, "tier-")
    eventually(lambda: first.find("cm", "targeted") is None)


_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "template": (
        {"match": [{}], "mutations": {"overrides": [
            {"type": "replace", "path": "/data/a", "value": "{{ .Object.GetName "}]}},
        "spec.rules[0].mutations.overrides[0].value",
    ),
    "override path": (
        {"match": [{}], "mutations": {"overrides": [{"type": "replace", "path": "data/a", "value": "1"}]}},
        "spec.rules[0].mutations.overrides[0].path",
    ),
    "selector": (
        {"match": [{"labels": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}]},
        "spec.rules[0].match[0].labels[0]",
    ),
    "content path": (
        {"match": [{"content": [{"key": "data.#(", "value": "1"}]}]},
        "spec.rules[0].match[0].content[0].key",
    ),
}  # fmt: skip
"""What no schema sees, and the path that is said of it."""
_TRIES = 5
_AT_MOST_S = 1.0


@pytest.mark.parametrize("wrong", _WRONG)
def test_what_is_wrong_with_a_rule_is_said_within_a_second(members: list[Member], wrong: str) -> None:
    """W1: from the API server's answer to the condition, as somebody who asks on and on sees it; the median counts."""
    first = members[0]
    entry, where = _WRONG[wrong]
    took_s = []
    for number in range(_TRIES):
        name = f"wrong-{wrong.replace(' ', '-')}-{number}"
        first.cluster.api.request("POST", f"/apis/{API}/resourcesyncrules", body=rule(name, CONFIG_MAP, entry))
        answered_s = time.monotonic()
        said = eventually(lambda name=name: first.condition("rsr", name, "Accepted"), every_s=0.01)
        took_s.append(time.monotonic() - answered_s)
        assert (said["status"], said["reason"]) == ("False", "InvalidSpec")
        assert where in said["message"]
    assert statistics.median(took_s) < _AT_MOST_S, took_s
