"""A controller here that will not leave a copy alone. A5."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.store import Change

LABELS = {"sync": "yes"}


def test_what_somebody_keeps_changing_is_put_back_once_a_minute_and_said() -> None:
    """A5: the other objects go on, the rule says who it is, and it heals when the other one stops."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        here.create(rule("fought", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}))
        for name in ("fought", "calm"):
            owner.create(config_map(name, {"a": "1"}, labels=LABELS))
        await group.settle()
        fighting = True

        def change(obj: Change) -> None:
            new = obj.new or {"metadata": {}}
            mine = new["metadata"].get("name") == "fought" and new.get("data") == {"a": "1"}
            if fighting and mine:
                loop = asyncio.get_running_loop()
                loop.call_later(0.01, here.apply, config_map("fought", {"a": "theirs"}))

        here.server.store.listeners.append(change)
        here.apply(config_map("fought", {"a": "theirs"}))
        before = len(here.writes)
        await asyncio.sleep(300)
        repairs = [write for write in here.writes[before:] if write.kind == "ConfigMap"]
        assert 5 <= len(repairs) <= 12, len(repairs)
        words = here.condition("ResourceSyncRule", "fought", "Synced")
        assert (words["status"], words["reason"]) == ("False", "Failing")
        assert "kubectl keeps changing it here" in words["message"]
        owner.apply(config_map("calm", {"a": "2"}))
        await asyncio.sleep(2)
        assert here.get("ConfigMap", "calm", namespace="default")["data"] == {"a": "2"}
        fighting = False
        await asyncio.sleep(150)
        assert here.get("ConfigMap", "fought", namespace="default")["data"] == {"a": "1"}
        assert here.condition("ResourceSyncRule", "fought", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("seals", "kubectl keeps changing it here; it is put back once a minute"),
        ("replaces", "kubectl keeps changing it here; it is put back once a minute"),
        ("deletes", "somebody keeps deleting it here; it is made again once a minute"),
    ],
)
def test_what_somebody_keeps_undoing_is_made_again_once_a_minute_and_said(deed: str, words: str) -> None:
    """A2, A5: also where a copy has to be made anew for it, and where nobody knows who it is."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        here.create(rule("fought", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}))
        owner.create(config_map("fought", {"a": "1"}, labels=LABELS))
        await group.settle()
        fighting = True

        def undo() -> None:
            found = here.find("ConfigMap", "fought", namespace="default")
            if not fighting or found is None or found.get("immutable") or found["data"] != {"a": "1"}:
                return
            if deed == "seals":
                here.apply({**found, "immutable": True})
            elif deed == "deletes":
                here.delete("ConfigMap", "fought", namespace="default")
            else:
                info = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
                here.replace_by_force({**found, "metadata": info, "data": {"a": "theirs"}})

        def hear(change: Change) -> None:
            if change.new is not None and change.new["metadata"]["name"] == "fought":
                asyncio.get_running_loop().call_later(0.01, undo)

        here.server.store.listeners.append(hear)
        before = len(here.writes)
        undo()
        await asyncio.sleep(300)
        wrote = [write for write in here.writes[before:] if write.kind == "ConfigMap" and write.changed]
        repairs = [write for write in wrote if write.verb == ("update" if deed == "replaces" else "create")]
        assert 5 <= len(repairs) <= 12, len(repairs)
        assert repairs[4].at < repairs[0].at + 30.0  # the first few at once
        told = here.condition("ResourceSyncRule", "fought", "Synced")
        assert (told["status"], told["reason"]) == ("False", "Failing")
        assert words in told["message"]
        owner.apply(config_map("fought", {"a": "2"}))  # what the owner does is not held up
        await asyncio.sleep(2)
        assert here.get("ConfigMap", "fought", namespace="default")["data"] == {"a": "2"}
        fighting = False
        owner.apply(config_map("fought", {"a": "1"}))
        await asyncio.sleep(150)
        assert here.get("ConfigMap", "fought", namespace="default")["data"] == {"a": "1"}
        assert here.condition("ResourceSyncRule", "fought", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.parametrize("deed", ["source", "namespace", "rule"])
def test_a_copy_that_goes_and_comes_for_a_good_reason_is_made_again_at_once_each_time(deed: str) -> None:
    """A5, A3: its owner, its namespace here or its rule take it away and want it again, a dozen times."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
        wanting = rule("calm", CONFIG_MAP, entry, deletionPolicy="Delete")
        wanting["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        here.create(wanting)
        for member in (here, owner):
            member.create({"kind": "Namespace", "metadata": {"name": "space"}})
        source = config_map("calm", {"a": "1"}, namespace="space", labels=LABELS)
        owner.create(source)
        await group.settle()
        for _ in range(12):
            if deed == "source":
                owner.delete("ConfigMap", "calm", namespace="space")
            elif deed == "namespace":
                here.delete("Namespace", "space")
            else:
                here.apply({**wanting, "spec": {**wanting["spec"], "rules": [{"match": [{"namespaces": ["none"]}]}]}})
            await asyncio.sleep(4)
            assert here.find("ConfigMap", "calm", namespace="space") is None
            if deed == "source":
                owner.create(source)
            elif deed == "namespace":
                here.create({"kind": "Namespace", "metadata": {"name": "space"}})
            else:
                here.apply(wanting)
            await asyncio.sleep(4)
            assert here.find("ConfigMap", "calm", namespace="space") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("deed", ["changes", "deletes"])
def test_what_the_owner_does_is_not_held_up_by_a_fight(deed: str) -> None:
    """A5, O5: only what is put back waits for its minute."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        here.create(rule("fought", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]}))
        owner.create(config_map("fought", {"a": "1"}, labels=LABELS))
        await group.settle()
        for _ in range(12):
            here.apply(config_map("fought", {"a": "theirs"}))
            await asyncio.sleep(0.5)
        assert here.get("ConfigMap", "fought", namespace="default")["data"] == {"a": "theirs"}
        if deed == "deletes":
            owner.delete("ConfigMap", "fought", namespace="default")
        else:
            owner.apply(config_map("fought", {"a": "2"}))
        await asyncio.sleep(2)
        found = here.find("ConfigMap", "fought", namespace="default")
        assert (found and found["data"]) == (None if deed == "deletes" else {"a": "2"})

    simulate(scenario, n=2)
