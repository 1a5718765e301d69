"""What the daemon relies on in an API server, to be held by the simulated one and by a real one.

Each clause speaks through the daemon's own wires, in a namespace of its own, and leaves there what it made.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest

from registry_controller.api import errors, meta
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.core.diff.managed_fields import read_owners
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects, read_present
from registry_controller.kube.object import decode_object, has_same_content
from registry_controller.kube.watch import WatchEvent, WatchEventType, watch_events
from registry_controller.kube.writer import Writer

CONFIG_MAPS: Final = GVR("", "v1", "configmaps", True)
ACCOUNTS: Final = GVR("", "v1", "serviceaccounts", True)
CONFIG_MAP: Final = GVK("", "v1", "ConfigMap")
DEFINITIONS: Final = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions", False)
WIDGET: Final = GVK("sim.example", "v1", "Widget")
OLD_WIDGET: Final = WIDGET._replace(version="v1beta1")
WIDGETS: Final = GVR("sim.example", "v1", "widgets", True)
RELIC: Final = GVK("sim.example", "v1beta1", "Relic")
RELICS: Final = GVR("sim.example", "v1beta1", "relics", True)

Clause = Callable[[Writer, str], Awaitable[None]]
CLAUSES: list[Clause] = []


def clause(function: Clause) -> Clause:
    """Put a clause on the list."""
    CLAUSES.append(function)
    return function


def config_map(name: str, data: dict[str, str] | None = None, **info: Any) -> dict[str, Any]:
    """Write a ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **info}}
    return {**body, "data": data} if data else body


async def create(api: Writer, namespace: str, manifest: dict[str, Any], gvr: GVR = CONFIG_MAPS) -> dict[str, Any]:
    """Create an object and read what was stored."""
    found: dict[str, Any] = json.loads(await api.create(gvr, namespace, json.dumps(manifest).encode()))
    return found


