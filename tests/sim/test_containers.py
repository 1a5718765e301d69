"""A copied Namespace: it goes with whatever it was wanted by, but not while something native lives in it. O1, W3."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.group import SimGroup, config_map, rule, simulate

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
