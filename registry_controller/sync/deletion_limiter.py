"""Collects the decided deletions into sets, and asks `core.decision.deletion_limit` whether a set may go (W4).

Laws: no set is evaluated before every key that was enqueued with it was reconciled · a set is evaluated, and halted,
before its owner is asked for proof · beyond a few, deletions go only once their window is stored · a deletion that was
let go and that its proof refutes counts no more · the deletion of a rule is an order, and not limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Decision, Delete, Hold, NeedsProof, Reason, deletion_in
from registry_controller.core.decision.deletion_limit import LimitVerdict, Window, joined, judge, stored_form, window_of
from registry_controller.report.logs import get_logger
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_LOOK_S: Final = 0.02
_STORED_S: Final = 0.25
_STORED_AT_MOST_S: Final = 30.0
"""A CRD without the field drops the stored window; deletions go on then, counted in memory alone."""
_HALTED_S: Final = 10.0


@dataclass(slots=True)
class _Budget:
    """The deletions of one rule's copies from one owner.

    `waiting` holds the deletions that are not evaluated yet, or halted; the value is true for a proven or presumed one.
    The owner may be asked about the targets in `asked` before the next evaluation. `going` holds the copies that were
    let go and are still here, `allowed` the copies that the administrator let go. `kept` counts the allowed copies that
    stay. `is_recorded` is false while the window has no proven deletion: a status does not change for questions.
    """

    window: Window | None
    waiting: dict[Target, bool] = field(default_factory=dict)
    asked: set[Target] = field(default_factory=set)
    going: set[Target] = field(default_factory=set)
    allowed: set[Target] = field(default_factory=set)
    kept: int = 0
    is_recorded: bool = True
    sequence: int = 0
    timer: asyncio.Handle | None = None
    storing_since_s: float | None = None

    @property
    def is_halted(self) -> bool:
        return self.window is not None and bool(self.window.halted_at)

    def counted(self, window: Window) -> Window:
        """Return a window without the allowance of the copies that stay."""
        return replace(window, allowed=max(0, window.allowed - self.kept))


class DeletionLimiter:
    """Limits all deletions. `counted` are the targets whose deletion is counted, each with its rule and owner.

    `changed` is called with the name of a rule whose status may have changed.
    """

    def __init__(
        self,
        *,
        percent: int,
        queue: WorkQueue,
        copies: CopyIndex,
        registry: Registry,
        changed: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        self._percent = percent
        self._queue = queue
        self._copies = copies
        self._registry = registry
        self._changed = changed
        self._now = now
        self._budgets: dict[RuleAndOwner, _Budget] = {}
        self.counted: dict[Target, RuleAndOwner] = {}

    def limit(self, target: Target, decision: Decision, *, rule: str) -> Decision:
        """Return a deletion, or the question that proves it, once it may go; a Hold before.

        Any other decision but a Hold ends the deletion that was counted.
        """
        deletion = deletion_in(decision)
        if deletion is None:
            if isinstance(decision, Hold):
                self._note_gone(target)
            elif not isinstance(decision, NeedsProof):
                self.withdraw(target)
            return decision
        if not self._percent or not is_limited(deletion):
            return decision
        origin = (rule, deletion.owner)
        budget = self._budget(origin)
        if target in budget.going:
            if isinstance(decision, Delete) and not budget.is_recorded:
                budget.is_recorded = True
                self._changed(rule)
            return decision
        self._count(target, origin, budget, is_sure=isinstance(decision, Delete) or _is_presumed(decision))
        if budget.is_halted:
            return Hold(Reason.DELETION_HALTED, deletion.owner)
        if target in budget.asked and isinstance(decision, NeedsProof):
            return decision
        return Hold(Reason.DELETION_JUDGED, deletion.owner)

    def withdraw(self, target: Target) -> None:
        """Count a deletion no more: the copy is gone, or stays."""
        origin = self.counted.pop(target, None)
        budget = self._budgets.get(origin) if origin is not None else None
        if origin is None or budget is None:
            return
        if target in budget.allowed and self._copies.has(target):
            budget.kept += 1
            self._changed(origin[0])
        budget.waiting.pop(target, None)
        for targets in (budget.asked, budget.going, budget.allowed):
            targets.discard(target)
        self._end_halt(origin, budget)
        if budget.waiting:
            self._look_soon(origin, budget, 0.0)

    def rule_changed(self, rule: str) -> None:
        """Evaluate a rule's halted deletions again: the administrator may have allowed them."""
        for origin, budget in self._budgets.items():
            if origin[0] == rule and budget.waiting:
                self._look_soon(origin, budget, 0.0)

    def stored_form(self, origin: RuleAndOwner) -> Mapping[str, Any] | None:
        """Return the window of an owner's copies for the rule's status; None without one."""
        budget = self._budgets.get(origin)
        if budget is None or not budget.is_recorded:
            window = self._stored(origin)
        else:
            window = budget.window and budget.counted(budget.window)
        return None if window is None else stored_form(window)

    def halted(self, rule: str) -> Mapping[ClusterUID, tuple[str, int]]:
        """Return since when which owners' copies are halted, and how many wait."""
        return {
            owner: (budget.window.halted_at, len(budget.waiting))
            for (name, owner), budget in sorted(self._budgets.items())
            if name == rule and budget.window is not None and budget.window.halted_at
        }

    def nothing_waits(self, origin: RuleAndOwner) -> None:
        """End a halt that an earlier process stored, and for which nothing waits: everything was looked at."""
        stored = self._stored(origin)
        if stored is not None and stored.halted_at:
            self._end_halt(origin, self._budget(origin))

    def _budget(self, origin: RuleAndOwner) -> _Budget:
        budget = self._budgets.get(origin)
        if budget is None:
            budget = self._budgets[origin] = _Budget(self._stored(origin))
        return budget

    def _stored(self, origin: RuleAndOwner) -> Window | None:
        return stored_window(self._registry, origin)

    def _count(self, target: Target, origin: RuleAndOwner, budget: _Budget, *, is_sure: bool) -> None:
        if target not in budget.waiting:
            self.withdraw(target)
            self.counted[target] = origin
        elif budget.waiting[target] or not is_sure:
            return
        budget.waiting[target] = is_sure
        budget.sequence = self._queue.sequence
        self._look_soon(origin, budget, 0.0)

    def _note_gone(self, target: Target) -> None:
        """Count a deletion no more once its copy is gone; its kind may not be watched here any longer."""
        origin = self.counted.get(target)
        if origin is not None and target in self._budgets[origin].going and not self._copies.has(target):
            self.withdraw(target)

    def _end_halt(self, origin: RuleAndOwner, budget: _Budget) -> None:
        """End a halt for which nothing waits any more; the deletions before it still count."""
        if not budget.waiting and budget.window is not None and budget.window.halted_at:
            budget.window = replace(budget.window, halted_at="")
            self._changed(origin[0])

    def _look_soon(self, origin: RuleAndOwner, budget: _Budget, delay_s: float) -> None:
        if budget.timer is not None:
            budget.timer.cancel()
        budget.timer = asyncio.get_running_loop().call_later(delay_s, self._look, origin, budget)

    def _look(self, origin: RuleAndOwner, budget: _Budget) -> None:
        budget.timer = None
        if not budget.waiting:
            return
        if not self._queue.has_passed(budget.sequence):
            self._look_soon(origin, budget, _LOOK_S)
            return
        allowed = allowed_moment(self._registry, origin[0])
        before = budget.window and joined(budget.window, self._stored(origin), now=self._now())
        is_allowed = before is not None and bool(before.halted_at) and before.halted_at == allowed
        counted = before and budget.counted(before)
        window, verdict = judge(
            counted,
            present=self._copies.counts[origin] + self._copies.counts["", origin[1]],
            wanted=len(budget.waiting) + len(budget.going),
            now=self._now(),
            percent=self._percent,
            allowed=allowed,
        )
        unsure = [target for target, is_sure in budget.waiting.items() if not is_sure and target not in budget.asked]
        if verdict is not LimitVerdict.GO and unsure and not budget.is_halted:
            self._let_ask(origin, budget, unsure)
            return
        if counted is None or window.start != counted.start or is_allowed:
            budget.kept, budget.allowed, budget.is_recorded = 0, set(), is_allowed
        budget.is_recorded = budget.is_recorded or verdict is not LimitVerdict.GO
        budget.window = replace(window, allowed=window.allowed + budget.kept)
        if budget.window != before and budget.is_recorded:
            self._changed(origin[0])
        match verdict:
            case LimitVerdict.HALT:
                budget.storing_since_s = None
                if before is None or not before.halted_at:
                    self._report_halt(origin, budget)
                self._look_soon(origin, budget, _HALTED_S)
            case LimitVerdict.STORE if self._must_store(origin, budget, budget.window):
                self._look_soon(origin, budget, _STORED_S)
            case LimitVerdict.STORE | LimitVerdict.GO:
                self._let_go(origin, budget, is_allowed=is_allowed)

    def _let_ask(self, origin: RuleAndOwner, budget: _Budget, unsure: list[Target]) -> None:
        """Enqueue the deletions that their proof may refute: without them the set may be small."""
        budget.asked.update(unsure)
        for target in sorted(unsure):
            self._queue.add(target, origin[1])
        budget.sequence = self._queue.sequence
        self._look_soon(origin, budget, _LOOK_S)

    def _must_store(self, origin: RuleAndOwner, budget: _Budget, window: Window) -> bool:
        stored = self._stored(origin)
        now_s = asyncio.get_running_loop().time()
        budget.storing_since_s = now_s if budget.storing_since_s is None else budget.storing_since_s
        is_stored = stored is not None and stored.start == window.start
        return not is_stored and now_s - budget.storing_since_s < _STORED_AT_MOST_S

    def _let_go(self, origin: RuleAndOwner, budget: _Budget, *, is_allowed: bool) -> None:
        budget.storing_since_s = None
        going, budget.waiting = set(budget.waiting), {}
        budget.going |= going
        budget.asked -= going
        if is_allowed:
            budget.allowed = set(budget.going)
        for target in sorted(going):
            self._queue.add(target, origin[1])

    def _report_halt(self, origin: RuleAndOwner, budget: _Budget) -> None:
        log.warning(
            "deletions halted", rule=origin[0], owner=origin[1], copies=self._copies.counts[origin],
            waiting=len(budget.waiting),
        )  # fmt: skip
        for target in sorted(budget.waiting):
            self._queue.add(target, origin[1])


def _is_presumed(decision: Decision) -> bool:
    return isinstance(decision, NeedsProof) and decision.is_presumed


def is_limited(deletion: Delete) -> bool:
    """Report whether a deletion counts; the deletion of a rule is an order, and so is a departure by an act."""
    return deletion.reason is not Reason.RULE_GONE and not deletion.is_order


def stored_window(registry: Registry, origin: RuleAndOwner) -> Window | None:
    """Return the window in a rule's status for its copies from one owner; None without one."""
    rule = registry.rules.get(origin[0])
    clusters = (rule.manifest.get("status") or {}).get("clusters") if rule is not None else None
    for entry in clusters if isinstance(clusters, list) else ():
        if entry.get("clusterID") == origin[1]:
            return window_of(entry.get("deletions"))
    return None


def allowed_moment(registry: Registry, rule: str) -> str:
    """Return the moment of the halt that a rule's annotation lifts; empty for none."""
    held = registry.rules.get(rule)
    return meta.annotations_of(held.manifest).get(meta.ALLOW_DELETIONS, "") if held is not None else ""
