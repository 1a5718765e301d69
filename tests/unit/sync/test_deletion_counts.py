"""W4: which deletions count each time, who counts them, and the limit of an owner over all rules; time is virtual."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.meta import ALLOW_DELETIONS, CLUSTER, GVK, Target
from registry_controller.cache.stored_objects import StoredCluster
from registry_controller.core.decision.decision import Apply, Decision, Delete, Halt, NeedsProof, Reason
from registry_controller.core.decision.deletion_limit import Charge, LimitVerdict, Window, spell, stored_form
from registry_controller.core.decision.state import Origin
from registry_controller.sync.deletion_count import DeletionCount, Judged
from registry_controller.sync.deletion_history import DeletedPlaces, RuleOrders
from tests.sim.cluster.loop import run
from tests.unit.sync.test_deletion_limiter import (
    BEGIN,
    JUDGED,
    ORIGIN,
    OWNER,
    RULE,
    Bench,
    count_halted,
    delete,
    doubtful,
    name,
    presumed,
)

pytestmark = pytest.mark.clause("W4")


class Clock:
    """A clock in seconds."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def not_selected(target: Target) -> Delete:
    return Delete(target.name, 1, Reason.NOT_SELECTED, OWNER)


def moved(target: Target) -> Delete:
    return Delete(target.name, 1, Reason.MOVED, OWNER)


def rule_gone(target: Target) -> Delete:
    return Delete(target.name, 1, Reason.RULE_GONE, OWNER)


def decided(decision: Decision, **origin: Any) -> Any:
    """Return a function that decides so about any copy."""
    return lambda target: (SimpleNamespace(origin=Origin(rule=RULE, **origin)), (), decision)


def never(target: Target) -> Any:
    raise AssertionError(f"{target} is known")


def go(bench: Bench, target: Target, decide: Any = never) -> None:
    """Let a copy go, as the watch shows it."""
    bench.limiter.note_gone(target, decide)
    bench.here.discard(target)


def counted(bench: Bench) -> int:
    form = bench.limiter.stored_form(ORIGIN)
    return int((form or {}).get("counted", 0))


async def let_go(bench: Bench, decision_of: Any, count: int) -> None:
    bench.limit(decision_of, count)
    await asyncio.sleep(0.1)
    for target in await bench.drain():
        bench.limiter.limit(target, decision_of(target), rule=RULE)
        go(bench, target)


def test_what_goes_again_and_again_is_halted() -> None:
    async def scenario() -> None:
        bench = Bench(45)
        everything = set(bench.here)
        await let_go(bench, not_selected, 45)
        assert counted(bench) == 45
        bench.here |= everything
        await asyncio.sleep(1.0)
        assert bench.limit(not_selected, 45) == [JUDGED] * 45
        await asyncio.sleep(0.1)
        assert count_halted(bench.limit(not_selected, 45)) == 45
        bench.store()
        bench.allow(bench.halted_at)
        await asyncio.sleep(0.5)
        assert len(await bench.drain()) == 45

    run(scenario)


def test_a_place_that_is_deleted_twice_counts_the_second_time() -> None:
    async def scenario() -> None:
        bench = Bench(45)
        everything = set(bench.here)
        await let_go(bench, delete, 45)
        assert counted(bench) == 0
        bench.here |= everything
        await let_go(bench, delete, 45)
        assert counted(bench) == 45
        bench.here |= everything
        bench.limit(delete, 6)
        await asyncio.sleep(0.1)
        assert bench.halted_at

    run(scenario)


