"""What happened in many schedules, counted: reasons, clauses, faults, deeds and their effects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from registry_controller.core.decision.decision import Reason
from tests.sim.cluster.habits import Habit

CLAUSES: Final = (
    "O1", "O2", "O3", "O4", "O5", "O6", "O7", "O8", "O9", "O10", "O11", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8",
    "W9", "A1", "A2", "A3", "A4", "A5", "A6", "A8", "A9", "A10", "A11", "P5", "P7", "P11", "R5", "S1", "S2", "S3", "S4",
    "G1", "G2", "G3", "G4", "G5", "G6", "G7",
)  # fmt: skip
"""What the observer, its guards and the oracle put to the test, each in a place of its own. G1 to G7 are the laws of
programs on the library: `checks/program.py` names them."""

RESTORED: Final = "an etcd is restored"
RESTORED_AHEAD: Final = "an etcd is restored with a raised revision"
PROGRAM_STARTS: Final = "a program starts"
EFFECTS: Final = (RESTORED, RESTORED_AHEAD, PROGRAM_STARTS, *(habit.effect for habit in Habit))
"""What a deed does only where it can, or in one of several ways."""


@dataclass
class Tally:
    """Counts, by name."""

    reasons: Counter[str] = field(default_factory=Counter)
    clauses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)

    def clause(self, name: str) -> None:
        """Count that a clause was put to the test."""
        self.clauses[name] += 1

    def effect(self, name: str) -> None:
        """Count that a deed had an effect."""
        self.effects[name] += 1

    def add(self, other: Tally) -> None:
        """Add what another one counted."""
        self.reasons += other.reasons
        self.clauses += other.clauses
        self.faults += other.faults
        self.deeds += other.deeds
        self.effects += other.effects

    def missing_reasons(self) -> list[str]:
        """List the reasons that never occurred."""
        return [reason.value for reason in Reason if not self.reasons[reason.value]]
