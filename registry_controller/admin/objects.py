"""Parts of objects as commands read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.core.status import merge


def key_of(manifest: Manifest) -> ObjectKey:
    """Return namespace and name of an object."""
    info = meta.metadata_of(manifest)
    return ObjectKey(str(info.get("namespace", "")), str(info["name"]))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def read_or_none(manifest: Manifest) -> Cluster | None:
    """Parse a Cluster; None for one with a field that the schema refuses."""
    try:
        return read_cluster(manifest)
    except InvalidObject:
        return None


def with_id(clusters: Sequence[Manifest], cluster_id: ClusterUID) -> Sequence[Manifest]:
    """Return the Clusters with a cluster's ID."""
    return [found for found in clusters if (read := read_or_none(found)) is not None and read.cluster_id == cluster_id]


def state_of(cluster: Manifest) -> str:
    """Return `status.state` of a Cluster; empty before the daemon has written it."""
    return str(mapping(cluster.get("status")).get("state") or "")


def message_of(cluster: Manifest) -> str:
    """Return why a Cluster is not in step, from its status; empty without a message."""
    status = mapping(cluster.get("status"))
    if status.get("message"):
        return str(status["message"])
    condition = find_condition(cluster, "ClustersSynced")
    return str(condition.get("message") or "") if condition.get("status") != "True" else ""


def find_condition(manifest: Manifest, type_: str) -> Mapping[str, Any]:
    """Return a condition of an object; empty if it is missing."""
    return merge.find_condition(manifest.get("status"), type_)


def read_time(text: object) -> datetime | None:
    """Parse a time (RFC 3339); None for any other value."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
