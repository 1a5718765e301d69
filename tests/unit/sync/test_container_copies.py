"""O1: no copy that this daemon knows, or creates, goes with its container."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.errors import (
    Conflict,
    DeletionPending,
    Forbidden,
    RegistryError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from registry_controller.api.meta import GVK, GVR, GroupKind, ObjectKey, Target
from registry_controller.core.decision.state import Content
from registry_controller.sync.container_copies import ContainerCopies
from registry_controller.sync.replaced_copies import ReplacedCopies
from tests.sim.cluster.loop import run

TEAM = Target("", "Namespace", "", "team")
RELICS = Target("apiextensions.k8s.io", "CustomResourceDefinition", "", "relics.sim.example")
RELIC, MAP = GVK("sim.example", "v1", "Relic"), GVK("", "v1", "ConfigMap")
SPACE = GVK("", "v1", "Namespace")
RELIC_GVR, MAP_GVR = GVR("sim.example", "v1", "relics", True), GVR("", "v1", "configmaps", True)
OWN_MAP = Target("", "ConfigMap", "team", "one")
OWN_RELIC = Target("sim.example", "Relic", "team", "old")


class Cache:
    """The copies of one kind here; it may not be watched now."""

    def __init__(self, kind: GVK) -> None:
        self.kind = kind
        self.records: dict[ObjectKey, Any] = {}
        self.is_served = True

    @property
    def namespaces(self) -> Counter[str]:
        return Counter(key.namespace for key in self.records)

    def target(self, key: ObjectKey) -> Target:
        return Target(self.kind.group, self.kind.kind, *key)


class Bench:
    """Namespaces, and two kinds, of which copies may be here. `claimed` are containers whose source is there."""

    def __init__(self) -> None:
        self.maps, self.relics, self.spaces = Cache(MAP), Cache(RELIC), Cache(SPACE)
        self.replaced = ReplacedCopies()
        self.claimed = set[Target]()
        by_kind = {(one.kind.group, one.kind.kind): one for one in (self.maps, self.relics, self.spaces)}
        copies: Any = SimpleNamespace(all_held=by_kind.values, held=lambda group, kind: by_kind.get((group, kind)))
        self.containers = ContainerCopies(
            copies=copies, replaced=self.replaced, is_claimed=lambda target: target in self.claimed
        )
        self.containers.note_kind(RELICS, GroupKind("sim.example", "Relic"))

    def delete(self, container: Target, *, fails: RegistryError | None = None) -> None:
        with self.containers.deleting(container):
            if fails is not None:
                raise fails

    def create(self, copy: Target, gvr: GVR, *, fails: RegistryError | None = None) -> None:
        with self.containers.creating(copy, gvr):
            if fails is not None:
                raise fails


def test_the_copies_in_a_namespace_or_of_a_definition_are_found() -> None:
    async def scenario() -> None:
        bench = Bench()
        assert bench.containers.find(TEAM) is bench.containers.find(RELICS) is None
        bench.maps.records[ObjectKey("else", "one")] = None
        assert bench.containers.find(TEAM) is bench.containers.find(RELICS) is None
        bench.relics.records[OWN_RELIC.key] = None
        found = Content("Relic team/old lives in it", OWN_RELIC)
        assert bench.containers.find(TEAM) == bench.containers.find(RELICS) == found
        bench.maps.records[OWN_MAP.key] = None
        assert bench.containers.find(TEAM) == found  # as long as it is there, so that a message stays the same
        del bench.relics.records[OWN_RELIC.key]
        assert bench.containers.find(TEAM) == Content("ConfigMap team/one lives in it", OWN_MAP)
        assert bench.containers.find(RELICS) is None

    run(scenario)


def test_a_definition_whose_kind_is_not_known_has_no_known_copy() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.relics.records[OWN_RELIC.key] = None
        bench.containers.forget(RELICS)
        assert bench.containers.find(RELICS) is None

    run(scenario)


@pytest.mark.parametrize("container", [TEAM, RELICS])
def test_a_copy_that_is_to_be_made_again_is_still_there(container: Target) -> None:
    """A2: a quota may refuse it for a while."""

    async def scenario() -> None:
        bench = Bench()
        bench.replaced.keep(OWN_RELIC, None, why="a changed field is immutable")
        assert bench.containers.find(container) == Content("Relic team/old lives in it", OWN_RELIC)
        bench.replaced.forget(OWN_RELIC)
        assert bench.containers.find(container) is None

    run(scenario)


def test_a_container_is_due_when_the_copy_goes_that_was_found_in_it() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.relics.records[OWN_RELIC.key] = None
        assert bench.containers.containers_that_wait_for(OWN_RELIC) == []
        assert bench.containers.find(TEAM) is not None
        assert bench.containers.containers_that_wait_for(OWN_RELIC) == [TEAM]
        assert bench.containers.containers_that_wait_for(OWN_MAP) == []
        bench.containers.forget(TEAM)
        assert bench.containers.containers_that_wait_for(OWN_RELIC) == []

    run(scenario)


@pytest.mark.parametrize("container", [TEAM, RELICS])
def test_no_container_is_deleted_with_a_known_copy_or_while_one_is_created(container: Target) -> None:
    async def scenario() -> None:
        bench = Bench()
        with bench.containers.creating(OWN_RELIC, RELIC_GVR):
            assert bench.containers.find(container) == Content("Relic team/old is being created in it", OWN_RELIC)
            with pytest.raises(Conflict, match="is being created"):
                bench.delete(container)
        bench.delete(container)
        bench.relics.records[OWN_RELIC.key] = None
        with pytest.raises(Conflict, match="Relic team/old lives in it"):
            bench.delete(container)

    run(scenario)


def test_no_copy_is_created_in_a_container_while_its_deletion_is_sent() -> None:
    async def scenario() -> None:
        bench = Bench()
        with bench.containers.deleting(TEAM):
            for copy, gvr in ((OWN_MAP, MAP_GVR), (OWN_RELIC, RELIC_GVR)):
                with pytest.raises(Conflict, match="Namespace team is being deleted"):
                    bench.create(copy, gvr)
            bench.create(Target("", "ConfigMap", "else", "one"), MAP_GVR)
        with bench.containers.deleting(RELICS):
            with pytest.raises(Conflict):
                bench.create(OWN_RELIC, RELIC_GVR)
            bench.create(OWN_MAP, MAP_GVR)
        bench.create(OWN_RELIC, RELIC_GVR)

    run(scenario)


@pytest.mark.parametrize("failure", [Unreachable("no answer"), ServerError("timeout")])
def test_a_creation_without_an_answer_holds_a_deletion_for_a_minute(failure: RegistryError) -> None:
    """The API server may still carry it out, also where it refuses the next one."""

    async def scenario() -> None:
        bench = Bench()
        with pytest.raises(type(failure)):
            bench.create(OWN_MAP, MAP_GVR, fails=failure)
        await asyncio.sleep(30.0)
        with pytest.raises(Forbidden):
            bench.create(OWN_MAP, MAP_GVR, fails=Forbidden("may not"))
        with pytest.raises(Conflict):
            bench.delete(TEAM)
        await asyncio.sleep(31.0)
        bench.delete(TEAM)
        with pytest.raises(Forbidden):
            bench.create(OWN_MAP, MAP_GVR, fails=Forbidden("may not"))
        bench.delete(TEAM)

    run(scenario)


@pytest.mark.parametrize("failure", [Unreachable("no answer"), ServerError("timeout")])
@pytest.mark.parametrize("refusal", [Forbidden("may not"), TooManyRequests("busy"), Conflict("changed")])
def test_a_deletion_without_an_answer_holds_creations_for_a_minute(
    failure: RegistryError, refusal: RegistryError
) -> None:
    """The API server may still carry it out, also where it refuses the next one."""

    async def scenario() -> None:
        bench = Bench()
        with pytest.raises(type(failure)):
            bench.delete(TEAM, fails=failure)
        await asyncio.sleep(30.0)
        with pytest.raises(type(refusal)):
            bench.delete(TEAM, fails=refusal)
        with pytest.raises(DeletionPending) as raised:
            bench.create(OWN_MAP, MAP_GVR)
        assert raised.value.retry_after_s == pytest.approx(30.0)
        await asyncio.sleep(30.0)
        bench.create(OWN_MAP, MAP_GVR)
        with pytest.raises(type(refusal)):
            bench.delete(TEAM, fails=refusal)
        bench.create(OWN_MAP, MAP_GVR)
        with pytest.raises(type(failure)):
            bench.delete(TEAM, fails=failure)
        bench.delete(TEAM)
        bench.create(OWN_MAP, MAP_GVR)

    run(scenario)


def test_a_deletion_that_gets_no_answer_again_and_again_gives_way_to_a_creation() -> None:
    async def scenario() -> None:
        bench = Bench()
        with pytest.raises(Unreachable):
            bench.delete(TEAM, fails=Unreachable("no answer"))
        with pytest.raises(DeletionPending) as raised:
            bench.create(OWN_MAP, MAP_GVR)
        waited_s = 0.0
        while waited_s < raised.value.retry_after_s + 50.0:
            with pytest.raises(Conflict, match="ConfigMap team/one is being created"):
                bench.delete(TEAM)
            await asyncio.sleep(10.0)
            waited_s += 10.0
        await asyncio.sleep(11.0)
        bench.delete(TEAM)

    run(scenario)


@pytest.mark.parametrize("is_claimed", [False, True])
@pytest.mark.parametrize("is_copy", [False, True])
def test_an_earlier_daemon_may_have_sent_the_deletion_of_a_copied_namespace(is_copy: bool, is_claimed: bool) -> None:
    """Only of one whose source is not there, and for a minute."""

    async def scenario() -> None:
        bench = Bench()
        bench.spaces.records[TEAM.key] = SimpleNamespace(marks=SimpleNamespace(is_copy=is_copy))
        bench.claimed |= {TEAM} if is_claimed else set()
        if is_copy and not is_claimed:
            with pytest.raises(DeletionPending):
                bench.create(OWN_MAP, MAP_GVR)
            with pytest.raises(Conflict, match="is being created"):
                bench.delete(TEAM)
            await asyncio.sleep(60.0)
        bench.create(OWN_MAP, MAP_GVR)
        bench.delete(TEAM)

    run(scenario)


def test_the_records_of_a_kind_that_is_not_served_show_nothing() -> None:
    """Its objects may be gone with its definition; a search asks the API server."""

    async def scenario() -> None:
        bench = Bench()
        bench.relics.records[OWN_RELIC.key] = None
        assert bench.containers.find(TEAM) is not None
        bench.relics.is_served = False
        assert bench.containers.find(TEAM) is bench.containers.find(RELICS) is None
        bench.relics.is_served = True
        assert bench.containers.find(TEAM) is not None

    run(scenario)
