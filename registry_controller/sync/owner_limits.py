"""Limits the deletions of all copies of an owner, over all rules (W4). The owner's Cluster here stores and lifts it.

Law: a deletion that the limit of its rule has halted, or that a person allowed there, does not count for its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import RuleAndOwner
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_deletions import stored_halts
from registry_controller.core.decision.decision import Halt
from registry_controller.core.decision.deletion_limit import (
    LimitVerdict,
    Window,
    is_notable,
    is_over,
    stored_form,
    sum_windows,
    window_of,
)
from registry_controller.core.decision.rule_halts import RuleHalts, halt_in, stored_halts_form
from registry_controller.sync.deletion_budget import DeletionBudget, stored_window
from registry_controller.sync.deletion_count import DeletionCount, Judged


class OwnerDeletions(NamedTuple):
    """The window of an owner's copies, how many deletions its halt keeps back, and the halts of single rules.

    `window` is None without a deletion that counts. `is_known` is false while an earlier process has stored the halt,
    and not everything was looked at again.
    """

    window: Window | None
    waiting: int
    is_known: bool = True
    rules: RuleHalts = MappingProxyType({})

    @property
    def form(self) -> Mapping[str, Any]:
        """The form in a status."""
        return {**stored_form(self.window), **stored_halts_form(self.rules)}


class OwnerLimits:
    """The counts of owners. `changed` is called when the status of a Cluster may differ."""

    def __init__(
        self,
        *,
        percent: Callable[[], int],
        copies: CopyIndex,
        registry: Registry,
        budgets: Mapping[RuleAndOwner, DeletionBudget],
        changed: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._percent = percent
        self._copies = copies
        self._registry = registry
        self._budgets = budgets
        self._changed = changed
        self._now = now
        self._counts: dict[ClusterUID, DeletionCount] = {}
        self._rules: dict[RuleAndOwner, str | None] = {}
        """The halts of rules since the start; None for a rule without one."""

    def is_halted(self, owner: ClusterUID) -> bool:
        """Return whether no more copies of an owner may go."""
        return bool(self._count_of(owner).halted_at)

    def find_halt(self, owner: ClusterUID) -> Halt | None:
        """Return the halt of an owner's copies; None while they may go."""
        since = self._count_of(owner).halted_at
        return Halt(meta.CLUSTER, cluster_name(self._registry, owner), since) if since else None

    def judge(self, owner: ClusterUID, *, excused: DeletionBudget | None) -> Judged | None:
        """Evaluate all deletions that are wanted of an owner's copies as one set.

        Return None where no Cluster here could lift a halt. The rule's annotation has allowed what waits in `excused`.
        """
        if not has_cluster(self._registry, owner):
            return None
        wanted = self._list_wanted(owner, excused=excused)
        return self._recover(owner).judge(
            stored=stored_limit(self._registry, owner),
            present=self._copies.by_owner[owner],
            wanted=len(wanted),
            now=self._now(),
            percent=self._percent(),
            allowed=moment_allowed(self._registry, owner),
            is_anew=any(budget.is_anew for budget in self.budgets_of(owner)),
        )

    def keep(self, owner: ClusterUID, found: Judged) -> bool:
        """Keep the result of an evaluation; return whether it ends a halt."""
        count = self._count_of(owner)
        was_halted = bool(count.halted_at)
        if count.keep(found) or found.verdict is LimitVerdict.HALT:  # which reports how many wait
            self._changed()
        if found.is_allowed:
            count.allowed = set(self._list_wanted(owner, excused=None))
        return was_halted and not count.halted_at

    def has_allowed(self, owner: ClusterUID, target: Target) -> bool:
        """Return whether the administrator let a copy go that is still here."""
        return target in self._count_of(owner).allowed

    def must_store(self, owner: ClusterUID) -> bool:
        """Return whether deletions wait until the window of their owner is stored."""
        return self._count_of(owner).must_store(stored_limit(self._registry, owner))

    def has_let_go(self, owner: ClusterUID) -> None:
        """Note that nothing waits for the status of the owner's Cluster."""
        self._count_of(owner).has_let_go()

    def count(self, owner: ClusterUID, target: Target, *, present: int) -> None:
        """Count the deletion of one of the `present` copies each time."""
        count = self._recover(owner)
        count.count(target, present=present, now=self._now())
        self._changed()

    def note_proven(self, owner: ClusterUID) -> None:
        """Note that a deletion in the window is proven: the owner's Cluster stores the window from now on."""
        count = self._recover(owner)
        if not count.is_recorded:
            count.is_recorded = True
            self._changed()

    def lower(self, owner: ClusterUID, *, present: int) -> None:
        """Note that one of the `present` copies goes by an order."""
        self._count_of(owner).lower(present=present)

    def withdraw(self, owner: ClusterUID, target: Target, *, is_here: bool) -> None:
        """Note that a copy stays, or is gone."""
        count = self._count_of(owner)
        if (is_here and count.note_kept(target)) or count.halted_at:
            self._changed()
        count.allowed.discard(target)
        self.end_halt(owner)

    def end_halt(self, owner: ClusterUID) -> None:
        """End the halt of an owner if nothing waits for it."""
        if not any(budget.waiting for budget in self.budgets_of(owner)) and self._count_of(owner).end_halt():
            self._changed()

    def nothing_waits(self, owner: ClusterUID) -> None:
        """End a halt that an earlier process stored, and for which nothing waits: everything was looked at."""
        stored = stored_limit(self._registry, owner)
        if stored is not None and stored.halted_at:
            self.end_halt(owner)

    def note_rule(self, origin: RuleAndOwner, form: Mapping[str, Any] | None) -> None:
        """Note the entry for the status of a rule: the owner's Cluster stores the halt, too."""
        before, now = self._rules.get(origin, ""), halt_in(form)
        self._rules[origin] = now
        if now != before:
            self._changed()

    def _list_halts(self, owner: ClusterUID) -> RuleHalts:
        """Map the rules that are halted to the moments: as they were stored, where nothing else is known yet.

        A rule that is missing may come back, while its copies are here.
        """
        here = {rule: halt for (rule, of), halt in self._rules.items() if of == owner}
        found = {**stored_halts(self._registry, owner), **here}
        return {
            rule: halt
            for rule, halt in found.items()
            if halt is not None
            and (
                rule in self._registry.acting
                or not self._registry.shows_missing_rules
                or self._copies.count((rule, owner))
            )
        }

    def report(self, owner: ClusterUID, *, is_settled: bool) -> OwnerDeletions | None:
        """Return the counts that the owner's Cluster has to store; None without any, and while no rule is halted.

        A window that is over stays there until the next one: an idle group writes nothing.
        """
        stored, count = stored_limit(self._registry, owner), self._counts.get(owner)
        window = stored
        if count is not None and count.is_recorded:
            window = count.shown
        rules = self._list_halts(owner)
        if window is None or not is_notable(window):
            return OwnerDeletions(None, 0, rules=rules) if rules else None
        is_new = stored is None or stored.halted_at != window.halted_at
        waiting = sum(len(budget.waiting) for budget in self.budgets_of(owner))
        return OwnerDeletions(window, waiting, is_settled or is_new or not window.halted_at, rules)

    def budgets_of(self, owner: ClusterUID) -> Iterator[DeletionBudget]:
        """List the budgets of an owner's copies."""
        return (budget for origin, budget in self._budgets.items() if origin[1] == owner)

    def _list_wanted(self, owner: ClusterUID, *, excused: DeletionBudget | None) -> list[Target]:
        return [
            target
            for budget in self.budgets_of(owner)
            for target in budget.wanted_of_owner(is_excused=budget is excused)
        ]

    def _recover(self, owner: ClusterUID) -> DeletionCount:
        """Return the counts of an owner; where its own window is over or not known, the sum of its rules' windows.

        A daemon may have been killed before it stored the window of the owner.
        """
        count = self._count_of(owner)
        if is_over(count.window, self._now()):
            known = known_limit(self._registry, self._copies, owner, now=self._now())
            if not is_over(known, self._now()):
                count = self._counts[owner] = DeletionCount(known, is_here=self._copies.has)
        return count

    def _count_of(self, owner: ClusterUID) -> DeletionCount:
        count = self._counts.get(owner)
        if count is None:
            count = self._counts[owner] = DeletionCount(stored_limit(self._registry, owner), is_here=self._copies.has)
        return count


