"""The latest result of each target, counted by rule and owner, so that a status costs no pass over the targets.

Law: a target has one result for each source, or rule, that claims it; the counts are the sums of the results.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.interner import Interner
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.state import SourceRef

SAMPLES: Final = 5
"""The number of failing objects that a rule's status names per cluster."""

MOST_PLACES: Final = 16_384
"""The most places whose latest moment is kept: 1,024 rules that read 16 members. The oldest moment is dropped first."""


class ResultClass(enum.Enum):
    """The class of a target's result, as a rule's status counts it."""

    SYNCED = "synced"
    FAILING = "failing"
    WAITING = "waiting"
    HELD = "held"
    SKIPPED = "skipped"
    CONFLICTING = "conflicting"


_MAY_MATCH_AGAIN: Final = Reason.MAY_MATCH_AGAIN.value
_SAMPLED: Final = frozenset((ResultClass.FAILING, ResultClass.CONFLICTING, ResultClass.WAITING))


Place = tuple[str, ClusterUID]
"""A rule and an owner."""


class TargetResult(NamedTuple):
    """The result of a target for one rule and one owner."""

    rule: str
    owner: ClusterUID
    result: ResultClass
    reason: str

    @property
    def place(self) -> Place:
        return (self.rule, self.owner)


class ReportedResult(NamedTuple):
    """A result, a message where a person may have to act, and the source of a claim that lost its target."""

    outcome: TargetResult
    message: str
    source: SourceRef | None = None

    @property
    def is_shown(self) -> bool:
        """Report whether a status names the object; a skipped object needs a message for that."""
        if self.outcome.reason == _MAY_MATCH_AGAIN:
            return True
        return self.outcome.result in _SAMPLED or (self.outcome.result is ResultClass.SKIPPED and bool(self.message))


class FailedTarget(NamedTuple):
    """One failing object, for a status."""

    target: str
    reason: str
    message: str


class Results:
    """The results of all targets. `on_change` is called with the name of a rule whose counts changed."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self._outcomes: dict[Target, tuple[TargetResult, ...]] = {}
        self._shared: Interner[tuple[TargetResult, ...]] = Interner()
        self._counts: dict[Place, Counter[ResultClass]] = {}
        self._failures: dict[Place, dict[Target, FailedTarget]] = {}
        self.wrote_at: dict[Place, datetime] = {}
        self.went_back_at: dict[Place, datetime] = {}
        self._on_change = on_change

    def record(self, target: Target, said: Sequence[ReportedResult]) -> bool:
        """Replace the results of a target; no results remove it. Return whether they changed."""
        outcomes = tuple([one.outcome for one in said])
        old = self._outcomes.get(target, ())
        changed = old != outcomes
        if changed:
            for outcome in old:
                self._count(target, outcome, -1)
            for outcome in outcomes:
                self._count(target, outcome, 1)
            self._outcomes.pop(target, None)
            if outcomes:
                self._outcomes[target] = self._shared.one(outcomes)
        shown = [one for one in said if one.is_shown]
        for outcome, message, _ in shown:
            self._sample(target, outcome, message)
        told = {one.outcome.place for one in shown}
        for outcome in outcomes:
            failures = self._failures.get(outcome.place)
            if failures and outcome.place not in told and failures.pop(target, None) is not None:
                self._on_change(outcome.rule)
        return changed

    def record_write(self, place: Place, at: datetime) -> None:
        """Record when a copy was last written for a rule from an owner."""
        _note(self.wrote_at, place, at)
        self._on_change(place[0])

    def record_history_restored(self, place: Place, at: datetime) -> None:
        """Record when an owner was found in an older state than before."""
        _note(self.went_back_at, place, at)
        self._on_change(place[0])

    def places(self, rule: str) -> Iterable[ClusterUID]:
        """List the owners from which a rule has results."""
        return [owner for held, owner in self._counts if held == rule]

    def all_places(self) -> Iterable[Place]:
        """List every rule and owner with results."""
        return list(self._counts)

    def held(self) -> Iterable[tuple[TargetResult, int]]:
        """Count the held copies by result; reads every target."""
        every = (outcome for outcomes in self._outcomes.values() for outcome in outcomes)
        return Counter(outcome for outcome in every if outcome.result is ResultClass.HELD).items()

    def counts(self, place: Place) -> Counter[ResultClass]:
        """Return the number of targets of a rule from an owner, by class."""
        return self._counts.get(place, Counter())

    def failures(self, place: Place) -> tuple[FailedTarget, ...]:
        """List a few failing objects."""
        return tuple(sorted(self._failures.get(place, {}).values()))[:SAMPLES]

    def _count(self, target: Target, outcome: TargetResult, step: int) -> None:
        place = outcome.place
        counts = self._counts.get(place)
        if counts is None:
            counts = self._counts[place] = Counter()
        counts[outcome.result] += step
        if step < 0:
            self._failures.get(place, {}).pop(target, None)
            if not any(counts.values()):
                self._counts.pop(place)
                self._failures.pop(place, None)
        self._on_change(outcome.rule)

    def _sample(self, target: Target, outcome: TargetResult, message: str) -> None:
        held = self._failures.setdefault(outcome.place, {})
        failure = FailedTarget(str(target), outcome.reason, message)
        if (target in held or len(held) < SAMPLES) and held.get(target) != failure:
            held[target] = failure
            self._on_change(outcome.rule)


def _note(moments: dict[Place, datetime], place: Place, at: datetime) -> None:
    moments.pop(place, None)
    moments[place] = at
    if len(moments) > MOST_PLACES:
        del moments[next(iter(moments))]
