"""A controller here that will not leave a copy alone. A5."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.store import Change

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

        def change(heard: Change) -> None:
            new = heard.new or {"metadata": {}}
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
