"""P2, P3, P4: our own things on a real API server, and credentials that another cluster can read with."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Cluster, Group
from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import DeletedRule
from registry_controller.api.errors import Unauthorized
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import read_secret
from registry_controller.kube.writer import connect_local
from registry_controller.local import reader_token
from registry_controller.local.controller import LocalController
from registry_controller.report.logs import get_logger
from tests.unit.local.local_settings import LocalSettings

CRDS = Path(__file__).parents[2] / "crds"
NAMESPACE = "cluster-registry"
LIFETIME_S = 600
READER = "cluster-registry-controller-reader"
KUBE_SYSTEM = ObjectKey("", "kube-system")


@dataclass(frozen=True)
class Settings(LocalSettings):
    namespace: str = NAMESPACE
    reader_service_account_name: str = READER
    provision_local_cluster: str = "demo-1"


class Tombstones:
    """No member has left."""

    def has_lost_farewell(self) -> bool:
        return False

    def list_missing(self) -> tuple[()]:
        return ()

    def list_withdrawals(self) -> tuple[()]:
        return ()

    def list_returned(self) -> tuple[()]:
        return ()

    def list_unwanted(self) -> tuple[()]:
        return ()


class DeletedRules:
    """No rule was deleted."""

    def update_record(self, stored: frozenset[DeletedRule]) -> frozenset[DeletedRule]:
        return stored


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Group(1) as group:
        one = group[0]
        one.kubectl("apply", "--server-side", "-f", str(CRDS))
        one.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=180s")
        one.kubectl("create", "namespace", NAMESPACE)
        one.kubectl("-n", NAMESPACE, "create", "serviceaccount", READER)
        one.kubectl(
            "create", "clusterrolebinding", "reader", "--clusterrole=view", f"--serviceaccount={NAMESPACE}:{READER}"
        )
        yield one


@pytest.fixture
async def home(cluster: Cluster) -> AsyncIterator[LocalController]:
    uid = json.loads(cluster.kubectl("get", "namespace", "kube-system", "-o", "json"))["metadata"]["uid"]
    writer = await connect_local(kubeconfig=cluster.kubeconfig)
    try:
        # The API server of a test reports an address at which it does not listen.
        settings = Settings(apiserver_endpoint_address=cluster.server)
        yield LocalController(
            writer=writer,
            settings=settings,
            cluster_id=ClusterUID(uid),
            tombstones=Tombstones(),
            deleted_rules=DeletedRules(),
            log=get_logger("test"),
        )
    finally:
        await writer.close()


@pytest.fixture
async def expiring(cluster: Cluster, home: LocalController) -> LocalController:
    """Keep credentials that expire."""
    settings = Settings(apiserver_endpoint_address=cluster.server, reader_token_expiration_seconds=LIFETIME_S)
    return LocalController(
        writer=home._api._writer,
        settings=settings,
        cluster_id=home._cluster_id,
        tombstones=Tombstones(),
        deleted_rules=DeletedRules(),
        log=get_logger("test"),
    )


def find(cluster: Cluster, *argv: str) -> Any:
    text = cluster.kubectl("get", *argv, "-o", "json", "--ignore-not-found")
    return json.loads(text) if text.strip() else None


def published(cluster: Cluster) -> Any:
    return find(cluster, "-n", NAMESPACE, "secret", "demo-1")


def connect(secret: Any) -> Reader:
    return connect_peer(read_secret(secret_type=secret["type"], data=secret["data"]))


async def eventually(holds: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.1)


async def reads(reader: Reader) -> bool:
    try:
        await reader.get(meta.NAMESPACES, KUBE_SYSTEM)
    except Unauthorized:
        return False
    return True


async def settled(home: LocalController) -> None:
    """Make passes until one goes well: an API server refuses requests for a moment after a new CRD."""
    async with asyncio.timeout(30):
        while await home.reconcile():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.2)


async def test_a_new_cluster_publishes_credentials_with_which_it_can_be_read(
    cluster: Cluster, home: LocalController
) -> None:
    await settled(home)
    reader = connect(published(cluster))
    try:
        found = json.loads(await reader.get(meta.NAMESPACES, KUBE_SYSTEM))
    finally:
        await reader.close()
    own = find(cluster, "clusters.clusterregistry.k8s.cisco.com", "demo-1")
    assert found["metadata"]["uid"] == own["spec"]["clusterID"]
    for name in names.CORE_RULES:
        rule = find(cluster, "rsr", name)
        assert rule["metadata"]["ownerReferences"][0]["uid"] == own["metadata"]["uid"]


async def test_a_pass_with_nothing_to_do_writes_nothing(cluster: Cluster, home: LocalController) -> None:
    assert await home.reconcile() == ""
    offset = cluster.audit_offset()
    assert await home.reconcile() == ""
    verbs = {event["verb"] for event in cluster.audit(since=offset) if "registry-controller" in json.dumps(event)}
    written = [
        event
        for event in cluster.audit(since=offset)
        if event["verb"] in ("create", "update", "patch", "delete")
        and event.get("objectRef", {}).get("apiGroup") == meta.GROUP
    ]
    assert not written
    assert not verbs & {"create", "update", "patch", "delete"}


async def test_a_deleted_token_secret_is_revoked_made_anew_and_published(
    cluster: Cluster, home: LocalController
) -> None:
    assert await home.reconcile() == ""
    old = published(cluster)
    cluster.kubectl("-n", NAMESPACE, "delete", "secret", f"{READER}-token")
    assert await home.reconcile() == ""
    new = published(cluster)
    assert new["data"] != old["data"]
    fresh, revoked = connect(new), connect(old)
    try:
        await fresh.get(meta.NAMESPACES, KUBE_SYSTEM)
        async with asyncio.timeout(60):  # API servers remember a good token for some seconds
            while await reads(revoked):  # noqa: ASYNC110  what is waited for has no event
                await asyncio.sleep(1)
    finally:
        await fresh.close()
        await revoked.close()


def _claims(secret: Any) -> dict[str, Any]:
    token = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))["users"][0]["user"]["token"]
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


async def test_a_token_that_expires_is_renewed_without_a_gap_and_revoked_with_its_secret(
    cluster: Cluster, expiring: LocalController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: both are good for a while; a restart keeps what there is."""
    await settled(expiring)
    old = published(cluster)
    assert _claims(old)["exp"] - _claims(old)["iat"] == LIFETIME_S
    assert await expiring.reconcile() == ""
    assert published(cluster)["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    monkeypatch.setattr(reader_token, "_RENEWED_AFTER", 1.0 / LIFETIME_S)
    await asyncio.sleep(1.5)
    assert await expiring.reconcile() == ""
    new = published(cluster)
    first, second = connect(old), connect(new)
    try:
        assert await reads(first)
        assert await reads(second)
        cluster.kubectl("-n", NAMESPACE, "delete", "secret", f"{READER}-token-binding")
        async with asyncio.timeout(60):  # API servers remember a good token for some seconds
            while await reads(first) or await reads(second):  # noqa: ASYNC110  what is waited for has no event
                await asyncio.sleep(1)
    finally:
        await first.close()
        await second.close()
    assert await expiring.reconcile() == ""
    third = connect(published(cluster))
    try:
        assert await reads(third)
    finally:
        await third.close()


async def test_the_running_task_puts_back_what_somebody_broke(cluster: Cluster, home: LocalController) -> None:
    assert await home.reconcile() == ""
    cluster.kubectl("patch", "rsr", names.CLUSTERS_SINK, "--type=merge", "-p", '{"spec": {"suspend": true}}')
    cluster.kubectl("delete", "cf", names.CORE_FEATURE_OBJECT)
    broken = base64.b64encode(b"nothing").decode()
    patch = json.dumps({"data": {"kubeconfig": broken}})
    cluster.kubectl("-n", NAMESPACE, "patch", "secret", "demo-1", "--type=merge", "-p", patch)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(home.run())
        await eventually(lambda: find(cluster, "cf", names.CORE_FEATURE_OBJECT) is not None)
        await eventually(lambda: "suspend" not in find(cluster, "rsr", names.CLUSTERS_SINK)["spec"])
        await eventually(lambda: published(cluster)["data"]["kubeconfig"] != broken)
        assert home.problem == ""
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


NARROW = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: narrow}
rules:
  - {apiGroups: [clusterregistry.k8s.cisco.com], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow, namespace: cluster-registry}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update, patch, delete]}
  - {apiGroups: [""], resources: [serviceaccounts], resourceNames: [cluster-registry-controller-reader], verbs: [get]}
