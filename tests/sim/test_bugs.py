"""A bug of ours that one object brings out costs that object, and neither the daemon nor another's copies. A4, S3."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.core.rules import active
from registry_controller.sync import applier
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.schedule.vocabulary import CANARY


def _at_one(function: Callable[..., Any], name: str, is_broken: list[bool]) -> Callable[..., Any]:
    def wrapped(*args: Any, **others: Any) -> Any:
        if is_broken and name in str(args):
            raise KeyError(CANARY)
        return function(*args, **others)

    return wrapped


@pytest.mark.parametrize("place", ["as rules are asked", "as the copy is made"])
def test_a_mistake_of_ours_is_said_of_its_object_and_ends_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """W1: it is no "no match" either; its words may hold data, and are not said (A6)."""
    is_broken = [True]
    where, name = (active, "find_matching_entries") if place == "as rules are asked" else (applier, "build_copy")
    monkeypatch.setattr(where, name, _at_one(getattr(where, name), "odd-one", is_broken))

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        for called in ("first", "odd-one", "second"):
            owner.create(config_map(called, {"a": "1"}))
        here.create(rule("all", CONFIG_MAP, {"match": [{"namespaces": ["default"]}]}))
        await asyncio.sleep(30.0)
        assert here.find("ConfigMap", "first", namespace="default") is not None
        assert here.find("ConfigMap", "odd-one", namespace="default") is None
        assert here.find("ConfigMap", "second", namespace="default") is not None
        status = here.get("ResourceSyncRule", "all")["status"]
        assert CANARY not in str(status)
        assert here.condition("ResourceSyncRule", "all", "Synced")["status"] == "False"
        assert re.search(r"a bug in this program at [a-z_.]+:\d+; please report it", str(status)), status
        is_broken.clear()
        owner.apply(config_map("odd-one", {"a": "2"}))
        await asyncio.sleep(120.0)
        assert here.find("ConfigMap", "odd-one", namespace="default") is not None

    simulate(scenario, n=2)
