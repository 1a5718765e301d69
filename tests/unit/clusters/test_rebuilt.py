"""P11, P4: what a member's server answers about a rebuilt cluster is a stranger's word."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.cluster import read_cluster
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.clusters.plan import RebuiltCluster
from registry_controller.clusters.rebuilt import RebuiltClusters
from registry_controller.kube.kubeconfig import Credentials

OLD, NEW, OFFERING = (ClusterUID(name) for name in ("old", "new", "offering"))
CLUSTER = {
    "metadata": {"name": "b"},
    "spec": {"clusterID": NEW, "authInfo": {"secretRef": {"name": "b", "namespace": "n"}}},
}
ANSWERS = {
    "no JSON": (b"<html>", b""),
    "a list": (b"[]", b""),
    "a Cluster that is none": (b'{"spec": 5}', b""),
    "a Secret that is no JSON": (json.dumps(CLUSTER).encode(), b"<html>"),
    "a Secret that is a list": (json.dumps(CLUSTER).encode(), b"[]"),
    "data that are a list": (
        json.dumps(CLUSTER).encode(),
        b'{"type": "k8s.cisco.com/cluster-registry-secret", "data": [1]}',
    ),
    "data that are a number": (
        json.dumps(CLUSTER).encode(),
        b'{"type": "k8s.cisco.com/cluster-registry-secret", "data": {"kubeconfig": 5}}',
    ),
}


class Reader:
    """A member's API server that answers as it likes."""

    def __init__(self, cluster: bytes, secret: bytes) -> None:
        self.asked: list[str] = []
        self._answers = {"clusters": cluster, "secrets": secret}

    async def get(self, gvr: GVR, key: ObjectKey, **_options: Any) -> bytes:
        self.asked.append(gvr.resource)
        return self._answers[gvr.resource]


def never(credentials: Credentials) -> Any:
    raise AssertionError("nothing is dialled")


@pytest.mark.parametrize(("cluster", "secret"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_p11_nonsense_about_a_rebuilt_cluster_ends_nothing(cluster: bytes, secret: bytes) -> None:
    """P11, P4: it is not proven, and is asked again later; another error would leave the task and end the daemon."""
    reader = Reader(cluster, secret)
    offering = SimpleNamespace(is_alive=True, reader=reader)
    held = SimpleNamespace(cluster=read_cluster({"metadata": {"name": "b"}, "spec": {"clusterID": OLD}}))
    silent = SimpleNamespace(is_alive=False, address=("https://b.test", ""))
    peers: Any = {OFFERING: offering, OLD: silent}
    registry: Any = SimpleNamespace(clusters={"b": held})
    rebuilt = RebuiltClusters(
        network_name="",
        registry=registry,
        peers=peers,
        connect_peer=never,
        trusts_after_s=0,
        observer=SimpleNamespace(on_rebuilt=lambda name: None, on_rebuilt_waiting=lambda: None),
    )
    async with asyncio.timeout(60), asyncio.TaskGroup() as scope:
        rebuilt.set_probes(scope, {RebuiltCluster("b", NEW, OFFERING)})
        wanted = "secrets" if secret else "clusters"
        while wanted not in reader.asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert rebuilt.successors("b") == frozenset()
        peers.clear()
        rebuilt.set_probes(scope, set())
