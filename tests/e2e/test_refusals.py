"""Refusals of real API servers keep their kind in the status of a rule, with what to do next. S3, R2."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api.meta import CONTROLLER_AGGREGATED
from registry_controller.report.reasons import REFUSALS, describe_labels
from tests.e2e.group import CONFIG_MAP, Member, config_map, eventually, grant, rule

pytestmark = [pytest.mark.group(2, prefix="refusals"), pytest.mark.clause("S3")]

RBAC = "rbac.authorization.k8s.io"
POD = {"version": "v1", "kind": "Pod"}
PRIVILEGED: dict[str, Any] = {}
LARGE = {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}


def _pod(name: str, namespace: str, **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "a", **container}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _reason(member: Member, name: str) -> tuple[str, str]:
    entries = member.get("rsr", name)["status"].get("clusters") or ()
    failures = [failure for one in entries for failure in one.get("failures") or ()]
    return (failures[0]["reason"], failures[0]["message"]) if failures else ("", "")


def _is_refused(member: Member, name: str, reason: str) -> bool:
    assert _reason(member, name)[0] == reason, member.get("rsr", name)["status"]
    return True


def _named(rule_name: str, kind: dict[str, str], name: str) -> dict[str, Any]:
    return rule(rule_name, kind, {"match": [{"objectKey": {"name": name}}]})


def test_each_refusal_keeps_its_kind_and_says_what_to_do(members: list[Member]) -> None:
    first, second = members
    for member in members:
        grant(member, "pods", [""], ["pods"])
        grant(member, "roles", [RBAC], ["clusterroles"])
        member.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                       for name in ("strict", "limited", "full")))  # fmt: skip
    first.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    first.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "limited"},
                 "spec": {"limits": limits}})  # fmt: skip
    first.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "full"},
                 "spec": {"hard": {"count/configmaps": "0"}}})  # fmt: skip
    status = {"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}}
    first.kubectl("patch", "resourcequota", "none", "-n", "full", "--subresource=status", "--type=merge", "-p",
                  json.dumps(status))  # fmt: skip
    secrets = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}]
    info = {"name": "mighty"}
    second.apply({"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": info, "rules": secrets})
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"aggregate": "yes"}}]}
    second.apply(
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, "aggregationRule": selectors,
         "rules": []},
        _pod("privileged", "strict", **PRIVILEGED),
        _pod("large", "limited", **LARGE),
        config_map("one-too-many", {}, namespace="full"),
    )  # fmt: skip
    wanted = {
        "strict": (POD, "privileged", "PodSecurityViolation"),
        "limited": (POD, "large", "LimitRangeViolation"),
        "full": (CONFIG_MAP, "one-too-many", "QuotaExceeded"),
        "role": ({"group": RBAC, "version": "v1", "kind": "ClusterRole"}, "mighty", "RightsEscalation"),
        "aggregated": ({"group": RBAC, "version": "v1", "kind": "ClusterRole"}, "all", "RightsEscalation"),
    }
    first.apply(*(_named(name, kind, source) for name, (kind, source, _) in wanted.items()))
    for name, (_, _, reason) in wanted.items():
        eventually(lambda name=name, reason=reason: _reason(first, name)[0] == reason, what=f"{name}: {reason}")
        assert REFUSALS[reason] in _reason(first, name)[1]
        assert first.condition("rsr", name, "Synced")["status"] == "False"


def test_a_binding_to_a_role_beyond_the_daemons_rights_comes_once_it_may_bind(members: list[Member]) -> None:
    """It has no right of that role; `bind` on the role is enough, and is what the rule names."""
    first, second = members
    for member in members:
        grant(member, "bindings", [RBAC], ["rolebindings"])
    power = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "powerful"}, "rules": power}
    for member in members:
        member.apply(role)
    info = {"name": "empowers", "namespace": "default"}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "powerful"}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "somebody"}]
    head = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": info}
    second.apply({**head, "roleRef": reference, "subjects": subjects})
    first.apply(_named("empowers", {"group": RBAC, "version": "v1", "kind": "RoleBinding"}, "empowers"))
    eventually(lambda: _reason(first, "empowers")[0] == "RightsEscalation", what="the rule says it")
    message = _reason(first, "empowers")[1]
    assert "rolebindings" in message
    assert "bind on the role of a binding" in message
    assert describe_labels(CONTROLLER_AGGREGATED) in message
    assert first.condition("rsr", "empowers", "Synced")["status"] == "False"
    assert first.find("rolebinding", "empowers") is None
    labels = {CONTROLLER_AGGREGATED: "true"}
    bind = [{"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["powerful"]}]
    first.apply({**role, "metadata": {"name": "may-bind", "labels": labels}, "rules": bind})
    found = eventually(lambda: first.find("rolebinding", "empowers"), what="the binding")
    assert found["roleRef"] == reference
    first.kubectl("wait", "--for=condition=Synced", "rsr/empowers", "--timeout=180s")


def test_what_an_object_needs_here_is_said_and_the_copy_comes_with_it(members: list[Member]) -> None:
    """The role of a binding, and the ServiceAccount of a Pod, which are at the owner and not here."""
    first, second = members
    for member in members:
        grant(member, "pods", [""], ["pods"])
        grant(member, "bindings", [RBAC], ["rolebindings"])
    info = {"name": "bound", "namespace": "default"}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "rightless"}, "rules": []}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "rightless"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker", "namespace": "default"}}
    pod = _pod("working", "default")
    pod["spec"]["serviceAccountName"] = "worker"
    second.apply(
        role, account, {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": info, "roleRef": reference}, pod
    )
    wanted = {
        "binding": ({"group": RBAC, "version": "v1", "kind": "RoleBinding"}, "bound", "RoleMissing"),
        "worker": (POD, "working", "ServiceAccountMissing"),
    }
    first.apply(*(_named(name, kind, source) for name, (kind, source, _) in wanted.items()))
    for name, (_, _, reason) in wanted.items():
        eventually(lambda name=name, reason=reason: _is_refused(first, name, reason))
        assert REFUSALS[reason] in _reason(first, name)[1]
        assert first.condition("rsr", name, "Synced")["status"] == "False"
    first.apply(role, account)
    for name, kind in (("bound", "rolebinding"), ("working", "pod")):
        eventually(lambda name=name, kind=kind: first.find(kind, name), what=f"{kind} {name}")


@pytest.mark.clause("R2")
def test_a_kind_that_is_served_and_cannot_be_watched_is_said_to_be(members: list[Member]) -> None:
    first, _ = members
    for member in members:
        grant(member, "componentstatuses", [""], ["componentstatuses"])
    first.apply(_named("unwatched", {"version": "v1", "kind": "ComponentStatus"}, "etcd-0"))
    words = "cannot be listed and watched"
    eventually(lambda: words in first.condition("rsr", "unwatched", "Stalled").get("message", ""))
