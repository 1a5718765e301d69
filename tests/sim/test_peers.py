"""The link to a peer: it ends when it is told to. P6, P7."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.core.peer_health import PeerHealth
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.transport import Fault


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
