"""Plans and explanations on a simulated group."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from registry_controller import settings
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.writer import DRY_RUNNING, Writer
from registry_controller.planner.dry_run import DryRun, start_dry_run
from registry_controller.planner.explain import Explanation, explain_object
from registry_controller.planner.output import ClusterNames
from registry_controller.planner.plan import Plan, PlanAction, make_plan
from tests.sim.cluster.apiserver import Write
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.member import NAMESPACE
from tests.sim.cluster.transport import SimTransport

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Change = tuple[str, str, str, str]


@contextlib.asynccontextmanager
async def open_dry_run(group: SimGroup, at: str, *rules: Manifest, wait_s: float = 20.0) -> AsyncIterator[DryRun]:
    """Yield a dry run at a member, as its admin starts one from another machine."""

    def connect(credentials: Credentials) -> Reader:
        wire = group.wire_to(at, credentials.server)
        transport: Any = SimTransport(wire, token=credentials.token, methods=READING, life=life)
        return Reader(transport)

    life = group.begin_life(f"the dry run at {at}")
    transport: Any = SimTransport(group.wire(at, at), token=None, methods=DRY_RUNNING, life=life)
    local_client = Writer(transport)
    options = settings.load({"NAMESPACE": NAMESPACE, **group[at].options}, {})
    try:
        async with start_dry_run(
            options, local_client=local_client, manifests=rules, now=NOW, wait_s=wait_s, connect_peer=connect
        ) as dry_run:
            yield dry_run
    finally:
        await local_client.close()


async def explained(
    group: SimGroup, kind: str, name: str, *, namespace: str = "default", at: str = "a"
) -> tuple[Explanation, ClusterNames]:
    """Explain an object; return the explanation and the names of clusters for its text."""
    async with open_dry_run(group, at) as dry_run:
        found, gvr = await dry_run.engine.discovery.find(kind)
        return await explain_object(dry_run, found, gvr, ObjectKey(namespace, name)), ClusterNames(dry_run.engine)


async def plan(group: SimGroup, at: str, *rules: Manifest, wait_s: float = 20.0) -> Plan:
    """Plan what rules would do."""
    async with open_dry_run(group, at, *rules, wait_s=wait_s) as dry_run:
        return await make_plan(dry_run, [rule["metadata"]["name"] for rule in rules], now=NOW)


def planned(found: Plan) -> Sequence[Change]:
    """List what a plan would write."""
    writes = {PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE}
    return sorted((row.action.value, row.target.kind, *row.target.key) for row in found.rows if row.action in writes)


_COPIED = frozenset({"Widget", "Gadget", "ConfigMap", "Namespace"})


def changed(writes: Collection[Write], *, who: str, kinds: Collection[str] = _COPIED) -> Sequence[Change]:
    """List what became of objects by a daemon's writes, but for what it says itself and its own objects."""
    verbs: dict[tuple[str, ...], set[str]] = {}
    for write in writes:
        if write.who == who and write.changed and write.kind in kinds:
            verbs.setdefault((write.kind, *write.key), set()).add(write.verb.partition(" ")[0])
    return sorted(
        ("create" if found == {"create", "update"} else "/".join(sorted(found)), kind, namespace, name)
        for (kind, namespace, name), found in verbs.items()
    )
