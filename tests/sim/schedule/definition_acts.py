"""Definitions in a schedule that are deleted, with all objects of their kind, and installed again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from registry_controller.api.meta import CORE_RESOURCE
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.member import Member
from tests.sim.schedule.member_acts import has_one_name
from tests.sim.schedule.stage import Draw, Stage, deed


@deed(lambda chance, who, names: (chance.choice(("Widget", "Region")), chance.choice((0.3, 5.0, 40.0))), weight=3)
def has_a_kind_reinstalled(stage: Stage, member: Member, kind: str, pause_s: float) -> bool:
    """Delete the definition of a kind, and all its objects with it; install it again in a moment."""
    if member.name in stage.rebuilt or not member.server.serves(kind) or not member.list(kind):
        return False
    stage.observer.definitions.see_lost(member.name, kind, at=asyncio.get_running_loop().time())
    _let_go(stage, member, kind, going_s=0.5, away_s=pause_s)
    return True


@deed(lambda chance, who, names: (chance.choice((0.3, 5.0, 40.0)),), weight=2)
def has_its_definition_reinstalled(stage: Stage, member: Member, pause_s: float) -> bool:
    """Delete the definition of Clusters, and all Clusters with it; install it again in a moment.

    The daemon lives: a later one knows only what the Secrets show.
    """
    if member.daemon is None or not member.server.serves("Cluster") or not has_one_name(stage, member):
        return False
    if _is_held(member, "Cluster"):
        return False
    member.server.change_served("Cluster", served=True)
    for found in member.list("Cluster"):
        member.delete("Cluster", found["metadata"]["name"])
    member.server.change_served("Cluster", served=False)
    stage.group.cut(member.name)
    stage.until(pause_s, lambda: member.server.change_served("Cluster", served=True))
    return True


def _is_held(member: Member, kind: str) -> bool:
    """Say whether an object waits for a finalizer: until it is gone, its definition does not go."""
    return any(found["metadata"].get("finalizers") for found in member.list(kind))


def _let_go(stage: Stage, member: Member, kind: str, *, going_s: float, away_s: float) -> None:
    """Delete a definition, which takes a while, and all objects of its kind; install it again in a moment."""
    server = member.server
    server.terminate(kind)
    for found in member.list(kind):
        member.delete(kind, found["metadata"]["name"], namespace=found["metadata"].get("namespace", ""))

    def remove() -> None:
        if member.server is server:  # and the cluster no other one now
            server.change_served(kind, served=False)
            stage.group.cut(member.name)

    stage.until(going_s, remove)
    stage.until(going_s + away_s, lambda: server.change_served(kind, served=True))


def _apply_later(stage: Stage, member: Member, objects: Sequence[Manifest], after_s: float) -> None:
    """Let somebody apply objects of our kinds again that went with their definition; the daemon makes the core ones."""
    server = member.server

    def apply() -> None:
        for found in objects if member.server is server else ():
            kind, info = found["kind"], found["metadata"]
            is_core = CORE_RESOURCE in (info.get("labels") or {})
            is_served = server.serves(kind) and not server.is_terminating(kind)
            if is_core or not is_served or member.find(kind, info["name"]) is not None:
                continue
            kept = {name: info[name] for name in ("name", "annotations") if name in info}
            member.create({"kind": kind, "metadata": kept, "spec": found["spec"]})

    stage.until(after_s, apply)


def _times(*choices: Sequence[float]) -> Draw:
    return lambda chance, who, names: tuple(chance.choice(times_s) for times_s in choices)


@deed(_times((0.5, 8.0, 60.0), (0.3, 5.0, 40.0), (0.3, 60.0)), weight=3)
def has_its_rules_reinstalled(
    stage: Stage, member: Member, going_s: float, away_s: float, applied_after_s: float
) -> bool:
    """Delete the definition of rules, which takes a while, and all rules go with it; install it again in a moment.

    Somebody applies the rules that were created here again, a while after that.
    """
    kind = "ResourceSyncRule"
    if member.name in stage.rebuilt or not member.server.serves(kind) or member.server.is_terminating(kind):
        return False
    own = [rule for rule in member.list(kind) if not marks_of(rule).owner]
    stage.observer.history.see_rules_lost(member.name, own)
    _let_go(stage, member, kind, going_s=going_s, away_s=away_s)
    _apply_later(stage, member, own, going_s + away_s + applied_after_s)
    return True


@deed(_times((0.5, 8.0, 60.0), (0.3, 5.0, 40.0), (0.3, 60.0)), weight=0)
def has_its_features_reinstalled(
    stage: Stage, member: Member, going_s: float, away_s: float, applied_after_s: float
) -> bool:
    """Delete the definition of ClusterFeatures, which takes a while; install it again in a moment.

    With it go the tombstones and the records of this cluster. Somebody applies the feature that people made again.
    """
    kind = "ClusterFeature"
    if member.name in stage.rebuilt or not member.server.serves(kind) or member.server.is_terminating(kind):
        return False
    stage.observer.definitions.see_features_lost(member.name, at=asyncio.get_running_loop().time())
    made = [feature for feature in member.list(kind) if feature["metadata"]["name"] == "gold"]
    _let_go(stage, member, kind, going_s=going_s, away_s=away_s)
    _apply_later(stage, member, made, going_s + away_s + applied_after_s)
    return True


@deed(
    lambda chance, who, names: (
        chance.choice(("Cluster", "ResourceSyncRule", "ClusterFeature")),
        *_times((0.0, 5.0, 40.0), (0.3, 10.0, 100.0))(chance, who, names),
    ),
    fault=True,
    weight=0,
)
def has_a_definition_reinstalled_while_down(
    stage: Stage, member: Member, kind: str, away_s: float, down_s: float
) -> bool:
    """Kill the daemon, delete the definition of one of our kinds, with all objects, and install it again.

    Only then another daemon starts, and somebody applies what people had made. A cluster with several names, or one
    that was built anew, would come back under another name.
    """
    server = member.server
    if not server.serves(kind) or server.is_terminating(kind) or not has_one_name(stage, member):
        return False
    if _is_held(member, kind):
        return False
    own = [found for found in member.list(kind) if not marks_of(found).owner]
    if kind == "ResourceSyncRule":
        stage.observer.history.see_rules_lost(member.name, own)
    made = [found for found in own if kind == "ResourceSyncRule" or found["metadata"]["name"] == "gold"]
    member.kill()
    _let_go(stage, member, kind, going_s=0.0, away_s=away_s)
    stage.until(away_s + down_s, member.start_again)
    _apply_later(stage, member, made, away_s + down_s)
    return True
