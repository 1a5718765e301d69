"""What people do in a schedule to the Secret in which a member publishes how it is read. P7."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

from registry_controller.api import meta
from tests.sim.checks.convergence import Wrong
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.drawing import another
from tests.sim.schedule.member_acts import has_one_name, rotates
from tests.sim.schedule.stage import Stage, deed

_CHECKED_S = 1.5
_FOUND_S = 25.0
"""So long it may take to notice that credentials are refused, and to find others: silence, a probe, then questions."""


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
    _check_later(stage, member, readers, after_s=_CHECKED_S, words="since its Cluster names another Secret")
    return True


@deed(another, weight=0)
def has_what_works_under_another_name(stage: Stage, member: Member, peer: str) -> bool:
    """Revoke what a peer has published, and make a second Cluster of it here, with a Secret that works.

    Both are taken away at the end. Not while the peer has other names, or this one does not read it.
    """
    other, called = stage.group[peer], f"{peer}-fresh"
    if (
        not _reads_well(stage, member, other)
        or stage.group.clones
        or not has_one_name(stage, other)
        or member.find("Cluster", called)
    ):
        return False
    token = f"fresh-{other.server.store.new_uid()}"
    made = _with_token(other, token)
    if made is None or not rotates(stage, other):
        return False
    other.server.tokens.add(token)
    info = {"name": called, "annotations": {meta.SYNC_DISABLED: "true"}}
    reference = {"secretRef": {"name": called, "namespace": NAMESPACE}}
    member.create({**made, "metadata": {**info, "namespace": NAMESPACE}})
    member.create({"kind": "Cluster", "metadata": info, "spec": {"clusterID": other.id, "authInfo": reference}})

    def forget() -> None:
        for kind, namespace in (("Cluster", ""), ("Secret", NAMESPACE)):
            if member.find(kind, called, namespace=namespace) is not None:
                member.delete(kind, called, namespace=namespace)
        other.server.tokens.discard(token)

    stage.at_the_end(forget)
    reader = [(member, member.daemon)]
    _check_later(stage, other, reader, after_s=_FOUND_S, words=f"although the Secret of {called} there works")
    return True


def _with_token(member: Member, token: str) -> dict[str, Any] | None:
    """Write what a member publishes, with another token; None where it publishes none that counts."""
    secret = member.find("Secret", member.published, namespace=NAMESPACE)
    held = member.find("Secret", f"{READER}-token", namespace=NAMESPACE)
    if secret is None or held is None or not (held.get("data") or {}).get("token"):
        return None
    text = base64.b64decode(secret["data"][meta.KUBECONFIG_KEY]).decode()
    now = base64.b64decode(held["data"]["token"]).decode()
    data = {meta.KUBECONFIG_KEY: base64.b64encode(text.replace(now, token).encode()).decode()}
    return {"kind": "Secret", "type": meta.REGISTRY_SECRET_TYPE, "data": data} if now in text else None


def _readers(stage: Stage, member: Member) -> list[tuple[Member, object]]:
    """List those that read a member now over a way that is whole, with their daemons."""
    return [(one, one.daemon) for one in stage.group.members if one is not member and _reads_well(stage, one, member)]


def _reads_well(stage: Stage, one: Member, member: Member) -> bool:
    """Say whether one reads a member over a way that is whole, and learns of changes of the Secrets at home."""
    home, way = stage.group.wire(one.name, one.name), stage.group.wire(one.name, member.name)
    hears_secrets = home.fault is Fault.NONE and "secrets" not in {*home.unallowed, *home.narrowed, *home.stuck}
    return _reads(one, member) and way.fault is Fault.NONE and hears_secrets


def _reads(one: Member, member: Member) -> bool:
    peer = one.daemon.engine.clusters.peers.get(member.id) if one.daemon is not None else None
    return peer is not None and peer.is_connected and peer.is_alive and not peer.health.refused


def _is_disputed(one: Member, found: Manifest) -> bool:
    """Say whether another Cluster here names the Secret of a Cluster: then it does not lead to its cluster."""
    reference = found["spec"].get("authInfo", {}).get("secretRef")
    return any(
        other["spec"]["clusterID"] != found["spec"]["clusterID"]
        and other["spec"].get("authInfo", {}).get("secretRef") == reference
        for other in one.list("Cluster")
    )


def _check_later(
    stage: Stage, member: Member, readers: Sequence[tuple[Member, object]], *, after_s: float, words: str
) -> None:
    """P7: who reads a member still reads it a little later, where nothing else has happened since."""
    count = _happened(stage)
    was_rotated = stage.tally.deeds["rotates"] + stage.tally.deeds["has what works under another name"] > 0

    def check() -> None:
        if _happened(stage) != count + 1 or was_rotated or stage.is_mended:
            return
        for one, daemon in readers:
            found = one.find("Cluster", member.name)
            marks = (found or {}).get("metadata", {}).get("annotations") or {}
            if found is None or one.daemon is not daemon or meta.CLUSTER_DISABLED in marks or _is_disputed(one, found):
                continue
            stage.tally.clause("P7")
            if not _reads(one, member):
                stage.observer.broken.append(Wrong("P7", member.name, f"is not read any more at {one.name} {words}"))

    asyncio.get_running_loop().call_later(after_s, check)


def _happened(stage: Stage) -> int:
    return sum(stage.tally.deeds.values()) + sum(stage.tally.faults.values())
