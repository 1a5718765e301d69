"""What this cluster makes for itself, and its members' credentials, lose their place to no rule. O2, O7, W8, S1."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.dry_run import explained, plan
from tests.sim.cluster.group import SECRET, SimGroup, rule, simulate
from tests.sim.cluster.member import NAMESPACE
from tests.sim.test_rule_deletions import recorded

TOKEN = "cluster-registry-controller-reader-token"
RESERVED = "ReservedForThisCluster"
FEATURE = {"group": meta.GROUP, "version": meta.VERSION, "kind": meta.FEATURE.kind}


def _renaming(kind: dict[str, str], old: str, new: str, *, synced: bool) -> dict[str, Any]:
    """Write a rule for a, which renames one object."""
    renamed = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": new}]}
    made = rule("r", kind, {"match": [{"objectKey": {"name": old}}], "mutations": renamed})
    made["spec"]["targetClusters"] = {"names": ["a"]}
    if not synced:
        made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


def _opaque(name: str) -> dict[str, Any]:
    info = {"name": name, "namespace": NAMESPACE}
    return {"kind": "Secret", "type": "Opaque", "metadata": info, "data": {"x": "eA=="}}


@pytest.mark.clause("O2")
@pytest.mark.parametrize("synced", [True, False], ids=["a synced rule", "a native rule"])
@pytest.mark.parametrize("name", ["a", TOKEN, "c"], ids=["published", "token", "a member's"])
def test_no_ordinary_secret_takes_the_place_of_credentials_that_are_missing(name: str, synced: bool) -> None:
    """They are lost while no daemon runs, and again while it runs, as by a revocation. O7, P3."""

    async def scenario(group: SimGroup) -> None:
        a, b = group["a"], group["b"]
        await group.join()
        b.create(_opaque("x"))
        (b if synced else a).create(_renaming(SECRET, "x", name, synced=synced))
        await group.settle()
        await a.stop()
        before = a.get("Secret", name, namespace=NAMESPACE)
        a.delete("Secret", name, namespace=NAMESPACE)
        found = await plan(group, "a", a.get("ResourceSyncRule", "r"))
        assert {row.reason for row in found.rows if row.rule == "r"} == {RESERVED}
        explanation, _ = await explained(group, "secret", name, namespace=NAMESPACE)
        assert {row.reason for row in explanation.planned if row.rule == "r"} == {RESERVED}
        a.start()
        await group.settle()
        assert a.get("Secret", name, namespace=NAMESPACE).get("type") == before["type"]
        a.delete("Secret", name, namespace=NAMESPACE)
        await group.settle()
        assert a.get("Secret", name, namespace=NAMESPACE).get("type") == before["type"]
        states = [member.get("Cluster", name)["status"]["state"] for member in (a, b) for name in "ac"]
        assert set(states) == {"Ready"}

    simulate(scenario, n=3)


@pytest.mark.clause("O2")
def test_the_place_of_the_tokens_of_the_other_option_is_reserved_too() -> None:
    """Somebody may set READER_TOKEN_EXPIRATION_SECONDS later."""

    async def scenario(group: SimGroup) -> None:
        a, b = group["a"], group["b"]
        await group.join()
        b.create(_opaque("x"))
        b.create(_renaming(SECRET, "x", f"{TOKEN}-binding", synced=True))
        await group.settle()
        assert a.find("Secret", f"{TOKEN}-binding", namespace=NAMESPACE) is None

    simulate(scenario, n=2)


@pytest.mark.clause("O2")
@pytest.mark.parametrize("name", ["a", "c"])
def test_the_credentials_of_another_member_do_not_take_that_place_either(name: str) -> None:
    """A native rule gives them its name."""

    async def scenario(group: SimGroup) -> None:
        a = group["a"]
        await group.join()
        a.create(_renaming(SECRET, "b", name, synced=False))
        await group.settle()
        await a.stop()
        before = a.get("Secret", name, namespace=NAMESPACE)
        a.delete("Secret", name, namespace=NAMESPACE)
        a.start()
        await group.settle()
        assert a.get("Secret", name, namespace=NAMESPACE)["data"] == before["data"]

    simulate(scenario, n=3)


@pytest.mark.clause("O7")
def test_an_ordinary_secret_of_the_member_itself_does_not_replace_its_credentials() -> None:
    """It is older than they are."""

    async def scenario(group: SimGroup) -> None:
        a, c = group["a"], group["c"]
        c.create(_opaque("x"))
        c.create(_renaming(SECRET, "x", "c", synced=True))
        await group.join()
        assert a.get("Secret", "c", namespace=NAMESPACE)["type"] == meta.REGISTRY_SECRET_TYPE
        assert {write.verb for write in a.writes if write.key.name == "c" and write.kind == "Secret"} <= {"update"}
        (entry,) = [one for one in a.get("ResourceSyncRule", "r")["status"]["clusters"] if one["clusterID"] == c.id]
        assert {failure["reason"] for failure in entry["failures"]} == {RESERVED}

    simulate(scenario, n=3)


@pytest.mark.clause("W8")
def test_no_feature_takes_the_place_of_the_record_of_deleted_rules() -> None:
    async def scenario(group: SimGroup) -> None:
        a, b = group["a"], group["b"]
        await group.join()
        b.create({"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}})
        a.create(_renaming(FEATURE, "gold", names.DELETED_RULES_OBJECT, synced=False))
        await group.settle()
        assert a.find("ClusterFeature", names.DELETED_RULES_OBJECT) is None
        (entry,) = a.get("ResourceSyncRule", "r")["status"]["clusters"]
        assert {failure["reason"] for failure in entry["failures"]} == {RESERVED}
        a.create(rule("old", SECRET, {"match": [{"objectKey": {"name": "none"}}]}))
        await group.settle()
        a.delete("ResourceSyncRule", "old")
        await group.settle()
        assert recorded(a) == {"old"}

    simulate(scenario, n=2)


@pytest.mark.clause("O7")
def test_a_place_is_free_again_once_no_cluster_here_names_it() -> None:
    async def scenario(group: SimGroup) -> None:
        a, b = group["a"], group["b"]
        await group.join()
        named = {"secretRef": {"name": "later", "namespace": NAMESPACE}}
        info = {"name": "z", "annotations": {SYNC_DISABLED: "true"}}
        spec = {"clusterID": "44444444-4444-4444-8444-444444444444", "authInfo": named}
        a.create({"kind": "Cluster", "metadata": info, "spec": spec})
        b.create(_opaque("x"))
        b.create(_renaming(SECRET, "x", "later", synced=True))
        await group.settle()
        assert a.find("Secret", "later", namespace=NAMESPACE) is None
        a.delete("Cluster", "z")
        await group.settle()
        assert a.get("Secret", "later", namespace=NAMESPACE)["type"] == "Opaque"

    simulate(scenario, n=2)
