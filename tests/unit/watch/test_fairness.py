"""Turns: however many tasks have long work, the loop turns between two pieces of it."""

from __future__ import annotations

import asyncio
import contextlib

from registry_controller.watch.fairness import EvaluationLimiter, KindLimiter
from tests.sim.cluster.loop import VirtualLoop, virtual

LONG_S = 0.02
TURN_S = 0.0001


def spend(seconds: float) -> None:
    """Let time pass while nobody else runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.advance(seconds)


def work() -> None:
    """Keep the loop to ourselves for longer than a turn."""
    spend(LONG_S)


class Witness:
    """Writes down who worked, and when the loop turned."""

    def __init__(self) -> None:
        self.turns = EvaluationLimiter()
        self.seen: list[str] = []
        self.lost_s = 0.0  # after all pieces but the first, to whatever else the machine does

    async def labour(self, sort: str, pieces: int, *, long: bool = True) -> None:
        breath = KindLimiter(self.turns, sort)
        for number in range(pieces):
            await breath.wait()
            with breath.measure():
                if long:
                    work()
            self.seen.append(sort)
            if number:
                spend(self.lost_s)

    async def watch(self) -> None:
        while True:
            self.seen.append("turn")
            await asyncio.sleep(0)
            spend(TURN_S)

    async def during(self, **pieces: int) -> None:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self.watch(), name="watch")
            async with asyncio.TaskGroup() as labours:
                for sort, count in pieces.items():
                    for number in range(count):
                        labours.create_task(self.labour(sort, 2, long=sort != "quick"), name=f"{sort} {number}")
            watch.cancel()


@virtual
async def test_no_two_long_pieces_of_a_sort_follow_each_other() -> None:
    """Even when all tasks were ready at once, the first piece of each is not known to be long, and no pause is left."""
    witness = Witness()
    witness.lost_s = LONG_S
    await witness.during(long=8)
    assert witness.seen.count("long") == 16
    pairs = list(zip(witness.seen, witness.seen[1:], strict=False))
    assert ("long", "long") not in pairs


@virtual
async def test_what_is_quick_waits_for_nobodys_pause() -> None:
    witness = Witness()
    await witness.during(long=8, quick=8)
    last_quick = len(witness.seen) - witness.seen[::-1].index("quick")
    assert witness.seen[:last_quick].count("long") <= 2


@virtual
async def test_a_sort_is_quick_again_when_a_piece_of_it_was() -> None:
    turns = EvaluationLimiter()
    with turns.measure("it"):
        work()
    await turns.wait("it")
    with turns.measure("it"):
        pass
    for _ in range(2):  # the second time it is no surprise
        with turns.measure("other"):
            work()
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(turns.wait("it"), name="take")
        await asyncio.sleep(0)
        assert taking.done()


@virtual
async def test_sorts_that_become_long_together_do_not_follow_each_other() -> None:
    """Whoever makes many sorts quick again, and then all long at once, gets one long piece at a time all the same."""
    witness = Witness()
    sorts = [f"s{number}" for number in range(12)]
    for sort in sorts:
        with witness.turns.measure(sort):
            pass

    async def at_once(sort: str) -> None:
        await witness.turns.wait(sort)
        with witness.turns.measure(sort):
            work()
        witness.seen.append("long")

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(witness.watch(), name="watch")
        async with asyncio.TaskGroup() as labours:
            for sort in sorts:
                labours.create_task(at_once(sort), name=sort)
        watch.cancel()
    longest = max(len(run) for run in "".join("l" if seen == "long" else " " for seen in witness.seen).split())
    assert longest <= 4


@virtual
async def test_who_takes_a_turn_hears_whether_others_may_have_run() -> None:
    turns = EvaluationLimiter()
    assert not await turns.wait("it")
    with turns.measure("it"):
        work()
    assert await turns.wait("it")
    with turns.measure("it"):
        pass
    assert not await turns.wait("it")


@virtual
async def test_who_waits_and_is_cancelled_holds_up_nobody() -> None:
    turns = EvaluationLimiter()
    with turns.measure("it"):
        work()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = [group.create_task(turns.wait("it"), name=f"take {number}") for number in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()
        waiting[1].cancel()
    assert [task.cancelled() for task in waiting] == [True, True, False]


@virtual
async def test_an_error_in_a_piece_does_not_hide_how_long_it_took() -> None:
    turns = EvaluationLimiter()
    with contextlib.suppress(ValueError), turns.measure("it"):
        work()
        raise ValueError
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(turns.wait("it"), name="take")
        await asyncio.sleep(0)
        assert not taking.done()
