"""Copies on which the controllers of Kubernetes act: of Deployments, ReplicaSets, Jobs and quotas. O11, A9, S3."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.e2e.group import CONFIG_MAP, OWNER, PROVENANCE, Member, config_map, eventually, grant, rule, steadily

pytestmark = pytest.mark.group(2, prefix="works", has_workloads=True)

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
REPLICA_SET = {"group": "apps", "version": "v1", "kind": "ReplicaSet"}
JOB = {"group": "batch", "version": "v1", "kind": "Job"}
LABELS = {"app": "web"}
CONTAINERS = [{"name": "web", "image": "none"}]


def _named(name: str, kind: dict[str, str], *, of: str, **entry: Any) -> dict[str, Any]:
    return rule(name, kind, {"match": [{"objectKey": {"name": of}}], **entry}, deletionPolicy="Delete")


def _sets(member: Member) -> dict[str, int]:
    """Return the replicas of the ReplicaSets of the Deployment, by uid."""
    found = member.get("-n", "default", "replicasets", "-l", "app=web")["items"]
    return {item["metadata"]["uid"]: item["spec"]["replicas"] for item in found}


@pytest.mark.clause("O11", "A9", "W7")
def test_the_replica_sets_of_a_copied_deployment_are_left_alone_and_follow_its_scale(members: list[Member]) -> None:
    """O1: the deployment controller copies the marks of the Deployment to the ReplicaSets that it makes of it."""
    first, owner = members
    for member in members:
        grant(member, "apps", ["apps"], ["deployments", "replicasets"])
    first.apply(rule("sets", REPLICA_SET, {"match": [{"labels": [{"matchLabels": {"sets": "none"}}]}]}))
    renamed = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "taken-{{ .Object.GetName }}"}]}
    taking = rule("taking", REPLICA_SET, {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": renamed})
    owner.apply({**taking, "metadata": {"name": "taking", "annotations": {SYNC_DISABLED: "true"}}})
    removed = {"overrides": [{"type": "remove", "path": "/spec/replicas?"}]}
    first.apply(_named("deployments", DEPLOYMENT, of="web", mutations=removed))
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
    info = {"name": "web", "namespace": "default"}
    owner.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": info, "spec": spec})
    eventually(lambda: len(_sets(first)) == 1, what="the ReplicaSet here")
    held = _sets(first)
    (found,) = first.get("-n", "default", "replicasets", "-l", "app=web")["items"]
    assert found["metadata"]["annotations"][OWNER] == owner.id
    assert PROVENANCE in found["metadata"]["annotations"]
    first.kubectl("scale", "deployment", "web", "--replicas=5")
    eventually(lambda: list(_sets(first).values()) == [5], what="the ReplicaSet follows the scale")
    eventually(lambda: first.condition("rsr", "sets", "Synced").get("status") == "True")
    eventually(lambda: owner.condition("rsr", "taking", "Synced").get("status") == "True")

    def is_left() -> bool:
        return _sets(first) == dict.fromkeys(held, 5) and len(_sets(owner)) == 1

    steadily(is_left, for_s=5.0, what="nothing is deleted, put back or copied")
    assert first.get("deployment", "web")["spec"]["replicas"] == 5
    assert first.condition("rsr", "deployments", "Synced")["status"] == "True"
    owner.kubectl("delete", "deployment", "web")
    eventually(lambda: first.find("deployment", "web") is None)
    eventually(lambda: not _sets(first), what="the ReplicaSets go with the Deployment")


@pytest.mark.clause("A9")
def test_a_finished_job_is_not_run_again(members: list[Member]) -> None:
    """Its copy has no time to live. Its source goes by its own, and the copy with it."""
    first, owner = members
    for member in members:
        grant(member, "jobs", ["batch"], ["jobs"])
    first.apply(_named("jobs", JOB, of="once"))
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    info = {"name": "once", "namespace": "default"}
    spec = {"ttlSecondsAfterFinished": 0, "template": template}
    owner.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": info, "spec": spec})
    eventually(lambda: _finish(first), what="the copy finishes")
    eventually(lambda: first.get("job", "once")["status"].get("succeeded") == 1)
    before = first.get("job", "once")
    assert "ttlSecondsAfterFinished" not in before["spec"]
    uid = before["metadata"]["uid"]

    def is_finished() -> bool:
        return first.get("job", "once")["metadata"]["uid"] == uid and len(_pods(first)) == 1

    steadily(is_finished, for_s=5.0, what="the Job is not run again")
    assert first.condition("rsr", "jobs", "Synced")["status"] == "True"
    eventually(lambda: _finish(owner), what="the source finishes")
    eventually(lambda: owner.find("job", "once") is None, what="the time of the source is over")
    eventually(lambda: first.find("job", "once") is None)


def _pods(member: Member) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = member.get("-n", "default", "pods", "-l", "job-name=once")["items"]
    return found


def _finish(member: Member) -> bool:
    """Say, as a kubelet does, that the Pod of the Job has succeeded; False without a Pod."""
    for pod in _pods(member):
        member.kubectl(
            "patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge",
            "-p", '{"status":{"phase":"Succeeded"}}',
        )  # fmt: skip
        return True
    return False


@pytest.mark.clause("S3")
def test_a_quota_keeps_a_copy_away_until_it_has_room(members: list[Member]) -> None:
    first, owner = members
    for member in members:
        member.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "small"}})
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "small"}}
    first.apply({**quota, "spec": {"hard": {"count/configmaps": "1"}}})  # which kube-root-ca.crt takes
    eventually(lambda: first.get("-n", "small", "resourcequota", "small")["status"]["used"])
    owner.create(config_map("late", {"a": "1"}, namespace="small"))
    first.apply(_named("quota", CONFIG_MAP, of="late"))

    def reasons() -> list[str]:
        entries = first.get("rsr", "quota")["status"].get("clusters") or ()
        return [failure["reason"] for one in entries for failure in one.get("failures") or ()]

    eventually(lambda: reasons() == ["QuotaExceeded"])
    assert first.condition("rsr", "quota", "Synced")["status"] == "False"
    first.apply({**quota, "spec": {"hard": {"count/configmaps": "2"}}})
    eventually(lambda: first.find("-n", "small", "configmap", "late"), what="the copy")
    eventually(lambda: first.condition("rsr", "quota", "Synced").get("status") == "True")
