"""The laws of the workqueue: never twice at once, never a lost event. A4, R3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import Target
from registry_controller.sync.workqueue import WorkQueue

KEYS = [Target("", "ConfigMap", "ns", name) for name in "abc"]
LANES = ["", "one", "two"]
deeds = st.sampled_from(["add", "get", "done", "retry"])
steps = st.lists(st.tuples(deeds, st.sampled_from(KEYS), st.sampled_from(LANES)), max_size=40)
Schedule = list[tuple[str, Target, str]]


async def _drive(schedule: Schedule) -> None:
    queue = WorkQueue(chance=lambda: 0.0)
    running: set[Target] = set()
    unseen: set[Target] = set()  # added, and no run has begun since
    for step, key, lane in schedule:
        if step == "add":
            queue.add(key, lane)
            unseen.add(key)
        elif step == "get" and len(queue):
            got, _ = await queue.get()
            assert got not in running, "a key runs twice at once"
            running.add(got)
            unseen.discard(got)
        elif step == "done" and key in running:
            running.discard(key)
            queue.done(key)
        elif step == "retry" and key in running:
            queue.retry(key)
    for key in list(running):
        queue.done(key)
    while len(queue):
        got, _ = await queue.get()
        unseen.discard(got)
        queue.done(got)
    assert not unseen, "an event was lost"


@given(steps)
def test_a_key_never_runs_twice_at_once_and_no_event_is_lost(schedule: Schedule) -> None:
    """A4, R3."""
    asyncio.run(_drive(schedule))


async def test_a_key_under_an_embargo_waits_it_out() -> None:
    """A4: no event brings a key back before Retry-After is over."""
    queue = WorkQueue(chance=lambda: 0.0)
    queue.add(KEYS[0])
    key, _ = await queue.get()
    queue.retry(key, at_least_s=0.2, not_before=True)
    queue.done(key)
    queue.add(key)
    assert len(queue) == 0
    async with asyncio.timeout(60):
        assert (await queue.get())[0] == key


async def test_events_make_no_wait_longer() -> None:
    """O6, A4: what fails at each of many events waits afterwards as if there had been one."""
    queue = WorkQueue(chance=lambda: 1.0)
    delays = []
    for _ in range(20):
        queue.add(KEYS[0])
        key, _ = await queue.get()
        delays.append(queue.retry(key))
        queue.done(key)
    assert len(set(delays)) == 1
    async with asyncio.timeout(60):
        key, _ = await queue.get()
    assert queue.retry(key) > delays[0]


@given(steps)
def test_a_ticket_has_passed_when_all_that_was_wanted_before_it_was_looked_at(
    schedule: Schedule,
) -> None:
    """W4, A4."""

    async def drive() -> None:
        queue = WorkQueue(chance=lambda: 0.0)
        before: set[Target] = set()  # wanted when the ticket was taken, and not done with since
        ticket = 0
        for number, (step, key, lane) in enumerate(schedule):
            if step == "add":
                queue.add(key, lane)
            elif step == "get" and len(queue):
                await queue.get()
            elif step == "done" and key in queue.running:
                queue.done(key)
                before.discard(key)
            if number == len(schedule) // 2:
                before, ticket = {*queue.running, *queue.waiting}, queue.sequence
            assert queue.has_passed(ticket) == (not before)

    asyncio.run(drive())


async def test_many_workers_share_the_keys() -> None:
    """A4."""
    queue = WorkQueue()
    done: list[Target] = []

    async def work() -> None:
        while True:
            key, _ = await queue.get()
            await asyncio.sleep(0)
            done.append(key)
            queue.done(key)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(work()) for _ in range(3)]
        for key in KEYS:
            queue.add(key)
        while len(done) < len(KEYS):  # noqa: ASYNC110 -- three workers, no event
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
    assert sorted(done) == sorted(KEYS)


def _named(*names: str) -> list[Target]:
    return [Target("", "ConfigMap", "ns", name) for name in names]


async def _take(queue: WorkQueue, count: int) -> list[str]:
    async with asyncio.timeout(60):
        return [(await queue.get())[0].name for _ in range(count)]


async def _taken_only_after(queue: WorkQueue, happen: Callable[[], None]) -> list[str]:
    """Hold that a worker waits until something happens, and tell what it takes then."""
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(_take(queue, 1))
        await asyncio.sleep(0)
        assert not worker.done()
        happen()
        return await worker


async def test_lanes_take_turns() -> None:
    """P6: one member's flood costs the others a turn each."""
    queue = WorkQueue()
    for key in _named(*(f"flood-{number}" for number in range(1000))):
        queue.add(key, "one")
    for key in _named("a", "b"):
        queue.add(key, "two")
    queue.add(_named("c")[0])
    assert set(await _take(queue, 3)) == {"flood-0", "a", "c"}
    assert set(await _take(queue, 2)) == {"flood-1", "b"}
    assert await _take(queue, 2) == ["flood-2", "flood-3"]


async def test_no_lane_takes_all_workers() -> None:
    """P6: what hangs for one member leaves workers to the others."""
    queue = WorkQueue(at_once=2)
    hung = _named("x", "y", "z")
    for key in hung:
        queue.add(key, "one")
    assert await _take(queue, 2) == ["x", "y"]
    free = _named("free")[0]
    assert await _taken_only_after(queue, lambda: queue.add(free, "two")) == ["free"]
    assert await _taken_only_after(queue, lambda: queue.done(hung[0])) == ["z"]


async def test_a_key_that_is_wanted_again_while_it_runs_stays_in_its_lane() -> None:
    """A4."""
    queue = WorkQueue(at_once=1)
    one, two = _named("x", "y")
    queue.add(one, "one")
    await _take(queue, 1)
    queue.add(one, "two")
    queue.add(two, "one")
    queue.done(one)
    assert await _take(queue, 1) == ["y"]
    assert await _taken_only_after(queue, lambda: queue.done(two)) == ["x"]


async def test_a_key_that_failed_comes_back_in_its_lane() -> None:
    """P6, A4: what keeps failing for one member is in nobody else's way."""
    queue = WorkQueue(at_once=1, chance=lambda: 0.0)
    one, two = _named("x", "y")
    queue.add(one, "one")
    await _take(queue, 1)
    queue.retry(one)
    queue.done(one)
    queue.add(two, "one")
    assert await _take(queue, 1) == ["y"]
    await asyncio.sleep(0.1)
    assert set(queue.waiting) == {one}
    assert await _taken_only_after(queue, lambda: queue.done(two)) == ["x"]