def test_an_old_copy_counts_once_its_new_copy_is_gone_again() -> None:
    """Also where it was to go, and did not count, while the new copy was here."""

    async def scenario() -> None:
        bench = Bench(120)
        everything = [moved(name(number)) for number in range(120)]
        assert bench.limit(moved, 120) == everything  # they wait for nothing
        go(bench, name(0))
        assert counted(bench) == 0
        bench.has_others = False
        assert bench.limit(moved, 119, begin=1) == [JUDGED] * 119
        await asyncio.sleep(0.1)
        assert count_halted(bench.limit(moved, 119, begin=1)) == 119
        for number in range(1, 31):
            go(bench, name(number))
        assert counted(bench) == 30
        bench.has_others = True
        assert bench.limit(moved, 89, begin=31) == everything[31:]
        go(bench, name(31))
        assert (counted(bench), bench.halted_at) == (30, "")

    run(scenario)


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (decided(not_selected(name(0))), 30),
        (decided(delete(name(0))), 0),
        (decided(presumed(name(0)), deletes_unwanted=True, saw_match=True), 0),
        (decided(presumed(name(0)), deletes_unwanted=True), 30),
        (decided(presumed(name(0))), 0),
        (decided(Apply(None, Reason.CREATE)), 0),  # type: ignore[arg-type]
    ],
    ids=["its feature is gone", "deleted", "its rule matched", "its rule may be edited", "it may stay", "wanted"],
)
def test_what_another_daemon_of_this_cluster_deletes_is_counted_when_it_is_seen_to_go(
    decide: Any, expected: int
) -> None:
    async def scenario() -> None:
        bench = Bench(45)
        for number in range(30):
            go(bench, name(number), decide)
        assert counted(bench) == expected
        assert bool(bench.changes[RULE]) == bool(expected)

    run(scenario)


def test_of_what_waits_here_and_another_daemon_deletes_the_reason_is_known() -> None:
    async def scenario() -> None:
        bench = Bench(45)
        everything = set(bench.here)
        bench.limit(not_selected, 45)
        for target in everything:
            go(bench, target)
        assert counted(bench) == 45
        await asyncio.sleep(0.1)
        bench.here |= everything
        bench.limit(not_selected, 10)
        await asyncio.sleep(0.1)
        assert bench.halted_at

    run(scenario)


@pytest.mark.parametrize(("saw_match", "expected"), [(False, 30), (True, 0)])
def test_a_deletion_that_is_not_proven_here_counts_as_that_of_another_daemon(saw_match: bool, expected: int) -> None:
    """This daemon has let it go, and is about to ask the owner; what the other one was told decides."""

    async def scenario() -> None:
        bench = Bench(45)
        bench.limit(presumed, 30)
        await asyncio.sleep(0.1)
        for target in sorted(await bench.drain()):
            assert bench.limiter.limit(target, presumed(target), rule=RULE) == presumed(target)
            go(bench, target, decided(presumed(target), deletes_unwanted=True, saw_match=saw_match))
        assert counted(bench) == expected

    run(scenario)


def test_the_first_deletion_of_a_rule_is_an_order_and_the_second_within_the_window_is_none() -> None:
    clock = Clock()
    orders = RuleOrders(now_s=clock)
    assert [orders.is_first("r") for _ in range(3)] == [True] * 3
    clock.now_s += 1000.0
    assert orders.is_first("r")  # some copies took that long
    orders.note_back("r")
    assert orders.is_first("r")
    orders.note_back("r")
    clock.now_s += 299.0
    assert not orders.is_first("r")
    clock.now_s += 1000.0
    assert not orders.is_first("r")  # it is halted, and time does not let it go
    orders.note_back("r")
    assert orders.is_first("r")
    orders.note_back("other")
    assert orders.is_first("other")


def test_in_its_first_window_a_daemon_believes_that_a_rule_was_deleted_before() -> None:
    clock = Clock()
    orders = RuleOrders(now_s=clock)
    assert not orders.is_first("r", was_repeated=lambda: True)
    assert not orders.is_first("r")
    assert orders.is_first("other", was_repeated=lambda: False)
    clock.now_s += 300.0
    assert orders.is_first("later", was_repeated=lambda: True)


def test_places_are_forgotten_after_the_window() -> None:
    clock = Clock()
    places = DeletedPlaces(now_s=clock)
    places.note(name(0))
    clock.now_s += 200.0
    places.note(name(1))
    assert (places.has(name(0)), places.has(name(1)), places.has(name(2))) == (True, True, False)
    clock.now_s += 100.0
    assert (places.has(name(0)), places.has(name(1))) == (False, True)
    places.note(name(2))
    assert places.has(name(2))


def test_an_order_is_neither_limited_nor_a_loss() -> None:
    async def scenario() -> None:
        bench = Bench(120)
        await let_go(bench, delete, 10)
        assert bench.limit(rule_gone, 100, begin=10) == [rule_gone(name(number)) for number in range(10, 110)]
        for number in range(10, 110):
            go(bench, name(number))
        assert bench.limit(delete, 10, begin=110) == [JUDGED] * 10
        await asyncio.sleep(0.1)
        assert not bench.halted_at

    run(scenario)


