"""Builds the objects that the daemon creates: its Cluster, its published Secret, the core rules and the core feature.

Law: the same arguments give the same manifest. No object has a finalizer. Only the core rules and the feature have an
ownerReference: people copy the other objects to other clusters, whose garbage collector would delete them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry_controller.api import meta, names
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey

TOKEN_SECRET_TYPE: Final = "kubernetes.io/service-account-token"
SERVICE_ACCOUNT: Final = "kubernetes.io/service-account.name"
"""Annotation of a token Secret with the name of the token's ServiceAccount."""
BINDING_SECRET_TYPE: Final = "cluster-registry.k8s.cisco.com/token-binding"
"""Type of the Secret to which expiring tokens are bound; it has no data."""

_MARKS: Final = frozenset((meta.OWNER, meta.PROVENANCE, meta.GO_LAST_APPLIED))


def local_cluster(name: str, *, cluster_id: ClusterUID, namespace: str) -> Manifest:
    """Build the local Cluster object; its Secret has its name and is in the daemon's namespace."""
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.CLUSTER.kind,
        "metadata": {"name": name},
        "spec": {"clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": namespace}}},
    }


def registry_secret(key: ObjectKey, *, kubeconfig: str, labels: Mapping[str, str]) -> Manifest:
    """Build the Secret that other clusters read this one with."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": key.namespace, "name": key.name, **({"labels": dict(labels)} if labels else {})},
        "type": meta.REGISTRY_SECRET_TYPE,
        "data": {meta.KUBECONFIG_KEY: base64.b64encode(kubeconfig.encode()).decode()},
    }


def token_secret(namespace: str, service_account: str) -> Manifest:
    """Build the Secret into which Kubernetes writes a token of the ServiceAccount that never expires."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": namespace,
            "name": f"{service_account}-token",
            "annotations": {SERVICE_ACCOUNT: service_account},
        },
        "type": TOKEN_SECRET_TYPE,
    }


def binding_secret(namespace: str, service_account: str) -> Manifest:
    """Build the Secret to which the expiring tokens of the ServiceAccount are bound: its deletion revokes them."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": f"{service_account}-token-binding"},
        "type": BINDING_SECRET_TYPE,
    }


def token_secret_keys(namespace: str, service_account: str) -> Sequence[ObjectKey]:
    """List the Secrets that the daemon may make for the tokens of the ServiceAccount."""
    found = (make(namespace, service_account) for make in (token_secret, binding_secret))
    return [ObjectKey(namespace, meta.metadata_of(secret)["name"]) for secret in found]


def core_feature(cluster: Manifest) -> Manifest:
    """Build the feature that offers this cluster's members and rules to other clusters."""
    return _core(meta.FEATURE, names.CORE_FEATURE_OBJECT, cluster=cluster, spec={"featureName": names.CORE_FEATURE})


def core_rules(cluster: Manifest, *, namespace: str) -> Sequence[Manifest]:
    """Build the three rules that copy members, their Secrets and their rules from other clusters.

    `cluster` is the local Cluster as stored, which becomes the owner. `namespace` is the daemon's.
    """
    secrets = {
        "content": [{"key": "type", "value": meta.REGISTRY_SECRET_TYPE}],
        "namespaces": [namespace],
        "objectKey": {},
    }
    return (
        _sink(names.CLUSTERS_SINK, meta.CLUSTER, cluster=cluster),
        _sink(names.SECRETS_SINK, meta.SECRET, cluster=cluster, match=[secrets]),
        _sink(names.RULES_SINK, meta.RULE, cluster=cluster),
    )


def owner_reference(cluster: Manifest) -> Mapping[str, Any]:
    """Build the reference that makes the local Cluster the controller of an object."""
    info = meta.metadata_of(cluster)
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.CLUSTER.kind,
        "name": info["name"],
        "uid": info["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def repaired(current: Manifest, *, wanted: Manifest) -> Manifest | None:
    """Build the corrected core object; None when it is correct.

    It has no provenance: a copy of another cluster's object would follow that cluster.

    Empty fields count as absent, because members that run the Go original store them. Labels, annotations and owners
    that other clients added stay, except Clusters that are not the local one.
    """
    info, wanted_info = meta.metadata_of(current), meta.metadata_of(wanted)
    labels = {**meta.labels_of(current), **meta.labels_of(wanted)}
    ours = wanted_info["ownerReferences"]
    present = info.get("ownerReferences") or []
    others = [reference for reference in present if not is_cluster_reference(reference)]
    owned = [reference for reference in present if is_cluster_reference(reference)] == ours
    same_spec = without_empties(current.get("spec")) == without_empties(wanted["spec"])
    labels = {name: value for name, value in labels.items() if name not in _MARKS}
    annotations = {name: value for name, value in meta.annotations_of(current).items() if name not in _MARKS}
    unmarked = (labels, annotations) == (meta.labels_of(current), meta.annotations_of(current))
    if same_spec and owned and unmarked:
        return None
    marked = {"annotations": annotations} if "annotations" in info else {}
    return {
        **current,
        "metadata": {**info, "labels": labels, **marked, "ownerReferences": [*others, *ours]},
        "spec": current.get("spec") if same_spec else wanted["spec"],
    }


def is_same(stored: Manifest, current: Manifest) -> bool:
    """Return whether two forms of a core object are the same in all that `repaired` corrects."""
    here, there = meta.metadata_of(stored), meta.metadata_of(current)
    parts = ("labels", "annotations", "ownerReferences")
    return stored.get("spec") == current.get("spec") and all(here.get(part) == there.get(part) for part in parts)


def without_empties(value: Any) -> Any:
    """Drop fields that are null, false, empty text, empty list or empty object; items of lists stay."""
    if isinstance(value, Mapping):
        kept = {key: without_empties(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, False, "", [], {})}
    if isinstance(value, list | tuple):
        return [without_empties(item) for item in value]
    return value


def is_cluster_reference(reference: Mapping[str, Any]) -> bool:
    """Return whether an ownerReference names a Cluster."""
    group, _ = meta.group_version(reference.get("apiVersion") or "")
    return group == meta.GROUP and reference.get("kind") == meta.CLUSTER.kind


def _sink(name: str, kind: GVK, *, cluster: Manifest, match: Sequence[Manifest] = ()) -> Manifest:
    named = {"version": kind.version, "kind": kind.kind}
    entry: dict[str, Any] = {"match": list(match)} if match else {}
    return _core(
        meta.RULE,
        name,
        cluster=cluster,
        spec={
            "groupVersionKind": {"group": kind.group, **named} if kind.group else named,
            "clusterFeatureMatch": [{"featureName": names.CORE_FEATURE}],
            "rules": [{**entry, "mutations": {}}],
        },
    )


def _core(kind: GVK, name: str, *, cluster: Manifest, spec: Mapping[str, Any]) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "labels": {meta.CORE_RESOURCE: "true"},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": dict(spec),
    }
