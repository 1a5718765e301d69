"""The wires against a real API server: connections, errors, discovery, lists and watches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Cluster, Group
from registry_controller.api import errors, meta
from registry_controller.api.cluster import Endpoint
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import read_secret, render, with_endpoint
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import PartialObject
from registry_controller.kube.watch import WatchEventType, watch_events
from registry_controller.kube.writer import Writer, connect_local
from registry_controller.watch.event_handler import EventHandler
from registry_controller.watch.reflector import Reflector, WatchScope

CONFIGMAPS = GVR("", "v1", "configmaps", True)
CONFIGMAP = GVK("", "v1", "ConfigMap")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Group(1, prefix="wires") as group:
        yield group[0]


@pytest.fixture(scope="module")
def old_cluster() -> Iterator[Cluster]:
    """A server without WatchList."""
    with Group(1, prefix="old", feature_gates=["WatchList=false"]) as group:
        yield group[0]


_OPEN: list[Reader] = []


def kept(reader: Writer) -> Writer:
    """Close a connection when the test ends, however it ends."""
    _OPEN.append(reader)
    return reader


@pytest.fixture(autouse=True)
async def close_all() -> AsyncIterator[None]:
    yield
    while _OPEN:
        await _OPEN.pop().close()


@pytest.fixture
async def home(cluster: Cluster) -> AsyncIterator[Writer]:
    writer = await connect_local(kubeconfig=cluster.kubeconfig)
    yield writer
    await writer.close()


def manifest(name: str, *, namespace: str = "default", labels: dict[str, str] | None = None, **data: Any) -> bytes:
    info = {"name": name, "namespace": namespace, "labels": labels or {}}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": data}).encode()


async def eventually(holds: Callable[[], bool], *, within_s: float = 180.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def make_reader_credentials(cluster: Cluster, *, name: str = "reader") -> str:
    """Make a ServiceAccount that may read ConfigMaps, and return its token."""
    cluster.kubectl("create", "serviceaccount", name)
    cluster.kubectl("create", "clusterrole", name, "--verb=get,list,watch", "--resource=configmaps")
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=default:{name}")
    return cluster.kubectl("create", "token", name).strip()


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> str:
    return make_reader_credentials(cluster)


def peer_of(cluster: Cluster, token: str, *, server: str = "", endpoint: Endpoint | None = None) -> Reader:
    text = render(
        cluster_name="wires",
        server=server or cluster.server,
        ca_pem=cluster.pki.server_ca.read_text(),
        user="reader",
        token=token,
    )
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    peer = connect_peer(with_endpoint(read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data), endpoint))
    _OPEN.append(peer)
    return peer


def encode_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


class Memory(EventHandler):
    """A sink that remembers."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, PartialObject] = {}
        self.removed: list[tuple[ObjectKey, bool]] = []
        self.completions = 0
        self.troubles: list[errors.RegistryError] = []
        self.is_current = True

    def on_object(self, obj: PartialObject) -> None:
        self.objects[obj.key] = obj

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self.objects.pop(key, None)
        self.removed.append((key, obj is not None))

    def on_synced(self, revision: int) -> None:
        self.completions += 1

    def on_error(self, error: errors.RegistryError) -> None:
        self.is_current = False
        self.troubles.append(error)

    def on_recovered(self) -> None:
        self.is_current = True

    def on_reset(self) -> None:
        self.completions = 0


@contextlib.asynccontextmanager
async def following(
    reader: Reader, memory: Memory, *, kind: GVK = CONFIGMAP, **options: bool
) -> AsyncIterator[Reflector]:
    scope = WatchScope(kind, EVERYTHING, **options)
    reflector = Reflector(reader=reader, discovery=Discovery(reader), scope=scope, handler=memory)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        try:
            yield reflector
        finally:
            task.cancel()


