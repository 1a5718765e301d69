"""What happened in many schedules, counted: reasons, clauses, faults and deeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from registry_controller.core.decision import Reason

CLAUSES: Final = (
    "O1", "O3", "O4", "O5", "O6", "O8", "O9", "W1", "W2", "W3", "W5", "W6", "A1", "A2", "A3", "A4", "A6", "P5", "R5",
    "S2",
)  # fmt: skip
"""What the observer and the oracle put to the test, each in a place of its own."""

UNREACHABLE: Final[Mapping[str, str]] = {
    Reason.REBUILT.value: "no cluster is replaced by another one: test_rebuilt.py does that",
    Reason.DELETION_HALTED.value: "50 copies may always go, and no rule has so many here: test_brake.py has",
    Reason.TOO_MANY.value: "nobody brings so many Clusters: test_lies.py does that",
    **dict.fromkeys(
        (Reason.NOT_ALLOWED.value, Reason.CLOSED.value, Reason.RESERVED.value),
        "no administrator here limits rules: test_synced_rules.py has those",
    ),
}
"""Reasons that cannot occur here, and why."""


@dataclass
class Tally:
    """Counts, by name."""

    reasons: Counter[str] = field(default_factory=Counter)
    clauses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)

    def clause(self, name: str) -> None:
        """Count that a clause was put to the test."""
        self.clauses[name] += 1

    def add(self, other: Tally) -> None:
        """Add what another one counted."""
        self.reasons += other.reasons
        self.clauses += other.clauses
        self.faults += other.faults
        self.deeds += other.deeds

    def missing_reasons(self) -> list[str]:
        """List the reasons that never occurred and could have."""
        return [reason.value for reason in Reason if not self.reasons[reason.value] and reason.value not in UNREACHABLE]
