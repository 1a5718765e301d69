"""A copied Namespace: it goes with whatever it was wanted by, but not while something native lives in it. O1, W3."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

NAMESPACE = {"version": "v1", "kind": "Namespace"}
LABELS = {"sync": "yes"}


@pytest.mark.parametrize("goes", ["source", "rule"])
def test_a_copied_namespace_goes_once_nothing_native_lives_in_it(goes: str) -> None:
    """O1, O5, W3: whatever it is that it goes for."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        wanting = rule("spaces", NAMESPACE, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, deletionPolicy="Delete")
        wanting["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        here.create(wanting)
        owner.create({"kind": "Namespace", "metadata": {"name": "space", "labels": LABELS}})
        await group.settle()
        here.create(config_map("native", {"a": "1"}, namespace="space"))
        if goes == "source":
            owner.delete("Namespace", "space")
        else:
            here.delete("ResourceSyncRule", "spaces")
        await group.settle()
        assert here.find("ConfigMap", "native", namespace="space") is not None
        here.delete("ConfigMap", "native", namespace="space")
        await group.settle()
        assert here.find("Namespace", "space") is None

    simulate(scenario, n=2)


def test_a_namespace_that_may_not_be_made_for_copies_stalls_the_rule() -> None:
    """A3, S3: somebody has to allow it, and the rule says so."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.server.denied.add("Namespace")
        owner.create({"kind": "Namespace", "metadata": {"name": "space"}})
        owner.create(config_map("one", {"a": "1"}, namespace="space", labels=LABELS))
        here.create(rule("into", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, createNamespaces=True))
        await asyncio.sleep(30.0)
        stalled = here.condition("ResourceSyncRule", "into", "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "ActionNeeded")
        assert "cannot create namespace space" in stalled["message"]
        here.server.denied.discard("Namespace")
        await group.settle()
        assert here.condition("ResourceSyncRule", "into", "Stalled")["status"] == "False"
        assert here.find("ConfigMap", "one", namespace="space") is not None

    simulate(scenario, n=2)
