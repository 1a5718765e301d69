"""A write that this cluster refuses, and what waits for something here: the rule names it. S1, S3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.report.reasons import REFUSALS
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.schedule.object_acts import REFUSED
from tests.sim.schedule.vocabulary import CANARY

LABELS = {"sync": "yes"}
FINALIZER = "sim.example/held"


def _rule(policy: str = "Delete") -> dict[str, Any]:
    made = rule("wishes", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}, deletionPolicy=policy)
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


def _failure(here: Member) -> dict[str, str]:
    (entry,) = here.get("ResourceSyncRule", "wishes")["status"]["clusters"]
    (failure,) = entry["failures"]
    return dict(failure)


@pytest.mark.clause("S3")
@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_a_refusal_keeps_its_kind_and_says_what_to_do(reason: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.server.refused["ConfigMap one"] = Refusal(403, "Forbidden", f"{REFUSED[reason]} {CANARY}")
        here.create(_rule())
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await asyncio.sleep(30.0)
        failure = _failure(here)
        assert failure["reason"] == reason
        assert REFUSALS[reason] in failure["message"]
        assert CANARY not in str(here.get("ResourceSyncRule", "wishes")["status"])
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["reason"] == "Failing"
        assert here.condition("ResourceSyncRule", "wishes", "Stalled")["status"] == "True"
        here.server.refused.clear()
        await asyncio.sleep(90.0)
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "True"
        assert here.condition("ResourceSyncRule", "wishes", "Stalled")["status"] == "False"

    simulate(scenario, n=2)


@pytest.mark.clause("A2")
@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_a_change_that_is_refused_has_the_copy_stay(reason: str) -> None:
    """A new object of another name would be allowed: that does not show that a field which is to go cannot."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule())
        owner.create(config_map("one", {"value": "1", "former": "1"}, labels=LABELS))
        await group.settle()
        before = here.get("ConfigMap", "one", namespace="default")
        here.server.refused["ConfigMap one"] = Refusal(403, "Forbidden", REFUSED[reason])
        await here.stop()
        owner.replace_by_force(config_map("one", {"value": "1"}, labels=LABELS))
        here.start()
        await asyncio.sleep(30.0)
        assert here.get("ConfigMap", "one", namespace="default") == before
        assert _failure(here)["reason"] == reason
        here.server.refused.clear()
        await asyncio.sleep(90.0)
        found = here.get("ConfigMap", "one", namespace="default")
        assert found["data"] == {"value": "1"}
        assert found["metadata"]["uid"] == before["metadata"]["uid"]

    simulate(scenario, n=2)


DENIED = Refusal(422, "Invalid", "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: not here")
NO_DRY_RUN = Refusal(400, "BadRequest", 'admission webhook "w.sim" does not support dry run')
TAKEN = Refusal(422, "Invalid", "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated")


def _refused(reason: str) -> Refusal:
    return Refusal(403, "Forbidden", REFUSED[reason])


async def _must_be_made_anew(group: SimGroup, refusal: Refusal) -> tuple[Member, dict[str, Any]]:
    """Let an immutable object change at its owner while its creation here is refused; return its first copy."""
    await group.join()
    here, owner = group["a"], group["b"]
    here.create(_rule())
    owner.create(config_map("one", {"value": "1"}, labels=LABELS) | {"immutable": True})
    await group.settle()
    before = here.get("ConfigMap", "one", namespace="default")
    here.server.unmakeable["ConfigMap one"] = refusal
    await here.stop()
    owner.replace_by_force(config_map("one", {"value": "2"}, labels=LABELS) | {"immutable": True})
    here.start()
    return here, before


