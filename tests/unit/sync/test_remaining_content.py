"""O1: what lives in a Namespace, and what is only made by Kubernetes wherever there is one, or from a copy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, ServerError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.core.decision.state import Content
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
PASSED_ON = {"labels": {meta.OWNER: OWNER}}
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
        self.definition: dict[str, Any] = {}
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
            return json.dumps(self.definition).encode()
        self.requests.append(f"get {gvr.resource} {key}")
        if self.metadata is None:
            raise NotFound("it is not there")
        return json.dumps(self._object()).encode()

    def _object(self) -> dict[str, Any]:
        info = {"name": "x", "namespace": "space", **(self.metadata or {})}
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": info}

    async def list_page(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], limit_bytes: int = 0, timeout_s: float = 60.0
    ) -> bytes:
        self.requests.append(f"list {gvr.resource}")
        items: list[Any] = []
        failure = self.failure or self.list_failure
        if gvr.resource != "configmaps" and failure is not None:
            raise failure
        if gvr.resource != "configmaps" and self.metadata is not None:
            assert selection.namespace in ("space", "")
            items = [self._object()]
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


async def _holds(server: Any, target: Target = SPACE) -> bool:
    return await ContentFinder(server, cluster=HERE).find(target) is not None


ENDPOINTS, SLICE = GVK("", "v1", "Endpoints"), GVK("discovery.k8s.io", "v1", "EndpointSlice")


@pytest.mark.parametrize(
    ("kind", "metadata", "is_content"),
    [
        (GVK("sim.example", "v1", "Widget"), {}, True),
        (GVK("sim.example", "v1", "Widget"), COPIED, True),
        (GVK("sim.example", "v1", "Widget"), UNPROVEN, True),
        (GVK("sim.example", "v1", "Widget"), OF_ANOTHER, True),
        (GVK("sim.example", "v1", "Widget"), MADE_FROM_IT, False),
        (GVK("sim.example", "v1", "Widget"), AT_HOME, True),
        (GVK("sim.example", "v1", "Widget"), PASSED_ON, True),
        (GVK("sim.example", "v1", "Widget"), CONTROLLER, True),
        (GVK("", "v1", "Event"), {}, False),
        (GVK("", "v1", "Event"), COPIED, True),
        (GVK("events.k8s.io", "v1", "Event"), {}, False),
        (GVK("sim.example", "v1", "Event"), {}, True),
        (GVK("coordination.k8s.io", "v1", "Lease"), {}, False),
        (GVK("coordination.k8s.io", "v1", "Lease"), COPIED, True),
        (GVK("sim.example", "v1", "Lease"), {}, True),
        (GVK("", "v1", "ServiceAccount"), {"name": "default"}, False),
        (GVK("", "v1", "ServiceAccount"), {"name": "other"}, True),
        (GVK("sim.example", "v1", "ServiceAccount"), {"name": "default"}, True),
        (ENDPOINTS, {}, True),
        (ENDPOINTS, {"labels": {"endpoints.kubernetes.io/managed-by": "hand"}}, True),
        (ENDPOINTS, CONTROLLER, False),
        (ENDPOINTS, PASSED_ON, False),
        (ENDPOINTS, COPIED, True),
        (ENDPOINTS._replace(group="sim.example"), CONTROLLER, True),
        (SLICE, {}, True),
        (SLICE, {"labels": {SLICE_LABEL: "staff"}}, True),
        (SLICE, {"labels": {SLICE_LABEL: "endpointslice-controller.k8s.io"}}, False),
        (SLICE, {"labels": {SLICE_LABEL: "endpointslicemirroring-controller.k8s.io"}}, False),
        (SLICE, PASSED_ON, False),
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
        (ServerError("is down"), "Widget: is down"),
    ],
)
async def test_what_cannot_be_listed_is_told_with_what_to_do(failure: Exception, told: str) -> None:
    """S3."""
    server = Server(GVK("sim.example", "v1", "Widget"), None)
    server.list_failure = failure
    found = await ContentFinder(server, cluster=HERE).find(SPACE)
    assert found is not None
    assert told in found.text


async def test_a_later_look_is_one_request_while_the_answer_is_the_same() -> None:
    server = Server(GVK("sim.example", "v1", "Widget"), {})
    finder = ContentFinder(server, cluster=HERE)
    found = await finder.find(SPACE)
    assert found is not None
    assert (found.text, found.target, found.owner) == ("Widget space/x", WIDGET, None)
    for metadata, owner in (({}, None), (COPIED, OWNER)):
        server.requests, server.metadata = [], metadata
        assert await finder.find(SPACE) == finder.known(SPACE) == Content("Widget space/x", WIDGET, owner)
        assert server.requests == ["get widgets space/x"]
    server.requests, server.metadata = [], MADE_FROM_IT
    assert await finder.find(SPACE) is None
    assert "list widgets" in server.requests
    server.metadata, server.list_failure = {}, Forbidden("list widgets: is forbidden")
    told = await finder.find(SPACE)
    server.requests = []
    assert await finder.find(SPACE) == told
    assert server.requests == ["list widgets"]
    finder.forget(SPACE)
    assert finder.known(SPACE) is None
    server.requests, server.metadata, server.list_failure = [], None, None
    assert await finder.find(SPACE) is None
    assert {"list configmaps", "list widgets"} <= {*server.requests}


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
    server.definition = {"spec": {"group": "sim.example", "names": names, "scope": "Namespaced", "versions": versions}}
    assert await _holds(server, DEFINITION) is is_content
