"""Clusters, credentials and peers for the tests of this package."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.members import MemberRecord
from registry_controller.cache.registry import Registry
from registry_controller.clusters.plan import PeerSnapshot
from registry_controller.kube.kubeconfig import Credentials

NAMESPACE = "registry"
LOCAL = ClusterUID("local")


def cluster_manifest(name: str, *, cluster_id: str = "", secret: str | None = "", **fields: Any) -> dict[str, Any]:
    """Build a Cluster object; its ID is its name with `id-` before it, and its Secret has its name."""
    spec: dict[str, Any] = {"clusterID": cluster_id or f"id-{name}"}
    if secret is not None:
        spec["authInfo"] = {"secretRef": {"name": secret or name, "namespace": NAMESPACE}}
    spec |= fields.pop("spec", {})
    metadata = {"name": name, "uid": f"uid-{name}", **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec, **fields}


def cluster(name: str, **fields: Any) -> Cluster:
    """Read the Cluster object of `cluster_manifest`."""
    return read_cluster(cluster_manifest(name, **fields))


def credentials(server: str) -> Credentials:
    """Build credentials for one server."""
    return Credentials(f"https://{server}.test", "", f"token of {server}", "", "", "")


def record(name: str, *, cluster_id: str = "", secret: str | None = "", **fields: Any) -> MemberRecord:
    """Build a Cluster as a peer holds it."""
    key = None if secret is None else ObjectKey(NAMESPACE, secret or name)
    record = MemberRecord(name, ClusterUID(cluster_id or f"id-{name}"), key, "", "", disabled=False, membership="")
    return record._replace(**fields)


def snapshot(name: str, *held: MemberRecord, is_alive: bool = True) -> PeerSnapshot:
    """Build a peer that holds these Clusters."""
    return PeerSnapshot(name, is_alive, {record.name: record for record in held})


def peer(*held: MemberRecord, is_alive: bool = True, **fields: Any) -> Any:
    """Stand in for an engaged peer."""
    found = {record.name: record for record in held}
    return SimpleNamespace(is_alive=is_alive, clusters=SimpleNamespace(held=found), **fields)


def registry(*clusters: dict[str, Any], rules: tuple[dict[str, Any], ...] = ()) -> Registry:
    """Make a registry that holds these objects."""
    made = Registry(local=LOCAL, on_change=lambda plural, name: None)
    for number, manifest in enumerate(clusters):
        metadata = {"resourceVersion": str(number + 1), **manifest["metadata"]}
        made.apply("clusters", "ADDED", {**manifest, "metadata": metadata})
    for manifest in rules:
        made.apply("resourcesyncrules", "ADDED", manifest)
    return made


def rule_manifest(name: str, *, kind: str = "ConfigMap", features: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    """Build a rule that reads a kind; from the peers with these features, or from all."""
    asked = [{"featureName": feature} for feature in features]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "groupVersionKind": {"version": "v1", "kind": kind},
            "clusterFeatureMatch": asked,
            "rules": [{}],
            **spec,
        },
    }
