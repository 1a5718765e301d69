"""A7: two daemons in one cluster, of which one hears of changes of the rules later than the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member, Replica

LATE_S = 2.0


async def two_daemons(group: SimGroup) -> tuple[Member, Member, Replica]:
    """Let a cluster with two daemons, of which the second hears of our own kinds late, copy from another one."""
    here, owner = group.members
    here.has_pods = True
    await group.join()
    second = here.start_second()
    await group.settle()
    ear = second._ear
    assert ear is not None
    hear = ear._on_event
    ear._on_event = lambda *event: asyncio.get_running_loop().call_later(LATE_S, hear, *event)
    for name in "xyz":
        owner.create(config_map(name, {"n": "1"}))
    return here, owner, second


def copying(**mutations: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"match": [{"objectKey": {"namespace": "default"}}]}
    return rule("maps", CONFIG_MAP, {**entry, "mutations": mutations} if mutations else entry, deletionPolicy="Delete")


def renaming(suffix: str) -> dict[str, Any]:
    return {
        "overrides": [
            {"type": "replace", "path": "/metadata/name", "value": f"{{{{ .Object.metadata.name }}}}{suffix}"}
        ]
    }


def changes_of_copies(here: Member, since: int) -> list[tuple[str, str]]:
    journal = here.server.journal[since:]
    return [(write.verb, write.key.name) for write in journal if write.kind == "ConfigMap" and write.changed]


@pytest.mark.clause("A7")
def test_a_late_daemon_does_not_delete_what_the_other_one_made_under_a_new_name() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _, _ = await two_daemons(group)
        here.create(copying())
        await group.settle()
        before = len(here.server.journal)
        here.apply(copying(**renaming("-new")))
        await group.settle()
        names = sorted(found["metadata"]["name"] for found in here.list("ConfigMap"))
        assert names == ["x-new", "y-new", "z-new"]
        assert not [name for verb, name in changes_of_copies(here, before) if verb == "delete" and "-new" in name]

    simulate(scenario, n=2)


@pytest.mark.clause("A7")
def test_a_late_daemon_does_not_put_a_copy_back_to_what_its_rule_made_before() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _, _ = await two_daemons(group)
        here.create(copying(labels={"add": {"as": "before"}}))
        await group.settle()
        before = len(here.server.journal)
        here.apply(copying(labels={"add": {"as": "after"}}))
        await group.settle()
        assert {found["metadata"]["labels"]["as"] for found in here.list("ConfigMap")} == {"after"}
        assert len(changes_of_copies(here, before)) == 3

    simulate(scenario, n=2)


@pytest.mark.clause("A7")
def test_a_late_daemon_deletes_with_the_rule_that_it_has_heard_of() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner, second = await two_daemons(group)
        here.create(copying())
        await group.settle()
        here.apply(copying(**renaming("-new")))
        await group.settle()
        here.first.kill()
        await asyncio.sleep(5.0)
        owner.delete("ConfigMap", "x", namespace="default")
        await group.settle()
        assert second.runs
        assert sorted(found["metadata"]["name"] for found in here.list("ConfigMap")) == ["y-new", "z-new"]

    simulate(scenario, n=2)
