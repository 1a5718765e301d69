"""Schedules: what happens in a group, step by step, drawn from a seed. The same seed gives the same schedule."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.sim.schedule import (  # noqa: F401 -- they put their deeds on the list
    copy_acts,
    credential_acts,
    definition_acts,
    faults,
    habit_acts,
    member_acts,
    object_acts,
    program_acts,
    version_acts,
)
from tests.sim.schedule.drawing import a_rule
from tests.sim.schedule.scenes import (
    SCENES,
    chosen_by_label,
    comes_and_goes,
    features_reinstalled,
    fought_over,
    found_another_way,
    late_copies,
    mass_loss,
    moved_in_vain,
    named_by_objects,
    race_on_slow_ways,
    rules_reinstalled,
    stored_otherwise,
    tuned,
)
from tests.sim.schedule.stage import DEEDS, Deed, Step

STEPS = (18, 26)
FAULTS = (5, 7)
SCENES_MANY = (0, 2)
_PAUSES_S = (0.0, 0.01, 0.3, 2.0, 7.0, 20.0)
_PAUSES_WEIGHTS = (30, 15, 20, 20, 10, 5)
_FURNITURE = 7
_NAMED, _NAMED_RULES, _NAMINGS, _NAMED_SCENE = 0.15, 0.6, 10, 0.15
_BRAKED, _CLOSED, _DOUBLED, _SLOW, _OPERATED = 0.12, 0.15, 0.12, 0.3, 0.3
_OFTEN = (
    (race_on_slow_ways, 0.08),
    (stored_otherwise, 0.4),
    (moved_in_vain, 0.15),
    (rules_reinstalled, 0.15),
    (features_reinstalled, 0.15),
    (found_another_way, 0.1),
    (chosen_by_label, 0.1),
    (fought_over, 0.1),
    (tuned, 0.15),
    (late_copies, 0.15),
)
_RARE = {
    "is rebuilt": 0.1,
    "shares what lets in": 0.05,
    "has many names": 0.02,
    "meets a clone": 0.05,
    "has a definition reinstalled while down": 0.15,
    "holds its own cluster while it goes": 0.1,
}


@dataclass(frozen=True)
class Schedule:
    """A schedule. `joined` says that all members know all from the start; otherwise they meet while it runs.

    `braked` lets no more than one copy go at once before deletions are halted, and `closed` is the member at which an
    administrator lets rules write less, `doubled` one that runs two daemons at times; empty for none.
    """

    seed: int
    count: int
    joined: bool
    steps: tuple[Step, ...]
    braked: bool = False
    closed: str = ""
    doubled: str = ""
    operated: str = ""

    @property
    def names(self) -> Sequence[str]:
        return "abcdefghij"[: self.count]

    @property
    def faults(self) -> int:
        """Count the steps that break something."""
        return sum(DEEDS[step.deed].is_fault for step in self.steps)

    def without(self, start: int, end: int) -> Schedule:
        """Leave some steps out."""
        return replace(self, steps=self.steps[:start] + self.steps[end:])

    def spell(self) -> str:
        """Write it down as Python."""
        steps = "".join(f"    Step{tuple(step)!r},\n" for step in self.steps)
        head = (
            f"seed={self.seed}, count={self.count}, joined={self.joined}, braked={self.braked}, "
            f"closed={self.closed!r}, doubled={self.doubled!r}, operated={self.operated!r}"
        )
        return f"Schedule({head}, steps=(\n{steps}))"


def draw(seed: int) -> Schedule:
    """Draw a schedule."""
    chance = random.Random(seed)
    count = chance.choices((3, 4), (4, 1))[0]
    joined = chance.random() < 0.85
    names = "abcdefghij"[:count]
    known = [found for _, found in sorted(DEEDS.items())]  # in whatever order they were imported
    people = [found for found in known if not found.is_fault]
    breaking = [found for found in known if found.is_fault]
    steps = [_step(chance, names, _choose(chance, people)) for _ in range(chance.randint(*STEPS))]
    for step in [_step(chance, names, _choose(chance, breaking)) for _ in range(chance.randint(*FAULTS))]:
        steps.insert(chance.randint(3, len(steps)), step)
    braked, closed = chance.random() < _BRAKED, chance.choice(names) if chance.random() < _CLOSED else ""
    scenes = [chance.choice(SCENES) for _ in range(chance.randint(*SCENES_MANY))]
    for scene in [*scenes, mass_loss, comes_and_goes] if braked else scenes:
        at = chance.randint(3, len(steps))
        steps[at:at] = scene(chance, names)
    doubled = _double(random.Random(f"doubled {seed}"), names, steps)
    if joined:
        _add_what_is_rare(random.Random(f"rare {seed}"), names, steps)
    _slow_down(random.Random(f"slow {seed}"), names, steps)
    operated = _operate(random.Random(f"operated {seed}"), names, steps)
    furniture = [_step(chance, names, DEEDS[name], pause_s=0.0) for name in _furnish(chance)]
    first = [] if joined else _meet(chance, names)
    steps = [*first, *furniture, *steps]
    _let_objects_name(random.Random(f"named {seed}"), names, steps)
    return Schedule(seed, count, joined, tuple(steps), braked, closed, doubled, operated)


def _let_objects_name(chance: random.Random, names: str, steps: list[Step]) -> None:
    """Let some rules of some schedules copy only what names a cluster, and objects name some; or play a scene of it."""
    if chance.random() < _NAMED:
        for at, step in enumerate(steps):
            if DEEDS[step.deed].draw is a_rule and chance.random() < _NAMED_RULES:
                name, (*wish, more) = step.what
                steps[at] = step._replace(what=(name, (*wish, f"{more} named")))
        for _ in range(_NAMINGS):
            steps.insert(chance.randint(3, len(steps)), _step(chance, names, DEEDS["names clusters"]))
        steps.insert(chance.randint(3, len(steps)), _step(chance, names, DEEDS["labels its own cluster"]))
    if chance.random() < _NAMED_SCENE:
        at = chance.randint(3, len(steps))
        steps[at:at] = named_by_objects(chance, names)


def _double(chance: random.Random, names: str, steps: list[Step]) -> str:
    """Let one member run two daemons, and one of them stand still, three times; return its name, empty in most."""
    if chance.random() >= _DOUBLED:
        return ""
    found = chance.choice(names)
    _scatter(chance, names, steps, "runs two", who=found)
    _scatter(chance, names, steps, "has one that stands still", who=found)
    return found


def _operate(chance: random.Random, names: str, steps: list[Step]) -> str:
    """Let one member run a program on the library; return the name of the member, empty in most schedules.

    Three times each, it is restarted, it misses deletions, and somebody meddles with what it made.
    """
    if chance.random() >= _OPERATED:
        return ""
    found = chance.choice(names)
    for deed in ("restarts its program", "misses deletions", "meddles with what a program made"):
        _scatter(chance, names, steps, deed, who=found)
    return found


def _slow_down(chance: random.Random, names: str, steps: list[Step]) -> None:
    """Let the machine be slow for a while, three times, in some schedules."""
    if chance.random() < _SLOW:
        _scatter(chance, names, steps, "has a slow machine")


def _scatter(chance: random.Random, names: str, steps: list[Step], deed: str, *, who: str = "") -> None:
    """Insert a deed three times."""
    for _ in range(3):
        steps.insert(chance.randint(0, len(steps)), _step(chance, names, DEEDS[deed], who=who))


def _add_what_is_rare(chance: random.Random, names: str, steps: list[Step]) -> None:
    """Add what changes a group so much that few schedules should have it, and scenes of which each law needs some,
    drawn for themselves.
    """
    for deed, share in _RARE.items():
        if chance.random() < share:
            steps.insert(chance.randint(3, len(steps)), _step(chance, names, DEEDS[deed]))
    for scene, share in _OFTEN:
        if chance.random() < share:
            at = chance.randint(3, len(steps))
            steps[at:at] = scene(chance, names)


def _furnish(chance: random.Random) -> list[str]:
    return [chance.choice(("puts", "puts", "rules")) for _ in range(_FURNITURE)]


def _choose(chance: random.Random, among: Sequence[Deed]) -> Deed:
    return chance.choices(among, [found.weight for found in among])[0]


def _step(chance: random.Random, names: str, found: Deed, *, pause_s: float | None = None, who: str = "") -> Step:
    who = who or chance.choice(names)
    pause_s = chance.choices(_PAUSES_S, _PAUSES_WEIGHTS)[0] if pause_s is None else pause_s
    return Step(pause_s, found.name, who, found.draw(chance, who, names))


def _meet(chance: random.Random, names: str) -> list[Step]:
    """Let the members meet: one swap each with somebody who was there before, now or later."""
    return [
        Step(chance.choice((0.0, 5.0, 30.0)), "swaps", name, (chance.choice(names[:index]),))
        for index, name in enumerate(names)
        if index
    ]