async def test_an_object_is_created_read_replaced_and_deleted(home: Writer) -> None:
    stored = json.loads(await home.create(CONFIGMAPS, "default", manifest("life", a="1")))
    assert stored["metadata"]["managedFields"][0]["manager"] == meta.FIELD_MANAGER
    key = ObjectKey("default", "life")
    stored["data"]["a"] = "2"
    replaced = json.loads(await home.replace(CONFIGMAPS, key, json.dumps(stored).encode()))
    with pytest.raises(errors.Conflict):
        await home.replace(CONFIGMAPS, key, json.dumps(stored).encode())
    uid, version = replaced["metadata"]["uid"], replaced["metadata"]["resourceVersion"]
    with pytest.raises(errors.Conflict):
        await home.delete(CONFIGMAPS, key, uid=uid, resource_version=stored["metadata"]["resourceVersion"])
    patched = json.loads(await home.merge_patch(CONFIGMAPS, key, {"data": {"b": "3"}}))
    assert patched["data"] == {"a": "2", "b": "3"}
    await home.delete(CONFIGMAPS, key, uid=uid, resource_version=patched["metadata"]["resourceVersion"])
    assert version != patched["metadata"]["resourceVersion"]
    with pytest.raises(errors.NotFound) as caught:
        await home.get(CONFIGMAPS, key)
    assert caught.value.names_object


async def test_a_dry_run_stores_nothing(home: Writer) -> None:
    await home.create(CONFIGMAPS, "default", manifest("dry"), dry_run=True)
    with pytest.raises(errors.NotFound):
        await home.get(CONFIGMAPS, ObjectKey("default", "dry"))


async def test_errors_say_whose_fault_they_are(home: Writer) -> None:
    await home.create(CONFIGMAPS, "default", manifest("twice"))
    with pytest.raises(errors.AlreadyExists):
        await home.create(CONFIGMAPS, "default", manifest("twice"))
    with pytest.raises(errors.NotFound) as missing:
        await home.create(CONFIGMAPS, "nowhere", manifest("x", namespace="nowhere"))
    assert missing.value.details_kind == "namespaces"
    with pytest.raises(errors.Invalid) as invalid:
        await home.create(CONFIGMAPS, "default", manifest("x", **dict[str, Any]({"bad key!": "do-not-show"})))
    assert "do-not-show" not in str(invalid.value)
    assert not isinstance(invalid.value, errors.Immutable)
    unserved = GVR("example.test", "v1", "nothings", True)
    with pytest.raises(errors.NotFound) as unknown:
        await home.get(unserved, ObjectKey("default", "x"))
    assert not unknown.value.names_object