async def replace(api: Writer, manifest: dict[str, Any], gvr: GVR = CONFIG_MAPS, **options: Any) -> dict[str, Any]:
    """Replace an object and read what was stored."""
    key = ObjectKey(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
    found: dict[str, Any] = json.loads(await api.replace(gvr, key, json.dumps(manifest).encode(), **options))
    return found


async def get(api: Writer, namespace: str, name: str, gvr: GVR = CONFIG_MAPS) -> dict[str, Any]:
    """Read an object."""
    found: dict[str, Any] = json.loads(await api.get(gvr, ObjectKey(namespace, name)))
    return found


async def delete(api: Writer, manifest: dict[str, Any], gvr: GVR = CONFIG_MAPS, **other: str) -> None:
    """Delete an object as it was judged."""
    info = manifest["metadata"]
    judged = {"uid": info["uid"], "resource_version": info["resourceVersion"]} | other
    await api.delete(gvr, ObjectKey(info.get("namespace", ""), info["name"]), **judged)


def touched(manifest: dict[str, Any], **info: Any) -> dict[str, Any]:
    """Change an object's metadata."""
    return {**manifest, "metadata": {**manifest["metadata"], **info}}


@clause
async def what_is_made_gets_an_identity(api: Writer, namespace: str) -> None:
    made = await create(api, namespace, config_map("x", {"a": "1"}))
    info = made["metadata"]
    assert info["uid"]
    assert info["creationTimestamp"].endswith("Z")
    assert int(info["resourceVersion"]) > 0
    assert "generation" not in info
    assert made == await get(api, namespace, "x")
    with pytest.raises(errors.AlreadyExists):
        await create(api, namespace, config_map("x"))


@clause
async def what_is_missing_is_named(api: Writer, namespace: str) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await get(api, namespace, "missing")
    assert caught.value.names_object
    with pytest.raises(errors.NotFound) as caught:
        await create(api, f"{namespace}-missing", config_map("x"))
    assert caught.value.details_kind == "namespaces"
    with pytest.raises(errors.NotServed):
        await Discovery(api).resolve(GVK("nothing.example", "v1", "Nothing"))


@clause
async def a_stale_replacement_is_a_conflict(api: Writer, namespace: str) -> None:
    first = await create(api, namespace, config_map("x", {"a": "1"}))
    second = await replace(api, {**first, "data": {"a": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    for stale in (first, touched(second, uid="00000000-0000-0000-0000-000000000000")):
        with pytest.raises(errors.Conflict):
            await replace(api, {**stale, "data": {"a": "3"}})
    assert await get(api, namespace, "x") == second


@clause
async def an_unchanged_replacement_changes_nothing(api: Writer, namespace: str) -> None:
    made = await create(api, namespace, config_map("x", {"a": "1"}, labels={"l": "1"}))
    assert await replace(api, made) == made
    bare = {name: value for name, value in made["metadata"].items() if name not in ("managedFields", "uid")}
    assert await replace(api, {**made, "metadata": bare}) == made


@clause
async def a_dry_run_changes_nothing_and_tells_what_would_be(api: Writer, namespace: str) -> None:
    made = await create(api, namespace, config_map("x", {"a": "1"}))
    answer = await replace(api, {**made, "data": {"b": "2"}}, dry_run=True)
    assert answer["data"] == {"b": "2"}
    await api.create(CONFIG_MAPS, namespace, json.dumps(config_map("y")).encode(), dry_run=True)
    assert await get(api, namespace, "x") == made
    with pytest.raises(errors.NotFound):
        await get(api, namespace, "y")


@clause
async def a_dry_run_may_leave_the_name_to_the_server(api: Writer, namespace: str) -> None:
    info = {"generateName": "x-", "namespace": namespace}
    body = json.dumps({**config_map(""), "metadata": info}).encode()
    found = json.loads(await api.create(CONFIG_MAPS, namespace, body, dry_run=True))
    name = found["metadata"]["name"]
    assert name.startswith("x-")
    with pytest.raises(errors.NotFound):
        await get(api, namespace, name)


@clause
async def each_api_version_has_a_hash_of_its_schemas(api: Writer, namespace: str) -> None:
    paths = json.loads(await api.get_path("/openapi/v3"))["paths"]
    assert "hash=" in paths["api/v1"]["serverRelativeURL"]


@clause
async def only_what_was_judged_is_deleted(api: Writer, namespace: str) -> None:
    first = await create(api, namespace, config_map("x", {"a": "1"}))
    second = await replace(api, {**first, "data": {"a": "2"}})
    with pytest.raises(errors.Conflict):
        await delete(api, first)
    with pytest.raises(errors.Conflict):
        await delete(api, second, uid="00000000-0000-0000-0000-000000000000")
    await delete(api, second)
    with pytest.raises(errors.NotFound) as caught:
        await delete(api, second)
    assert caught.value.names_object


@clause
async def finalizers_hold_an_object(api: Writer, namespace: str) -> None:
    made = await create(api, namespace, config_map("x", {"a": "1"}, finalizers=["sim.example/held"]))
    await delete(api, made)
    held = await get(api, namespace, "x")
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    await replace(api, touched(held, finalizers=[]))
    with pytest.raises(errors.NotFound):
        await get(api, namespace, "x")


@clause
async def a_status_has_a_way_of_its_own(api: Writer, namespace: str) -> None:
    body = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "metadata": {"name": namespace}}
    made = await create(api, "", {**body, "spec": {"clusterID": "1"}, "status": {"state": "Ready"}}, meta.CLUSTERS)
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    said = json.loads(await api.patch_status(meta.CLUSTERS, ObjectKey("", namespace), {"status": {"state": "Ready"}}))
    assert (said["status"], said["metadata"]["generation"]) == ({"state": "Ready"}, 1)
    changed = await replace(api, {**said, "spec": {"clusterID": "2"}, "status": {"state": "Failed"}}, meta.CLUSTERS)
    assert (changed["status"], changed["metadata"]["generation"]) == ({"state": "Ready"}, 2)
    said = {**touched(changed, labels={"c": "d"}), "spec": {"clusterID": "3"}, "status": {"state": "Failed"}}
    changed = await replace(api, said, meta.CLUSTERS, subresource="status")
    assert (changed["status"], changed["spec"]["clusterID"]) == ({"state": "Failed"}, "2")
    assert "labels" not in changed["metadata"]
    labelled = await replace(api, touched(changed, labels={"a": "b"}), meta.CLUSTERS)
    assert labelled["metadata"]["generation"] == 2
    with pytest.raises(errors.Invalid):
        await replace(api, touched(labelled, resourceVersion=""), meta.CLUSTERS)
    await delete(api, labelled, meta.CLUSTERS)


@clause
async def managed_fields_tell_who_set_what(api: Writer, namespace: str) -> None:
    await create(api, namespace, config_map("x", {"a": "1", "b": "1", "c": "1"}, labels={"l": "1"}))
    path = CONFIG_MAPS.object_path(ObjectKey(namespace, "x")) + "?fieldManager=other"
    patch = json.dumps({"data": {"b": "2", "c": None, "d": "1"}}).encode()
    await api._transport.send(
        "PATCH", path, what="patch", timeout_s=10.0, body=patch, content_type="application/merge-patch+json"
    )
    owners = read_owners(await get(api, namespace, "x"), manager=meta.FIELD_MANAGER)
    data = owners.of_field("data")
    assert owners.is_known
    assert data.of_field("a").include_us
    assert not data.of_field("a").other_managers
    for name in ("b", "d"):
        assert not data.of_field(name).include_us
        assert data.of_field(name).other_managers == {"other"}
    assert owners.of_field("metadata").of_field("labels").of_field("l").include_us


@clause
async def a_secrets_type_is_given_and_stays(api: Writer, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"}}
    made = await create(api, namespace, body, meta.SECRETS)
    assert (made["type"], made["data"]) == ("Opaque", {"a": "MQ=="})
    assert "stringData" not in made
    with pytest.raises(errors.Immutable):
        await replace(api, {**made, "type": "other"}, meta.SECRETS)


@clause
async def a_list_comes_in_pages_of_one_moment(api: Writer, namespace: str) -> None:
    for name in ("c", "a", "b"):
        await create(api, namespace, config_map(name, labels={"l": "1"}))
    await create(api, namespace, config_map("d"))
    found, number = [], 0
    selection = Selection(namespace=namespace, labels="l in (1,2),!m")
    async for page in list_objects(api, CONFIG_MAPS, selection, kind=CONFIG_MAP, page_size=2):
        if not number:
            await create(api, namespace, config_map("e", labels={"l": "1"}))
        number += 1
        found += [obj.key.name for obj in page.items]
    assert (found, number) == (["a", "b", "c"], 2)
    named = Selection(namespace=namespace, fields="metadata.name=b")
    async for page in list_objects(api, CONFIG_MAPS, named, kind=CONFIG_MAP):
        assert [obj.key.name for obj in page.items] == ["b"]
    with pytest.raises(errors.Invalid):
        async for _ in list_objects(api, CONFIG_MAPS, Selection(fields="type=x"), kind=CONFIG_MAP):
            pass


@contextlib.asynccontextmanager
async def watching(
    api: Writer,
    selection: Selection,
    *,
    since: str = "",
    initial: bool = False,
    gvr: GVR = CONFIG_MAPS,
    kind: GVK = CONFIG_MAP,
) -> AsyncIterator[Callable[[], Awaitable[WatchEvent]]]:
    """Open a watch; the function that is given waits for its next event."""
    events = watch_events(
        api, gvr, selection, kind=kind, resource_version=since, initial=initial, timeout_s=60,
        on_open=lambda: None,
    )  # fmt: skip

    async def following() -> WatchEvent:
        async with asyncio.timeout(10.0):
            return await anext(events)

    async with contextlib.aclosing(events):
        yield following


def _told(event: WatchEvent) -> tuple[WatchEventType, str, str]:
    assert event.object is not None
    return event.type, event.object.key.name, event.resource_version


@clause
async def a_watch_tells_what_comes_into_a_selection_and_goes(api: Writer, namespace: str) -> None:
    before = await create(api, namespace, config_map("x"))
    selection = Selection(namespace=namespace, labels="l=1")
    async with watching(api, selection, since=before["metadata"]["resourceVersion"]) as following:
        wanted = await replace(api, touched(before, labels={"l": "1"}))
        assert _told(await following()) == (WatchEventType.ADDED, "x", wanted["metadata"]["resourceVersion"])
        changed = await replace(api, {**wanted, "data": {"a": "1"}})
        assert _told(await following()) == (WatchEventType.MODIFIED, "x", changed["metadata"]["resourceVersion"])
        left = await replace(api, touched(changed, labels={}))
        assert _told(await following()) == (WatchEventType.DELETED, "x", left["metadata"]["resourceVersion"])
        await delete(api, await replace(api, touched(left, labels={"l": "1"})))
        assert (await following()).type is WatchEventType.ADDED
        gone = await following()
        assert gone.type is WatchEventType.DELETED
        assert int(gone.resource_version) > int(left["metadata"]["resourceVersion"]) + 1


@clause
async def a_watch_may_begin_with_what_is_there(api: Writer, namespace: str) -> None:
    for name in ("a", "b"):
        await create(api, namespace, config_map(name, labels={"l": "1"}))
    async with watching(api, Selection(namespace=namespace, labels="l=1"), initial=True) as following:
        first = [await following() for _ in range(2)]
        assert {_told(event)[:2] for event in first} == {(WatchEventType.ADDED, "a"), (WatchEventType.ADDED, "b")}
        end = await following()
        assert end.is_initial_end
        assert int(end.resource_version) >= max(int(event.resource_version) for event in first)
        made = await create(api, namespace, config_map("c", labels={"l": "1"}))
        assert _told(await following()) == (WatchEventType.ADDED, "c", made["metadata"]["resourceVersion"])


@clause
async def history_that_is_gone_is_gone(api: Writer, namespace: str) -> None:
    with pytest.raises(errors.Gone):
        async with watching(api, Selection(namespace=namespace), since="1") as following:
            await following()


@clause
async def a_watch_beyond_history_is_silent_and_history_tells_where_it_stands(api: Writer, namespace: str) -> None:
    selection = Selection(namespace=namespace)
    before, _ = await read_present(api, CONFIG_MAPS, selection, kind=CONFIG_MAP)
    async with watching(api, selection, since=str(before + 100_000)) as following:
        async with asyncio.TaskGroup() as scope:
            making = scope.create_task(_create_later(api, namespace))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2.5):
                    await following()
        made = making.result()
        made_at = int(made["metadata"]["resourceVersion"])
        key = ObjectKey(namespace, "x")
        present, found = await read_present(api, CONFIG_MAPS, selection, kind=CONFIG_MAP, key=key)
        assert found is not None
        assert before < made_at == found.revision <= present
        assert (await read_present(api, CONFIG_MAPS, selection, kind=CONFIG_MAP))[1] is None


@clause
async def an_object_is_the_same_in_each_answer(api: Writer, namespace: str) -> None:
    selection, key = Selection(namespace=namespace, labels="l=1"), ObjectKey(namespace, "x")
    made = await create(api, namespace, config_map("x", {"a": "1"}, labels={"l": "1"}))
    async with watching(api, selection, since=made["metadata"]["resourceVersion"]) as following:
        for changed in ({"a": "2"}, {"a": "2", "b": "3"}):
            made = await replace(api, {**made, "data": changed})
            event = await following()
            _, found = await read_present(api, CONFIG_MAPS, selection, kind=CONFIG_MAP, key=key)
            assert event.object is not None
            assert found is not None
            assert has_same_content(event.object, found)
            assert has_same_content(decode_object(json.dumps(made).encode()), found)


async def _create_later(api: Writer, namespace: str) -> dict[str, Any]:
    await asyncio.sleep(0.5)  # the watch is open by then
    return await create(api, namespace, config_map("x"))


@clause
async def a_namespace_ends_with_all_that_is_in_it(api: Writer, namespace: str) -> None:
    name = f"{namespace}-ends"
    made = await create(api, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, meta.NAMESPACES)
    held = await create(api, name, config_map("held", finalizers=["sim.example/held"]))
    await delete(api, made, meta.NAMESPACES)
    with pytest.raises(errors.Forbidden) as caught:
        await create(api, name, config_map("late"))
    assert caught.value.reason == "NamespaceTerminating"
    await _until(lambda: _is_marked(api, name))
    held = await get(api, name, "held")
    await replace(api, touched(held, finalizers=[]))
    await _until(lambda: _is_gone(api, "", name, meta.NAMESPACES))


@clause
async def a_token_secret_is_filled(api: Writer, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    await create(api, namespace, account, ACCOUNTS)
    info = {"name": "token", "annotations": {"kubernetes.io/service-account.name": "reader"}}
    kind = "kubernetes.io/service-account-token"
    await create(api, namespace, {"apiVersion": "v1", "kind": "Secret", "metadata": info, "type": kind}, meta.SECRETS)

    async def filled() -> bool:
        data = (await get(api, namespace, "token", meta.SECRETS)).get("data") or {}
        return set(data) == {"token", "ca.crt", "namespace"}

    await _until(filled)


@clause
async def discovery_tells_what_is_served(api: Writer, namespace: str) -> None:
    discovery = Discovery(api)
    assert await discovery.resolve(CONFIG_MAP) == CONFIG_MAPS
    assert await discovery.resolve(meta.CLUSTER) == meta.CLUSTERS
    assert await discovery.resolve(meta.NAMESPACE) == meta.NAMESPACES
    assert (await discovery.server_version()).startswith("v1.")
    assert json.loads(await api.get_path("/api"))["serverAddressByClientCIDRs"][0]["clientCIDR"] == "0.0.0.0/0"


@clause
async def a_group_lists_its_versions_and_each_of_them_its_own_kinds(api: Writer, namespace: str) -> None:
    await _define_versions(api)
    groups = json.loads(await api.get_path("/apis"))["groups"]
    (found,) = (group for group in groups if group["name"] == WIDGET.group)
    assert [version["groupVersion"] for version in found["versions"]] == ["sim.example/v1", "sim.example/v1beta1"]
    assert found["preferredVersion"]["groupVersion"] == "sim.example/v1"
    discovery = Discovery(api)
    with pytest.raises(errors.NotServed):
        await discovery.resolve(GVK("sim.example", "v1", "Relic"))
    assert (await discovery.find("relics.sim.example"))[0] == RELIC
    assert (await discovery.find("widgets.sim.example"))[0] == WIDGET
    served = await discovery.list_writable()
    assert {WIDGET, OLD_WIDGET, RELIC} <= served.versions
    assert {kind for kind, _ in served.kinds if kind.group == "sim.example"} >= {WIDGET, RELIC}
    assert OLD_WIDGET not in {kind for kind, _ in served.kinds}


@clause
async def an_object_is_one_in_all_versions_of_its_kind(api: Writer, namespace: str) -> None:
    await _define_versions(api)
    new, old = WIDGETS, WIDGETS._replace(version="v1beta1")
    body = {"apiVersion": "sim.example/v1beta1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"a": 1}}
    with pytest.raises(errors.Invalid):
        await create(api, namespace, body, new)
    made = await create(api, namespace, body, old)
    found = await get(api, namespace, "x", new)
    assert (made["apiVersion"], found["apiVersion"]) == ("sim.example/v1beta1", "sim.example/v1")
    for name in ("uid", "resourceVersion", "generation"):
        assert found["metadata"][name] == made["metadata"][name]
    since = found["metadata"]["resourceVersion"]
    async with watching(api, Selection(namespace=namespace), since=since, gvr=new, kind=WIDGET) as following:
        changed = await replace(api, {**made, "spec": {"a": 2}}, old)
        assert _told(await following()) == (WatchEventType.MODIFIED, "x", changed["metadata"]["resourceVersion"])
        await delete(api, changed, old)
        assert (await following()).type is WatchEventType.DELETED
    with pytest.raises(errors.NotFound):
        await get(api, namespace, "x", new)


async def _define_versions(api: Writer) -> None:
    """Define Widgets in v1 and v1beta1, and Relics in v1beta1 only, where that was not done yet."""
    for kind, gvr, versions in ((WIDGET, WIDGETS, ("v1", "v1beta1")), (RELIC, RELICS, ("v1beta1",))):
        with contextlib.suppress(errors.AlreadyExists):
            await create(api, "", _definition(kind, gvr, versions), DEFINITIONS)
    for kind in (WIDGET, OLD_WIDGET, RELIC):
        await _until(lambda kind=kind: _is_served(api, kind))


def _definition(kind: GVK, gvr: GVR, versions: tuple[str, ...]) -> dict[str, Any]:
    names = {"kind": kind.kind, "plural": gvr.resource, "singular": kind.kind.lower()}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    each = [{"name": name, "served": True, "storage": name == kind.version, "schema": schema} for name in versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{gvr.resource}.{gvr.group}"},
        "spec": {"group": gvr.group, "names": names, "scope": "Namespaced", "versions": each},
    }


async def _is_served(api: Writer, kind: GVK) -> bool:
    """Say whether a kind is served, and its group is listed with that version."""
    groups = json.loads(await api.get_path("/apis"))["groups"]
    spelled = {version["groupVersion"] for group in groups for version in group["versions"]}
    try:
        await Discovery(api).resolve(kind)
    except errors.NotServed:
        return False
    return kind.api_version in spelled


async def _is_marked(api: Writer, namespace: str) -> bool:
    return bool((await get(api, namespace, "held"))["metadata"].get("deletionTimestamp"))


async def _is_gone(api: Writer, namespace: str, name: str, gvr: GVR) -> bool:
    try:
        await get(api, namespace, name, gvr)
    except errors.NotFound:
        return True
    return False


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30.0):
        while not await holds():  # noqa: ASYNC110 -- of what a server holds, nothing here rings
            await asyncio.sleep(0.1)


@clause
async def metadata_travels_alone_where_it_is_asked_for(api: Writer, namespace: str) -> None:
    """A list, its single objects, and a watch: the bodies stay at the server, and the kind is PartialObjectMetadata."""
    made = await create(api, namespace, config_map("x", {"a": "the-body"}, labels={"l": "1"}))
    place, view = Selection(namespace), api.of_metadata()
    raw = await view.list_page(CONFIG_MAPS, place, query={})
    assert b"the-body" not in raw
    listed = json.loads(raw)
    assert (listed["apiVersion"], listed["kind"]) == ("meta.k8s.io/v1", "PartialObjectMetadataList")
    (item,) = [item for item in listed["items"] if item["metadata"]["name"] == "x"]
    assert (item["apiVersion"], item["kind"]) == ("meta.k8s.io/v1", "PartialObjectMetadata")
    async for page in list_objects(api, CONFIG_MAPS, place, kind=CONFIG_MAP, metadata_only=True):
        (found,) = [obj for obj in page.items if obj.key.name == "x"]
        assert (found.uid, found.labels, page.refused) == (made["metadata"]["uid"], {"l": "1"}, 0)
    async for page in list_objects(view, CONFIG_MAPS, place, kind=CONFIG_MAP):
        assert list(page.items) == []  # whole objects were asked for
        assert page.refused
    _, present = await read_present(
        api, CONFIG_MAPS, place, kind=CONFIG_MAP, key=ObjectKey(namespace, "x"), metadata_only=True
    )
    assert present is not None
    assert b"the-body" not in present.raw
    options: dict[str, Any] = {"kind": CONFIG_MAP, "timeout_s": 60, "on_open": lambda: None}
    async with contextlib.aclosing(
        watch_events(api, CONFIG_MAPS, place, resource_version="", initial=True, metadata_only=True, **options)
    ) as events:
        async for event in events:
            assert not event.refused
            if event.is_initial_end:
                await replace(api, {**made, "data": {"a": "the-body-again"}})
            elif event.object is not None and event.object.key.name == "x":
                assert b"the-body" not in event.object.raw
                if event.type is WatchEventType.MODIFIED:
                    break
