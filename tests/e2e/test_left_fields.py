"""What a rule takes out of a copy belongs to the cluster that holds the copy, on two real clusters. A9."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.group import SECRET, Member, eventually, grant, rule, secret, steadily

pytestmark = [pytest.mark.group(2, prefix="left"), pytest.mark.clause("A9")]

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
WEBHOOKS = {"group": "admissionregistration.k8s.io", "version": "v1", "kind": "MutatingWebhookConfiguration"}
CLUSTER_ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}
PATHS = ("/spec/replicas?", "/spec/template/spec/tolerations?", "/spec/template/spec/containers/name=side?")
CA_HERE = "aGVyZQ=="


def _removing(*paths: str, name: str) -> dict[str, Any]:
    overrides = [{"type": "remove", "path": path} for path in paths]
    return {"match": [{"objectKey": {"name": name}}], "mutations": {"overrides": overrides}}


def _deployment(*, image: str = "a", replicas: int = 3) -> dict[str, Any]:
    containers = [{"name": "web", "image": image}, {"name": "log", "image": "log"}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    info = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": info, "spec": spec}


def _container(member: Member, name: str) -> dict[str, Any] | None:
    containers = member.get("deployment", "web")["spec"]["template"]["spec"]["containers"]
    found: list[dict[str, Any]] = [one for one in containers if one["name"] == name]
    return found[0] if found else None


def test_an_autoscaler_and_an_injector_keep_what_they_set(members: list[Member]) -> None:
    """A1, A2: through changes of the source, edits of the rule, a restart, and when the copy is made anew."""
    first, second = members
    for member in members:
        grant(member, "deployments", ["apps"], ["deployments"])
    second.apply(_deployment())
    first.apply(rule("web", DEPLOYMENT, {"match": [{"objectKey": {"name": "web"}}]}))
    eventually(lambda: first.get("deployment", "web")["spec"]["replicas"] == 3)
    first.apply(rule("web", DEPLOYMENT, _removing(*PATHS, name="web")))
    first.kubectl("wait", "--for=condition=Synced", "rsr/web", "--timeout=180s")
    steadily(lambda: first.get("deployment", "web")["spec"]["replicas"] == 3, what="handed over")
    first.kubectl("scale", "deployment", "web", "--replicas=5")
    containers = [{"name": "side", "image": "side"}]
    pod = {"containers": containers, "tolerations": [{"key": "here", "operator": "Exists"}]}
    first.kubectl("patch", "deployment", "web", "-p", json.dumps({"spec": {"template": {"spec": pod}}}))
    second.apply(_deployment(image="b", replicas=4))
    eventually(lambda: (_container(first, "web") or {})["image"] == "b")

    def is_kept() -> bool:
        spec = first.get("deployment", "web")["spec"]
        tolerations = spec["template"]["spec"].get("tolerations") or [{}]
        return spec["replicas"] == 5 and _container(first, "side") is not None and tolerations[0].get("key") == "here"

    steadily(is_kept, what="the cluster's values")
    first.daemon.restart()
    first.daemon.wait_ready(timeout_s=180)
    steadily(is_kept, what="the cluster's values after a restart")
    second.kubectl("delete", "deployment", "web")
    eventually(lambda: first.find("deployment", "web") is None)


def test_a_copy_that_is_made_anew_gets_the_clusters_values_again(members: list[Member]) -> None:
    """A2."""
    first, second = members
    second.apply(_deployment())
    eventually(lambda: first.find("deployment", "web"))
    first.kubectl("scale", "deployment", "web", "--replicas=5")
    pod = {"tolerations": [{"key": "here", "operator": "Exists"}]}
    first.kubectl("patch", "deployment", "web", "-p", json.dumps({"spec": {"template": {"spec": pod}}}))
    before = first.get("deployment", "web")["metadata"]["uid"]
    entry = _removing(*PATHS, name="web")
    for path in ("/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"):
        entry["mutations"]["overrides"].append({"type": "replace", "path": path, "value": "other"})
    first.apply(rule("web", DEPLOYMENT, entry))  # which changes an immutable field
    found = eventually(lambda: (one := first.get("deployment", "web"))["metadata"]["uid"] != before and one)
    assert found["spec"]["selector"] == {"matchLabels": {"app": "other"}}

    def is_kept() -> bool:
        spec = first.get("deployment", "web")["spec"]
        return spec["replicas"] == 5 and spec["template"]["spec"]["tolerations"][0]["key"] == "here"

    steadily(is_kept, for_s=5, what="the cluster's values")


def test_a_secrets_key_goes_with_the_edit_and_a_ca_bundle_stays(members: list[Member]) -> None:
    first, second = members
    for member in members:
        grant(member, "webhooks", ["admissionregistration.k8s.io"], ["mutatingwebhookconfigurations"])
    hook = {
        "name": "one.example.com",
        "clientConfig": {"url": "https://one.example.com/x", "caBundle": "dGhlaXJz"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "rules": [
            {"apiGroups": ["none.example.com"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["x"]}
        ],
    }
    info = {"name": "injector"}
    second.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": WEBHOOKS["kind"], "metadata": info,
                  "webhooks": [hook]})  # fmt: skip
    second.apply(secret("keys", {"a": "1", "b": "2"}))
    first.apply(
        rule("hooks", WEBHOOKS, _removing("/webhooks/name=one.example.com/clientConfig/caBundle?", name="injector")),
        rule("keys", SECRET, {"match": [{"objectKey": {"name": "keys"}}]}),
    )
    eventually(lambda: first.find("mutatingwebhookconfigurations", "injector"))
    eventually(lambda: first.find("secret", "keys"))
    first.apply(rule("keys", SECRET, _removing("/data/b?", name="keys")))
    eventually(lambda: first.get("secret", "keys")["data"].keys() == {"a"})
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": CA_HERE}]
    first.kubectl("patch", "mutatingwebhookconfigurations", "injector", "--type=json", "-p", json.dumps(patch))
    other = {**hook, "name": "two.example.com"}
    second.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": WEBHOOKS["kind"], "metadata": info,
                  "webhooks": [other, hook]})  # fmt: skip

    def bundles() -> dict[str, str | None]:
        hooks = first.get("mutatingwebhookconfigurations", "injector")["webhooks"]
        return {one["name"]: one["clientConfig"].get("caBundle") for one in hooks}

    eventually(lambda: len(bundles()) == 2)
    steadily(lambda: bundles()["one.example.com"] == CA_HERE, what="the caBundle of this cluster")


def test_an_aggregated_cluster_role_has_the_rules_of_the_cluster_that_holds_it(members: list[Member]) -> None:
    first, second = members
    for member in members:
        grant(member, "roles", ["rbac.authorization.k8s.io"], ["clusterroles"])
    first.apply({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "escalating", "labels": {"cluster-registry.k8s.cisco.com/controller-aggregated": "true"}},
        "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["escalate"]}],
    })  # fmt: skip
    part = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    for member, resource in ((first, "pods"), (second, "services")):
        rights = [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]
        member.apply({**part, "metadata": {"name": "part", "labels": {"sum": "yes"}}, "rules": rights})
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]}
    second.apply({**part, "metadata": {"name": "all"}, "aggregationRule": selectors, "rules": []})
    first.apply(rule("roles", CLUSTER_ROLE, {"match": [{"objectKey": {"name": "all"}}]}))

    def resources(member: Member) -> list[str]:
        return [name for one in member.get("clusterrole", "all")["rules"] or [] for name in one["resources"]]

    eventually(lambda: resources(second) == ["services"])
    eventually(lambda: resources(first) == ["pods"])
    first.kubectl("wait", "--for=condition=Synced", "rsr/roles", "--timeout=180s")
    steadily(lambda: resources(first) == ["pods"], what="this cluster's own sum")