@pytest.mark.clause("A2")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("refusal", [DENIED, *map(_refused, sorted(REFUSED.keys() - {"QuotaExceeded"}))], ids=str)
def test_a_copy_stays_while_it_may_not_be_made_anew(refusal: Refusal, restarts: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        here, before = await _must_be_made_anew(group, refusal)
        await asyncio.sleep(30.0)
        if restarts:
            await here.restart()
            await asyncio.sleep(30.0)
        assert here.get("ConfigMap", "one", namespace="default") == before
        assert not [write for write in here.writes if write.kind == "ConfigMap" and write.verb == "delete"]
        failure = _failure(here)
        assert failure["message"].startswith(f"create configmaps.v1 in default: {refusal.code}")
        assert failure["reason"] == next((name for name in REFUSED if REFUSED[name] == refusal.message), "Invalid")
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["reason"] == "Failing"
        here.server.unmakeable.clear()
        await asyncio.sleep(90.0)
        found = here.get("ConfigMap", "one", namespace="default")
        assert found["data"] == {"value": "2"}
        assert found["metadata"]["uid"] != before["metadata"]["uid"]
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.clause("A2")
@pytest.mark.parametrize("refusal", [_refused("QuotaExceeded"), NO_DRY_RUN, TAKEN], ids=str)
def test_a_refusal_for_what_the_copy_itself_takes_up_shows_nothing(refusal: Refusal) -> None:
    """Nor does one of the dry run."""

    async def scenario(group: SimGroup) -> None:
        held = group["a"].server
        held.store.listeners.append(lambda change: held.unmakeable.clear() if change.new is None else None)
        here, before = await _must_be_made_anew(group, refusal)
        await asyncio.sleep(30.0)
        found = here.get("ConfigMap", "one", namespace="default")
        assert found["data"] == {"value": "2"}
        assert found["metadata"]["uid"] != before["metadata"]["uid"]

    simulate(scenario, n=2)


@pytest.mark.clause("S1")
@pytest.mark.parametrize("then", ["its source is deleted", "somebody deletes it", "it is to be made anew"])
def test_a_copy_that_waits_for_a_finalizer_is_not_in_sync(then: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule())
        owner.create(config_map("one", {"value": "1"}, labels=LABELS) | {"immutable": True})
        await group.settle()
        held = here.get("ConfigMap", "one", namespace="default")
        here.replace({**held, "metadata": {**held["metadata"], "finalizers": [FINALIZER]}})
        await group.settle()
        if then == "somebody deletes it":
            here.delete("ConfigMap", "one", namespace="default")
        else:
            owner.delete("ConfigMap", "one", namespace="default")
        if then == "it is to be made anew":
            owner.create(config_map("one", {"value": "2"}, labels=LABELS))
        await asyncio.sleep(60.0)
        found = here.condition("ResourceSyncRule", "wishes", "Synced")
        assert (found["status"], found["reason"]) == ("False", "Waiting")
        assert _failure(here)["reason"] == "BeingDeletedHere"
        assert "finalizers" in _failure(here)["message"]
        held = here.get("ConfigMap", "one", namespace="default")
        here.replace({**held, "metadata": {**held["metadata"], "finalizers": []}})
        await group.settle()
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "True"
        assert (here.find("ConfigMap", "one", namespace="default") is None) == (then == "its source is deleted")

    simulate(scenario, n=2)


@pytest.mark.clause("S1")
def test_a_place_that_a_native_object_still_has_is_waited_for() -> None:
    """O1: it is being deleted, and the copy is made when it is gone."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(config_map("one", {"value": "mine"}, finalizers=[FINALIZER]))
        here.delete("ConfigMap", "one", namespace="default")
        here.create(_rule())
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await group.settle()
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "False"
        held = here.get("ConfigMap", "one", namespace="default")
        here.replace({**held, "metadata": {**held["metadata"], "finalizers": []}})
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"value": "1"}

    simulate(scenario, n=2)


@pytest.mark.clause("S1")
def test_a_namespace_that_cannot_go_yet_is_not_in_sync() -> None:
    """O1: native objects live in the copy."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        made = rule(
            "wishes", {"version": "v1", "kind": "Namespace"}, {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        )
        made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
        here.create(made)
        owner.create({"kind": "Namespace", "metadata": {"name": "shared", "labels": LABELS}})
        await group.settle()
        here.create(config_map("mine", {}, namespace="shared"))
        owner.delete("Namespace", "shared")
        await asyncio.sleep(60.0)
        found = here.condition("ResourceSyncRule", "wishes", "Synced")
        assert (found["status"], found["reason"]) == ("False", "Waiting")
        here.delete("ConfigMap", "mine", namespace="shared")
        await asyncio.sleep(150.0)
        assert here.find("Namespace", "shared") is None
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "True"

    simulate(scenario, n=2)
