"""The deletions of rules as events of a watch, and the specs that it shows.

Laws: an interrupted watch shows nothing: a rule that the next list lacks was not seen to be deleted · a rule that goes
with the definition of rules is not deleted, and the next definition confirms no deletion before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.api.syncrule import read_policy
from registry_controller.cache.definition_state import DefinitionState

_MOST: Final = 4096
"""The deletions that are kept; the owner of a rule has a record of earlier ones."""


class RuleDeletion(NamedTuple):
    """The event that deleted one rule: the revision of the deletion, and the time on the caller's clock in seconds.

    `policy` is the last deletionPolicy of the rule; empty where the event does not show a valid one.
    """

    name: str
    uid: str
    revision: int
    at_s: float
    policy: str = ""


class RuleEvents:
    """The deletions since the watch was interrupted last, also of rules that were created again with another UID.

    `specs` has the UID of each rule that was there, and the digest of its spec as it was shown last, by name. `now_s`
    is the clock. `changed` is called when rules may be missing, or no longer; `deleted` at each deletion.
    """

    def __init__(
        self,
        *,
        now_s: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
        deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._now_s = now_s
        self._changed = changed
        self._deleted = deleted
        self.specs: dict[str, tuple[str, str]] = {}
        self._confirmed_s = -math.inf
        self._deletions: dict[str, dict[str, RuleDeletion]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[RuleDeletion]:
        return (deletion for found in self._deletions.values() for deletion in found.values())

    def of(self, name: str) -> Mapping[str, RuleDeletion]:
        """Return the deletions of the rules of a name, by UID, the last one last."""
        return self._deletions.get(name, {})

    def on_rule(self, name: str, uid: str, spec: str) -> None:
        """Note the digest of a rule's spec as it is there."""
        if self.specs.get(name) != (uid, spec):
            self.specs[name] = (uid, spec)
            self._changed()

    def on_delete(self, name: str, uid: str, revision: int, *, policy: str = "") -> None:
        """Note that the watch showed the deletion of a rule."""
        found = self._deletions.setdefault(name, {})
        self._count += uid not in found
        found.pop(uid, None)
        found[uid] = RuleDeletion(name, uid, revision, self._now_s(), policy)
        if self._count > _MOST:
            self._forget_one()
        self._deleted()
        self._changed()

    def on_definition(self, state: DefinitionState, until_s: float) -> None:
        """Note what discovery shows about the definition of rules, after all deletions until this time."""
        if state in (DefinitionState.GOING, DefinitionState.NEXT):
            self.interrupt()
        if state.is_there:
            self._confirmed_s = until_s
            self._changed()

    def is_confirmed(self, deletion: RuleDeletion) -> bool:
        """Return whether the definition of rules was seen to be there after a deletion."""
        return deletion.at_s <= self._confirmed_s

    def on_synced(self) -> None:
        """Note that a list is complete: rules may be missing that no event deleted."""
        self._changed()

    def interrupt(self) -> None:
        """Note that the watch was interrupted, shows only a part of the rules, or is of a definition that goes."""
        if self._deletions:
            self._deletions, self._count = {}, 0
            self._changed()

    def _forget_one(self) -> None:
        name = next(iter(self._deletions))
        found = self._deletions[name]
        del found[next(iter(found))]
        if not found:
            del self._deletions[name]
        self._count -= 1


def last_policy(body: Callable[[], Manifest]) -> str:
    """Return the deletionPolicy of a rule as an event shows it; empty where that is not a valid one."""
    try:
        return read_policy(body())
    except InvalidObject:
        return ""
