"""What became of each target: counted by rule and owner, so that a status costs nothing to say.

Law: a target has one outcome; the counts are the sums of the outcomes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID, Target

SAMPLES: Final = 5
"""How many failing objects a rule's status names per cluster."""


class Class(enum.Enum):
    """How a target fares."""

    SYNCED = "synced"
    FAILING = "failing"
    HELD = "held"
    SKIPPED = "skipped"
    CONFLICTING = "conflicting"


class Outcome(NamedTuple):
    """What became of a target."""

    rule: str
    owner: ClusterUID
    fate: Class
    reason: str


class Failure(NamedTuple):
    """One failing object, for a status."""

    target: str
    reason: str
    message: str


Place = tuple[str, ClusterUID]


class Ledger:
    """Outcomes of all targets. `on_change` hears the name of a rule whose counts changed."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self._outcomes: dict[Target, Outcome] = {}
        self._shared: dict[Outcome, Outcome] = {}
        self._counts: dict[Place, Counter[Class]] = {}
        self._failures: dict[Place, dict[Target, Failure]] = {}
        self.wrote_at: dict[Place, datetime] = {}
        self._on_change = on_change

    def note(self, target: Target, outcome: Outcome | None, *, message: str = "") -> bool:
        """Replace a target's outcome; None forgets it. Say whether it changed."""
        old = self._outcomes.get(target)
        changed = old != outcome
        if changed and old is not None:
            self._count(target, old, -1)
        if outcome is None:
            self._outcomes.pop(target, None)
            return changed
        if changed:
            shared = self._shared.setdefault(outcome, outcome)
            self._outcomes[target] = shared
            self._count(target, shared, 1)
        if outcome.fate in (Class.FAILING, Class.CONFLICTING):
            self._sample(target, outcome, message)
        return changed

    def wrote(self, place: Place, at: datetime) -> None:
        """Remember when something was last written for a rule from an owner."""
        self.wrote_at[place] = at
        self._on_change(place[0])

    def places(self, rule: str) -> Iterable[ClusterUID]:
        """List the owners from which a rule has outcomes."""
        return [owner for held, owner in self._counts if held == rule]

    def all_places(self) -> Iterable[Place]:
        """List every rule and owner with outcomes."""
        return list(self._counts)

    def held(self) -> Iterable[tuple[Outcome, int]]:
        """Count the copies that wait, by outcome; reads all of them."""
        return Counter(outcome for outcome in self._outcomes.values() if outcome.fate is Class.HELD).items()

    def counts(self, place: Place) -> Counter[Class]:
        """Tell how many targets of a rule from an owner fare how."""
        return self._counts.get(place, Counter())

    def failures(self, place: Place) -> tuple[Failure, ...]:
        """Name a few failing objects."""
        return tuple(sorted(self._failures.get(place, {}).values()))[:SAMPLES]

    def _count(self, target: Target, outcome: Outcome, step: int) -> None:
        place = (outcome.rule, outcome.owner)
        counts = self._counts.setdefault(place, Counter())
        counts[outcome.fate] += step
        if step < 0:
            self._failures.get(place, {}).pop(target, None)
            if not any(counts.values()):
                self._counts.pop(place)
                self._failures.pop(place, None)
        self._on_change(outcome.rule)

    def _sample(self, target: Target, outcome: Outcome, message: str) -> None:
        place = (outcome.rule, outcome.owner)
        held = self._failures.setdefault(place, {})
        failure = Failure(str(target), outcome.reason, message)
        if (target in held or len(held) < SAMPLES) and held.get(target) != failure:
            held[target] = failure
            self._on_change(outcome.rule)
