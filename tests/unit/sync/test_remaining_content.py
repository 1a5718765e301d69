"""O1: what lives in a Namespace, and what is only made by Kubernetes wherever there is one, or from a copy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, ServerError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.api.optiontext import ObjectPattern, object_patterns
from registry_controller.api.selection import Selection
from registry_controller.core.decision.state import Content
from registry_controller.report.reasons import Unlisted, describe_unlisted
from registry_controller.sync.remaining_content import ContentFinder
from tests.original_marks import last_applied

SPACE = Target("", "Namespace", "", "space")
WIDGET = Target("sim.example", "Widget", "space", "x")
DEFINITION = Target("apiextensions.k8s.io", "CustomResourceDefinition", "", "relics.sim.example")
HERE = ClusterUID("here")
OWNER = ClusterUID("11111111-1111-1111-1111-111111111111")
NAMED = last_applied({"metadata": {"name": "x", "namespace": "space"}})
COPIED = {"annotations": {meta.OWNER: OWNER, meta.GO_LAST_APPLIED: NAMED}, "labels": {meta.OWNER: OWNER}}
UNPROVEN = {"annotations": {meta.OWNER: OWNER}}
OF_ANOTHER = {
    "annotations": {meta.OWNER: OWNER, meta.GO_LAST_APPLIED: last_applied({"metadata": {"name": "y"}})},
}
MADE_FROM_IT = OF_ANOTHER | {"ownerReferences": [{"kind": "Deployment", "name": "y", "controller": True}]}
AT_HOME = {"annotations": {meta.OWNER: "here", meta.GO_LAST_APPLIED: NAMED}}
LABELLED = {"labels": {meta.OWNER: OWNER}}
LATER = {"annotations": {meta.OWNER: OWNER, meta.PROVENANCE: json.dumps({"format": 99})}}
CONTROLLED = {"ownerReferences": [{"kind": "Deployment", "name": "y", "controller": True}]}
CONTROLLER = {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}
SLICE_LABEL = "endpointslice.kubernetes.io/managed-by"


class Server:
    """A Reader of one kind, beside ConfigMaps, and of one object of it, if any."""

    server = "https://fake.test"

    def __init__(
        self, kind: GVK, metadata: Mapping[str, Any] | None, *, verbs: tuple[str, ...] = ("delete", "list")
    ) -> None:
        self.kind = kind
        self.turns = asyncio.Semaphore(1)
        self.failure: Exception | None = None
        self.list_failure: Exception | None = None
        self.refused = ""
        self.gone = set[str]()
        self.definitions = dict[str, dict[str, Any]]()
        self.requests = list[str]()
        self.metadata = metadata
        self._verbs = verbs

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = 0) -> bytes:
        self.requests.append(path)
        group, version, kind = self.kind
        own = {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": self._verbs}
        others = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["delete", "list"]}
        if path == "/apis":
            spelled = {"groupVersion": f"{group}/{version}", "version": version}
            found = [{"name": group, "versions": [spelled], "preferredVersion": spelled}] if group else []
            return json.dumps({"groups": found}).encode()
        if path == "/api/v1":
            return json.dumps({"resources": [others] if group else [others, own]}).encode()
        if self.failure is not None:
            raise self.failure
        return json.dumps({"resources": [own]}).encode()

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float = 10.0) -> bytes:
        if gvr.resource == "customresourcedefinitions":
            if key.name in self.gone:
                raise NotFound("it is not there")
            return json.dumps(self.definitions[key.name]).encode()
        self.requests.append(f"get {gvr.resource} {key}")
        if self.metadata is None:
            raise NotFound("it is not there")
        return json.dumps(self._object()).encode()

    def _object(self) -> dict[str, Any]:
        info = {"name": "x", "namespace": "space", **(self.metadata or {})}
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": info}

    def of_metadata(self) -> Server:
        return self

    async def list_page(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], limit_bytes: int = 0, timeout_s: float = 60.0
    ) -> bytes:
        self.requests.append(f"list {gvr.resource}")
        items: list[Any] = []
        if gvr.resource == self.refused:
            raise Forbidden(f"list {gvr.resource}: is forbidden")
        if gvr.resource == "customresourcedefinitions":
            names = [{"metadata": {"name": name}} for name in self.definitions]
            return json.dumps({"metadata": {"resourceVersion": "7"}, "items": names}).encode()
        failure = self.failure or self.list_failure
        if gvr.resource != "configmaps" and failure is not None:
            raise failure
        if gvr.resource != "configmaps" and self.metadata is not None:
            assert selection.namespace in ("space", "")
            items = [self._object()]
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


def _finder(server: Any, ignored: Sequence[ObjectPattern] = ()) -> ContentFinder:
    return ContentFinder(server, cluster=HERE, ignored=ignored, note_kind=lambda *_: None)


async def _holds(server: Any, target: Target = SPACE) -> bool:
    return await _finder(server).find(target) is not None


ENDPOINTS, SLICE = GVK("", "v1", "Endpoints"), GVK("discovery.k8s.io", "v1", "EndpointSlice")


@pytest.mark.parametrize(
    ("kind", "metadata", "is_content"),
    [
        (GVK("sim.example", "v1", "Widget"), {}, True),
        (GVK("sim.example", "v1", "Widget"), COPIED, True),
        (GVK("sim.example", "v1", "Widget"), UNPROVEN, True),
        (GVK("sim.example", "v1", "Widget"), OF_ANOTHER, True),
        (GVK("sim.example", "v1", "Widget"), MADE_FROM_IT, True),
        (GVK("sim.example", "v1", "Widget"), LATER | CONTROLLED, True),
        (GVK("sim.example", "v1", "Widget"), UNPROVEN | CONTROLLED, True),
        (GVK("sim.example", "v1", "Widget"), AT_HOME, True),
        (GVK("sim.example", "v1", "Widget"), LABELLED, True),
        (GVK("sim.example", "v1", "Widget"), CONTROLLER, True),
        (GVK("", "v1", "Event"), {}, False),
        (GVK("", "v1", "Event"), COPIED, True),
        (GVK("events.k8s.io", "v1", "Event"), {}, False),
        (GVK("sim.example", "v1", "Event"), {}, True),
        (GVK("coordination.k8s.io", "v1", "Lease"), {}, False),
        (GVK("coordination.k8s.io", "v1", "Lease"), COPIED, True),
        (GVK("coordination.k8s.io", "v1", "Lease"), LATER, True),
        (GVK("coordination.k8s.io", "v1", "Lease"), UNPROVEN, True),
        (GVK("coordination.k8s.io", "v1", "Lease"), AT_HOME, False),
        (GVK("sim.example", "v1", "Lease"), {}, True),
        (GVK("", "v1", "ServiceAccount"), {"name": "default"}, False),
        (GVK("", "v1", "ServiceAccount"), LATER | {"name": "default"}, True),
        (GVK("", "v1", "ServiceAccount"), {"name": "other"}, True),
        (GVK("sim.example", "v1", "ServiceAccount"), {"name": "default"}, True),
        (ENDPOINTS, {}, True),
        (ENDPOINTS, {"labels": {"endpoints.kubernetes.io/managed-by": "hand"}}, True),
        (ENDPOINTS, CONTROLLER, True),
        (ENDPOINTS, LABELLED, True),
        (ENDPOINTS, COPIED, True),
        (ENDPOINTS._replace(group="sim.example"), CONTROLLER, True),
        (SLICE, {}, True),
        (SLICE, {"labels": {SLICE_LABEL: "staff"}}, True),
        (SLICE, {"labels": {SLICE_LABEL: "endpointslice-controller.k8s.io"}}, True),
        (SLICE, LABELLED, True),
    ],
)
async def test_what_lives_somewhere_is_told_from_what_kubernetes_makes(
    kind: GVK, metadata: dict[str, Any], is_content: bool
) -> None:
    assert await _holds(Server(kind, metadata)) is is_content


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Forbidden("list widgets: is forbidden"), f"grant it with a ClusterRole labelled {meta.CONTROLLER_AGGREGATED}"),
        (ServerError("is down"), "widgets.sim.example: is down"),
        (NotFound("not found"), "widgets.sim.example: not found"),
    ],
)
async def test_what_cannot_be_listed_is_told_with_what_to_do(failure: Exception, told: str) -> None:
    """R2, S3: a kind that was served a moment ago, and is not found, may have objects."""
    server = Server(GVK("sim.example", "v1", "Widget"), None)
    server.list_failure = failure
    found = await _finder(server).find(SPACE)
    assert found is not None
    assert told in found.text


async def test_an_api_version_that_does_not_answer_is_named() -> None:
    """S3."""
    server = Server(GVK("metrics.example", "v1", "Widget"), None)
    server.failure = ServerError("is down")
    found = await _finder(server).find(SPACE)
    assert found is not None
    assert found.text == "metrics.example/v1: is down"


def _definition(name: str, *, scope: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    versions = [{"name": "v1", "served": False}]
    return {"spec": {"group": group, "names": {"plural": plural}, "scope": scope, "versions": versions}}


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_a_kind_without_a_served_version_may_have_objects(scope: str) -> None:
    """R2: also where nothing that this daemon knows is of that kind."""
    server = Server(GVK("sim.example", "v1", "Widget"), None)
    server.definitions = {name: _definition(name, scope=scope) for name in ("widgets.sim.example", "old.sim.example")}
    found = await _finder(server).find(SPACE)
    text = "old.sim.example: no version is served here"
    assert found == (Content(text) if scope == "Namespaced" else None)
    server.gone.add("old.sim.example")
    assert await _finder(server).find(SPACE) is None
    server.gone.clear()
    server.refused = "customresourcedefinitions"
    found = await _finder(server).find(SPACE)
    assert found is not None
    assert found.text.startswith("cannot list customresourcedefinitions.apiextensions.k8s.io here; grant it")


async def test_kinds_of_a_group_that_does_not_answer_are_not_asked_for_one_by_one() -> None:
    server = Server(GVK("sim.example", "v1", "Widget"), None)
    server.failure = ServerError("is down")
    server.definitions = {f"kind{number}.sim.example": {} for number in range(50)}
    found = await _finder(server).find(SPACE)
    assert found is not None
    assert found.text == "sim.example/v1: is down"


def test_everything_that_has_to_be_granted_is_named_at_once() -> None:
    """S3."""
    names = [f"kind{number:02}.example.com" for number in range(22)]
    down = [Unlisted(name, ServerError("is down")) for name in ("v1", "v2", "v3")]
    told = describe_unlisted([down[0], *(Unlisted(name, Forbidden("may not")) for name in names), *down[1:]])
    assert ", ".join(names[:20]) in told
    assert "kind19.example.com and 2 more kinds here; grant it" in told
    assert told.endswith("; v1: is down, and 2 more do not answer")
    assert "narrowSecrets" not in told
    assert "narrowSecrets" in describe_unlisted([Unlisted("secrets", Forbidden("may not"))])


async def test_an_object_is_named_before_what_cannot_be_listed() -> None:
    """S3: ConfigMaps come first, and may not be listed."""
    server = Server(GVK("sim.example", "v1", "Widget"), {})
    server.refused = "configmaps"
    found = await _finder(server).find(SPACE)
    assert found == Content("Widget space/x lives in it", WIDGET)
    server.metadata = None
    found = await _finder(server).find(SPACE)
    assert found is not None
    assert found.text.startswith("cannot list configmaps here; grant it")


async def test_a_later_look_is_one_request_while_the_answer_is_the_same() -> None:
    server = Server(GVK("sim.example", "v1", "Widget"), {})
    finder = _finder(server)
    found = await finder.find(SPACE)
    assert found == Content("Widget space/x lives in it", WIDGET)
    server.requests = []
    assert await finder.find(SPACE) == found
    assert server.requests == ["get widgets space/x"]
    finder.forget(SPACE)
    server.requests = []
    assert await finder.find(SPACE) == found
    assert {"list configmaps", "list widgets"} <= {*server.requests}
    server.requests, server.metadata = [], None
    assert await finder.find(SPACE) is None
    assert {"get widgets space/x", "list configmaps", "list widgets"} <= {*server.requests}


@pytest.mark.parametrize(
    ("pattern", "metadata", "is_content"),
    [
        ("Widget.sim.example/x", {}, False),
        ("*.sim.example/x*", {}, False),
        ("Widget.sim.example/y", {}, True),
        ("Widget/x", {}, True),
        ("Widget.sim.example/x", COPIED, True),
    ],
)
async def test_what_an_administrator_ignores_keeps_no_namespace_but_a_copy_and_a_definition_do(
    pattern: str, metadata: dict[str, Any], is_content: bool
) -> None:
    """O1."""
    server = Server(GVK("sim.example", "v1", "Widget"), metadata)
    ignored = object_patterns(pattern)
    assert (await _finder(server, ignored).find(SPACE) is not None) is is_content
    versions = [{"name": "v1", "served": True}]
    names = {"kind": "Widget", "plural": "widgets"}
    server.definitions[DEFINITION.name] = {
        "spec": {"group": "sim.example", "names": names, "scope": "Namespaced", "versions": versions}
    }
    assert await _finder(server, ignored).find(DEFINITION) is not None


async def test_an_empty_namespace_is_empty() -> None:
    assert not await _holds(Server(GVK("sim.example", "v1", "Widget"), None))


async def test_what_is_not_deleted_with_a_namespace_does_not_live_in_it() -> None:
    assert not await _holds(Server(GVK("metrics.k8s.io", "v1beta1", "PodMetrics"), {}, verbs=("get", "list")))


@pytest.mark.parametrize("failure", [ServerError("is down"), Forbidden("is forbidden"), NotFound("is not there")])
async def test_what_cannot_be_looked_into_counts_as_not_empty(failure: Exception) -> None:
    server = Server(GVK("sim.example", "v1", "Widget"), None)
    server.failure = failure
    assert await _holds(server)


@pytest.mark.parametrize(
    ("served", "metadata", "is_content"), [(True, {}, True), (True, None, False), (False, None, True)]
)
async def test_a_definition_of_which_no_version_is_served_counts_as_not_empty(
    served: bool, metadata: dict[str, Any] | None, is_content: bool
) -> None:
    server = Server(GVK("sim.example", "v1beta1", "Relic"), metadata)
    names = {"kind": "Relic", "plural": "relics"}
    versions = [{"name": "v1", "served": False}, {"name": "v1beta1", "served": served}]
    server.definitions[DEFINITION.name] = {
        "spec": {"group": "sim.example", "names": names, "scope": "Namespaced", "versions": versions}
    }
    assert await _holds(server, DEFINITION) is is_content
