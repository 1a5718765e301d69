"""The ClusterProfiles of the members: what is in them, and whose are left alone. P13."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import NotFound
from registry_controller.local.client import ClusterClient
from registry_controller.local.cluster_profiles import MANAGER, PROFILES, ClusterProfiles
from registry_controller.report.logs import get_logger
from tests.unit.local.fake_server import NAMESPACE, Body, FakeServer
from tests.unit.local.local_settings import LocalSettings
from tests.unit.local.test_controller import cluster

WHERE = "inventory"
TOKEN = "the-token-of-a-reader"
READY = {
    "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


@pytest.fixture
def server() -> FakeServer:
    """A server with the own Cluster and one member, both with a Secret."""
    found = FakeServer()
    for name in ("one", "two"):
        found.put(meta.CLUSTERS, {**cluster(name, cluster_id=f"id-{name}"), "status": {}})
        found.put(meta.SECRETS, secret(name))
    return found


def secret(name: str) -> Body:
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test:6443"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "reader"}}],
        "users": [{"name": "reader", "user": {"token": TOKEN}}],
    }  # fmt: skip
    data = base64.b64encode(json.dumps(kubeconfig).encode()).decode()
    info = {"namespace": NAMESPACE, "name": name}
    return {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "data": {"kubeconfig": data}}


def make(server: FakeServer, *, where: str = WHERE, log: Any = None) -> ClusterProfiles:
    settings: Any = LocalSettings(cluster_profile_namespace=where)
    return ClusterProfiles(api=ClusterClient(server), settings=settings, log=log or get_logger("test"))


def profile(server: FakeServer, name: str) -> Body:
    found = server.find(PROFILES, name, WHERE)
    assert found is not None
    return found


async def test_each_member_has_a_profile_without_credentials(server: FakeServer) -> None:
    await make(server).keep()
    for name in ("one", "two"):
        found = profile(server, name)
        assert found["metadata"]["labels"] == {"x-k8s.io/cluster-manager": MANAGER}
        assert found["spec"] == {"displayName": name, "clusterManager": {"name": MANAGER}}
        (access,) = found["status"]["accessProviders"]
        where = {"name": name, "namespace": NAMESPACE, "key": "kubeconfig"}
        extension = {"name": "client.authentication.k8s.io/exec", "extension": where}
        assert access == {
            "name": "kubeconfig-secretreader",
            "cluster": {"server": f"https://{name}.test:6443", "extensions": [extension]},
        }
        assert found["status"]["properties"] == [{"name": "cluster.clusterset.k8s.io", "value": f"id-{name}"}]
    assert TOKEN not in json.dumps(list(profiles(server)))


def profiles(server: FakeServer) -> list[Body]:
    return [found for path, found in server.objects.items() if PROFILES.resource in path]


async def test_the_status_follows_the_cluster_and_is_written_once(server: FakeServer) -> None:
    kept = make(server)
    await kept.keep()
    status = {"version": "v1.36.3", "provider": "kind", "locality": {"region": "north"}, "conditions": [READY]}
    server.put(meta.CLUSTERS, {**cluster("two", cluster_id="id-two"), "status": status})
    server.writes.clear()
    for _ in range(2):
        await kept.keep()
    assert server.writes == ["replace clusterprofiles/status"]
    found = profile(server, "two")["status"]
    assert found["version"] == {"kubernetes": "v1.36.3"}
    assert found["conditions"] == [{**READY, "type": "ControlPlaneHealthy"}]
    assert {item["name"]: item["value"] for item in found["properties"]} == {
        "cluster.clusterset.k8s.io": "id-two", f"{MANAGER}/provider": "kind", f"{MANAGER}/region": "north",
    }  # fmt: skip


async def test_the_address_is_the_endpoint_for_the_network_of_this_cluster(server: FakeServer) -> None:
    endpoints = [{"clientNetwork": "default", "serverAddress": "https://inside.test"}]
    server.put(meta.CLUSTERS, cluster("two", cluster_id="id-two", kubernetesApiEndpoints=endpoints))
    await make(server).keep()
    (access,) = profile(server, "two")["status"]["accessProviders"]
    assert access["cluster"]["server"] == "https://inside.test"


async def test_without_a_usable_secret_there_is_no_access(server: FakeServer) -> None:
    server.drop(meta.SECRETS, "two", NAMESPACE)
    server.put(meta.SECRETS, {**secret("one"), "data": {"kubeconfig": "bm90aGluZw=="}})
    await make(server).keep()
    assert [profile(server, name)["status"]["accessProviders"] for name in ("one", "two")] == [[], []]


async def test_a_profile_goes_with_its_cluster_and_one_of_another_manager_stays(server: FakeServer) -> None:
    kept = make(server)
    await kept.keep()
    server.put(PROFILES, {"metadata": {"namespace": WHERE, "name": "x"}, "spec": {"clusterManager": {"name": "fleet"}}})
    copied = {**profile(server, "two"), "metadata": {**profile(server, "two")["metadata"], "name": "copied"}}
    copied["metadata"]["annotations"] = {meta.OWNER: "id-two"}
    server.put(PROFILES, copied)
    server.drop(meta.CLUSTERS, "two")
    await kept.keep()
    assert {found["metadata"]["name"] for found in profiles(server)} == {"one", "x", "copied"}


async def test_a_profile_of_another_manager_with_the_name_of_a_member_is_left_alone(server: FakeServer) -> None:
    taken = {"metadata": {"namespace": WHERE, "name": "two"}, "spec": {"clusterManager": {"name": "fleet"}}}
    before = server.put(PROFILES, taken)
    said: list[str] = []
    log = SimpleNamespace(info=lambda *_, **__: None, warning=lambda text, *, problem: said.append(problem))
    kept = make(server, log=log)
    for _ in range(2):
        await kept.keep()
    assert profile(server, "two") == before
    assert profile(server, "one")["status"]
    assert [problem.partition(":")[0] for problem in said] == [f"ClusterProfile {WHERE}/two"]


async def test_nothing_is_done_without_the_option_or_the_kind(server: FakeServer) -> None:
    await make(server, where="").keep()
    assert server.writes == []
    asked = server.get_path

    async def refused(path: str) -> bytes:
        if PROFILES.resource in path:
            raise NotFound("404")
        return await asked(path)

    server.get_path = refused  # type: ignore[method-assign]  # a server without the definition
    await make(server).keep()
    assert server.writes == []


async def test_a_missing_right_is_no_problem_of_the_own_cluster(server: FakeServer) -> None:
    server.forbidden.add(("create", PROFILES.resource))
    await make(server).keep()
    assert profiles(server) == []
