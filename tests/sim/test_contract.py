"""The simulated API server keeps the contract that the real one keeps (tests/e2e/test_sim_contract.py)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from registry_controller.kube.writer import WRITING, Writer
from tests.sim.checks.contract import CLAUSES, Clause
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.controllers import Controllers
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.loop import run
from tests.sim.cluster.transport import Life, SimTransport, Wire


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
def test_the_simulated_server_keeps_the_contract(clause: Clause, seed: int) -> None:
    async def hold() -> None:
        chance = random.Random(seed)
        server = ApiServer("a", chance=chance)
        Controllers(server)
        transport: Any = SimTransport(Wire(server, chance=chance, who="a"), token=None, methods=WRITING, life=Life())
        server.store.create(BY_KIND["Namespace"], "", {"metadata": {"name": "here"}}, manager="kubectl")
        await clause(Writer(transport), "here")

    run(hold)