def has_cluster(registry: Registry, owner: ClusterUID) -> bool:
    """Return whether a Cluster here can store and lift the limit of an owner."""
    return bool(registry.clusters_of(owner))


def cluster_name(registry: Registry, owner: ClusterUID) -> str:
    """Return the name of the Cluster here that stores and lifts the limit of an owner; its ID without one."""
    found = registry.clusters_of(owner)
    storing = (one for one in found if one.deletions is not None)
    stored = next(storing, next(iter(found), None))
    return stored.cluster.name if stored is not None and stored.cluster is not None else str(owner)


def stored_owner_halt(registry: Registry, owner: ClusterUID) -> Halt | None:
    """Return the halt in the status of the owner's Cluster, unless its annotation lifts it; None without one."""
    limit = stored_limit(registry, owner)
    if limit is None or not limit.halted_at or limit.halted_at == moment_allowed(registry, owner):
        return None
    return Halt(meta.CLUSTER, cluster_name(registry, owner), limit.halted_at)


def stored_limit(registry: Registry, owner: ClusterUID) -> Window | None:
    """Return the window in the status of the owner's Cluster; None without one."""
    found = (window_of(stored.deletions) for stored in registry.clusters_of(owner))
    return next((window for window in found if window is not None), None)


def known_limit(registry: Registry, copies: CopyIndex, owner: ClusterUID, *, now: datetime) -> Window | None:
    """Return the window of an owner's copies: that of its Cluster here, or else the sum of its rules' windows."""
    stored = stored_limit(registry, owner)
    if not is_over(stored, now):
        return stored
    windows = ((stored_window(registry, (rule, owner)), copies.count((rule, owner))) for rule in registry.rules)
    known = [(window, here) for window, here in windows if window is not None]
    return sum_windows(known, present=copies.by_owner[owner], now=now) or stored


def moment_allowed(registry: Registry, owner: ClusterUID) -> str:
    """Return the moment of the halt that the annotation of the owner's Cluster lifts; empty for none."""
    held = (meta.annotations_of(stored.manifest) for stored in registry.clusters_of(owner))
    return next(filter(None, (annotations.get(meta.ALLOW_DELETIONS) for annotations in held)), "")
