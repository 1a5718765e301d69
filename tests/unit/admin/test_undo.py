"""`join --undo` after an interruption: of itself, or of the join."""

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


def cluster(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {meta.CLUSTER_DISABLED: "join --undo"}},
        "spec": {"clusterID": f"id-of-{name}", "authInfo": {"secretRef": {"name": name, "namespace": "registry"}}},
        "status": {"state": "Disabled"},
    }


def secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "registry"}, "type": meta.REGISTRY_SECRET_TYPE}


class Stored:
    """The objects of one cluster; its API server is gone after `deletions`."""

    def __init__(self, *clusters: str, secrets: Sequence[str], deletions: int) -> None:
        self.names: dict[GVR, list[str]] = {meta.CLUSTERS: [*clusters], meta.SECRETS: [*secrets]}
        self.deletions = deletions

    async def list(self, gvr: GVR) -> Sequence[Any]:
        return [cluster(name) if gvr == meta.CLUSTERS else secret(name) for name in self.names[gvr]]

    async def read(self, gvr: GVR, key: ObjectKey) -> Any:
        return next((one for one in await self.list(gvr) if one["metadata"]["name"] == key.name), None)

    async def delete(self, gvr: GVR, found: Any) -> None:
        if not self.deletions:
            raise Unreachable("no answer")
        self.deletions -= 1
        self.names[gvr].remove(found["metadata"]["name"])


def make_site(name: str, client: Any) -> Site:
    return Site(name, None, client, client, meta.ClusterUID(f"id-of-{name}"), DaemonOptions())


async def undo(stored: Stored) -> None:
    """Undo the join of cluster `a` with a cluster that does not know it."""
    sites = [make_site("a", stored), make_site("b", Stored("b", secrets=["b"], deletions=0))]
    await UndoCommand(sites, wait_s=1, report=lambda _: None, on_change=lambda _: None).undo()


@pytest.mark.parametrize("deletions", [0, 1])
def test_an_interrupted_undo_leaves_no_secret_behind_when_it_is_run_again(deletions: int) -> None:
    stored = Stored("a", "b", secrets=["a", "b"], deletions=deletions)
    with pytest.raises(Unreachable):
        asyncio.run(undo(stored))
    stored.deletions = 2 - deletions
    asyncio.run(undo(stored))
    assert stored.names == {meta.CLUSTERS: ["a"], meta.SECRETS: ["a"]}


def test_an_undo_deletes_the_secrets_of_a_join_that_wrote_no_clusters() -> None:
    stored = Stored("a", secrets=["a", "b"], deletions=1)
    asyncio.run(undo(stored))
    assert stored.names == {meta.CLUSTERS: ["a"], meta.SECRETS: ["a"]}
