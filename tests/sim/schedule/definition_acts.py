"""Definitions in a schedule that are deleted, with all objects of their kind, and installed again."""

from __future__ import annotations

import asyncio

from registry_controller.api.meta import CORE_RESOURCE
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.member import Member
from tests.sim.schedule.member_acts import has_one_name
from tests.sim.schedule.stage import Stage, deed


@deed(lambda chance, who, names: (chance.choice(("Widget", "Region")), chance.choice((0.3, 5.0, 40.0))), weight=3)
def has_a_kind_reinstalled(stage: Stage, member: Member, kind: str, pause_s: float) -> bool:
    """Delete the definition of a kind, and all its objects with it; install it again in a moment."""
    if member.name in stage.rebuilt or not member.server.serves(kind) or not member.list(kind):
        return False
    stage.observer.definitions.see_lost(member.name, kind, at=asyncio.get_running_loop().time())
    member.server.terminate(kind)
    for found in member.list(kind):
        member.delete(kind, found["metadata"]["name"], namespace=found["metadata"].get("namespace", ""))

    def remove() -> None:
        member.server.change_served(kind, served=False)
        stage.group.cut(member.name)

    stage.until(0.5, remove)
    stage.until(0.5 + pause_s, lambda: member.server.change_served(kind, served=True))
    return True


@deed(lambda chance, who, names: (chance.choice((0.3, 5.0, 40.0)),), weight=2)
def has_its_definition_reinstalled(stage: Stage, member: Member, pause_s: float) -> bool:
    """Delete the definition of Clusters, and all Clusters with it; install it again in a moment.

    The daemon lives: a later one knows only what the Secrets show.
    """
    if member.daemon is None or not member.server.serves("Cluster") or not has_one_name(stage, member):
        return False
    member.server.change_served("Cluster", served=True)
    for found in member.list("Cluster"):
        member.delete("Cluster", found["metadata"]["name"])
    member.server.change_served("Cluster", served=False)
    stage.group.cut(member.name)
    stage.until(pause_s, lambda: member.server.change_served("Cluster", served=True))
    return True


_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_DEFINITION = BY_KIND["CustomResourceDefinition"].kind


@deed(
    lambda chance, who, names: tuple(
        chance.choice(times_s) for times_s in ((0.5, 8.0, 60.0), (0.3, 5.0, 40.0), (0.3, 60.0))
    ),
    weight=3,
)
def has_its_rules_reinstalled(
    stage: Stage, member: Member, going_s: float, away_s: float, applied_after_s: float
) -> bool:
    """Delete the definition of rules, which takes a while, and all rules go with it; install it again in a moment.

    Somebody applies the rules that were created here again, a while after that.
    """
    server, kind = member.server, BY_KIND["ResourceSyncRule"]
    definition = f"{kind.plural}.{kind.group}"
    if member.name in stage.rebuilt or not server.serves(kind.kind) or server.is_terminating(kind.kind):
        return False
    server.change_served(kind.kind, served=True)  # so that there is a definition
    found = member.get(_DEFINITION, definition)
    member.replace({**found, "metadata": {**found["metadata"], "finalizers": [_CLEANUP]}})
    member.delete(_DEFINITION, definition)
    server.terminate(kind.kind)
    own = [rule for rule in member.list(kind.kind) if not marks_of(rule).owner]
    stage.observer.history.see_rules_lost(member.name, own)
    for rule in member.list(kind.kind):
        member.delete(kind.kind, rule["metadata"]["name"])

    def remove() -> None:
        if member.server is not server:
            return  # the cluster is another one now
        member.replace({**member.get(_DEFINITION, definition), "metadata": {"name": definition, "finalizers": []}})
        stage.group.cut(member.name)

    def apply() -> None:
        for rule in own if member.server is server else ():
            info = rule["metadata"]
            is_core = CORE_RESOURCE in (info.get("labels") or {})
            is_served = server.serves(kind.kind) and not server.is_terminating(kind.kind)
            if is_core or not is_served or member.find(kind.kind, info["name"]) is not None:
                continue
            kept = {name: info[name] for name in ("name", "annotations") if name in info}
            member.create({"kind": kind.kind, "metadata": kept, "spec": rule["spec"]})

    stage.until(going_s, remove)
    stage.until(going_s + away_s, lambda: server.change_served(kind.kind, served=True))
    stage.until(going_s + away_s + applied_after_s, apply)
    return True
