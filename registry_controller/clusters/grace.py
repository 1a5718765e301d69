"""Connections to members whose Cluster or Secret was spoilt here: it is through them that it is put back.

Law: a connection is kept only while what is missing is about to come through it, and not for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.members import cluster_target, secret_target
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.resolver import ResolvedCluster

_LASTS_S: Final = 90.0
"""For how long a connection is kept: longer than somebody who keeps deleting a copy is left alone for (A5)."""
_LOOK_EVERY_S: Final = 1.0


class GracePeriods:
    """Says which connections outlive what they were made from.

    `is_due` says whether a target is to be written here as a member itself has it.
    """

    def __init__(self, *, is_due: Callable[[ClusterUID, Target], bool]) -> None:
        self._is_due = is_due
        self._since_s: Mapping[ClusterUID, float] = {}

    def keep(self, links: Mapping[ClusterUID, Peer], choices: Mapping[str, ResolvedCluster]) -> frozenset[ClusterUID]:
        """Choose, among links that no Cluster gives credentials for, those that stay open for now."""
        now_s = asyncio.get_running_loop().time()
        since_s = {
            member: self._since_s.get(member, now_s)
            for member, link in links.items()
            if link.alive and (target := _spoilt(link, choices)) is not None and self._is_due(member, target)
        }
        self._since_s = {member: at_s for member, at_s in since_s.items() if now_s < at_s + _LASTS_S}
        return frozenset(self._since_s)

    @property
    def look_again_s(self) -> float | None:
        """In how many seconds to choose again; None where no connection is kept."""
        return _LOOK_EVERY_S if self._since_s else None


def _spoilt(link: Peer, choices: Mapping[str, ResolvedCluster]) -> Target | None:
    """Name what is missing here, or not as the member has it, for reading it; None where somebody wants it unread."""
    same = (choice for choice in choices.values() if choice.cluster.cluster_id == link.cluster_id)
    read = next((choice for choice in same if not choice.alias_of), None)
    if read is None:
        return None if link.name in choices else cluster_target(link.name)
    if not (read.missing_auth or read.auth_problem):
        return None
    secret, own = read.cluster.secret, (link.clusters.held or {}).get(read.cluster.name)
    is_other = own is not None and own.secret != secret
    return cluster_target(read.cluster.name) if is_other or secret is None else secret_target(secret)
