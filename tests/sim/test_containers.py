"""Copies that others go with: of a Namespace, not while something native lives in it; never for a field. O1, W3, A2."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

NAMESPACE = {"version": "v1", "kind": "Namespace"}
DEFINITION = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}
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


def test_what_others_would_go_with_is_not_made_anew_for_a_field_that_may_not_change_and_that_is_said() -> None:
    """A2, S1: no object of that kind is lost for it; it heals when the change is taken back."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        scope = {"type": "replace", "path": "/spec/scope", "value": "Cluster"}
        wanting = rule("kinds", DEFINITION, entry)
        wanting["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        changed = rule("kinds", DEFINITION, {**entry, "mutations": {"overrides": [scope]}})
        here.create(wanting)
        info = {"name": "gizmos.other.example", "labels": LABELS}
        owner.create({"kind": "CustomResourceDefinition", "metadata": info, "spec": {"scope": "Namespaced"}})
        await group.settle()
        before = here.get("CustomResourceDefinition", info["name"])
        here.apply({**changed, "metadata": wanting["metadata"]})
        await asyncio.sleep(90.0)
        assert here.get("CustomResourceDefinition", info["name"]) == before
        told = here.condition("ResourceSyncRule", "kinds", "Synced")
        assert (told["status"], told["reason"]) == ("False", "Failing")
        (failure,) = here.get("ResourceSyncRule", "kinds")["status"]["clusters"][0]["failures"]
        assert failure["reason"] == "Immutable"
        assert "spec.scope" in failure["message"]
        assert "is not deleted to be made again" in failure["message"]
        here.apply(wanting)
        await group.settle()
        assert here.condition("ResourceSyncRule", "kinds", "Synced")["status"] == "True"
        assert here.get("CustomResourceDefinition", info["name"]) == before

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
