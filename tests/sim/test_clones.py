"""Two clusters with one ID: what people are told, and what they cannot do by mistake. P1, O6."""

from __future__ import annotations

import asyncio

import pytest

from registry_controller.api.errors import BadInput
from registry_controller.api.meta import ObjectKey
from registry_controller.planner.explain import explain
from tests.sim.farewells import declare, held, stones
from tests.sim.group import CONFIG_MAP, SimGroup, config_map, hand_over, rule, simulate
from tests.sim.rehearsing import rehearsing
from tests.sim.transport import Fault

ID = "0c10ed00-0000-4000-8000-000000000000"
CLONES = {"b": ID, "c": ID}
SAID = f"two API servers have the ID {ID}, as b, c: one is a clone; delete one of these Clusters"


async def _cloned(group: SimGroup) -> None:
    """Let a hold a copy of b's object, and a Cluster of each of the two."""
    a, b, c = group.members
    group.start()
    await group.settle()
    hand_over(b, a)
    a.create(rule("all", CONFIG_MAP))
    b.create(config_map("copied", {"at": "b"}))
    await group.settle()
    assert held(a) == {"copied"}
    hand_over(c, a)
    await asyncio.sleep(5.0)
    for name in CLONES:
        assert group["a"].condition("Cluster", name, "LocalConflict")["message"] == SAID


@pytest.mark.parametrize("name", CLONES)
@pytest.mark.parametrize("silent", [True, False])
def test_of_a_clone_nobody_can_say_that_it_has_left(name: str, silent: bool) -> None:
    """P1, O6: it would be said of the other one, too, whichever of them is meant and whether or not it answers."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        if silent:
            group.fail(name, Fault.REFUSED)
            await asyncio.sleep(120.0)
        before = len(group["a"].writes)
        with pytest.raises(BadInput, match=f"Cluster {name}: two API servers have its ID .* delete the Cluster"):
            await declare(group, name, at="a")
        assert not [write for write in group["a"].writes[before:] if write.verb != "patch"]
        assert not any(stones(member) for member in group.members)
        assert held(group["a"]) == {"copied"}

    simulate(scenario, n=3, uids=CLONES)


def test_a_copy_whose_owner_is_cloned_says_that_this_is_why_nothing_becomes_of_it() -> None:
    """P1, S1: no rule is said to ask for it no more."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        async with rehearsing(group, "a") as rehearsal:
            kind, gvr = await rehearsal.engine.discovery.find("configmap")
            found = await explain(rehearsal, kind, gvr, ObjectKey("default", "copied"))
        (row,) = found.outlook
        assert (row.reason, row.words) == ("NoLongerWanted", f"its owner is not believed here: {SAID}; the copy stays")

    simulate(scenario, n=3, uids=CLONES)
