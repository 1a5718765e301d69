"""`join --undo` that is interrupted, and run again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from registry_controller.admin.sites import DaemonOptions, Site
from registry_controller.admin.undo import UndoCommand
from registry_controller.api import meta
from registry_controller.api.errors import Unreachable
from registry_controller.api.meta import GVR, ObjectKey

INFO = {"name": "b", "uid": "u", "resourceVersion": "1"}
CLUSTER = {
    "apiVersion": meta.API_VERSION,
    "kind": "Cluster",
    "metadata": {**INFO, "annotations": {meta.CLUSTER_DISABLED: "join --undo"}},
    "spec": {"clusterID": "id-of-b", "authInfo": {"secretRef": {"name": "b", "namespace": "registry"}}},
    "status": {"state": "Disabled"},
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {**INFO, "namespace": "registry"},
    "type": meta.REGISTRY_SECRET_TYPE,
}


class Stored:
    """The objects of one cluster; the API server is gone after `deletions`."""

    def __init__(self, deletions: int) -> None:
        self.objects: dict[GVR, Any] = {meta.CLUSTERS: CLUSTER, meta.SECRETS: SECRET}
        self.deletions = deletions

    async def list(self, gvr: GVR) -> Sequence[Any]:
        return [self.objects[gvr]] if gvr in self.objects else []

    async def read(self, gvr: GVR, _: ObjectKey) -> Any:
        return self.objects.get(gvr)

    async def delete(self, gvr: GVR, _: Any) -> None:
        if not self.deletions:
            raise Unreachable("no answer")
        self.deletions -= 1
        del self.objects[gvr]


def make_site(name: str, client: Any) -> Site:
    return Site(name, None, client, client, meta.ClusterUID(f"id-of-{name}"), DaemonOptions())


async def undo(stored: Stored) -> None:
    forgetful = Stored(0)
    forgetful.objects.clear()
    await UndoCommand(
        [make_site("a", stored), make_site("b", forgetful)], wait_s=1, report=lambda _: None, on_change=lambda _: None
    ).undo()


@pytest.mark.parametrize("deletions", [0, 1])
def test_an_interrupted_undo_leaves_no_secret_behind_when_it_is_run_again(deletions: int) -> None:
    stored = Stored(deletions)
    with pytest.raises(Unreachable):
        asyncio.run(undo(stored))
    stored.deletions = 2
    asyncio.run(undo(stored))
    assert stored.objects == {}
