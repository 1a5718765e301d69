"""What happened in many schedules, counted: reasons, clauses, faults and deeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from registry_controller.core.decision import Reason

UNREACHABLE: Final[Mapping[str, str]] = {}
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
