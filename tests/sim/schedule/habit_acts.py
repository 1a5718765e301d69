"""What API servers make of objects in a schedule, and who edits the status of copies."""

from __future__ import annotations

from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.fields import Manifest, Path
from tests.sim.cluster.habits import RENEWED, Habit
from tests.sim.cluster.member import Member
from tests.sim.schedule.drawing import one_and_a_value
from tests.sim.schedule.stage import Stage, deed
from tests.sim.schedule.vocabulary import LEFT

_PATHS: dict[Habit, Path] = {
    Habit.NORMALISES: ("spec", LEFT),
    Habit.STAMPS: (),
    Habit.REFUSES_DRY_RUNS: (),
    Habit.DENIES_DRY_RUNS: (),
    Habit.KEEPS: ("spec", "where"),
    Habit.RENEWS: ("metadata", "annotations", RENEWED),
}
KIND = "Widget"


@deed(
    lambda chance, who, names: (chance.choice(sorted(_PATHS, key=lambda habit: habit.name)).name,), fault=True, weight=5
)
def has_a_habit(stage: Stage, member: Member, name: str) -> bool:
    """Let the API server spell, stamp or keep what Widgets hold, or refuse dry runs of them, from now on."""
    habits, habit = member.server.habits, Habit[name]
    if any(habits.has(KIND, held) for held in _PATHS):
        return False
    habits.add(KIND, habit, *_PATHS[habit])
    stage.tally.effect(habit.effect)
    return True


TO_THE_END_S = 1000.0


@deed(lambda chance, who, names: (chance.choice((3.0, 30.0, TO_THE_END_S)),), fault=True, weight=3)
def has_an_old_definition(stage: Stage, member: Member, duration_s: float) -> bool:
    """Drop a field of Widgets until their definition is upgraded."""
    habits = member.server.habits
    if habits.has(KIND, Habit.PRUNES):
        return False
    habits.add(KIND, Habit.PRUNES, "spec", "tier")
    stage.tally.effect(Habit.PRUNES.effect)
    stage.until(duration_s, lambda: habits.drop(KIND, Habit.PRUNES))
    return True


@deed(one_and_a_value, weight=4)
def edits_status_of_copy(stage: Stage, member: Member, which: int, value: str) -> bool:
    """Change the status of a copy."""
    found = stage.choose_copy(member, which, of=lambda copy: _has_synced_status(member, copy))
    if found is None:
        return False
    member.write_as("somebody", {**found, "status": {"phase": value}}, subresource="status")
    return True


def _has_synced_status(member: Member, copy: Manifest) -> bool:
    """Say whether a copy's rule asks for its status."""
    rule = member.find("ResourceSyncRule", str(marks_of(copy).provenance.get("rule", "")))
    entries = rule["spec"]["rules"] if rule is not None else ()
    return any((entry.get("mutations") or {}).get("syncStatus") for entry in entries)
