"""The Secret that other clusters read this one with: when it is written, and with which address and CA. P2, P3."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import BadInput, NotFound
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.local.client import ClusterClient
from registry_controller.local.kubeconfig_secret import KubeconfigSecret, is_published
from registry_controller.local.manifests import SERVICE_ACCOUNT, TOKEN_SECRET_TYPE
from registry_controller.report.logs import get_logger
from tests.unit.local.fake_server import CA, NAMESPACE, READER, FakeServer, b64

KEY = ObjectKey(NAMESPACE, "own")
OWN_CA = "-----BEGIN CERTIFICATE-----\nown-ca\n-----END CERTIFICATE-----\n"


def make(server: FakeServer, *, address: str = "", label: bool = False) -> KubeconfigSecret:
    settings: Any = SimpleNamespace(
        namespace=NAMESPACE,
        reader_service_account_name=READER,
        reader_token_expiration_seconds=0,
        apiserver_endpoint_address=address,
        multicluster_runtime_label=label,
    )
    return KubeconfigSecret(api=ClusterClient(server), settings=settings, log=get_logger("test"))


def cluster(*endpoints: dict[str, str], secret: bool = True) -> Cluster:
    spec: dict[str, Any] = {"clusterID": "id", "kubernetesApiEndpoints": list(endpoints)}
    if secret:
        spec["authInfo"] = {"secretRef": {"name": "own", "namespace": NAMESPACE}}
    return read_cluster({"metadata": {"name": "own"}, "spec": spec})


def published(server: FakeServer) -> Any:
    secret = server.find(meta.SECRETS, "own", NAMESPACE)
    assert secret is not None
    return yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


async def test_p2_the_secret_has_a_kubeconfig_with_address_ca_and_token(server: FakeServer) -> None:
    await make(server).keep(cluster())
    found = published(server)
    authority = found["clusters"][0]["cluster"].pop("certificate-authority-data")
    assert base64.b64decode(authority).decode().strip() == CA.strip()
    assert found["clusters"] == [{"name": "own", "cluster": {"server": "https://10.0.0.1:6443"}}]
    assert found["users"][0]["name"] == READER
    assert found["users"][0]["user"]["token"].startswith("token-")


async def test_a_cluster_without_a_secret_publishes_none(server: FakeServer) -> None:
    await make(server).keep(cluster(secret=False))
    assert server.writes == []


async def test_an_equal_kubeconfig_is_not_written_again(server: FakeServer) -> None:
    secret = make(server)
    await secret.keep(cluster())
    server.writes.clear()
    await secret.keep(cluster())
    stored = server.find(meta.SECRETS, "own", NAMESPACE)
    assert stored is not None
    stored["data"]["kubeconfig"] = b64(yaml.safe_dump(published(server), sort_keys=True))
    await secret.keep(cluster())
    assert server.writes == []


@pytest.mark.parametrize(
    ("endpoints", "option", "reported", "address"),
    [
        ([{"serverAddress": "https://endpoint.test"}], "https://option.test", "10.0.0.1:6443", "https://endpoint.test"),
        (
            [{"clientNetwork": "n", "serverAddress": "https://inside.test"}],
            "",
            "10.0.0.1:6443",
            "https://10.0.0.1:6443",
        ),
        ([], "https://option.test", "10.0.0.1:6443", "https://option.test"),
        ([], "", "10.0.0.1:6443", "https://10.0.0.1:6443"),
        ([], "", "", "https://own.example:6443"),
        ([], "", "not an address", "https://own.example:6443"),
    ],
    ids=["the endpoint", "no endpoint of a network", "the option", "reported", "the own connection's", "unusable"],
)
async def test_p3_the_address_that_is_published(
    server: FakeServer, endpoints: list[dict[str, str]], option: str, reported: str, address: str
) -> None:
    server.reported = [reported]
    await make(server, address=option).keep(cluster(*endpoints))
    assert published(server)["clusters"][0]["cluster"]["server"] == address


async def test_p3_api_servers_behind_a_load_balancer_cause_no_writes(server: FakeServer) -> None:
    server.reported = ["10.0.0.1:6443", "10.0.0.2:6443"]
    secret = make(server)
    for _ in range(3):
        await secret.keep(cluster())
    assert [write for write in server.writes if write == "replace secrets"] == []


async def test_p3_the_ca_has_the_tokens_the_connections_and_the_endpoints(server: FakeServer) -> None:
    server.ca_pem = OWN_CA
    await make(server).keep(cluster({"serverAddress": "https://e.test", "caBundle": b64("bundle")}))
    data = published(server)["clusters"][0]["cluster"]["certificate-authority-data"]
    authority = base64.b64decode(data).decode()
    assert [part in authority for part in ("token-ca", "own-ca", "bundle")] == [True] * 3


async def test_other_data_and_labels_stay_and_a_reference_to_a_cluster_goes(server: FakeServer) -> None:
    owner = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "name": "old", "uid": "u"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "v"}
    info = {"name": "own", "namespace": NAMESPACE, "labels": {"mine": "1"}, "ownerReferences": [owner, other]}
    server.put(meta.SECRETS, {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "data": {"more": b64("x")}})
    await make(server).keep(cluster())
    stored = server.find(meta.SECRETS, "own", NAMESPACE)
    assert stored is not None
    assert set(stored["data"]) == {"more", "kubeconfig"}
    assert (stored["metadata"]["labels"], stored["metadata"]["ownerReferences"]) == ({"mine": "1"}, [other])


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"type": "Opaque"}, "its type must be k8s.cisco.com/cluster-registry-secret; delete it, and the daemon"),
        ({"immutable": True}, "is immutable and out of date; delete it, and the daemon creates it again"),
    ],
    ids=["another type", "immutable"],
)
async def test_a_secret_that_cannot_be_written_is_reported_with_the_way_out(
    server: FakeServer, stored: dict[str, Any], message: str
) -> None:
    manifest = {"metadata": {"name": "own", "namespace": NAMESPACE}, "type": meta.REGISTRY_SECRET_TYPE, **stored}
    server.put(meta.SECRETS, manifest)
    with pytest.raises(BadInput, match=f"Secret {NAMESPACE}/own: {message}"):
        await make(server).keep(cluster())


async def test_a_missing_namespace_is_reported_with_the_way_out(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = {"name": "t", "namespace": NAMESPACE, "annotations": {SERVICE_ACCOUNT: READER}}
    server.put(meta.SECRETS, {"metadata": info, "type": TOKEN_SECRET_TYPE})

    async def refuse(*_: object) -> bytes:
        raise NotFound("create: 404", names_object=True)

    monkeypatch.setattr(server, "create", refuse)
    with pytest.raises(BadInput, match=f"namespace {NAMESPACE} does not exist; create it, or name another one in the"):
        await make(server).keep(cluster())


async def test_o6_a_cluster_that_has_left_deletes_its_secret_and_its_tokens(server: FakeServer) -> None:
    secret = make(server)
    await secret.keep(cluster())
    await secret.withdraw(KEY, of=ClusterUID("id"))
    assert [path for path in server.objects if "secrets" in path] == []


@pytest.mark.parametrize(
    ("type_", "annotations", "published_here"),
    [
        (meta.REGISTRY_SECRET_TYPE, {}, True),
        (meta.REGISTRY_SECRET_TYPE, {meta.OWNER: "id"}, True),
        (meta.REGISTRY_SECRET_TYPE, {meta.OWNER: "id-b"}, False),
        ("Opaque", {}, False),
    ],
    ids=["its own", "its own with the marks of a copy of it", "a copy", "another type"],
)
async def test_o6_only_its_own_secret_is_deleted(
    server: FakeServer, type_: str, annotations: dict[str, str], published_here: bool
) -> None:
    info = {"name": "own", "namespace": NAMESPACE, "annotations": annotations}
    stored = server.put(meta.SECRETS, {"metadata": info, "type": type_})
    assert is_published(stored, of=ClusterUID("id")) == published_here
    await make(server).withdraw(KEY, of=ClusterUID("id"))
    assert (server.find(meta.SECRETS, "own", NAMESPACE) is None) == published_here


async def test_p13_the_secret_has_the_label_of_multicluster_runtime_by_an_option(server: FakeServer) -> None:
    await make(server).keep(cluster())
    secret = server.find(meta.SECRETS, "own", NAMESPACE)
    assert secret is not None
    assert meta.labels_of(secret) == {}
    secret["metadata"]["labels"] = {"other": "kept"}
    await make(server, label=True).keep(cluster())
    server.writes.clear()
    for label in (True, False):  # without the option, a label that is there stays
        await make(server, label=label).keep(cluster())
        secret = server.find(meta.SECRETS, "own", NAMESPACE)
        assert secret is not None
        assert meta.labels_of(secret) == {"other": "kept", meta.MULTICLUSTER_RUNTIME_LABEL: "true"}
    assert server.writes == []