async def test_immutable_fields_are_told_apart(home: Writer) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fixed"}, "type": "example.test/a"}
    stored = json.loads(await home.create(meta.SECRETS, "default", json.dumps(secret).encode()))
    stored["type"] = "example.test/do-not-show"
    with pytest.raises(errors.Immutable) as caught:
        await home.replace(meta.SECRETS, ObjectKey("default", "fixed"), json.dumps(stored).encode())
    assert "do-not-show" not in str(caught.value)
    config = json.loads(manifest("frozen", a="1")) | {"immutable": True}
    stored = json.loads(await home.create(CONFIGMAPS, "default", json.dumps(config).encode()))
    stored["data"]["a"] = "2"
    with pytest.raises(errors.Immutable):
        await home.replace(CONFIGMAPS, ObjectKey("default", "frozen"), json.dumps(stored).encode())
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    services = GVR("", "v1", "services", True, True)
    stored = json.loads(await home.create(services, "default", json.dumps(service).encode()))
    stored["spec"] |= {"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]}
    with pytest.raises(errors.Immutable):
        await home.replace(services, ObjectKey("default", "s"), json.dumps(stored).encode())


async def test_a_terminating_namespace_says_so(home: Writer) -> None:
    body = {"metadata": {"name": "dying", "finalizers": ["example.test/stay"]}}
    stored = json.loads(await home.create(meta.NAMESPACES, "", json.dumps(body).encode()))
    info = stored["metadata"]
    key = ObjectKey("", "dying")
    await home.delete(meta.NAMESPACES, key, uid=info["uid"], resource_version=info["resourceVersion"])
    with pytest.raises(errors.Forbidden) as caught:
        await home.create(CONFIGMAPS, "dying", manifest("late", namespace="dying"))
    assert caught.value.reason == "NamespaceTerminating"
    await home.merge_patch(meta.NAMESPACES, key, {"metadata": {"finalizers": None}})


async def test_status_is_written_through_its_subresource(home: Writer) -> None:
    await home.create(meta.NAMESPACES, "", json.dumps({"metadata": {"name": "told"}}).encode())
    condition = {"type": "Told", "status": "True"}
    patched = await home.patch_status(meta.NAMESPACES, ObjectKey("", "told"), {"status": {"conditions": [condition]}})
    assert json.loads(patched)["status"]["conditions"][0]["type"] == "Told"


async def test_home_knows_its_server_and_its_ca(home: Writer, cluster: Cluster) -> None:
    assert home.server == cluster.server
    assert home.ca_pem.strip() == cluster.pki.server_ca.read_text().strip()


async def test_home_is_found_by_kubeconfig_variable_and_context(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{cluster.kubeconfig}")
    writer = kept(await connect_local(kubeconfig=None, context=cluster.name))
    assert await Discovery(writer).server_version()
    await writer.close()
    with pytest.raises(errors.InvalidOption):
        await connect_local(kubeconfig=None, context="no-such-context")
    with pytest.raises(errors.InvalidOption):
        await connect_local(kubeconfig=Path("/nowhere"), context=None)


async def test_a_pod_reads_a_new_token_when_the_old_one_is_refused(
    cluster: Cluster, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_text(cluster.pki.server_ca.read_text())
    (tmp_path / "token").write_text("not.a.token")
    monkeypatch.setattr("registry_controller.kube.rest_config._ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.port))
    writer = kept(await connect_local(kubeconfig=None, context=None))
    with pytest.raises(errors.Unauthorized):
        await writer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    assert writer.answers == 0
    (tmp_path / "token").write_text(token)
    assert await writer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    assert writer.answers == 1
    await writer.close()


async def test_a_pod_trusts_another_ca_when_the_kubelet_brings_one(
    cluster: Cluster, old_cluster: Cluster, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's CA may be replaced while the daemon runs."""
    (tmp_path / "ca.crt").write_text(old_cluster.pki.server_ca.read_text())
    (tmp_path / "token").write_text(token)
    monkeypatch.setattr("registry_controller.kube.rest_config._ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.port))
    await _trusts_another_ca(
        kept(await connect_local(kubeconfig=None, context=None)),
        lambda: (tmp_path / "ca.crt").write_text(cluster.pki.server_ca.read_text()),
        ca=cluster.pki.server_ca.read_text(),
    )


async def test_the_admins_kubeconfig_may_get_another_ca(cluster: Cluster, old_cluster: Cluster, tmp_path: Path) -> None:
    """The same, from outside of the cluster."""
    right = cluster.kubeconfig.read_text()
    wrong = yaml.safe_load(right)
    wrong["clusters"][0]["cluster"]["certificate-authority-data"] = encode_file(old_cluster.pki.server_ca)
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(wrong))
    await _trusts_another_ca(
        kept(await connect_local(kubeconfig=file)), lambda: file.write_text(right), ca=cluster.pki.server_ca.read_text()
    )


async def _trusts_another_ca(home: Writer, replace: Callable[[], object], *, ca: str) -> None:
    obj: list[str] = []
    home.on_new_ca(lambda: obj.append(home.ca_pem.strip()))
    for _ in range(2):
        with pytest.raises(errors.Unreachable):
            await home.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    replace()
    for answer in await asyncio.gather(
        *(home.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt")) for _ in range(5))
    ):
        assert answer
    assert obj == [ca.strip()]
    await home.close()


async def test_a_peer_is_read_with_its_token_and_refused_what_it_may_not(cluster: Cluster, token: str) -> None:
    peer = peer_of(cluster, token)
    assert await peer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    with pytest.raises(errors.Forbidden):
        await peer.get(meta.SECRETS, ObjectKey("default", "x"))
    await peer.close()
    with pytest.raises(errors.Unreachable):
        await peer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))


async def test_a_peer_is_read_with_a_client_certificate_and_no_file_is_left(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    user = {
        "client-certificate-data": encode_file(cluster.pki.admin.certificate),
        "client-key-data": encode_file(cluster.pki.admin.key),
    }
    text = yaml.safe_load(
        render(cluster_name="c", server=cluster.server, ca_pem=cluster.pki.server_ca.read_text(), user="u", token="t")
    )
    text["users"][0]["user"] = user
    data = {"value": base64.b64encode(yaml.safe_dump(text).encode()).decode()}
    peer = connect_peer(read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data))
    assert await peer.get(meta.NAMESPACES, ObjectKey("", "kube-system"))
    await peer.close()


async def test_an_endpoint_moves_the_connection(cluster: Cluster, token: str) -> None:
    endpoint = Endpoint("", f"127.0.0.1:{cluster.port}", "")
    peer = peer_of(cluster, token, server="https://192.0.2.1", endpoint=endpoint)
    assert peer.server == cluster.server
    assert await peer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    await peer.close()


async def test_a_server_with_another_ca_is_unreachable(cluster: Cluster, old_cluster: Cluster, token: str) -> None:
    ca = base64.b64encode(old_cluster.pki.server_ca.read_bytes()).decode()
    peer = peer_of(cluster, token, endpoint=Endpoint("", "", ca))
    with pytest.raises(errors.Unreachable):
        await peer.get(CONFIGMAPS, ObjectKey("default", "kube-root-ca.crt"))
    await peer.close()


async def test_a_reader_cannot_write_whatever_is_called(cluster: Cluster, token: str) -> None:
    peer = peer_of(cluster, token)
    with pytest.raises(AssertionError):
        await Writer(peer._transport).create(CONFIGMAPS, "default", manifest("never"))
    await peer.close()


async def test_kinds_are_found_by_discovery(home: Writer) -> None:
    discovery = Discovery(home)
    assert await discovery.resolve(CONFIGMAP) == CONFIGMAPS
    assert await discovery.resolve(meta.NAMESPACE) == meta.NAMESPACES
    assert await discovery.resolve(GVK("", "v1", "Endpoints")) == GVR("", "v1", "endpoints", True)
    for unserved in (
        GVK("", "v1", "Binding"),  # served, but not listed
        GVK("", "v1", "Nothing"),
        GVK("example.test", "v1", "Nothing"),
        GVK("../..", "v1", "Nothing"),
    ):
        with pytest.raises(errors.NotServed):
            await discovery.resolve(unserved)
    assert (await discovery.server_version()).startswith("v1.")


async def test_a_list_comes_in_pages_with_whole_objects(home: Writer) -> None:
    for index in range(7):
        await home.create(CONFIGMAPS, "default", manifest(f"page-{index}", labels={"set": "pages"}))
    selection = Selection("default", "set=pages", "")
    pages = [page async for page in list_objects(home, CONFIGMAPS, selection, kind=CONFIGMAP, page_size=3)]
    assert [page.size for page in pages] == [3, 3, 1]
    assert [page.is_last for page in pages] == [False, False, True]
    assert all(json.loads(obj.raw)["kind"] == "ConfigMap" for page in pages for obj in page.items)
    assert len({page.resource_version for page in pages}) == 1


async def test_a_watch_hears_changes_and_gone_versions(home: Writer) -> None:
    pages = [page async for page in list_objects(home, CONFIGMAPS, EVERYTHING, kind=CONFIGMAP)]
    obj: list[WatchEventType] = []
    stored = json.loads(await home.create(CONFIGMAPS, "default", manifest("watched")))
    info = stored["metadata"]
    await home.delete(
        CONFIGMAPS, ObjectKey("default", "watched"), uid=info["uid"], resource_version=info["resourceVersion"]
    )
    async for event in watch_events(
        home,
        CONFIGMAPS,
        Selection(fields="metadata.name=watched"),
        kind=CONFIGMAP,
        resource_version=pages[-1].resource_version,
        initial=False,
        timeout_s=5,
        on_open=lambda: None,
    ):
        obj.append(event.type)
        if event.type is WatchEventType.DELETED:
            assert event.object is not None
            assert event.object.revision > int(info["resourceVersion"])
            break
    assert obj == [WatchEventType.ADDED, WatchEventType.DELETED]


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_reflector_follows(home: Writer, watch_list: bool) -> None:
    name = f"followed-{str(watch_list).lower()}"
    key = ObjectKey("default", name)
    memory = Memory()
    async with following(home, memory, uses_watch_list=watch_list) as reflector:
        await eventually(lambda: memory.completions == 1)
        stored = json.loads(await home.create(CONFIGMAPS, "default", manifest(name, a="1")))
        await eventually(lambda: key in memory.objects)
        assert json.loads(memory.objects[key].raw)["data"] == {"a": "1"}
        info = stored["metadata"]
        await home.delete(CONFIGMAPS, key, uid=info["uid"], resource_version=info["resourceVersion"])
        await eventually(lambda: (key, True) in memory.removed)
        assert reflector._delivery.revision > int(info["resourceVersion"])
        assert not memory.troubles


async def test_a_reflector_lists_in_pages_where_there_is_no_watch_list(old_cluster: Cluster) -> None:
    home = kept(await connect_local(kubeconfig=old_cluster.kubeconfig))
    memory = Memory()
    async with following(home, memory) as reflector:
        await eventually(lambda: memory.completions == 1)
        await home.create(CONFIGMAPS, "default", manifest("old"))
        await eventually(lambda: ObjectKey("default", "old") in memory.objects)
        assert not reflector._uses_watch_list
        assert not memory.troubles
    await home.close()


async def test_a_reflector_survives_its_server(old_cluster: Cluster) -> None:
    home = kept(await connect_local(kubeconfig=old_cluster.kubeconfig))
    memory = Memory()
    async with following(home, memory):
        await eventually(lambda: memory.completions == 1)
        await asyncio.to_thread(old_cluster.apiserver.kill)
        await eventually(lambda: not memory.is_current)
        await asyncio.to_thread(old_cluster.start)
        await home.create(CONFIGMAPS, "default", manifest("after"))
        await eventually(lambda: ObjectKey("default", "after") in memory.objects)
        await eventually(lambda: memory.is_current)
        assert memory.completions >= 1
    await home.close()


async def test_a_missing_right_and_a_missing_kind_are_said_and_tried_again(
    cluster: Cluster, home: Writer, token: str
) -> None:
    peer = peer_of(cluster, token)
    memory = Memory()
    async with following(peer, memory, kind=meta.SECRET) as reflector:
        await eventually(lambda: bool(memory.troubles))
        assert isinstance(memory.troubles[0], errors.Forbidden)
        assert not memory.completions
        await asyncio.to_thread(
            cluster.kubectl, "create", "clusterrole", "more", "--verb=get,list,watch", "--resource=secrets"
        )
        await asyncio.to_thread(
            cluster.kubectl,
            "create",
            "clusterrolebinding",
            "more",
            "--clusterrole=more",
            "--serviceaccount=default:reader",
        )
        async with asyncio.timeout(20):
            while not memory.completions:
                reflector.retry_now()
                await asyncio.sleep(0.2)
        assert memory.is_current
    await peer.close()
    memory = Memory()
    async with following(home, memory, kind=GVK("example.test", "v1", "Nothing")):
        await eventually(lambda: bool(memory.troubles))
        assert isinstance(memory.troubles[0], errors.NotServed)


async def test_a_swapped_connection_goes_on_where_the_old_one_ended(cluster: Cluster, home: Writer, token: str) -> None:
    old, new = peer_of(cluster, token), peer_of(cluster, token)
    memory = Memory()
    async with following(old, memory) as reflector:
        await eventually(lambda: memory.completions == 1)
        # Without a known change the objects are counted, and listed again where one came before the count.
        await home.create(CONFIGMAPS, "default", manifest("before-the-swap"))
        await eventually(lambda: ObjectKey("default", "before-the-swap") in memory.objects)
        reflector.swap(new, Discovery(new))
        await old.close()
        await home.create(CONFIGMAPS, "default", manifest("swapped"))
        await eventually(lambda: ObjectKey("default", "swapped") in memory.objects)
        assert memory.completions == 1
        assert not memory.troubles
    await new.close()
