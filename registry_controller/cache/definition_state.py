"""The state of the definition of one of our kinds, as discovery shows it after a deletion. W3, O6."""

from __future__ import annotations

import enum


class DefinitionState(enum.Enum):
    """Whether a definition is there, and whether it is still the one to which the deleted objects belonged."""

    THERE = "it is there, and none was seen to go"
    NEXT = "another one is there after one that went"
    GOING = "it is being deleted, or there is none"
    UNKNOWN = "nothing answered"

    @property
    def is_there(self) -> bool:
        """Return whether a definition is there."""
        return self in (DefinitionState.THERE, DefinitionState.NEXT)