class OwnerBench(Bench):
    """A bench whose owner has a Cluster here, whose condition somebody may store."""

    def __init__(self, copies: int) -> None:
        super().__init__(copies)
        self.cluster: dict[str, Any] = {"metadata": {"name": "a"}}
        self.update_registry()
        stored: Any = SimpleNamespace(manifest={"metadata": {}})
        self.registry.rules = {f"{number}": stored for number in range(4)}

    def update_registry(self) -> None:
        """Receive the owner's Cluster as it is stored now."""
        cluster: Any = SimpleNamespace(cluster_id=OWNER, name="a")
        self.registry.clusters = {"a": StoredCluster(cluster, "", {**self.cluster})}

    def limit_by(self, rule: int, count: int, *, begin: int) -> list[Decision]:
        made: list[NeedsProof] = [presumed(name(number)) for number in range(begin, begin + count)]
        return [self.limiter.limit(name(begin + number), one, rule=str(rule)) for number, one in enumerate(made)]

    @property
    def owner_halted_at(self) -> str:
        found = self.limiter.owners.report(OWNER, is_settled=True)
        return found.window.halted_at if found is not None else ""

    def store_cluster(self) -> None:
        found = self.limiter.owners.report(OWNER, is_settled=True)
        assert found is not None
        words = "; counts: " + " ".join(f"{key}={value}" for key, value in stored_form(found.window).items())
        self.cluster["status"] = {"conditions": [{"type": "DeletionHalted", "message": words}]}
        self.update_registry()


def test_the_sets_of_several_rules_are_one_set_for_their_owner() -> None:
    async def scenario() -> None:
        bench = OwnerBench(120)
        for number in range(4):
            assert bench.limit_by(number, 30, begin=30 * number) == [JUDGED] * 30
        await asyncio.sleep(0.1)
        assert bench.owner_halted_at == spell(BEGIN)
        assert len(await bench.drain()) == 120
        assert count_halted(bench.limit_by(0, 30, begin=0), by=CLUSTER) == 30
        assert [bench.limiter.halted(str(number)) for number in range(5)] == [
            *([{OWNER: (Halt(CLUSTER, "a", spell(BEGIN)), 30)}] * 4),
            {},
        ]
        changes = bench.changes.copy()
        await asyncio.sleep(3600.0)
        assert await bench.drain() == set()
        assert bench.changes == changes  # S2
        bench.store_cluster()
        bench.cluster["metadata"]["annotations"] = {ALLOW_DELETIONS: bench.owner_halted_at}
        bench.update_registry()
        bench.limiter.cluster_changed()
        await asyncio.sleep(0.1)
        bench.store_cluster()
        await asyncio.sleep(0.5)
        assert len(await bench.drain()) == 120
        assert not bench.owner_halted_at
        assert not bench.limiter.halted("0")
        assert all(bench.changes[str(number)] > changes[str(number)] for number in range(4))

    run(scenario)


def test_a_halt_of_an_owner_ends_when_fewer_are_to_go() -> None:
    async def scenario() -> None:
        bench = OwnerBench(120)
        for number in range(4):
            bench.limit_by(number, 30, begin=30 * number)
        await asyncio.sleep(0.1)
        assert bench.owner_halted_at
        await bench.drain()
        for number in range(80):
            bench.limiter.withdraw(name(number))
        await asyncio.sleep(0.1)
        assert not bench.owner_halted_at
        assert len(await bench.drain()) == 40

    run(scenario)


def test_a_few_need_no_condition_and_more_wait_until_it_is_stored() -> None:
    async def scenario() -> None:
        bench = OwnerBench(200)
        bench.limit_by(0, 40, begin=0)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 40
        assert bench.limiter.owners.report(OWNER, is_settled=True) is None
        bench.limit_by(1, 40, begin=40)
        await asyncio.sleep(5.0)
        assert await bench.drain() == set()
        bench.store_cluster()
        await asyncio.sleep(0.5)
        assert len(await bench.drain()) == 40

    run(scenario)


