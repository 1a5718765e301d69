"""R2, W3: what a server serves is listed once a kind, in the best version, with one request an API version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden, NotFound, NotServed, NotWatchable, ServerError
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.kube.discover import Discovery

_ALL = ("create", "delete", "get", "list", "update", "watch")


class Server:
    """A Reader of discovery alone. `served` are resources by API version, None for a version that is down."""

    server = "https://fake.test"

    def __init__(
        self, groups: Sequence[Mapping[str, Any]], served: Mapping[str, Sequence[Mapping[str, Any]] | None]
    ) -> None:
        self.asked: list[str] = []
        self._documents = {"/apis": {"groups": groups}} | {
            f"/apis/{spelled}" if "/" in spelled else f"/api/{spelled}": found and {"resources": found}
            for spelled, found in served.items()
        }

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = 0) -> bytes:
        self.asked.append(path)
        if (found := self._documents[path]) is None:
            raise ServerError(f"{path}: is down")
        return json.dumps(found).encode()


def _group(name: str, *versions: str, preferred: str = "") -> dict[str, Any]:
    spelled = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": spelled, "preferredVersion": {"groupVersion": f"{name}/{preferred}"}}


def _resource(kind: str, *verbs: str, **more: Any) -> dict[str, Any]:
    return {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": verbs or _ALL, **more}


def _discovery(*groups: dict[str, Any], **served: Sequence[Mapping[str, Any]] | None) -> tuple[Discovery, Server]:
    """Make a server of the groups; in `served`, a name stands for a version of the group `g`."""
    documents = {f"g/{version}": found for version, found in served.items()}
    server: Any = Server(groups, {"v1": [_resource("Secret")], **documents})
    return Discovery(server), server


SECRET = GVK("", "v1", "Secret")


async def test_every_kind_is_listed_once_in_the_preferred_version_or_else_the_first_that_has_it() -> None:
    discovery, server = _discovery(
        _group("g", "v3", "v2", "v1", preferred="v2"),
        v1=[_resource("Both"), _resource("Old"), _resource("Shy")],
        v2=[_resource("Both"), _resource("Shy", "get", "list")],
        v3=[_resource("Both"), _resource("New"), {**_resource("New"), "name": "news/status"}],
    )
    served = await discovery.list_writable()
    assert served.is_whole
    assert [kind for kind, _ in served.kinds] == [
        SECRET, GVK("g", "v2", "Both"), GVK("g", "v3", "New"), GVK("g", "v1", "Old"), GVK("g", "v1", "Shy"),
    ]  # fmt: skip
    assert dict(served.kinds)[GVK("g", "v3", "New")] == GVR("g", "v3", "news", True, has_status=True)
    assert served.versions == {kind for kind, _ in served.kinds} | {GVK("g", "v1", "Both"), GVK("g", "v3", "Both")}
    assert server.asked == ["/apis", "/api/v1", "/apis/g/v2", "/apis/g/v3", "/apis/g/v1"]


async def test_what_is_down_is_left_out_and_said_and_looked_for_in_the_other_versions() -> None:
    discovery, _ = _discovery(_group("g", "v2", "v1", preferred="v2"), v2=None, v1=[_resource("Both")])
    served = await discovery.list_writable()
    assert not served.is_whole
    assert [kind for kind, _ in served.kinds] == [SECRET, GVK("g", "v1", "Both")]
    parts = [part async for part in discovery.list_deletable()]
    assert [[kind for kind, _ in part.kinds] for part in parts] == [[SECRET], [], [GVK("g", "v1", "Both")]]
    assert [(part.api_version, part.error is None) for part in parts] == [("v1", True), ("g/v2", False), ("g/v1", True)]


async def test_a_group_without_a_preferred_version_is_read_in_the_order_of_the_server() -> None:
    group = {"name": "g", "versions": [{"groupVersion": "g/v2"}, {"groupVersion": "g/v1"}]}
    discovery, _ = _discovery(group, v1=[_resource("Both")], v2=[_resource("Both")])
    assert [kind for kind, _ in (await discovery.list_writable()).kinds] == [SECRET, GVK("g", "v2", "Both")]


@pytest.mark.parametrize(
    ("word", "found", "asked"),
    [
        ("secret", SECRET, ["/api/v1"]),
        ("both", GVK("g", "v2", "Both"), ["/api/v1", "/apis/g/v2"]),
        ("olds", GVK("g", "v1", "Old"), ["/api/v1", "/apis/g/v2", "/apis/g/v1"]),
        ("both.g", GVK("g", "v2", "Both"), ["/apis/g/v2"]),
        ("both.v1.g", GVK("g", "v1", "Both"), ["/apis/g/v1"]),
        ("old.g", GVK("g", "v1", "Old"), ["/apis/g/v2", "/apis/g/v1"]),
        ("secret.g", None, ["/apis/g/v2", "/apis/g/v1"]),
        ("both.other", None, []),
    ],
)
async def test_a_kind_is_looked_for_no_further_than_it_takes(word: str, found: GVK | None, asked: list[str]) -> None:
    discovery, server = _discovery(
        _group("g", "v2", "v1", preferred="v2"), v2=[_resource("Both")], v1=[_resource("Both"), _resource("Old")]
    )
    if found is None:
        with pytest.raises(NotServed):
            await discovery.find(word)
    else:
        assert (await discovery.find(word))[0] == found
    assert server.asked == ["/apis", *asked]


@pytest.mark.parametrize(
    ("group", "definition", "expected"),
    [
        ("apps", None, ("spec", "replicas")),
        ("g.example.com", {"versions": [{"name": "v1", "subresources": {"scale": {"specReplicasPath": ".spec.size"}}}]},
         ("spec", "size")),
        ("g.example.com", {"versions": [{"name": "v2", "subresources": {"scale": {"specReplicasPath": ".spec.size"}}}]},
         ("spec", "replicas")),
        ("g.example.com", NotFound("none"), ("spec", "replicas")),
        ("g.example.com", Forbidden("no right"), ("spec", "replicas")),
        ("g.example.com", "nonsense", ("spec", "replicas")),
    ],
)  # fmt: skip
async def test_the_field_of_the_scale_subresource_is_read_once_from_the_definition(
    group: str, definition: Any, expected: tuple[str, ...]
) -> None:
    asked: list[ObjectKey] = []

    class Definitions(Server):
        async def get(self, gvr: GVR, key: ObjectKey) -> bytes:
            asked.append(key)
            if isinstance(definition, Exception):
                raise definition
            return json.dumps({"spec": definition}).encode()

    served = [_resource("Widget"), {**_resource("Scale"), "name": "widgets/scale"}, _resource("Rock")]
    server: Any = Definitions((), {f"{group}/v1": served})
    discovery = Discovery(server)
    widgets, rocks = [await discovery.resolve(GVK(group, "v1", kind)) for kind in ("Widget", "Rock")]
    assert [await discovery.find_replicas(widgets) for _ in range(2)] == [expected] * 2
    assert await discovery.find_replicas(rocks) == ()
    assert asked == ([ObjectKey("", f"widgets.{group}")] if "." in group else [])


@pytest.mark.parametrize(
    ("served", "may"),
    [
        ([_resource("Thing")], True),
        ([_resource("Thing", "delete", "get", "list", "watch")], False),
        ([_resource("Other")], False),
    ],
    ids=["served", "its definition is being deleted", "not served"],
)
async def test_what_is_going_with_its_definition_may_not_be_created(served: list[dict[str, Any]], may: bool) -> None:
    """O6."""
    discovery, _ = _discovery(_group("g", "v1"), v1=served)
    assert await discovery.may_create(GVK("g", "v1", "Thing")) is may


@pytest.mark.clause("R2")
async def test_a_kind_that_is_served_and_cannot_be_watched_is_told_from_a_missing_one() -> None:
    served = [{"name": "componentstatuses", "kind": "ComponentStatus", "namespaced": False, "verbs": ["get", "list"]}]
    discovery = Discovery(Server([], {"v1": served}))  # type: ignore[arg-type]
    with pytest.raises(NotWatchable):
        await discovery.resolve(GVK("", "v1", "ComponentStatus"))
    with pytest.raises(NotServed) as found:
        await discovery.resolve(GVK("", "v1", "Other"))
    assert not isinstance(found.value, NotWatchable)


@pytest.mark.clause("R2")
@pytest.mark.parametrize(
    ("asked", "similar"),
    [
        ("Secrets", "Secret"),
        ("secret", "Secret"),
        ("Secert", "Secret"),
        ("cm", "ConfigMap"),
        ("ConfigMapList", "ConfigMap"),
        ("Deployment", ""),
        ("Shy", ""),
    ],
)
async def test_a_kind_that_is_meant_is_found_among_those_that_can_be_watched(asked: str, similar: str) -> None:
    kinds = [_resource("Secret"), _resource("ConfigMap", shortNames=["cm"]), _resource("Shies", "get", "list")]
    server: Any = Server([], {"v1": [*kinds, _resource("Secret\x1b[2J"), _resource("Deployment text")]})
    with pytest.raises(NotServed) as found:
        await Discovery(server).resolve(GVK("", "v1", asked))
    assert found.value.similar == similar


async def test_a_word_stands_for_no_kind_of_another_group_while_the_built_in_one_does_not_answer() -> None:
    """A stream keeps the group that it has found: of the Services of Knative, where the core group is late once."""
    server: Any = Server([_group("serving.test", "v1")], {"v1": None, "serving.test/v1": [_resource("Service")]})
    with pytest.raises(ServerError, match="is down"):
        await Discovery(server).find("services")
    assert (await Discovery(server).find("services.serving.test"))[0] == GVK("serving.test", "v1", "Service")
