"""What members were seen to delete of their own membership, and at which revision (O4).

Laws: what was seen once is never made again from an older record · a member fills its own place, and nobody else's.
"""

from __future__ import annotations

from typing import Final

from registry_controller.api.meta import ClusterUID, Target

MOST: Final = 128
"""Of one member: it has a Cluster and a Secret, and as many of each as it gave up."""
MOST_MEMBERS: Final = 256
"""The daemon knows no more Clusters of any member at a time."""


class MemberDeletions:
    """Revisions by member and target. What is too much of one member becomes a revision for all that it ever had."""

    def __init__(self) -> None:
        self._at: dict[ClusterUID, dict[Target, int]] = {}
        self._floor: dict[ClusterUID, int] = {}

    def note(self, member: ClusterUID, target: Target, revision: int) -> None:
        """Remember at which revision a member was seen to delete an object of its own."""
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
        """Tell the revision up to which a member has deleted an object, or 0."""
        return max(self._at.get(member, {}).get(target, 0), self._floor.get(member, 0))
