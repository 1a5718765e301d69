"""Scenes with containers: a copied Namespace or definition, and the copies that live in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry_controller.api.meta import SYNC_DISABLED
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule
from tests.sim.cluster.member import Member

NAMESPACE = {"version": "v1", "kind": "Namespace"}
DEFINITION = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}
RELIC = {"group": "sim.example", "version": "v1beta1", "kind": "Relic"}
LABELS = {"sync": "yes"}
ENTRY = {"match": [{"labels": [{"matchLabels": LABELS}]}]}


def stays(name: str, kind: dict[str, str], *, policy: str, entry: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write a rule that no other cluster copies."""
    made = rule(name, kind, entry or ENTRY, deletionPolicy=policy)
    made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


async def share_namespace(group: SimGroup, count: int, policy: str) -> None:
    """Let a copy the Namespace `team` of b, and so many ConfigMaps in it of each other member."""
    await group.join()
    a, b, *others = group.members
    a.create(stays("spaces", NAMESPACE, policy="Delete"))
    a.create(stays("many", CONFIG_MAP, policy=policy))
    b.create({"kind": "Namespace", "metadata": {"name": "team", "labels": LABELS}})
    for other in others:
        other.create({"kind": "Namespace", "metadata": {"name": "team"}})
    await group.settle()
    for member in (b, *others):
        for number in range(count):
            member.create(config_map(f"{member.name}-{number:03}", {"a": "1"}, namespace="team", labels=LABELS))
    await group.settle()
    assert len(in_team(a)) == count * (len(others) + 1)


async def share_apart(group: SimGroup, kind: dict[str, str], policy: str) -> Sequence[Member]:
    """Let a copy the Namespace `team` of b, and what is of a kind; c has the Namespace, too. Return the members."""
    await group.join()
    a, b, c = group.members
    a.create(stays("spaces", NAMESPACE, policy="Delete"))
    a.create(stays("many", kind, policy=policy))
    b.create({"kind": "Namespace", "metadata": {"name": "team", "labels": LABELS}})
    c.create({"kind": "Namespace", "metadata": {"name": "team"}})
    await group.settle()
    return group.members


def in_team(member: Member, of: str = "") -> dict[str, str]:
    """List the ConfigMaps in the namespace, of one member or all, with their uids."""
    found = [item["metadata"] for item in member.list("ConfigMap", namespace="team")]
    return {info["name"]: info["uid"] for info in found if info["name"].startswith(of)}


def install_relics(member: Member, labels: dict[str, str]) -> None:
    """Install the definition of Relics."""
    member.server.change_versions("Relic", ["v1beta1"])
    info = {"name": "relics.sim.example", "labels": labels}
    member.apply({"kind": "CustomResourceDefinition", "metadata": info})


def relic(number: int) -> dict[str, Any]:
    """Write a Relic that is copied."""
    return {
        "kind": "Relic",
        "metadata": {"name": f"r-{number:03}", "namespace": "default", "labels": LABELS},
        "spec": {},
    }
