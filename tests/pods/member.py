"""A member whose daemon runs in a real Pod."""

from __future__ import annotations

import json
from typing import Any

from hack.pods.cluster import NodeCluster
from tests.e2e.group import CHART, NAMESPACE, Member, eventually

RELEASE = "cluster-registry"
DEPLOYMENT = "deployment/cluster-registry-controller"
SELECTOR = f"app.kubernetes.io/name=cluster-registry-controller,app.kubernetes.io/instance={RELEASE}"
CHECK = "cluster-registry-check"
"""The Pod of `helm test`."""
LIMIT = "--timeout=300s"
SYNCED = {"sync": "yes"}
"""The label of the Secrets that the rule of the group copies."""


class PodMember(Member):
    """The words of `Member` for a Deployment that a real kubelet runs."""

    def __init__(self, cluster: NodeCluster) -> None:
        super().__init__(cluster)
        self.nodes = cluster

    def install(self, *flags: str) -> PodMember:
        self._helm("install", *flags)
        return self

    def upgrade(self, *flags: str) -> None:
        """Change values of the release, and wait until its Deployment has taken them."""
        self._helm("upgrade", *flags)
        self.wait_available()

    def run_tests(self, program: str) -> str:
        """Run `helm test` by helm or helm3, and return its output with the log of the Pod."""
        return self.cluster.helm("test", RELEASE, "--namespace", NAMESPACE, "--logs", program=program)

    def wait_available(self) -> None:
        self.kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, LIMIT)

    def pods(self) -> list[dict[str, Any]]:
        """List the Pods of the daemon that are not being deleted."""
        listed = json.loads(self.kubectl("-n", NAMESPACE, "get", "pods", "-l", SELECTOR, "-o", "json"))["items"]
        return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]

    def pod(self) -> dict[str, Any]:
        """Return the only Pod, once there is only one."""
        return eventually(lambda: self.pods() if len(self.pods()) == 1 else None, what="one Pod")[0]

    def execute(self, *argv: str) -> str:
        """Run a command in the daemon's container, as `kubectl exec` does."""
        return self.kubectl("-n", NAMESPACE, "exec", DEPLOYMENT, "--", *argv)

    def log(self) -> str:
        return self.kubectl("-n", NAMESPACE, "logs", DEPLOYMENT, "--tail=-1")

    def _helm(self, verb: str, *flags: str) -> None:
        self.cluster.helm(
            verb, RELEASE, str(CHART), "--namespace", NAMESPACE,
            "--set", "image.repository=localhost/registry-controller", "--set", "image.tag=dev",
            "--set", f"localCluster.name={self.name}",
            "--set", f"controller.apiServerEndpointAddress={self.cluster.server}",
            *flags,
        )  # fmt: skip
