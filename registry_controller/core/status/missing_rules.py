"""Formats and reads the message of the condition `RulesMissing` of a Cluster (W3).

Law: a rule that is not named there is not known to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from registry_controller.api.meta import ALLOW_DELETIONS, CLUSTER, SYNC_DISABLED, spell_allowance

_MOST_NAMES: Final = 60
"""The names of rules in a message."""
_NAMES: Final = r"([^\s,]+(?:, [^\s,]+)*)(?: and [0-9]+ more)?"
_MOMENT: Final = "([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
_WAITING: Final = re.compile(rf"ResourceSyncRules {_NAMES} are missing.*{re.escape(ALLOW_DELETIONS)}={_MOMENT}$")
_GOING: Final = re.compile(
    rf"of ResourceSyncRules {_NAMES}, missing in this cluster, may go: {re.escape(ALLOW_DELETIONS)}={_MOMENT}"
)


class RulesMissing(NamedTuple):
    """The missing rules of a condition.

    A person has to name `moment` to let the copies of the `waiting` ones go, and has named `allowed` for the `going`
    ones.
    """

    waiting: Sequence[str] = ()
    moment: str = ""
    going: Sequence[str] = ()
    allowed: str = ""

    @property
    def since(self) -> Mapping[str, str]:
        """Map all rules to moments."""
        return {**dict.fromkeys(self.going, self.allowed), **dict.fromkeys(self.waiting, self.moment)}


def spell_missing(found: RulesMissing, *, cluster: str) -> str:
    """Return the message about a Cluster of that name."""
    parts = []
    if found.going:
        parts.append(
            f"the copies of ResourceSyncRules {_spell_names(found.going)}, missing in this cluster, may go: "
            f"{ALLOW_DELETIONS}={found.allowed}"
        )
    if found.waiting:
        parts.append(
            f"ResourceSyncRules {_spell_names(found.waiting)} are missing in this cluster, or are not offered by it, "
            "and nothing shows that they were deleted; their copies here stay; create the rules again, or remove "
            f"{SYNC_DISABLED} from them, or, to delete the copies: "
            f"{spell_allowance(CLUSTER, cluster, since=found.moment)}"
        )
    return "; ".join(parts)


def read_missing(message: str) -> RulesMissing:
    """Read a message."""
    going, waiting = _GOING.search(message), _WAITING.search(message)
    return RulesMissing(
        waiting[1].split(", ") if waiting else (),
        waiting[2] if waiting else "",
        going[1].split(", ") if going else (),
        going[2] if going else "",
    )


def _spell_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"
