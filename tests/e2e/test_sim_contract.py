"""A real API server keeps the contract that the simulated one is held to (tests/sim): so the simulation is no dream."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.controlplane import Cluster, Group
from registry_controller.kube.writer import connect_local
from tests.e2e.group import CRDS
from tests.sim.checks.contract import CLAUSES, Clause


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Group(1, prefix="contract") as group:
        group[0].kubectl("apply", "--server-side", "-f", str(CRDS))
        group[0].kubectl("wait", "--for=condition=Established", "crd", "--all")
        group[0].apiserver.stop()  # so that it does not remember its first revisions
        group[0].apiserver.start()
        group[0].apiserver.wait_ready(60.0)
        yield group[0]


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_a_real_server_keeps_the_contract(cluster: Cluster, clause: Clause) -> None:
    namespace = clause.__name__.replace("_", "-")[:50]
    cluster.kubectl("create", "namespace", namespace)
    writer = await connect_local(kubeconfig=cluster.kubeconfig)
    try:
        await clause(writer, namespace)
    finally:
        await writer.close()
