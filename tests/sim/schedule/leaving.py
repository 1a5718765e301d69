"""A group in which members leave, or are said to have left: the command, and what there is to see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from registry_controller import settings
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.kube.writer import WRITING, Writer
from registry_controller.local.client import ClusterClient
from registry_controller.membership.leave import LeaveCommand
from tests.sim.cluster.clock import today
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, hand_over, rule
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault, Life, SimTransport

COPIES = {"goes": "Delete", "stays": "Orphan"}
TRUST_S = 600


@contextlib.asynccontextmanager
async def farewell(group: SimGroup, at: str, *, say: Callable[[str], None]) -> AsyncIterator[LeaveCommand]:
    """Give the command, as somebody runs it at a member."""
    transport: Any = SimTransport(group.wire("kubectl", at), token=None, methods=WRITING, life=Life())
    writer = Writer(transport)
    try:
        yield LeaveCommand(
            api=ClusterClient(writer),
            local=group[at].id,
            settings=settings.load({"NAMESPACE": NAMESPACE}, {}),
            today=today(),
            report=say,
        )
    finally:
        await writer.close()


def _unheard(_: str) -> None:
    pass


async def leave(
    group: SimGroup,
    name: str,
    *,
    without: tuple[str, ...] = (),
    wait_s: float = 120.0,
    say: Callable[[str], None] = _unheard,
) -> None:
    async with farewell(group, name, say=say) as found:
        await found.leave(without=without, wait_s=wait_s)


async def join_again(group: SimGroup) -> None:
    """Let b, which has left, take its tombstone away and join by one swap with a, once it has a new Cluster."""
    a, b = group["a"], group["b"]
    for name in stones(b):
        b.delete("ClusterFeature", name)
    await asyncio.sleep(90.0)
    hand_over(b, a)
    hand_over(a, b)
    await group.settle()


async def declare(group: SimGroup, name: str, *, at: str, wait_s: float = 120.0) -> None:
    async with farewell(group, at, say=_unheard) as found:
        await found.declare(name, wait_s=wait_s)


async def die_and_be_declared(group: SimGroup) -> None:
    """Let b be dead, and a declare after a minute that it has left."""
    await group["b"].stop()
    group.fail("b", Fault.REFUSED)
    await asyncio.sleep(60.0)
    await declare(group, "b", at="a")


async def shared(group: SimGroup, *, trust_s: int = TRUST_S) -> None:
    """Let everybody have copies of two of b's objects, by rules with either policy, and trust so slowly."""
    for member in group.members:
        member.options["MEMBER_LEFT_TRUST_SECONDS"] = str(trust_s)
    await share(group)


async def share(group: SimGroup) -> None:
    """Let everybody have copies of two of b's objects, by rules with either policy."""
    await group.join()
    for name, policy in COPIES.items():
        entry = {"match": [{"labels": [{"matchLabels": {"keep": name}}]}]}
        group["a"].create(rule(name, CONFIG_MAP, entry, deletionPolicy=policy))
        group["b"].create(config_map(name, {"at": "b"}, labels={"keep": name}))
    await group.settle()
    for member in group.members:
        assert held(member) == {"goes", "stays"}


def held(member: Member) -> set[str]:
    return {item["metadata"]["name"] for item in member.list("ConfigMap")}


def knows(member: Member, name: str) -> tuple[bool, bool]:
    """Say whether a member has a Cluster, and a Secret, of that name."""
    secret = member.find("Secret", name, namespace=NAMESPACE)
    return member.find("Cluster", name) is not None, secret is not None


def stones(member: Member) -> set[str]:
    return {found["metadata"]["name"] for found in member.list("ClusterFeature") if "left" in found["metadata"]["name"]}


def bid_farewell(member: Member) -> None:
    """Do what `leave` does first: put the own tombstone up, and delete the own Cluster."""
    says(member, member)
    member.delete("Cluster", member.name)


def says(by: Member, about: Member, *, author: str = "") -> None:
    """Put up a tombstone of a member, as its own word, or somebody else's."""
    until = today() + LASTS
    uid = about.get("Cluster", about.name)["metadata"]["uid"]
    by.create(tombstone_manifest(Tombstone(about.id, uid, author or by.id, until)))
