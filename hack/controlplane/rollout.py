"""The work of the deployment controller: the Pods to end and to start in a rollout, and the Deployment's status.

Laws: no more Pods run than the strategy's surge allows, and no fewer are ready while Pods can become ready ·
`kubectl rollout status` and `helm --wait` read from the status alone whether a rollout is complete."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .api import MERGE_PATCH
from .cluster import Cluster
from .podspec import Deployment


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a Pod: whether it is of the present template, and whether it is ready."""

    is_current: bool
    is_ready: bool


def choose_to_stop(deployment: Deployment, pods: Sequence[Standing]) -> list[int]:
    """Return the positions of the Pods to end now: surplus ones, then old ones, unready before ready."""
    current = [number for number, pod in enumerate(pods) if pod.is_current]
    old = [number for number, pod in enumerate(pods) if not pod.is_current]
    least_ready = deployment.replicas - deployment.lack
    ready = sum(pod.is_ready for pod in pods)
    starting = sum(pod.is_current and not pod.is_ready for pod in pods)
    unready = [number for number in old if not pods[number].is_ready]
    unready = unready[: max(0, len(pods) - least_ready - starting)]
    spare = [number for number in old if pods[number].is_ready][: max(0, ready - least_ready)]
    return [*current[deployment.replicas :], *unready, *spare]


def count_to_start(deployment: Deployment, pods: Sequence[Standing]) -> int:
    """Return how many Pods of the present template may start beside these."""
    missing = deployment.replicas - sum(pod.is_current for pod in pods)
    return max(0, min(missing, deployment.replicas + deployment.surge - len(pods)))


def is_done(deployment: Deployment, pods: Sequence[Standing]) -> bool:
    """Whether all Pods exist, are of the present template, and are ready."""
    return len(pods) == deployment.replicas and all(pod.is_current and pod.is_ready for pod in pods)


def compute_status(deployment: Deployment, pods: Sequence[Standing]) -> dict[str, Any]:
    """Return the status; transition times are kept from the stored status."""
    ready = sum(pod.is_ready for pod in pods)
    is_available = ready >= deployment.replicas
    progressed = "NewReplicaSetAvailable" if is_done(deployment, pods) else "ReplicaSetUpdated"
    available = "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable"
    return {
        "observedGeneration": deployment.generation,
        "replicas": len(pods),
        "updatedReplicas": sum(pod.is_current for pod in pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, deployment.replicas - ready),
        "conditions": [
            _condition("Available", is_true=is_available, reason=available, status=deployment.status),
            _condition("Progressing", is_true=True, reason=progressed, status=deployment.status),
        ],
    }


def is_reported(status: Mapping[str, Any], reported: Mapping[str, Any]) -> bool:
    """Whether `reported` is the same status; the API server omits zeros."""
    for key, value in status.items():
        if key != "conditions" and reported.get(key, 0) != value:
            return False
    return _essence(status) == _essence(reported)


def report_status(cluster: Cluster, deployment: Deployment, status: Mapping[str, Any]) -> None:
    """Write the status, as the admin: a kubelet has no identity for Deployments."""
    path = f"{deployment_path(deployment.namespace, deployment.name)}/status"
    cluster.api.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)


def deployment_path(namespace: str, name: str = "") -> str:
    """Return the API path of a Deployment, or of all Deployments of a namespace (no name)."""
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
