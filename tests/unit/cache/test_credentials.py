"""The Secrets with credentials of members, those of Cluster API included. P12."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
import yaml

from registry_controller.api import meta
from registry_controller.api.errors import ApiError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.credentials import CredentialStore, may_be_of_cluster_api
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.object import PartialObject, decode_object

NAMESPACE = "default"
KEY = ObjectKey(NAMESPACE, "workload-kubeconfig")
REGISTRY, CLUSTER_API = meta.REGISTRY_SECRET_TYPE, meta.CLUSTER_API_SECRET_TYPE
TOKEN = "token-of-an-administrator"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "workload", "cluster": {"server": "https://workload.test:6443"}}],
    "contexts": [{"name": "admin@workload", "context": {"cluster": "workload", "user": "admin"}}],
    "current-context": "admin@workload",
    "users": [{"name": "admin", "user": {"token": TOKEN}}],
}


@pytest.fixture
def store() -> CredentialStore:
    return CredentialStore(on_change=lambda key: None)


def secret(*, kind: str = CLUSTER_API, key: str = "value", **annotations: str) -> PartialObject:
    text = base64.b64encode(yaml.safe_dump(KUBECONFIG).encode()).decode()
    info: dict[str, Any] = {"namespace": KEY.namespace, "name": KEY.name, "uid": "u", "resourceVersion": "1"}
    manifest = {"metadata": {**info, "annotations": annotations}, "type": kind, "data": {key: text}}
    return decode_object(msgspec.json.encode(manifest))


def test_a_secret_of_cluster_api_has_its_kubeconfig_in_the_key_value(store: CredentialStore) -> None:
    store.set_secret(secret())
    found = store.find(KEY)
    assert isinstance(found, Credentials)
    assert (found.server, found.token) == ("https://workload.test:6443", TOKEN)
    assert store.of_cluster_api == {KEY}
    store.set_secret(secret(key="kubeconfig"))
    assert store.find(KEY) == f"Secret {KEY}: data.value: is missing"
    store.drop_secret(KEY)
    assert store.of_cluster_api == frozenset()


def test_a_secret_of_cluster_api_that_a_rule_copied_here_is_refused(store: CredentialStore) -> None:
    store.set_secret(secret(**{meta.OWNER: "id-b"}))
    found = store.find(KEY)
    assert isinstance(found, str)
    assert "is a copy of a member's object" in found
    assert TOKEN not in found


def test_a_secret_of_cluster_api_belongs_to_no_member(store: CredentialStore) -> None:
    """Otherwise it would be another way to the member, also for a Cluster that does not name it (P7)."""
    store.set_secret(secret(**{meta.OWNER: "id-b"}))
    assert store.owners.get(KEY) is None
    store.set_secret(secret(kind=REGISTRY, key="kubeconfig", **{meta.OWNER: "id-b"}))
    assert store.owners[KEY] == ClusterUID("id-b")


def test_a_secret_is_missing_only_once_every_watch_that_may_show_it_is_complete(store: CredentialStore) -> None:
    store.handler(NAMESPACE).on_synced(1)
    assert store.find(KEY) is None
    assert "does not exist" in str(store.find(ObjectKey(NAMESPACE, "plain")))
    store.handler(NAMESPACE, secret_type=CLUSTER_API).on_synced(1)
    assert "does not exist" in str(store.find(KEY))


def test_an_error_of_one_watch_stays_when_the_other_one_recovers(store: CredentialStore) -> None:
    registry, other = store.handler(NAMESPACE), store.handler(NAMESPACE, secret_type=CLUSTER_API)
    other.on_error(ApiError("no", status=500, reason=""))
    registry.on_recovered()
    assert store.find(KEY) == f"Secret {KEY} cannot be read: no"
    other.on_recovered()
    assert "does not exist" in str(store.find(KEY))


@pytest.mark.parametrize(("name", "may"), [("a-kubeconfig", True), ("a", False), ("kubeconfig-a", False)])
def test_cluster_api_is_known_by_the_name_of_the_secret(name: str, may: bool) -> None:
    assert may_be_of_cluster_api(ObjectKey(NAMESPACE, name)) is may
