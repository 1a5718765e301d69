"""Copies that move, and marks of tools that do not travel, on two real clusters. W3, W6."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hack.controlplane import CommandError
from tests.e2e.group import CONFIG_MAP, Member, config_map, eventually, rule, steadily

pytestmark = [pytest.mark.group(2, prefix="moves"), pytest.mark.nightly]

PLACES = [("default", "taken"), ("nowhere", "one"), ("default", "refused")]
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "refusing"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "object.metadata.name != 'refused'"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "refusing"},
    "spec": {"policyName": "refusing", "validationActions": ["Deny"]},
}


def _rule(namespace: str, name: str) -> dict[str, Any]:
    places = (("namespace", namespace), ("name", name))
    overrides = [{"type": "replace", "path": f"/metadata/{field}", "value": value} for field, value in places]
    return rule("moved", CONFIG_MAP, {"match": [{"objectKey": {"name": "one"}}], "mutations": {"overrides": overrides}})


def _failures(member: Member) -> dict[str, str]:
    entries = member.get("rsr", "moved")["status"].get("clusters") or ()
    return {failure["object"]: failure["reason"] for one in entries for failure in one.get("failures") or ()}


@pytest.mark.clause("W3")
def test_a_copy_stays_until_its_new_copy_can_be_made(members: list[Member]) -> None:
    """The name is taken, the namespace is unknown, admission refuses; then that ends."""
    first, second = members
    first.apply(config_map("taken", {"value": "mine"}), POLICY, BINDING, _rule("default", "first"))
    second.apply(config_map("one", {"value": "1"}))
    eventually(lambda: first.find("configmap", "first"))
    refused = config_map("refused", {})
    eventually(lambda: "refusing" in _refusal(first, refused), what="the policy is in force")
    for namespace, name in PLACES:
        first.apply(_rule(namespace, name))
        eventually(lambda: _failures(first).get("ConfigMap default/first") == "NewCopyMissing")
        steadily(lambda: first.get("configmap", "first")["data"] == {"value": "1"}, what="the old copy")
        assert first.condition("rsr", "moved", "Synced")["status"] == "False"
    first.kubectl("delete", "validatingadmissionpolicybinding", "refusing")
    eventually(lambda: first.find("configmap", "refused"))
    eventually(lambda: first.find("configmap", "first") is None)
    eventually(lambda: first.condition("rsr", "moved", "Synced").get("status") == "True")


def _refusal(member: Member, manifest: dict[str, Any]) -> str:
    try:
        member.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    except CommandError as error:
        return str(error)
    return ""


@pytest.mark.clause("W6")
def test_the_marks_of_what_applied_a_source_do_not_travel(members: list[Member]) -> None:
    first, second = members
    labels = {"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm", "kept": "1"}
    tracked = config_map(
        "tracked", {}, labels=labels, annotations={"argocd.argoproj.io/tracking-id": "shop:/ConfigMap"}
    )
    second.apply(tracked)
    first.apply(rule("tracked", CONFIG_MAP, {"match": [{"objectKey": {"name": "tracked"}}]}))
    info = eventually(lambda: first.find("configmap", "tracked"))["metadata"]
    assert {name for name in info["labels"] if "cisco" not in name} == {"kept"}
    assert not [name for name in info["annotations"] if "argoproj" in name]