"""


async def test_a_daemon_that_may_use_secrets_in_its_namespace_only_keeps_everything(
    cluster: Cluster, home: LocalController, tmp_path: Path
) -> None:
    await settled(home)
    cluster.kubectl("apply", "-f", "-", stdin=NARROW)
    account = f"--serviceaccount={NAMESPACE}:narrow"
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "narrow")
    cluster.kubectl("create", "clusterrolebinding", "narrow", "--clusterrole=narrow", account)
    cluster.kubectl("-n", NAMESPACE, "create", "rolebinding", "narrow", "--role=narrow", account)
    cluster.kubectl("-n", NAMESPACE, "delete", "secret", "demo-1", f"{READER}-token")
    uid = find(cluster, "clusters.clusterregistry.k8s.cisco.com", "demo-1")["spec"]["clusterID"]
    writer = await connect_local(kubeconfig=narrow_kubeconfig(cluster, tmp_path))
    try:
        settings = Settings(apiserver_endpoint_address=cluster.server)
        narrow = LocalController(
            writer=writer,
            settings=settings,
            cluster_id=ClusterUID(uid),
            tombstones=Tombstones(),
            deleted_rules=DeletedRules(),
            log=get_logger("test"),
        )
        await settled(narrow)
        assert published(cluster)["type"] == meta.REGISTRY_SECRET_TYPE
        cluster.kubectl("-n", NAMESPACE, "delete", "rolebinding", "narrow")
        await eventually_says(narrow, "cannot get secrets.v1 in namespace cluster-registry: forbidden")
    finally:
        await writer.close()


def narrow_kubeconfig(cluster: Cluster, directory: Path) -> Path:
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", "narrow").strip()
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    path = directory / "narrow.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


async def eventually_says(home: LocalController, words: str) -> None:
    async with asyncio.timeout(30):
        while words not in await home.reconcile():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.2)
