"""`registry-controller plan` and `explain` on real clusters: what is planned is done, and nothing is written."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tests.e2e.group import (
    BIN,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    Member,
    config_map,
    eventually,
    rule,
    secret,
    steadily,
)

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
SERVICE = {"version": "v1", "kind": "Service"}
CANARY = "a-canary-that-must-not-sing"
Change = tuple[str, str, str, str]

pytestmark = pytest.mark.group(
    2, prefix="plan", values=("controller.createNamespaces=true",), canaries=(CANARY,), grants=("services",)
)


def ask(member: Member, *args: str, stdin: str = "", code: int = 0) -> str:
    """Run the command line as the admin of a cluster does; nothing of it may sing."""
    done = subprocess.run(
        [str(BIN / "registry-controller"), *args, "--kubeconfig", str(member.cluster.kubeconfig)],
        input=stdin, capture_output=True, text=True, check=False, timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert CANARY not in done.stdout + done.stderr
    assert base64.b64encode(CANARY.encode()).decode() not in done.stdout + done.stderr
    return done.stdout or done.stderr


def plan(member: Member, manifest: dict[str, Any], *, code: int = 0) -> dict[str, Any]:
    """Ask what a rule would do; hold that asking wrote nothing."""
    offset = member.cluster.audit_offset()
    found: dict[str, Any] = json.loads(
        ask(member, "plan", "-f", "-", "-o", "json", stdin=json.dumps(manifest), code=code)
    )
    for line in member.cluster.audit(offset):
        if line["user"].get("username") == "kubernetes-admin" and line["verb"] not in ("get", "list", "watch"):
            assert "dryRun=All" in line["requestURI"], (line["verb"], line["requestURI"])
    return found


def planned(found: dict[str, Any]) -> Sequence[Change]:
    """List what a plan would change."""
    plurals = {"ConfigMap": "configmaps", "Service": "services", "Namespace": "namespaces"}
    return sorted(
        (row["action"], plurals[row["object"]["kind"]], row["object"]["namespace"], row["object"]["name"])
        for row in found["objects"]
        if row["action"] in ("create", "update", "delete")
    )


def changed(member: Member, offset: int) -> Sequence[Change]:
    """List what the daemon has changed since, as the audit log of its API server has it."""
    found = set()
    for line in member.cluster.audit(offset):
        ref, succeeded = line.get("objectRef") or {}, line.get("responseStatus", {}).get("code", 0) < 300
        is_ours = line["user"].get("username") == ACCOUNT and line["verb"] in ("create", "update", "patch", "delete")
        counts = ref.get("resource") in ("configmaps", "services", "namespaces") and "dryRun" not in line["requestURI"]
        if is_ours and counts and succeeded:
            namespace = ref.get("namespace", "") if ref["resource"] != "namespaces" else ""
            found.add((line["verb"], ref["resource"], namespace, ref["name"]))
    return sorted(found)


def apply_and_compare(member: Member, manifest: dict[str, Any], expected: Sequence[Change]) -> None:
    """Apply a rule, and hold that the daemon does what was planned, all of it and nothing else."""
    offset = member.cluster.audit_offset()
    member.apply(manifest)
    eventually(lambda: set(changed(member, offset)) >= set(expected), what=f"{expected}")
    steadily(lambda: changed(member, offset) == list(expected), what=f"{expected}")


def wanted(name: str, kind: dict[str, str], label: str, **spec: Any) -> dict[str, Any]:
    return rule(name, kind, {"match": [{"labels": [{"matchLabels": {"plan": label}}]}]}, **spec)


def test_applying_a_new_rule_does_what_its_plan_says(members: list[Member]) -> None:
    """S1, O1, A3, W5: creates, conflicts, skips and namespaces, each with its reason."""
    first, second = members
    second.kubectl("create", "namespace", "far")
    stays = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": ""}
    labels = {"plan": "new"}
    second.apply(
        config_map("one", {"a": "1"}, labels=labels), config_map("taken", {"a": "1"}, labels=labels),
        config_map("far", {"a": "1"}, namespace="far", labels=labels), config_map("other", {"a": "1"}),
        config_map("stays", {"a": "1"}, labels=labels, annotations=stays),
    )  # fmt: skip
    first.apply(config_map("taken", {"mine": "1"}))
    made = wanted("new", CONFIG_MAP, "new", createNamespaces=True)
    found = plan(first, made)
    rows = {(row["action"], row["object"]["name"], row["reason"]) for row in found["objects"] if row["rule"] == "new"}
    assert rows == {
        ("create", "one", "Create"), ("create", "far", "Create"), ("create", "far", "NamespaceMissing"),
        ("conflict", "taken", "LocalObjectExists"), ("skip", "stays", "SyncDisabled"),
    }  # fmt: skip
    assert {row["owner"]["name"] for row in found["objects"] if row["owner"]} == {second.name}
    assert (found["notes"], found["troubles"]) == ([], [])
    assert first.find("namespace", "far") is None
    apply_and_compare(first, made, planned(found))
    assert planned(plan(first, made)) == []
    text = ask(first, "plan", "-f", "-", stdin=json.dumps(made))
    assert "0 to create, 0 to update, 0 to delete, 2 in sync, 1 skipped, 1 in conflict" in text


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
def test_applying_an_edit_does_what_its_plan_says(members: list[Member], policy: str) -> None:
    """S1, W3: what is renamed, what changes, and what leaves, by its policy."""
    first, second = members
    name = f"edit-{policy.lower()}"
    for number in range(3):
        second.apply(config_map(f"{name}-{number}", {"n": str(number)}, labels={"plan": name}))
    made = wanted(name, CONFIG_MAP, name, deletionPolicy=policy)
    first.apply(made)
    eventually(lambda: all(first.find("configmap", f"{name}-{number}") for number in range(3)))
    entry = made["spec"]["rules"][0]
    rename = {"type": "replace", "path": "/metadata/name", "value": "{{ .Object.GetName }}-renamed"}
    made["spec"]["rules"] = [
        {"match": [{"objectKey": {"name": f"{name}-0"}}], "mutations": {"overrides": [rename]}},
        {"match": [{"objectKey": {"name": f"{name}-1"}}], "mutations": {"labels": {"add": {"more": "yes"}}}},
    ]
    found = plan(first, made)
    leaves = [row for row in found["objects"] if row["object"]["name"] == f"{name}-2"]
    goes = policy == "Delete"
    assert [(row["action"], row["reason"]) for row in leaves] == [("delete" if goes else "skip", "NoLongerMatches")]
    assert planned(found) == sorted([
        ("create", "configmaps", "default", f"{name}-0-renamed"), ("delete", "configmaps", "default", f"{name}-0"),
        ("update", "configmaps", "default", f"{name}-1"),
        *([("delete", "configmaps", "default", f"{name}-2")] if goes else []),
    ])  # fmt: skip
    apply_and_compare(first, made, planned(found))
    made["spec"]["rules"] = [entry]
    apply_and_compare(first, made, planned(plan(first, made)))


def test_what_the_server_fills_in_is_no_change_in_a_plan(members: list[Member]) -> None:
    """A1: a Service's address is its cluster's; the server itself says what it would store."""
    first, second = members
    service = {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"plan": "filled"}},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    }  # fmt: skip
    second.apply(service)
    made = wanted("filled", SERVICE, "filled")
    apply_and_compare(first, made, planned(plan(first, made)))
    assert planned(plan(first, made)) == []
    made["spec"]["rules"][0]["mutations"] = {"labels": {"add": {"more": "yes"}}}
    found = planned(plan(first, made))
    assert found == [("update", "services", "default", "web")]
    apply_and_compare(first, made, found)


def test_a_rule_that_is_not_accepted_is_refused_in_the_words_of_lint(members: list[Member]) -> None:
    text = json.dumps(rule("wrong", CONFIG_MAP, {"match": [{"labels": [{"matchLabel": {}}]}]}))
    said = ask(members[0], "plan", "-f", "-", stdin=text, code=1)
    assert "error: spec.rules[0].match[0].labels[0].matchLabel: is not a field of this kind" in said


def test_a_cluster_that_cannot_be_heard_is_named(members: list[Member]) -> None:
    """R2: and the exit code says that the plan may not be whole."""
    first, second = members
    text = json.dumps(wanted("unheard", CONFIG_MAP, "unheard"))
    second.cluster.apiserver.freeze()
    try:
        said = ask(first, "plan", "-f", "-", "--wait-for-peers", "5s", stdin=text, code=1)
    finally:
        second.cluster.apiserver.thaw()
    assert f"unavailable: peer {second.name}: " in said
    eventually(
        lambda: first.condition("cluster", second.name, "Ready").get("status") == "True", what="it is read again"
    )


@pytest.mark.parametrize("kind", ["cm", "configmaps", "ConfigMap", "configmap"])
def test_an_object_that_is_not_copied_is_explained_by_the_clause_that_fails(members: list[Member], kind: str) -> None:
    """W1: kinds as kubectl takes them."""
    first, second = members
    second.apply(config_map("near", {"a": "1"}, labels={"plan": "no"}))
    first.apply(rule("near", CONFIG_MAP, {"match": [
        {"objectKey": {"name": "another"}},
        {"objectKey": {"name": "near"}, "labels": [{"matchLabels": {"plan": "yes"}}]},
    ]}))  # fmt: skip
    said = ask(first, "explain", kind, "default/near")
    clause = 'spec.rules[0].match[1].labels[0]: label plan is "no", the rule asks for "yes"'
    assert f"rule near does not match: {clause}" in said
    assert f"ConfigMap default/near in cluster {second.name}:" in said


def test_a_secret_is_explained_without_its_data(members: list[Member]) -> None:
    """A6: neither what it holds nor what a rule compares with it."""
    first, second = members
    second.create(secret("quiet", {"password": CANARY}))
    first.apply(rule("quiet", SECRET, {"match": [{"content": [{"key": "data.password", "value": "b3RoZXI="}]}]}))
    said = ask(first, "explain", "secret", "-n", "default", "quiet")
    clause = "spec.rules[0].match[0].content[0]: data.password does not have the value that the rule asks for"
    assert f"rule quiet does not match: {clause}" in said


def test_a_copy_is_explained_by_its_owner_its_rule_and_its_decision(members: list[Member]) -> None:
    """S1: the same in both clusters, each from its own side."""
    first, second = members
    second.apply(config_map("why", {"a": "1"}, labels={"plan": "why"}))
    first.apply(wanted("why", CONFIG_MAP, "why"))
    eventually(lambda: first.find("configmap", "why"))
    found = json.loads(ask(first, "explain", "configmap", "default/why", "-o", "json"))
    assert (found["here"], found["owner"]["name"], found["madeBy"]) == ("copy", second.name, "why")
    assert [(row["action"], row["reason"]) for row in found["decisions"]] == [("skip", "InSync")]
    assert [answer["name"] for answer in found["sources"][0]["rules"] if answer["matches"]] == ["why"]
    eventually(lambda: second.find("rsr", "why"))
    said = ask(second, "explain", "configmap", "default/why")
    assert f"ConfigMap default/why in cluster {second.name}: created here; this cluster owns it" in said
    assert "rule why matches" in said


def test_what_cannot_be_explained_says_so(members: list[Member]) -> None:
    first, _ = members
    assert "not here, nor in any cluster that is read" in ask(first, "explain", "cm", "default/nobody", code=1)
    said = ask(first, "explain", "nonsense", "default/x", code=1)
    assert f"cluster {first.name} serves no kind nonsense that can be listed and watched; kubectl" in said
    assert "api-resources lists its kinds" in said
    assert "configmaps live in namespaces: give NAMESPACE/NAME" in ask(first, "explain", "cm", "x", code=2)
    assert "created here" in ask(first, "explain", "rsr", "near")
    said = ask(first, "explain", "resourcesyncrules.clusterregistry.k8s.cisco.com", "near")
    assert "ResourceSyncRule.clusterregistry.k8s.cisco.com near" in said
