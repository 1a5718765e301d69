"""What a kubelet and the deployment controller together write into a Deployment's status.

Law: `kubectl rollout status` and `helm --wait` must be able to tell from it alone whether a rollout is done.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from .api import MERGE_PATCH
from .cluster import Cluster
from .podspec import Deployment


def compute_status(deployment: Deployment, *, running: int, ready: int) -> dict[str, Any]:
    """Compute the status; times of transition are kept from the status that is there."""
    is_available = ready >= deployment.replicas
    progressed = "NewReplicaSetAvailable" if is_available else "ReplicaSetUpdated"
    available = "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable"
    return {
        "observedGeneration": deployment.generation,
        "replicas": running,
        "updatedReplicas": running,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, deployment.replicas - ready),
        "conditions": [
            _condition("Available", is_true=is_available, reason=available, status=deployment.status),
            _condition("Progressing", is_true=True, reason=progressed, status=deployment.status),
        ],
    }


def is_reported(status: Mapping[str, Any], reported: Mapping[str, Any]) -> bool:
    """Whether the status says the same already; the API server leaves zeros out."""
    for key, value in status.items():
        if key != "conditions" and reported.get(key, 0) != value:
            return False
    return _essence(status) == _essence(reported)


def report_status(cluster: Cluster, deployment: Deployment, status: Mapping[str, Any]) -> None:
    """Write the status, as the admin: there is no kubelet identity for Deployments."""
    path = f"{deployment_path(deployment.namespace, deployment.name)}/status"
    cluster.api.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)


def deployment_path(namespace: str, name: str = "") -> str:
    """Return the API path of a Deployment, of all of a namespace without a name."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments" + (f"/{name}" if name else "")


def _condition(kind: str, *, is_true: bool, reason: str, status: Mapping[str, Any]) -> dict[str, str]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = "True" if is_true else "False"
    old = next((c for c in status.get("conditions", []) if c["type"] == kind and c["status"] == state), None)
    return {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": "reported by hack/controlplane",
        "lastUpdateTime": now,
        "lastTransitionTime": old.get("lastTransitionTime", now) if old else now,
    }


def _essence(status: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(c["type"], c["status"], c["reason"]) for c in status.get("conditions", [])}
