"""A look that nobody wanted, and should have, is made up for. S2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api.meta import Target
from registry_controller.sync.enqueue import PERIOD_S
from registry_controller.sync.workqueue import WorkQueue
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate


def test_what_no_look_was_wanted_for_comes_within_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, add = set[str](), WorkQueue.add

    def forgetful(self: WorkQueue[Target], key: Target, lane: str = "", **options: Any) -> None:
        if key.key.name not in lost:
            add(self, key, lane, **options)

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.create(config_map("one", {"a": "1"}))
        here.create(rule("all", CONFIG_MAP, {"match": [{"namespaces": ["default"]}]}))
        await asyncio.sleep(20.0)
        lost.update(("one", "two"))
        owner.apply(config_map("one", {"a": "2"}))
        owner.create(config_map("two", {"a": "1"}))
        await asyncio.sleep(60.0)
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"a": "1"}
        assert here.find("ConfigMap", "two", namespace="default") is None
        lost.clear()
        await asyncio.sleep(PERIOD_S)
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"a": "2"}
        assert here.find("ConfigMap", "two", namespace="default") is not None

    monkeypatch.setattr(WorkQueue, "add", forgetful)
    simulate(scenario, n=2)
