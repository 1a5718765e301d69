"""The deletions that wait, or go, of one rule's copies from one owner, and the window in the rule's status (W4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import Target
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_deletions import find_rule, stored_deletions
from registry_controller.core.decision.decision import Halt
from registry_controller.core.decision.deletion_limit import Charge, Window, window_of
from registry_controller.sync.deletion_count import DeletionCount


class Wish(NamedTuple):
    """A deletion that is to be made. `is_sure` is true for a proven or presumed one, `is_proven` for a proven one.

    `is_anew` means that it follows a definition that was installed again, or another history of the owner.
    """

    charge: Charge
    is_sure: bool
    is_anew: bool = False
    is_proven: bool = False

    def after(self, before: Wish) -> Wish:
        """Return this wish with the certainty of an earlier one: its question may be asked again meanwhile."""
        is_proven = self.is_proven or (before.is_proven and before.charge is self.charge)
        return self._replace(is_sure=self.is_sure or before.is_sure, is_proven=is_proven)


@dataclass(slots=True)
class DeletionBudget:
    """The deletions of one rule's copies from one owner.

    `waiting` holds the deletions that are not evaluated yet, or halted. The owner may be asked about the targets in
    `asked` before the next evaluation. `going` holds the copies that were let go and are still here; of those in
    `excused` the rule's annotation allowed the deletion, so that the limit of their owner does not count them.
    `halt` is the reported halt of what waits, by the limit of the rule or by that of the owner.
    Before `settled_s` of the loop's time nothing is evaluated; 0 while nothing has to settle.
    """

    count: DeletionCount
    waiting: dict[Target, Wish] = field(default_factory=dict)
    asked: set[Target] = field(default_factory=set)
    going: dict[Target, Wish] = field(default_factory=dict)
    excused: set[Target] = field(default_factory=set)
    halt: Halt | None = None
    sequence: int = 0
    settled_s: float = 0.0
    timer: asyncio.Handle | None = None

    @property
    def is_anew(self) -> bool:
        """True if any deletion follows a definition that was installed again, or another history of the owner."""
        return any(wish.is_anew for wishes in (self.waiting, self.going) for wish in wishes.values())

    @property
    def unsure(self) -> list[Target]:
        """The waiting deletions that their proof may refute, and about which the owner may not be asked yet."""
        return [target for target, wish in self.waiting.items() if not wish.is_sure and target not in self.asked]

    def wanted_of_owner(self, *, is_excused: bool) -> Iterator[Target]:
        """List the deletions that count for the owner; those that the rule's own limit has halted do not.

        `is_excused` leaves out what waits.
        """
        if not self.count.halted_at and not is_excused:
            yield from self.waiting
        yield from (target for target in self.going if target not in self.excused)

    def find(self, target: Target) -> Wish | None:
        """Return the wish to delete a copy that waits or goes."""
        return self.waiting.get(target) or self.going.get(target)

    def let_go(self, *, is_allowed: bool, is_excused: bool) -> list[Target]:
        """Move everything that waits to `going`, and return it in order."""
        going, self.waiting, self.settled_s = self.waiting, {}, 0.0
        self.going |= going
        self.asked -= going.keys()
        if is_allowed:
            self.count.allowed = set(self.going)
        if is_excused:
            self.excused |= going.keys()
        self.count.has_let_go()
        return sorted(going)

    def forget_waiting(self) -> list[Target]:
        """Forget everything that waits, and return it in order."""
        waiting, self.waiting, self.settled_s = self.waiting, {}, 0.0
        self.asked -= waiting.keys()
        return sorted(waiting)

    def drop(self, target: Target) -> None:
        """Forget a deletion: the copy is gone, or stays."""
        self.waiting.pop(target, None)
        self.going.pop(target, None)
        for targets in (self.asked, self.excused, self.count.allowed):
            targets.discard(target)
        if not self.waiting:
            self.settled_s = 0.0


def stored_window(registry: Registry, origin: RuleAndOwner) -> Window | None:
    """Return the window in a rule's status for its copies from one owner; None without one."""
    return window_of(stored_deletions(registry, *origin))


def stored_halt(registry: Registry, origin: RuleAndOwner) -> Halt | None:
    """Return the halt in a rule's status, unless its annotation lifts it; None without one."""
    window = stored_window(registry, origin)
    if window is None or not window.halted_at or window.halted_at == allowed_moment(registry, origin[0]):
        return None
    return Halt(meta.RULE, origin[0], window.halted_at)


def allowed_moment(registry: Registry, rule: str) -> str:
    """Return the moment of the halt that a rule's annotation lifts; empty for none."""
    held = find_rule(registry, rule)
    return meta.annotations_of(held.manifest).get(meta.ALLOW_DELETIONS, "") if held is not None else ""
