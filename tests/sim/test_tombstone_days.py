"""Tombstones to their last day, and beyond it. O6."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from types import ModuleType
from typing import Any

import pytest

from registry_controller import app
from registry_controller.core.decision.tombstones import LASTS, STAYS
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import SimGroup, hand_over, simulate
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import TRUST_S, declare, die_and_be_declared, held, knows, leave, shared, stones

_NOTICED_S = 3700.0  # what nobody hears of is looked at once an hour


class Calendar:
    """The day that it is for everybody: today's, and later as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        calendar = self
        self._later = timedelta()

        class Later(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Any:
                return datetime.now(tz) + calendar._later

        for module in modules:
            monkeypatch.setattr(module, "datetime", Later)

    def turn(self, later: timedelta) -> None:
        self._later += later


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    return Calendar(monkeypatch, app)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_a_tombstone_goes_after_its_last_day_and_nobody_comes_back(calendar: Calendar, seed: int) -> None:
    """O6: not by a member that slept through the leaving and woke on the last day either; who left joins anew."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c, d = group.members
        await c.stop()
        await leave(group, "b", without=("c",))
        calendar.turn(LASTS)
        c.start()
        await asyncio.sleep(_NOTICED_S)
        for member in (a, c, d):
            assert knows(member, "b") == (False, False), member.name
            assert stones(member), member.name
        calendar.turn(STAYS)
        await asyncio.sleep(_NOTICED_S)
        for member in (a, c, d):
            assert stones(member), member.name
        calendar.turn(timedelta(days=1))
        await asyncio.sleep(_NOTICED_S)
        for member in (a, c, d):
            assert not stones(member), member.name
            assert knows(member, "b") == (False, False), member.name
        for name in stones(b):  # its own stays until somebody takes it away
            b.delete("ClusterFeature", name)
        await group.settle()
        hand_over(b, a)
        hand_over(a, b)
        await group.settle()
        for member in group.members:
            assert all(knows(member, other) == (True, True) for other in "abcd"), member.name
            assert held(member) == {"goes", "stays"}, member.name

    simulate(scenario, n=4, seed=seed)


def test_a_dead_member_does_not_come_back_after_the_last_day(calendar: Calendar) -> None:
    """O6: whoever believed that it is gone has nothing of it any more that could come back."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, _, c = group.members
        await die_and_be_declared(group)
        await asyncio.sleep(TRUST_S + 60.0)
        calendar.turn(LASTS + STAYS + timedelta(days=1))
        await asyncio.sleep(_NOTICED_S)
        for member in (a, c):
            assert not stones(member), member.name
            assert knows(member, "b") == (False, False), member.name
            assert held(member) == {"stays"}, member.name

    simulate(scenario, n=3, seed=1)


@pytest.mark.clause("O6")
@pytest.mark.parametrize(
    ("days", "restarts"),
    [
        (100, True),
        (-100, False),
        *(pytest.param(*row, marks=pytest.mark.nightly) for row in ((100, False), (200, True))),
    ],
)
def test_a_clock_that_is_wrong_for_two_hours_brings_no_dead_member_back(days: int, restarts: bool) -> None:
    """The clock is that of one member; another one slept through the departure, and has the dead member's Cluster."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        a, b, c, d = group.members
        await d.stop()
        await b.stop()
        for name in "bd":
            group.fail(name, Fault.REFUSED)
        await asyncio.sleep(60.0)
        await declare(group, "b", at="a")
        await asyncio.sleep(TRUST_S + 60.0)
        assert stones(a)
        assert stones(c)
        a.server.clock_ahead = timedelta(days=days)
        if restarts:
            await a.restart()
        await asyncio.sleep(2 * 3600.0)
        group.fail("d", Fault.NONE)
        d.start()
        await asyncio.sleep(120.0)
        assert knows(a, "b") == (False, False)
        a.server.clock_ahead = timedelta()
        await asyncio.sleep(TRUST_S + _NOTICED_S)
        for member in (a, c, d):
            assert knows(member, "b") == (False, False), member.name
            assert stones(member), member.name

    simulate(scenario, n=4)


@pytest.mark.clause("O6")
@pytest.mark.parametrize("how", ["deleted", "lost"])
def test_a_tombstone_is_withdrawn_by_an_act_and_not_by_its_absence(how: str) -> None:
    """What the etcd of its author lost stands at the others, and comes back from them."""

    async def scenario(group: SimGroup) -> None:
        await shared(group, trust_s=3600)
        a, _, c = group.members
        await die_and_be_declared(group)
        await group.settle()
        (name,) = stones(a)
        assert stones(c) == {name}
        assert knows(c, "b") == (True, True), "it waits"
        if how == "lost":
            await a.stop()
        a.delete("ClusterFeature", name)
        if how == "lost":
            a.start()
        await group.settle()
        back = {found["metadata"]["name"] for found in a.list("ClusterFeature") if "back-" in found["metadata"]["name"]}
        if how == "deleted":
            assert not stones(a) | stones(c)
            assert len(back) == 1
            return
        assert not back
        assert stones(a) == stones(c) == {name}
        await asyncio.sleep(4000.0)
        assert knows(a, "b") == knows(c, "b") == (False, False)

    simulate(scenario, n=3)
