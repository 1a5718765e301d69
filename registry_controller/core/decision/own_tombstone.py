"""Decides whether this cluster's own tombstone was lost here, and is created again (O6).

Laws: a cluster takes its own tombstone back by an act: its daemon sees the deletion, or the cluster gets a Cluster
again · a cluster that has a Cluster has not left · members alone count only for a daemon that never saw the own
Cluster, and only while no live member has a Cluster of this cluster that the tombstone does not explain.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.days import AHEAD
from registry_controller.core.decision.tombstones import LASTS, STAYS


class FarewellFacts(NamedTuple):
    """The facts about the own tombstones of a cluster.

    `has_cluster` means that the cluster has a Cluster here, `saw_cluster` that this daemon has seen one. `stored` are
    its own tombstones here, `seen` those that this daemon has seen here since the cluster had a Cluster last, and
    `withdrawn` the names of those that were deleted here. `alive` are the live members. `shown` has the own tombstones
    at each of them whose features are listed, `held_as` the memberships of this cluster's Clusters at each whose
    Clusters are.
    """

    has_cluster: bool
    saw_cluster: bool
    stored: frozenset[Tombstone]
    seen: frozenset[Tombstone]
    withdrawn: frozenset[str]
    alive: frozenset[ClusterUID]
    shown: Mapping[ClusterUID, frozenset[Tombstone]]
    held_as: Mapping[ClusterUID, frozenset[str]]
    today: date


def find_lost_farewell(facts: FarewellFacts) -> Tombstone | None:
    """Return the own tombstone to create here again; None without one."""
    if facts.has_cluster or facts.stored:
        return None
    seen = [stone for stone in facts.seen if stone.name not in facts.withdrawn]
    if seen or facts.saw_cluster:
        return max(seen, key=lambda stone: (stone.until, stone), default=None)
    if not facts.alive <= facts.shown.keys() & facts.held_as.keys():
        return None
    found = [stone for stone in frozenset().union(*facts.shown.values()) if _is_believed(facts, stone)]
    return max(found, key=lambda stone: (stone.until, stone), default=None)


def _is_believed(facts: FarewellFacts, stone: Tombstone) -> bool:
    """Report whether an own tombstone at members counts."""
    is_dated = stone.until + STAYS >= facts.today and stone.until <= facts.today + LASTS + AHEAD
    if stone.name in facts.withdrawn or not stone.membership or not is_dated:
        return False
    return all(
        not memberships or (memberships == {stone.membership} and _shows(facts, member, stone))
        for member, memberships in facts.held_as.items()
    )


def _shows(facts: FarewellFacts, member: ClusterUID, stone: Tombstone) -> bool:
    return any(shown.name == stone.name for shown in facts.shown.get(member, ()))
