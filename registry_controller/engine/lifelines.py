"""Connections to members whose Cluster or Secret was spoilt here: it is through them that it is put back.

Law: nobody is kept who is silent, who has left, or whom somebody here wants unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.engine.choices import Choice
from registry_controller.engine.peerlink import PeerLink

LASTS_S: Final = 90.0
"""For how long a connection is kept: longer than somebody who keeps deleting a copy is left alone for (A5)."""


class Lifelines:
    """Says which connections outlive what they were made from. `has_left` says whether a member is one no more."""

    def __init__(self, *, has_left: Callable[[ClusterUID], bool]) -> None:
        self._has_left = has_left
        self._since_s: Mapping[ClusterUID, float] = {}

    def keep(self, links: Mapping[ClusterUID, PeerLink], choices: Mapping[str, Choice]) -> frozenset[ClusterUID]:
        """Choose, among links that no Cluster gives credentials for, those that stay open for now."""
        now_s = asyncio.get_running_loop().time()
        since_s = {
            member: self._since_s.get(member, now_s)
            for member, link in links.items()
            if link.alive and is_spoilt(member, link.name, choices) and not self._has_left(member)
        }
        self._since_s = {member: at_s for member, at_s in since_s.items() if now_s < at_s + LASTS_S}
        return frozenset(self._since_s)

    @property
    def due_at_s(self) -> float | None:
        """When the next of them is to be closed, by the loop's clock; None where none is kept."""
        return min((at_s + LASTS_S for at_s in self._since_s.values()), default=None)


def is_spoilt(member: ClusterUID, name: str, choices: Mapping[str, Choice]) -> bool:
    """Say whether the Cluster of a member that was read is missing, or what it needs for being read."""
    read = [choice for choice in choices.values() if choice.cluster.cluster_id == member and not choice.alias_of]
    if not read:
        return name not in choices
    return any(choice.missing_auth or choice.auth_problem for choice in read)
