"""Decides whether a member that lacks its Cluster or Secret here may get it back over its present connection (A1).

Laws: an absence at the member shows no departure until it has lasted · a member that has left gets nothing back · nor
does one of which this cluster never read its own Cluster: it cannot offer that again.
"""

from __future__ import annotations

import enum
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Apply, Decision, Reason

_NOT_OFFERED: Final = frozenset((Reason.NOT_WANTED, Reason.MISSING_AT_OWNER, Reason.OWNER_DECIDES))
"""The reasons for which nothing is written: the member itself does not offer the object now."""


class Restoration(enum.Enum):
    """The restoration of a Cluster or a Secret here from the member itself."""

    POSSIBLE = "the next write here restores it, or the member may offer it again"
    AWAITED = "its member has no Cluster of itself, too, and not for so long that it has left"
    NONE = "nothing restores it"


def find_restoration(
    decision: Decision, member: ClusterUID, *, has_left: bool, had_own: bool, lacks_own: bool
) -> Restoration:
    """Evaluate the decision about a Cluster or Secret that a member needs here.

    `had_own` means that a Cluster of the member itself was read from it since it is connected, `lacks_own` that the
    live member has none now, and that this has not lasted.
    """
    if has_left:
        return Restoration.NONE
    if isinstance(decision, Apply):
        is_its_own = decision.claim.peer == decision.claim.owner == member
        return Restoration.POSSIBLE if is_its_own else Restoration.NONE
    if decision.reason not in _NOT_OFFERED or not had_own:
        return Restoration.NONE
    return Restoration.AWAITED if lacks_own else Restoration.POSSIBLE
