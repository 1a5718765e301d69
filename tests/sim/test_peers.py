"""The link to a peer: its loss is reported soon, and it ends when it is told to. P5, P6, P7."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from registry_controller.clusters.dialer import PROBE_TIMEOUT_S
from registry_controller.core.peer_health import SILENCE_S, PeerHealth
from registry_controller.report.metrics import PREFIX
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault

_DOWN_WITHIN_S = 30.0
_WARNED_EVERY_S = 60.0


class Warnings(logging.Handler):
    """The warnings of the daemons, each with the virtual time of its line in seconds."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((asyncio.get_running_loop().time(), record.getMessage()))


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    logger, handler = logging.getLogger("registry_controller"), Warnings()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def is_up(member: Member, peer: str) -> bool:
    """Read the metric of a peer, as a scrape of the member's daemon shows it."""
    assert member.daemon is not None
    lines = member.daemon.gauges.render("")[0].decode().splitlines()
    (found,) = (line.rpartition(" ")[2] for line in lines if line.startswith(f'{PREFIX}peer_up{{peer="{peer}"}}'))
    return float(found) == 1.0


@pytest.mark.parametrize(
    ("fault", "warned_within_s"),
    [
        (Fault.REFUSED, 1.0),  # the watches end, and no new one opens
        (Fault.HUNG, SILENCE_S + PROBE_TIMEOUT_S),  # nothing ends: the first probe without an answer shows it
    ],
)
def test_a_peer_that_cannot_be_reached_is_warned_of_once_and_down_within_30_s(
    fault: Fault, warned_within_s: float, warnings: Warnings
) -> None:
    """P5: at any time after the last signal, a warning at the first request without an answer, then `peer_up` 0."""

    async def scenario(group: SimGroup) -> None:
        loop = asyncio.get_running_loop()
        await group.join()
        for quiet_s in (0.0, 3.0, 6.0, 9.0, 12.0):
            await asyncio.sleep(_WARNED_EVERY_S + quiet_s)
            assert is_up(group["a"], "b")
            warnings.lines.clear()
            began_s = loop.time()
            group.wire("a", "b").set(fault)
            while is_up(group["a"], "b"):
                await asyncio.sleep(0.1)
                assert loop.time() <= began_s + _DOWN_WITHIN_S, f"up after a silence of {quiet_s} s"
            await asyncio.sleep(2 * _WARNED_EVERY_S)
            assert [line.partition(" peer=")[0] for _, line in warnings.lines] == [
                "peer does not answer", "peer unreachable",
            ]  # fmt: skip
            assert all(" peer=b " in line for _, line in warnings.lines)
            assert warnings.lines[0][0] <= began_s + warned_within_s
            assert is_up(group["c"], "b")
            group.wire("a", "b").set(Fault.NONE)
            await group.settle()

    simulate(scenario, n=3)


def test_a_link_that_is_taken_away_as_it_is_lost_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: else it would be dialled for ever, by nobody's wish, and the daemon could not stop."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        daemon = group["a"].daemon
        assert daemon is not None
        supervisor, peer = daemon.engine.clusters, group["b"].id
        link, task = supervisor.peers[peer], supervisor._tasks[peer]
        judge = PeerHealth.probe_failed

        def judge_and_take_away(health: PeerHealth, *args: Any, **options: Any) -> bool:
            if health is link.health and not task.cancelling():
                task.cancel()
                return True
            return judge(health, *args, **options)

        monkeypatch.setattr(PeerHealth, "probe_failed", judge_and_take_away)
        group.wire("a", "b").set(Fault.REFUSED)
        await asyncio.sleep(60.0)
        assert task.done()

    simulate(scenario, n=2)
