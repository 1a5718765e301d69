"""The brake on deletions at work: wishes are gathered, judged as sets, and let go or halted (W4).

Laws: no wish is judged before everything that was wanted with it has been looked at · what is let go beyond a handful
was stored first · deleting a rule is an order, and not braked.
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
from registry_controller.core.decision.decision import Decision, Delete, Hold, Reason
from registry_controller.core.decision.deletion_limit import LimitVerdict, Window, joined, judge, stored_form, window_of
from registry_controller.report.logs import get_logger
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_LOOK_S: Final = 0.02
_STORED_S: Final = 0.25
_STORED_AT_MOST_S: Final = 30.0
"""A CRD that does not know the field drops what is stored; deletions go on then, counted in memory alone."""
_HALTED_S: Final = 10.0


@dataclass(slots=True)
class _Budget:
    """One rule's copies from one owner: who waits, and who was let go and is still here."""

    window: Window | None
    waiting: set[Target] = field(default_factory=set)
    going: set[Target] = field(default_factory=set)
    sequence: int = 0
    timer: asyncio.Handle | None = None
    storing_since_s: float | None = None


class DeletionLimiter:
    """The judge of all deletions. `changed` hears the name of a rule whose status may say something else."""

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
        self._places: dict[RuleAndOwner, _Budget] = {}
        self._waits_at: dict[Target, RuleAndOwner] = {}

    def judge(self, target: Target, decision: Decision, *, rule: str) -> Decision:
        """Let a deletion go, or hold it until its whole set is judged; any other decision ends the wish for one."""
        if isinstance(decision, Hold):
            self._note_gone(target)
            return decision
        if not isinstance(decision, Delete):
            self._withdraw(target)
            return decision
        if not self._percent or not is_limited(decision):
            return decision
        origin = (rule, decision.owner)
        place = self._place(origin)
        if target in place.going:
            return decision
        if target not in place.waiting:
            self._withdraw(target)
            place.waiting.add(target)
            self._waits_at[target] = origin
            place.sequence = self._queue.sequence
            self._look_soon(origin, place, 0.0)
        if place.window is not None and place.window.halted_at:
            return Hold(Reason.DELETION_HALTED, decision.owner)
        return Hold(Reason.DELETION_JUDGED, decision.owner)

    def rule_changed(self, rule: str) -> None:
        """Hear that a rule changed: somebody may have allowed what is halted."""
        for origin, place in self._places.items():
            if origin[0] == rule and place.waiting:
                self._look_soon(origin, place, 0.0)

    def stored_form(self, origin: RuleAndOwner) -> Mapping[str, Any] | None:
        """Spell what the rule's status is to hold of a place; None for nothing."""
        held = self._places.get(origin)
        window = held.window if held is not None else self._stored(origin)
        return None if window is None else stored_form(window)

    def halted(self, rule: str) -> Mapping[ClusterUID, tuple[str, int]]:
        """Tell since when which owners' copies are halted, and how many wait."""
        return {
            owner: (place.window.halted_at, len(place.waiting))
            for (name, owner), place in sorted(self._places.items())
            if name == rule and place.window is not None and place.window.halted_at
        }

    def nothing_waits(self, origin: RuleAndOwner) -> None:
        """Hear that everything was looked at: a halt that a former life stored, and that holds nobody, is over."""
        stored = self._stored(origin)
        if stored is not None and stored.halted_at:
            self._end_halt(origin, self._place(origin))

    def _place(self, origin: RuleAndOwner) -> _Budget:
        place = self._places.get(origin)
        if place is None:
            place = self._places[origin] = _Budget(self._stored(origin))
        return place

    def _stored(self, origin: RuleAndOwner) -> Window | None:
        return stored_window(self._registry, origin)

    def _allowed(self, rule: str) -> str:
        return allowed_moment(self._registry, rule)

    def _withdraw(self, target: Target) -> None:
        origin = self._waits_at.pop(target, None)
        place = self._places.get(origin) if origin is not None else None
        if origin is None or place is None:
            return
        place.waiting.discard(target)
        place.going.discard(target)
        self._end_halt(origin, place)
        if place.waiting:
            self._look_soon(origin, place, 0.0)

    def _note_gone(self, target: Target) -> None:
        """Count one that was let go no more once it is gone, of a kind that may not be heard here any longer."""
        origin = self._waits_at.get(target)
        if origin is not None and target in self._places[origin].going and not self._copies.has(target):
            self._withdraw(target)

    def _end_halt(self, origin: RuleAndOwner, place: _Budget) -> None:
        """End a halt for which nobody waits any more; what went before it still counts."""
        if not place.waiting and place.window is not None and place.window.halted_at:
            place.window = replace(place.window, halted_at="")
            self._changed(origin[0])

    def _look_soon(self, origin: RuleAndOwner, place: _Budget, delay_s: float) -> None:
        if place.timer is not None:
            place.timer.cancel()
        place.timer = asyncio.get_running_loop().call_later(delay_s, self._look, origin, place)

    def _look(self, origin: RuleAndOwner, place: _Budget) -> None:
        place.timer = None
        if not place.waiting:
            return
        if not self._queue.has_passed(place.sequence):
            self._look_soon(origin, place, _LOOK_S)
            return
        rule = origin[0]
        before = place.window and joined(place.window, self._stored(origin), now=self._now())
        place.window, verdict = judge(
            before,
            present=self._copies.counts[origin] + self._copies.counts["", origin[1]],
            wanted=len(place.waiting) + len(place.going),
            now=self._now(),
            percent=self._percent,
            allowed=self._allowed(rule),
        )
        if place.window != before:
            self._changed(rule)
        match verdict:
            case LimitVerdict.HALT:
                place.storing_since_s = None
                if before is None or not before.halted_at:
                    self._say_halted(origin, place)
                self._look_soon(origin, place, _HALTED_S)
            case LimitVerdict.STORE if self._must_store(origin, place, place.window):
                self._look_soon(origin, place, _STORED_S)
            case LimitVerdict.STORE | LimitVerdict.GO:
                self._let_go(origin, place)

    def _must_store(self, origin: RuleAndOwner, place: _Budget, window: Window) -> bool:
        stored = self._stored(origin)
        now_s = asyncio.get_running_loop().time()
        place.storing_since_s = now_s if place.storing_since_s is None else place.storing_since_s
        is_stored = stored is not None and stored.start == window.start
        return not is_stored and now_s - place.storing_since_s < _STORED_AT_MOST_S

    def _let_go(self, origin: RuleAndOwner, place: _Budget) -> None:
        place.storing_since_s = None
        going, place.waiting = place.waiting, set()
        place.going |= going
        for target in sorted(going):
            self._queue.add(target, origin[1])

    def _say_halted(self, origin: RuleAndOwner, place: _Budget) -> None:
        log.warning(
            "deletions halted", rule=origin[0], owner=origin[1], copies=self._copies.counts[origin],
            waiting=len(place.waiting),
        )  # fmt: skip
        for target in sorted(place.waiting):
            self._queue.add(target, origin[1])


def is_limited(deletion: Delete) -> bool:
    """Say whether a deletion counts; deleting a rule is an order."""
    return deletion.reason is not Reason.RULE_GONE


def stored_window(registry: Registry, origin: RuleAndOwner) -> Window | None:
    """Find what a rule's status holds of its copies from one owner."""
    rule = registry.rules.get(origin[0])
    clusters = (rule.manifest.get("status") or {}).get("clusters") if rule is not None else None
    for entry in clusters if isinstance(clusters, list) else ():
        if entry.get("clusterID") == origin[1]:
            return window_of(entry.get("deletions"))
    return None


def allowed_moment(registry: Registry, rule: str) -> str:
    """Tell which halt a rule's annotation lifts; empty for none."""
    held = registry.rules.get(rule)
    return meta.annotations_of(held.manifest).get(meta.ALLOW_DELETIONS, "") if held is not None else ""
