"""The revisions at which members deleted their own Clusters and Secrets (O4).

Laws: a deleted object is never made again from an older record · a member uses up its own room, and no other's.
"""

from __future__ import annotations

from typing import Final

from registry_controller.api.meta import ClusterUID, Target

MOST: Final = 128
"""Targets of one member: its Cluster and its Secret, and those that it gave up."""
MOST_MEMBERS: Final = 256
"""As many members as the daemon knows Clusters at a time."""


class MemberDeletions:
    """Revisions by member and target. Beyond `MOST` targets of a member, its oldest become one revision for all."""

    def __init__(self) -> None:
        self._at: dict[ClusterUID, dict[Target, int]] = {}
        self._floor: dict[ClusterUID, int] = {}

    def record(self, member: ClusterUID, target: Target, revision: int) -> None:
        """Record the revision at which a member deleted an object of its own."""
        held = self._at.pop(member, {})
        self._at[member] = held
        held[target] = max(revision, held.pop(target, 0))
        if len(held) > MOST:
            self._floor[member] = max(self._floor.get(member, 0), held.pop(next(iter(held))))
        if len(self._at) > MOST_MEMBERS:
            oldest = next(iter(self._at))
            del self._at[oldest]
            self._floor.pop(oldest, None)

    def at(self, member: ClusterUID, target: Target) -> int:
        """Return the revision up to which a member has deleted an object, or 0."""
        return max(self._at.get(member, {}).get(target, 0), self._floor.get(member, 0))
