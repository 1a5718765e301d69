"""What is looked at in each write of a schedule, where an API server stores something else than it was sent. A9."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from registry_controller.core.mutation.left_fields import digest_paths
from tests.sim.checks.history import Entry
from tests.sim.checks.invariants import Guards
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.habits import Habit
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.store import Change
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import LEFT


def _copy(value: str | None) -> dict[str, Any]:
    named = {"kind": "Widget", "name": "one", "namespace": "default"}
    said = {
        "source": {**named, "uid": "u"},
        "copy": {**named, "group": "sim.example"},
        "left": digest_paths((("spec", LEFT),)),
    }
    annotations = {meta.OWNER: "owner", meta.PROVENANCE: orjson.dumps(said).decode()}
    spec = {} if value is None else {LEFT: value}
    return {
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "default", "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize(("value", "is_lost"), [("small", False), ("SMALL", False), ("LARGE", True), (None, True)])
def test_a_left_value_that_the_api_server_spells_otherwise_is_not_lost(value: str | None, is_lost: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        member, broken, kind = group["a"], list[str](), BY_KIND["Widget"]
        member.server.habits.add("Widget", Habit.NORMALISES, "spec", LEFT)
        guards = Guards(Tally(), lambda clause, _, __: broken.append(clause), is_order=lambda _, __: False)
        before = _copy("small")
        change = Change(2, kind, ObjectKey("default", "one"), before, _copy(value), before)
        guards.see(Entry(0.0, "a", "a", change), member, "Widget default/one at a")
        assert broken == ["A9"] * is_lost

    simulate(scenario, n=1)
