"""A daemon that starts again among clusters that answer slowly."""

from __future__ import annotations

import pytest

from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

ROUTES = [("c", "c"), ("c", "a"), ("c", "abc")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("who", "slow"), ROUTES)
def test_a_restart_writes_nothing_however_slowly_it_is_answered(who: str, slow: str, seed: int) -> None:
    """A1: what a status says is about the rule, never about how far the start has come."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["a"].create(rule("plain", CONFIG_MAP))
        group["b"].create(config_map("x", {"value": "1"}))
        await group.settle()
        for server in slow:
            group.wire(who, server).delay_s = (0.3, 1.0)
        await group[who].restart()
        assert not await group.writes_within(60.0)

    simulate(scenario, n=3, seed=seed)
