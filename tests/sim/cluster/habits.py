"""What an API server makes of the objects that it is sent: it prunes, normalises, and has admission webhooks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.cluster.fields import Manifest, Path
from tests.sim.cluster.refusal import Refusal

STAMP = ("admitted", "yes")
"""The label that admission adds."""

RENEWED = "written-at"
"""The annotation that admission writes anew at each write."""

_DENIED = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request"


class Habit(enum.Enum):
    """One thing that the API server does with the objects of a kind."""

    PRUNES = "its definition lacks a field, which is dropped"
    NORMALISES = "it spells a text in capital letters"
    STAMPS = "admission adds a label"
    RENEWS = "admission writes another value at each write"
    REFUSES_DRY_RUNS = "a webhook does not support dry runs"
    DENIES_DRY_RUNS = "a policy denies dry runs"
    KEEPS = "an update without a field keeps the present value"

    @property
    def effect(self) -> str:
        """Name the habit in counts."""
        return f"an API server {self.name.lower().replace('_', ' ')}"


@dataclass
class Habits:
    """The habits of a server by kind, each with the field that it concerns.

    `changes` counts changes of definitions, `renewed` the values that were written anew.
    """

    held: dict[tuple[str, Habit], Path] = field(default_factory=dict)
    changes: int = 0
    renewed: int = 0

    def add(self, kind: str, habit: Habit, *path: str) -> None:
        """Begin with a habit; `path` is the field."""
        self.held[kind, habit] = path
        self.changes += habit is Habit.PRUNES

    def drop(self, kind: str, habit: Habit) -> None:
        """End a habit, as the upgrade of a definition does."""
        self.changes += self.held.pop((kind, habit), None) is not None and habit is Habit.PRUNES

    def has(self, kind: str, habit: Habit) -> bool:
        """Say whether the server has a habit."""
        return (kind, habit) in self.held

    def refusal_of_dry_runs(self, kind: str) -> Refusal | None:
        """Return how the server refuses a dry run; None where it does not."""
        if self.has(kind, Habit.REFUSES_DRY_RUNS):
            return Refusal(400, "BadRequest", 'admission webhook "w.sim.example" does not support dry run')
        if self.has(kind, Habit.DENIES_DRY_RUNS):
            return Refusal(422, "Invalid", f"{_DENIED}: failed expression: request.dryRun != true")
        return None

    def unknown(self, kind: str, manifest: Manifest) -> list[str]:
        """List the fields of an object that its definition lacks."""
        path = self.held.get((kind, Habit.PRUNES), ())
        has_field = (
            bool(path) and isinstance(get(manifest, path[:-1]), Mapping) and path[-1] in get(manifest, path[:-1])
        )
        return [".".join(path)] if has_field else []

    def keeps(self, manifest: Manifest) -> bool:
        """Say whether an object has a field that an update without it keeps."""
        path = self.held.get((manifest["kind"], Habit.KEEPS))
        return path is not None and get(manifest, path) is not None

    def stored_form(self, kind: str, manifest: Mapping[str, Any], old: Manifest | None) -> dict[str, Any]:
        """Return what is stored of an object that is sent; `old` is what is there."""
        made = dict(manifest)
        for (which, habit), path in self.held.items() if self.held else ():
            if which != kind:
                continue
            value = get(made, path)
            if habit is Habit.PRUNES:
                made = put(made, path, None)
            elif habit is Habit.NORMALISES and isinstance(value, str):
                made = put(made, path, value.upper())
            elif habit is Habit.STAMPS:
                made = put(made, ("metadata", "labels", STAMP[0]), STAMP[1])
            elif habit is Habit.RENEWS:
                self.renewed += 1
                made = put(made, path, f"write {self.renewed}")
            elif habit is Habit.KEEPS and value is None and old is not None:
                made = put(made, path, get(old, path))
        return made


def get(manifest: Any, path: Path) -> Any:
    """Find a field; None without one."""
    for step in path:
        manifest = manifest.get(step) if isinstance(manifest, Mapping) else None
    return manifest


def put(manifest: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Set a field in a copy of an object; None takes it out."""
    name, *below = path
    if below:
        inner = manifest.get(name)
        if value is None and not isinstance(inner, Mapping):
            return dict(manifest)
        return {**manifest, name: put(inner if isinstance(inner, Mapping) else {}, tuple(below), value)}
    if value is None:
        return {key: held for key, held in manifest.items() if key != name}
    return {**manifest, name: value}