def test_of_a_stored_window_more_go_without_a_wait() -> None:
    """W4: the stored start and baseline show after a restart how many copies are missing."""

    async def scenario() -> None:
        bench = OwnerBench(200)
        bench.limit_by(0, 40, begin=0)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 40
        bench.limit_by(1, 20, begin=40)
        await asyncio.sleep(5.0)
        assert await bench.drain() == set()
        bench.store_cluster()
        bench.limiter.cluster_changed()
        await asyncio.sleep(0.02)
        assert len(await bench.drain()) == 20
        bench.limit_by(2, 40, begin=60)
        await asyncio.sleep(0.02)
        assert len(await bench.drain()) == 40
        bench.here -= {name(number) for number in range(100)}
        copies: Any = SimpleNamespace(
            count=bench.__getitem__, by_owner=bench, has=bench.here.__contains__, source_kind=lambda _: None
        )
        bench.limiter = bench.restarted(copies, 50)
        bench.limit_by(3, 1, begin=100)
        await asyncio.sleep(0.1)
        assert bench.owner_halted_at

    run(scenario)


def test_a_restart_knows_what_was_counted_for_an_owner() -> None:
    async def scenario() -> None:
        bench = OwnerBench(200)
        for number in range(90):
            go(bench, name(number), decided(not_selected(name(number))))
        bench.store_cluster()
        copies: Any = SimpleNamespace(
            count=bench.__getitem__, by_owner=bench, has=bench.here.__contains__, source_kind=lambda _: None
        )
        bench.limiter = bench.restarted(copies, 50)
        bench.limit_by(0, 10, begin=100)
        await asyncio.sleep(0.1)
        assert not bench.owner_halted_at
        await bench.drain()
        bench.limit_by(0, 1, begin=110)
        await asyncio.sleep(0.1)
        assert bench.owner_halted_at

    run(scenario)


def test_charges_have_words() -> None:
    assert len({charge.value for charge in Charge}) == 4


def test_a_copy_about_which_nothing_can_be_decided_waits_no_more_once_it_is_gone() -> None:
    def fails(target: Target) -> Any:
        raise ValueError(target)

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(doubtful, 3)
        for number in range(3):
            go(bench, name(number), fails)
        await asyncio.sleep(0.1)
        assert await bench.drain() == set()
        assert not bench.limiter.counted
        assert not bench.changes

    run(scenario)


def test_a_set_of_custom_objects_waits_until_their_server_can_say_that_their_definition_goes() -> None:
    async def scenario() -> None:
        bench = Bench(120)
        bench.source_kind = GVK("example.com", "v1", "Widget")
        for number in range(4):
            bench.limit(presumed, 1, begin=number)
            assert await bench.drain() == set()
            await asyncio.sleep(0.06)
        assert len(await bench.drain()) == 4  # 0.2 s after the first one

    run(scenario)


HALTED = Window(spell(BEGIN), 4, 1, halted_at=spell(BEGIN), is_anew=True)
"""A window that another daemon has halted since a definition was installed again."""


def judged(count: DeletionCount, stored: Window | None, *, allowed: str = "", is_anew: bool = False) -> Judged:
    """Evaluate the deletion of one of four copies, and keep the result."""
    found = count.judge(
        stored=stored, present=4, wanted=1, now=BEGIN, percent=50, allowed=allowed, is_anew=is_anew
    )  # fmt: skip
    count.keep(found)
    return found


def test_a_halt_that_another_daemon_has_stored_holds_here_until_it_is_allowed() -> None:
    count = DeletionCount(None, is_here=lambda _: True)
    assert judged(count, None).verdict is LimitVerdict.GO
    assert judged(count, HALTED).verdict is LimitVerdict.HALT
    assert judged(count, HALTED, allowed=HALTED.halted_at).is_allowed
    again = judged(count, HALTED, allowed=HALTED.halted_at)
    assert (again.verdict, again.is_allowed) == (LimitVerdict.GO, False), "the status is one of earlier"


@pytest.mark.parametrize("was_evaluated", [False, True])
def test_the_end_of_a_halt_for_want_of_deletions_is_the_end_for_those_that_were_evaluated_here(
    was_evaluated: bool,
) -> None:
    """What peers sent may reach one of two daemons later than what the other one has stored."""
    count = DeletionCount(HALTED, is_here=lambda _: True)
    if was_evaluated:
        assert judged(count, HALTED).verdict is LimitVerdict.HALT
    assert count.end_halt()
    assert judged(count, HALTED).verdict is (LimitVerdict.GO if was_evaluated else LimitVerdict.HALT)
