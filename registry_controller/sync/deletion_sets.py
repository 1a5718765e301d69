"""Evaluates the deletions of each rule and owner as a set: by the limit of the rule, and by that of the owner (W4).

Laws: no set is evaluated before every key that was enqueued with it was reconciled · a set is evaluated, and halted,
before its owner is asked for proof · beyond a few, deletions go only once their window is stored · a set goes only if
both limits allow it · the limit of a rule, and its halt, last as long as the rule acts: no user could lift the halt
after that, and the limit of the owner alone holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Halt
from registry_controller.core.decision.deletion_limit import LimitVerdict
from registry_controller.report.logs import get_logger
from registry_controller.sync.deletion_budget import DeletionBudget, allowed_moment, stored_window
from registry_controller.sync.deletion_count import DeletionCount, Judged
from registry_controller.sync.owner_limits import OwnerLimits
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_LOOK_S: Final = 0.02
_STORED_S: Final = 0.25
_HALTED_S: Final = 10.0
_SETTLED_S: Final = 0.2
"""The time in which an API server's discovery shows that a definition is being deleted."""


class DeletionSets:
    """The deletions that wait, by rule and owner. `changed` is called with a rule whose status may have changed."""

    def __init__(
        self,
        *,
        percent: Callable[[], int],
        queue: WorkQueue[Target],
        copies: CopyIndex,
        registry: Registry,
        changed: Callable[[str], None],
        owner_changed: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._percent = percent
        self._queue = queue
        self._copies = copies
        self._registry = registry
        self._changed = changed
        self._now = now
        self.budgets: dict[RuleAndOwner, DeletionBudget] = {}
        self.owners = OwnerLimits(
            percent=percent, copies=copies, registry=registry, budgets=self.budgets, changed=owner_changed, now=now
        )

    def budget(self, origin: RuleAndOwner) -> DeletionBudget:
        """Return the budget of a rule's copies from one owner."""
        budget = self.budgets.get(origin)
        if budget is None:
            count = DeletionCount(stored_window(self._registry, origin), is_here=self._copies.has)
            budget = self.budgets[origin] = DeletionBudget(count)
            budget.halt = self.find_halt(origin, budget)
        return budget

    def find_halt(self, origin: RuleAndOwner, budget: DeletionBudget) -> Halt | None:
        """Return the halt that lets no more copies of a rule and owner go; None while they may go."""
        if budget.count.halted_at and self._acts(origin[0]):
            return Halt(meta.RULE, origin[0], budget.count.halted_at)
        return self.owners.find_halt(origin[1])

    def has_grown(self, origin: RuleAndOwner, budget: DeletionBudget, *, is_custom: bool) -> None:
        """Evaluate a set once everything that is enqueued now was reconciled.

        A set of custom objects waits a moment, until their server shows whether their definition goes, too.
        """
        budget.sequence = self._queue.sequence
        if is_custom and not budget.settled_s:
            budget.settled_s = asyncio.get_running_loop().time() + _SETTLED_S
        self._look_soon(origin, budget, 0.0)

    def has_shrunk(self, origin: RuleAndOwner, budget: DeletionBudget) -> None:
        """Evaluate a set again; end the halt of one for which nothing waits any more."""
        if budget.waiting:
            self._look_soon(origin, budget, 0.0)
            return
        if budget.count.end_halt() or budget.halt is not None:
            self._changed(origin[0])
        budget.halt = None

    def look_again(self, is_wanted: Callable[[RuleAndOwner], bool]) -> None:
        """Evaluate the sets again that are wanted: the administrator may have allowed them."""
        for origin, budget in self.budgets.items():
            if budget.waiting and is_wanted(origin):
                self._look_soon(origin, budget, 0.0)

    def _look_soon(self, origin: RuleAndOwner, budget: DeletionBudget, delay_s: float) -> None:
        if budget.timer is not None:
            budget.timer.cancel()
        budget.timer = asyncio.get_running_loop().call_later(delay_s, self._look, origin, budget)

    def _look(self, origin: RuleAndOwner, budget: DeletionBudget) -> None:
        budget.timer = None
        if not budget.waiting:
            return
        settles_s = budget.settled_s - asyncio.get_running_loop().time()
        if settles_s > 0 or not self._queue.has_passed(budget.sequence):
            self._look_soon(origin, budget, max(_LOOK_S, settles_s))
            return
        if not self._percent() or (budget.count.halted_at and not self._acts(origin[0])):
            self._decide_again(origin, budget)
            return
        ours = self._judge_rule(origin, budget)
        is_excused = ours is not None and ours.window.allowed >= max(1, ours.window.deleted)
        theirs = None
        if ours is None or ours.verdict is not LimitVerdict.HALT:
            theirs = self.owners.judge(origin[1], excused=budget if is_excused else None)
        is_small = all(found is None or found.verdict is LimitVerdict.GO for found in (ours, theirs))
        if not is_small and budget.unsure and self.find_halt(origin, budget) is None:
            self._let_ask(origin, budget)
        elif _halts(theirs) and self._has_doubts(origin[1]):
            self._look_soon(origin, budget, _LOOK_S)
        else:
            self._carry_out(origin, budget, ours, theirs, is_excused=is_excused)

    def _carry_out(
        self,
        origin: RuleAndOwner,
        budget: DeletionBudget,
        ours: Judged | None,
        theirs: Judged | None,
        *,
        is_excused: bool,
    ) -> None:
        """Halt a set, let it wait until its counts are stored, or let it go."""
        if ours is not None and budget.count.keep(ours):
            self._changed(origin[0])
        if theirs is not None and self.owners.keep(origin[1], theirs):
            self.look_again(lambda other: other[1] == origin[1])
        reported, budget.halt = budget.halt, self.find_halt(origin, budget)
        if budget.halt != reported:
            self._changed(origin[0])
        if budget.halt is not None:
            if budget.halt != reported:
                self._report_halt(origin, budget)
            self._look_soon(origin, budget, _HALTED_S)
        elif self._must_store(origin, budget, ours, theirs):
            self._look_soon(origin, budget, _STORED_S)
        else:
            self.owners.has_let_go(origin[1])
            for target in budget.let_go(is_allowed=ours is not None and ours.is_allowed, is_excused=is_excused):
                self._queue.add(target, origin[1])

    def _acts(self, rule: str) -> bool:
        """Report whether a rule acts here: also one that is missing for less than the stabilization window."""
        return rule in self._registry.acting

    def _decide_again(self, origin: RuleAndOwner, budget: DeletionBudget) -> None:
        """End the halt of a rule that acts no more, or a limit that no replica has any more.

        The deletions are decided on again: they may count otherwise.
        """
        for target in budget.forget_waiting():
            self._queue.add(target, origin[1])
        self.has_shrunk(origin, budget)

    def _judge_rule(self, origin: RuleAndOwner, budget: DeletionBudget) -> Judged | None:
        """Evaluate the set by its rule's limit; None for a rule that does not act: only the owner's limit holds."""
        if not self._acts(origin[0]):
            return None
        return budget.count.judge(
            stored=stored_window(self._registry, origin),
            present=self._copies.count(origin),
            wanted=len(budget.waiting) + len(budget.going),
            now=self._now(),
            percent=self._percent(),
            allowed=allowed_moment(self._registry, origin[0]),
            is_anew=budget.is_anew,
        )

    def _has_doubts(self, owner: ClusterUID) -> bool:
        """Report whether a set of the owner is to be looked at first: its copies may stay."""
        others = (budget for budget in self.owners.budgets_of(owner) if budget.waiting and not budget.count.halted_at)
        return not self.owners.is_halted(owner) and any(
            budget.unsure or not self._queue.has_passed(budget.sequence) for budget in others
        )

    def _let_ask(self, origin: RuleAndOwner, budget: DeletionBudget) -> None:
        """Enqueue the deletions that their proof may refute: without them the set may be small."""
        unsure = budget.unsure
        budget.asked.update(unsure)
        for target in sorted(unsure):
            self._queue.add(target, origin[1])
        budget.sequence = self._queue.sequence
        self._look_soon(origin, budget, _LOOK_S)

    def _must_store(
        self, origin: RuleAndOwner, budget: DeletionBudget, ours: Judged | None, theirs: Judged | None
    ) -> bool:
        found = [
            ours is not None
            and ours.verdict is LimitVerdict.STORE
            and budget.count.must_store(stored_window(self._registry, origin)),
            theirs is not None and theirs.verdict is LimitVerdict.STORE and self.owners.must_store(origin[1]),
        ]
        return any(found)

    def _report_halt(self, origin: RuleAndOwner, budget: DeletionBudget) -> None:
        log.warning(
            "deletions halted", rule=origin[0], owner=origin[1], copies=self._copies.count(origin),
            waiting=len(budget.waiting),
        )  # fmt: skip
        for target in sorted(budget.waiting):
            self._queue.add(target, origin[1])


def _halts(found: Judged | None) -> bool:
    return found is not None and found.verdict is LimitVerdict.HALT
