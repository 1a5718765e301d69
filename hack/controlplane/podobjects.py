"""The Pod objects for the stand-in kubelet's pods: clients see which pods exist, and whether they are ready.

Law: the objects show the kubelet's state. An API server that does not answer gets the state later."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from .api import MERGE_PATCH
from .cluster import Cluster
from .errors import ApiError
from .pod import Pod


class PodObjects:
    """The Pod objects of one Deployment, by its name."""

    def __init__(self, cluster: Cluster, *, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._published: dict[str, bool | None] | None = None

    def publish(self, pods: Iterable[Pod], *, prefix: str) -> None:
        """Create, change and delete the objects that differ; ApiError when the API server does not answer or refuses.

        Objects whose names begin with `prefix` and that belong to no pod are remains of an earlier kubelet.
        """
        now = {pod.facts.name: pod for pod in pods}
        if self._published is None:
            self._published = dict.fromkeys(self._left_behind(prefix))
        for name in [name for name in self._published if name not in now]:
            self._delete(name)
            del self._published[name]
        for name, pod in now.items():
            if name not in self._published:
                self._cluster.api.request("POST", self._path, body=_manifest(pod))
            is_ready = pod.is_ready
            if self._published.get(name) is not is_ready:
                self._published[name] = None
                status = {"status": _status(pod, is_ready=is_ready)}
                path = f"{self._path}/{name}/status"
                self._cluster.api.request("PATCH", path, body=status, content_type=MERGE_PATCH)
                self._published[name] = is_ready

    def forget(self) -> None:
        """Keep the objects as they are, as if the node were lost."""
        self._published = None

    def _left_behind(self, prefix: str) -> list[str]:
        found = self._cluster.api.get(f"{self._path}?fieldSelector=spec.nodeName%3D{_NODE}")["items"]
        return [pod["metadata"]["name"] for pod in found if pod["metadata"]["name"].startswith(prefix)]

    def _delete(self, name: str) -> None:
        try:
            self._cluster.api.request("DELETE", f"{self._path}/{name}?gracePeriodSeconds=0")
        except ApiError as error:
            if error.status != 404:
                raise


_NODE = "loopback"


def _manifest(pod: Pod) -> dict[str, Any]:
    """Return the fields of a pod that clients read: labels, account and address."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.facts.name, "labels": dict(pod.template.labels)},
        "spec": {
            "nodeName": _NODE,
            "serviceAccountName": pod.template.service_account,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def _status(pod: Pod, *, is_ready: bool) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = "True" if is_ready else "False"
    return {
        "phase": "Running",
        "podIP": pod.facts.ip,
        "podIPs": [{"ip": pod.facts.ip}],
        "conditions": [{"type": "Ready", "status": state, "lastTransitionTime": now}],
    }
