"""The Leases of other members are read with their readers' credentials; what cannot be read is left out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from registry_controller.admin.peer_leases import read_peer_leases
from registry_controller.admin.sites import connect_sites
from registry_controller.api import meta
from tests.unit.admin.api_server import NAMESPACE, running
from tests.unit.admin.test_checks import World, lease


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer: on a machine that is busy, a sound server needs more than five seconds."""
    monkeypatch.setattr("registry_controller.admin.peer_leases._STEP_S", 60.0)


def _set_state(world: World, state: str) -> None:
    world.a.find(meta.CLUSTERS, "b")["status"]["state"] = state


@pytest.mark.parametrize(
    ("change", "versions"),
    [
        (lambda _: None, {"id-of-b": ["0.9.1"]}),
        (lambda world: _set_state(world, "Failed"), {}),
        (lambda world: world.b.drop(meta.LEASES, "cluster-registry-pod", NAMESPACE), {"id-of-b": []}),
        (lambda world: world.b.forbidden.add(("list", "leases")), {"id-of-b": []}),
        (lambda world: world.a.forbidden.add(("get", "secrets")), {"id-of-b": []}),
        (lambda world: world.a.drop(meta.SECRETS, "b", NAMESPACE), {"id-of-b": []}),
        (lambda world: world.a.find(meta.SECRETS, "b", NAMESPACE).update(data={}), {"id-of-b": []}),
        (lambda world: world.a.find(meta.CLUSTERS, "b")["spec"].pop("authInfo"), {"id-of-b": []}),
    ],
    ids=[
        "read", "not-ready", "no-lease", "no-right-there", "no-right-here", "no-secret", "no-kubeconfig", "not-named",
    ],
)  # fmt: skip
async def test_leases_of_peers(
    tmp_path: Path, change: Callable[[World], object], versions: dict[str, list[str]]
) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        world.b.put(meta.LEASES, lease(world.b, ago=timedelta(seconds=20)))
        config = tmp_path / "kubeconfig"
        config.write_text(world.a.kubeconfig, encoding="utf-8")
        change(world)
        async with connect_sites([(config, None)], namespace=None) as sites:
            (site,) = sites.require_all()
            found = await read_peer_leases(site, await site.list_clusters())
    shown = {peer: [one.report.version for one in leases if one.report] for peer, leases in found.items()}
    assert shown == versions
