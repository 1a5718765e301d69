"""What the observer holds a daemon to once a server said when it is to be asked again. A4."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.sim.checks.observer import Observer
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.group import SimGroup, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.tally import Tally

pytestmark = pytest.mark.clause("A4")

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
ONE_WAY_S, RETRY_AFTER_S = 1.0, 40
EARLY = "is written before its server wants to be asked again"


def _is_busy_once(server: ApiServer) -> list[str]:
    """Let a server answer its next write of a Widget with a Retry-After; return the paths that it answered so."""
    said = {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}
    busy = Answer(429, orjson.dumps({**said, "details": {"retryAfterSeconds": RETRY_AFTER_S}}))
    answer, answered = server.answer, list[str]()

    def answer_once(method: str, path: str, body: bytes | None, *, who: str, accept: str = "") -> Answer:
        if method == "GET" or "/widgets" not in path or answered:
            return answer(method, path, body, who=who, accept=accept)
        answered.append(path)
        return busy

    server.answer = answer_once  # type: ignore[method-assign]
    return answered


async def _a_source(group: SimGroup) -> tuple[Member, list[str], Observer]:
    """Make a source whose copy is not there yet: each request on the way to the busy server takes a second."""
    here, owner = group["a"], group["b"]
    await group.join()
    here.create(rule("widgets", WIDGET))
    await group.settle()
    answered = _is_busy_once(here.server)
    observer = Observer(group, Tally())
    here.home.delay_s = (ONE_WAY_S, ONE_WAY_S)
    owner.create({"kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"value": "1"}})
    await asyncio.sleep(ONE_WAY_S / 2)
    assert not answered
    return here, answered, observer


def _find_copy(here: Member) -> object:
    return here.find("Widget", "one", namespace="default")


def test_a_daemon_obeys_the_answer_that_reached_it() -> None:
    async def scenario(group: SimGroup) -> None:
        here, answered, observer = await _a_source(group)
        await asyncio.sleep(RETRY_AFTER_S)
        assert answered
        assert _find_copy(here) is None
        await asyncio.sleep(4 * ONE_WAY_S)
        assert _find_copy(here) is not None
        assert not observer.broken

    simulate(scenario, n=2)


def test_the_observer_sees_a_write_that_comes_too_early() -> None:
    async def scenario(group: SimGroup) -> None:
        here, answered, observer = await _a_source(group)
        await asyncio.sleep(2 * ONE_WAY_S)
        (path,) = answered
        here.server.answer("POST", path, orjson.dumps({"metadata": {"name": "one"}}), who=here.name)
        assert ("A4", EARLY) in [(wrong.clause, wrong.words) for wrong in observer.broken]

    simulate(scenario, n=2)


def test_a_daemon_knows_nothing_of_an_answer_to_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request of the dead one arrives when the next one has begun."""

    async def scenario(group: SimGroup) -> None:
        here, answered, observer = await _a_source(group)
        monkeypatch.setattr(here.home, "chance", lambda share: True)
        here.home.delay_s = (0.001, 0.02)
        here.kill()
        here.start()
        await asyncio.sleep(0.001)
        assert answered
        await asyncio.sleep(RETRY_AFTER_S / 2)
        assert _find_copy(here) is not None
        assert not observer.broken

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "lost"])
def test_a_daemon_knows_nothing_of_an_answer_that_did_not_come_back(is_cut_off: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        here, answered, observer = await _a_source(group)
        await asyncio.sleep(ONE_WAY_S)
        assert answered
        if is_cut_off:
            here.home.set(Fault.REFUSED)
        else:
            here.home.lost = 1
        await asyncio.sleep(ONE_WAY_S)
        here.home.set(Fault.NONE)
        await asyncio.sleep(RETRY_AFTER_S / 2)
        assert _find_copy(here) is not None
        assert not observer.broken

    simulate(scenario, n=2)
