"""Cluster API's Secrets, the label of multicluster-runtime, and ClusterProfiles, on real control planes.

The definition of ClusterProfile is the file of the Go module sigs.k8s.io/cluster-inventory-api. The Secret has the form
that sigs.k8s.io/cluster-api gives it, which `test_module_sources.py` compares. `tests/oracle/sources` has the versions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    API,
    NAMESPACE,
    OWNER,
    Member,
    eventually,
    hand_over,
    holding_invariants,
    in_sync,
    steadily,
)
from tests.oracle.module_sources import module_folder

PROFILES = "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"
LABEL = "sigs.k8s.io/multicluster-runtime-kubeconfig"
MANAGER = "cluster-registry.k8s.cisco.com"
INVENTORY = "default"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    """A management cluster, and a workload cluster that joined it by the Secret of Cluster API."""
    with Group(2, prefix="capi") as group, holding_invariants() as found:
        options = ("controller.multiclusterRuntimeLabel=true", f"controller.clusterProfileNamespace={INVENTORY}")
        group[0].kubectl("apply", "-f", str(module_folder("sigs.k8s.io/cluster-inventory-api") / PROFILES))
        found += [Member(cluster, *options).install() for cluster in group]
        management, workload = found
        for member in found:
            member.daemon.wait_ready(timeout_s=180)
        management.create(capi_secret(workload), named(workload))
        hand_over(management, workload)
        in_sync(found, within_s=400)
        yield found


def capi_secret(workload: Member) -> dict[str, Any]:
    """Write the Secret with an administrator's kubeconfig that Cluster API keeps for a cluster."""
    name = workload.name
    kubeconfig = workload.kubectl("config", "view", "--raw", "--flatten", "--minify")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{name}-kubeconfig", "namespace": INVENTORY, "labels": {"cluster.x-k8s.io/cluster-name": name},
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(kubeconfig.encode()).decode()},
    }  # fmt: skip


def named(workload: Member) -> dict[str, Any]:
    """Write the Cluster of a workload cluster that names that Secret."""
    reference = {"name": f"{workload.name}-kubeconfig", "namespace": INVENTORY}
    spec = {"clusterID": workload.id, "authInfo": {"secretRef": reference}}
    return {"apiVersion": API, "kind": "Cluster", "metadata": {"name": workload.name}, "spec": spec}


@pytest.mark.clause("P12")
def test_a_cluster_joins_by_the_secret_of_cluster_api(members: list[Member]) -> None:
    """Nobody carried the credentials of the workload cluster: its own Cluster and Secret came by the first read."""
    management, workload = members
    cluster = eventually(lambda: (c := management.get("cluster", workload.name)) and owner(c) == workload.id and c)
    assert cluster["spec"]["authInfo"]["secretRef"] == {"name": workload.name, "namespace": NAMESPACE}
    assert management.find("-n", NAMESPACE, "secret", workload.name)
    kept = management.get("-n", INVENTORY, "secret", f"{workload.name}-kubeconfig")
    assert owner(kept) is None
    writers = {line["user"]["username"] for line in management.cluster.audit() if is_write_of_secret(line, INVENTORY)}
    assert writers == {"kubernetes-admin"}


def owner(manifest: dict[str, Any]) -> str | None:
    found: str | None = manifest["metadata"].get("annotations", {}).get(OWNER)
    return found


def is_write_of_secret(line: dict[str, Any], namespace: str) -> bool:
    asked = line.get("objectRef") or {}
    is_secret = (asked.get("resource"), asked.get("namespace")) == ("secrets", namespace)
    return is_secret and line["verb"] not in ("get", "list", "watch")


@pytest.mark.clause("P12")
def test_a_cluster_of_another_member_is_not_read_with_such_a_secret(members: list[Member]) -> None:
    management, workload = members
    stranger = named(workload) | {"metadata": {"name": "stranger", "annotations": {OWNER: workload.id}}}
    stranger["spec"] = stranger["spec"] | {"clusterID": "00000000-0000-4000-8000-000000000001"}
    management.create(stranger)
    words = "only a Cluster that was made in this cluster may name it"
    eventually(lambda: words in management.get("cluster", "stranger").get("status", {}).get("message", ""))
    management.kubectl("delete", "cluster", "stranger", "--wait=false")


@pytest.mark.clause("P13")
def test_each_secret_has_the_label_of_multicluster_runtime(members: list[Member]) -> None:
    def labelled(member: Member) -> set[str]:
        found = member.kubectl("get", "secrets", "-n", NAMESPACE, "-l", f"{LABEL}=true", "-o", "name")
        return {line.removeprefix("secret/") for line in found.split()}

    names = {member.name for member in members}
    for member in members:
        eventually(lambda member=member: labelled(member) == names)
        assert member.get("-n", NAMESPACE, "secret", member.name)["data"]["kubeconfig"]


@pytest.mark.clause("P13")
def test_each_member_has_a_cluster_profile_where_the_kind_is_served(members: list[Member]) -> None:
    management, workload = members
    for member in members:
        found = eventually(lambda member=member: healthy(management, member.name), within_s=400)
        assert found["metadata"]["labels"]["x-k8s.io/cluster-manager"] == MANAGER
        assert found["spec"]["clusterManager"] == {"name": MANAGER}
        properties = {item["name"]: item["value"] for item in found["status"]["properties"]}
        assert properties["cluster.clusterset.k8s.io"] == member.id
        (access,) = found["status"]["accessProviders"]
        assert access["name"] == "kubeconfig-secretreader"
        assert access["cluster"]["server"] == member.cluster.server
        (extension,) = access["cluster"]["extensions"]
        where = extension["extension"]
        secret = management.get("-n", where["namespace"], "secret", where["name"])
        assert "current-context" in base64.b64decode(secret["data"][where["key"]]).decode()
    assert "multicluster.x-k8s.io" not in workload.log()


def healthy(management: Member, name: str) -> dict[str, Any] | None:
    found = management.find("-n", INVENTORY, "clusterprofile", name) or {}
    status = {item["type"]: item["status"] for item in found.get("status", {}).get("conditions", ())}
    return found if status.get("ControlPlaneHealthy") == "True" else None


@pytest.mark.clause("P13")
def test_a_cluster_profile_of_another_manager_is_left_alone(members: list[Member]) -> None:
    management, _ = members
    other = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {"name": "fleet", "namespace": INVENTORY},
        "spec": {"clusterManager": {"name": "fleet"}},
    }
    management.create(other)
    stored = management.get("-n", INVENTORY, "clusterprofile", "fleet")
    ours = f"clusterprofile/{management.name}"
    management.kubectl("delete", "-n", INVENTORY, ours)
    eventually(lambda: healthy(management, management.name), within_s=400, what="the next pass")
    steadily(lambda: management.get("-n", INVENTORY, "clusterprofile", "fleet") == stored, for_s=1)
