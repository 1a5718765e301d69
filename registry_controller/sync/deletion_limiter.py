"""Holds each decided deletion until its set may go, and counts the deletions that went (W4).

`sync/deletion_sets.py` collects the sets, and has their laws; `core/decision/deletion_limit.py` decides on a set.

Laws: a deletion that was let go and that its proof refutes counts no more · a deletion that counts each time is counted
when its copy goes; any daemon of this cluster may delete it · an order counts nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from registry_controller.api.meta import RULE, ClusterUID, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_deletions import stored_owners
from registry_controller.core.decision.decision import Decision, Delete, Halt, Hold, NeedsProof, Reason, deletion_in
from registry_controller.core.decision.deletion_limit import (
    Charge,
    Window,
    charge_of,
    is_over,
    is_within,
    may_be_there,
    stored_form,
)
from registry_controller.kube.discover import has_definition
from registry_controller.sync.deletion_budget import DeletionBudget, Wish, stored_window
from registry_controller.sync.deletion_history import DeletedPlaces, RuleOrders
from registry_controller.sync.deletion_sets import DeletionSets
from registry_controller.sync.reconciler import Judgment
from registry_controller.sync.workqueue import WorkQueue

_UNCOUNTED: Final = (Charge.ORDER, Charge.MOVE)


class DeletionLimiter:
    """Limits all deletions. `counted` are the targets whose deletion is known, each with its rule and owner.

    `changed` is called with the name of a rule whose status may have changed, `owner_changed` when that of a Cluster
    may have. `has_earlier` returns whether an earlier rule of the name of the one that made a copy was deleted,
    `has_lost_feature` whether a rule does not read from an owner because of a feature that the owner may have lost.
    """

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
        has_earlier: Callable[[Provenance], bool] = lambda _: False,
        has_lost_feature: Callable[[str, ClusterUID], bool] = lambda *_: False,
    ) -> None:
        self._has_earlier = has_earlier
        self._has_lost_feature = has_lost_feature
        self._percent = percent
        self._copies = copies
        self._registry = registry
        self._changed = changed
        self._now = now
        self._places, self._orders = DeletedPlaces(now_s=_now_s), RuleOrders(now_s=_now_s)
        self._sets = DeletionSets(
            percent=percent,
            queue=queue,
            copies=copies,
            registry=registry,
            changed=changed,
            owner_changed=owner_changed,
            now=now,
        )
        self.owners = self._sets.owners
        self._uncounted: dict[Target, Charge] = {}
        self.counted: dict[Target, RuleAndOwner] = {}

    def limit(self, target: Target, decision: Decision, *, rule: str, is_idle: bool = False) -> Decision:
        """Return a deletion, or the question that proves it, once it may go; a Hold before.

        Any other decision but a Hold ends the deletion that was counted, unless it `is_idle`: no rule decides about the
        copy now, as while its rule is suspended.
        """
        deletion = deletion_in(decision)
        if deletion is None:
            if isinstance(decision, Hold) or is_idle:
                self._note_unseen(target)
            elif not isinstance(decision, NeedsProof):
                self.withdraw(target)
            return decision
        if not self._percent():
            return decision
        origin, wish = (rule, deletion.owner), self._wish(target, decision, deletion, rule)
        if wish.charge in _UNCOUNTED:
            self._let_pass(target, origin, wish.charge)
            return decision
        budget = self._sets.budget(origin)
        if self._is_under_way(target, budget, wish):
            if isinstance(decision, Delete):
                self._note_proven(target, origin, budget, wish)
            return decision
        self._count(target, origin, budget, wish)
        halt = self._sets.find_halt(origin, budget)
        if halt is not None:
            return Hold(Reason.DELETION_HALTED, deletion.owner, halt)
        if target in budget.asked and isinstance(decision, NeedsProof):
            return decision
        return Hold(Reason.DELETION_JUDGED, deletion.owner)

    def withdraw(self, target: Target) -> None:
        """Count a deletion no more: the copy is gone, or stays."""
        origin = self.counted.pop(target, None)
        if self._uncounted.pop(target, None) is not None or origin is None:
            return
        budget, is_here = self._sets.budgets[origin], self._copies.has(target)
        if is_here and budget.count.note_kept(target):
            self._changed(origin[0])
        self._drop(target, origin, budget, is_here=is_here)

    def defer(self, target: Target) -> None:
        """Count a deletion that is not due yet no more: it counts when it goes. An allowed one stays allowed."""
        origin = self.counted.get(target)
        budget = self._sets.budgets.get(origin) if origin is not None else None
        if origin is None or budget is None or not self._is_allowed(target, origin, budget):
            self.withdraw(target)

    def note_gone(self, target: Target, decide: Callable[[Target], Judgment]) -> None:
        """Note that a copy, which still counts as here, goes: by this daemon, or by another writer.

        `decide` decides about the copy as it was, where that is not known. A copy that is wanted does not count:
        a person deleted it, or the daemon creates it again.
        """
        origin, charge = self.counted.get(target), self._uncounted.get(target)
        is_known = charge is not None
        if charge is None and origin is not None:
            wish = self._sets.budgets[origin].find(target)
            charge = wish.charge if wish is not None and wish.is_sure else None
            is_known = wish is not None and wish.is_proven
        if not is_known and self._percent():  # another daemon may have had its proof
            origin, found = self._find_charge(target, decide, origin)
            charge = found or charge
        if charge is None or origin is None:
            self.withdraw(target)
            return
        self.counted.pop(target, None)
        self._uncounted.pop(target, None)
        self._note_charge(target, origin, charge, was_here=0)

    def rule_changed(self, rule: str) -> None:
        """Evaluate a rule's halted deletions again: the administrator may have allowed them."""
        if rule in self._registry.rules:
            self._orders.note_back(rule)
        self._sets.look_again(lambda origin: origin[0] == rule)

    def cluster_changed(self) -> None:
        """Evaluate all sets again: an owner's window may be stored now, or the administrator may have allowed them."""
        self._sets.look_again(lambda _: True)

    def stored_form(self, origin: RuleAndOwner) -> Mapping[str, Any] | None:
        """Return the window of an owner's copies for the rule's status; None without one.

        It also holds that a feature may be lost: a restart before the copies are to go must not forget that.
        """
        return stored_form(self._window(origin), is_anew=self._may_lose(origin)) or None

    def _may_lose(self, origin: RuleAndOwner) -> bool:
        """Return whether copies are here that a rule no longer reads because of a feature that may be lost."""
        return self._copies.count(origin) > 0 and self._has_lost_feature(*origin)

    def _window(self, origin: RuleAndOwner) -> Window | None:
        budget = self._sets.budgets.get(origin)
        is_recorded = budget is not None and budget.count.is_recorded
        return budget.count.shown if budget is not None and is_recorded else stored_window(self._registry, origin)

    def list_owners(self, rule: str) -> frozenset[ClusterUID]:
        """List the owners whose entry a rule's status keeps: their window is not over, or a feature may be lost."""
        now, origins = self._now(), self._origins(rule)
        return frozenset(
            origin[1] for origin in origins if not is_over(self._window(origin), now) or self._may_lose(origin)
        )

    def note_halts(self, rule: str) -> None:
        """Note for the owners of a rule's copies whether it is halted: their Clusters store that, too."""
        for origin in self._origins(rule):
            self.owners.note_rule(origin, self.stored_form(origin))

    def _origins(self, rule: str) -> set[RuleAndOwner]:
        found = {origin for origin in self._sets.budgets if origin[0] == rule}
        return found | {(rule, owner) for owner in stored_owners(self._registry, rule)}

    def halted(self, rule: str) -> Mapping[ClusterUID, tuple[Halt, int]]:
        """Return what halts which owners' copies, and how many wait: the rule's limit, or the owner's over all rules.

        A halt of the owner concerns the rules of whose copies some wait.
        """
        found = {}
        for (name, owner), budget in sorted(self._sets.budgets.items()):
            halt = self._sets.find_halt((name, owner), budget) if name == rule else None
            if halt is not None and (halt.kind == RULE or budget.waiting):
                found[owner] = (halt, len(budget.waiting))
        return found

    def nothing_waits(self, origin: RuleAndOwner) -> None:
        """End a halt that an earlier process stored, and for which nothing waits: everything was looked at."""
        stored = stored_window(self._registry, origin)
        if stored is not None and stored.halted_at:
            self._sets.has_shrunk(origin, self._sets.budget(origin))

    # Counting.

    def _wish(self, target: Target, decision: Decision, deletion: Delete, rule: str) -> Wish:
        charge = charge_of(
            deletion,
            stands=deletion.reason is Reason.MOVED and self._copies.has_other(target),
            is_repeated=self._places.has(target),
            is_first_of_rule=deletion.reason is not Reason.RULE_GONE
            or self._orders.is_first(rule, was_repeated=lambda: self._was_repeated(target, deletion.owner)),
        )
        is_proven = isinstance(decision, Delete)
        is_sure = is_proven or (isinstance(decision, NeedsProof) and decision.is_presumed)
        return Wish(charge, is_sure, deletion.is_anew, is_proven)

    def _was_repeated(self, target: Target, owner: ClusterUID) -> bool:
        """Return whether the deletion of a copy's rule seems to be a second one, which an earlier process has seen.

        That process has halted deletions of the owner, or the rule was created within the window, after another one
        of its name was deleted.
        """
        if self.owners.is_halted(owner):
            return True
        _, record = self._copies.find(target)
        provenance = record.marks.provenance if record is not None else None
        return (
            provenance is not None
            and is_within(provenance.rule_created, now=self._now())
            and self._has_earlier(provenance)
        )

    def _find_charge(
        self, target: Target, decide: Callable[[Target], Judgment], origin: RuleAndOwner | None
    ) -> tuple[RuleAndOwner | None, Charge | None]:
        """Return the rule and owner of an unwanted copy, and how its deletion counts; None for a wanted one."""
        try:
            state, _, decision = decide(target)
        except Exception:  # the source, or the rule, may be of another cluster: the next decision reports the error
            return origin, None
        deletion = deletion_in(decision)
        if deletion is None:
            return origin, None
        origin = origin or (state.origin.rule, deletion.owner)
        if isinstance(decision, NeedsProof) and may_be_there(state):
            return origin, Charge.GROSS
        return origin, self._wish(target, decision, deletion, origin[0]).charge

    def _let_pass(self, target: Target, origin: RuleAndOwner, charge: Charge) -> None:
        """Record a deletion that does not count until its copy is gone, or stays."""
        if self._uncounted.get(target) is not charge:
            self.withdraw(target)
            self.counted[target], self._uncounted[target] = origin, charge

    def _is_under_way(self, target: Target, budget: DeletionBudget, wish: Wish) -> bool:
        """Report whether a deletion was let go, as one of its kind."""
        going = budget.going.get(target)
        return going is not None and (going.is_anew or not wish.is_anew)

    def _is_allowed(self, target: Target, origin: RuleAndOwner, budget: DeletionBudget) -> bool:
        return target in budget.count.allowed or self.owners.has_allowed(origin[1], target)

    def _note_proven(self, target: Target, origin: RuleAndOwner, budget: DeletionBudget, wish: Wish) -> None:
        """Note the charge of a deletion that is proven."""
        budget.going[target] = wish
        if not budget.count.is_recorded:
            budget.count.is_recorded = True
            self._changed(origin[0])
        if target not in budget.excused:
            self.owners.note_proven(origin[1])

    def _count(self, target: Target, origin: RuleAndOwner, budget: DeletionBudget, wish: Wish) -> None:
        waiting = budget.waiting.get(target)
        if waiting is None:
            self.withdraw(target)
            self.counted[target] = origin
        elif waiting == (wish := wish.after(waiting)):
            return
        budget.waiting[target] = wish
        source = self._copies.source_kind(target)
        self._sets.has_grown(origin, budget, is_custom=source is not None and has_definition(source))

    def _note_unseen(self, target: Target) -> None:
        """Count a deletion whose copy is gone without an event: its kind may not be watched here any longer."""
        origin = self.counted.get(target)
        if origin is None or target in self._uncounted or self._copies.has(target):
            return
        wish = self._sets.budgets[origin].going.get(target)
        if wish is not None:
            del self.counted[target]
            self._note_charge(target, origin, wish.charge, was_here=1)

    def _note_charge(self, target: Target, origin: RuleAndOwner, charge: Charge, *, was_here: int) -> None:
        """Count a copy that goes, in its rule's window and in its owner's.

        `was_here` is 1 if the copy is not known any more.
        """
        rule, owner = origin
        present, of_owner = self._copies.count(origin) + was_here, self._copies.by_owner[owner] + was_here
        budget = self._sets.budget(origin)
        is_excused = target in budget.excused
        if charge is Charge.ORDER:
            budget.count.lower(present=present)
        if charge is Charge.GROSS:
            budget.count.count(target, present=present, now=self._now())
            self._changed(rule)
        if charge is Charge.ORDER or is_excused:
            self.owners.lower(owner, present=of_owner)
        elif charge is Charge.GROSS:
            self.owners.count(owner, target, present=of_owner)
        if charge not in _UNCOUNTED:
            self._places.note(target)
        self._drop(target, origin, budget, is_here=False)

    def _drop(self, target: Target, origin: RuleAndOwner, budget: DeletionBudget, *, is_here: bool) -> None:
        budget.drop(target)
        self.owners.withdraw(origin[1], target, is_here=is_here)
        self._sets.has_shrunk(origin, budget)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def is_limited(deletion: Delete) -> bool:
    """Report whether a deletion counts that no other of its place, or of its rule, preceded."""
    return charge_of(deletion, stands=True, is_repeated=False, is_first_of_rule=True) not in _UNCOUNTED
