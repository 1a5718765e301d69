"""What people do in a schedule to the Secret in which a member publishes how it is read. P7."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from registry_controller.api import meta
from tests.sim.checks.convergence import Wrong
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.stage import Stage, deed

_CHECKED_S = 1.5


@deed(lambda chance, who, names: (chance.choice((0.0, 1.0, 20.0)), chance.random() < 0.5), weight=2)
def names_another_secret(stage: Stage, member: Member, pause_s: float, drops: bool) -> bool:
    """Let the own Cluster name another Secret, which the daemon fills; delete the earlier one in a moment, or never."""
    own = member.find("Cluster", member.name)
    if own is None or member.name in stage.rebuilt or own["metadata"].get("deletionTimestamp"):
        return False
    old = member.published
    new = f"{member.name}-new" if old == member.name else member.name
    readers = _readers(stage, member)
    auth = {"secretRef": {"name": new, "namespace": NAMESPACE}}
    member.replace({**own, "spec": {**own["spec"], "authInfo": auth}})

    def drop() -> None:
        if member.published != old and member.find("Secret", old, namespace=NAMESPACE) is not None:
            member.delete("Secret", old, namespace=NAMESPACE)

    if drops:
        stage.until(pause_s, drop)
    _check_later(stage, member, readers)
    return True


def _readers(stage: Stage, member: Member) -> list[tuple[Member, object]]:
    """List those that read a member now over a way that is whole, with their daemons."""
    return [
        (one, one.daemon)
        for one in stage.group.members
        if one is not member and _reads(one, member) and stage.group.wire(one.name, member.name).fault is Fault.NONE
    ]


def _reads(one: Member, member: Member) -> bool:
    peer = one.daemon.engine.clusters.peers.get(member.id) if one.daemon is not None else None
    return peer is not None and peer.is_connected and peer.is_alive and not peer.health.refused


def _check_later(stage: Stage, member: Member, readers: Sequence[tuple[Member, object]]) -> None:
    """P7: who reads a member still reads it a little later, where nothing else has happened since."""
    count = _happened(stage)

    def check() -> None:
        if _happened(stage) != count + 1 or stage.tally.deeds["rotates"] or stage.is_mended:
            return
        for one, daemon in readers:
            found = one.find("Cluster", member.name)
            marks = (found or {}).get("metadata", {}).get("annotations") or {}
            if found is None or one.daemon is not daemon or meta.CLUSTER_DISABLED in marks:
                continue
            stage.tally.clause("P7")
            if not _reads(one, member):
                words = f"is not read any more at {one.name} since its Cluster names another Secret"
                stage.observer.broken.append(Wrong("P7", member.name, words))

    asyncio.get_running_loop().call_later(_CHECKED_S, check)


def _happened(stage: Stage) -> int:
    return sum(stage.tally.deeds.values()) + sum(stage.tally.faults.values())
