"""The deletions of a member's rules as events of a watch.

Law: an interrupted watch shows nothing: a rule that the next list lacks was not seen to be deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from registry_controller.api.meta import ObjectKey

_MOST: Final = 4096


class RuleDeletion(NamedTuple):
    """The event that deleted the rule of this UID: the revision of the deletion, and the loop's time in seconds."""

    uid: str
    revision: int
    at_s: float


class RuleEvents:
    """The deletions since the watch was interrupted last.

    `changed` is called when rules may be missing, or no longer.
    """

    def __init__(self, *, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._deletions: dict[ObjectKey, RuleDeletion] = {}

    @property
    def deletions(self) -> Mapping[ObjectKey, RuleDeletion]:
        """The deletions, by the key of the rule."""
        return self._deletions

    def on_object(self, key: ObjectKey) -> None:
        """Note that a rule is there."""
        if self._deletions and self._deletions.pop(key, None) is not None:
            self._changed()

    def on_delete(self, key: ObjectKey, uid: str, revision: int) -> None:
        """Note that the watch showed the deletion of a rule."""
        self._deletions.pop(key, None)
        self._deletions[key] = RuleDeletion(uid, revision, asyncio.get_running_loop().time())
        if len(self._deletions) > _MOST:
            del self._deletions[next(iter(self._deletions))]
        self._changed()

    def on_synced(self) -> None:
        """Note that a list is complete: rules may be missing that no event deleted."""
        self._changed()

    def interrupt(self) -> None:
        """Note that the watch was interrupted, or shows only a part of the rules."""
        if self._deletions:
            self._deletions.clear()
            self._changed()
