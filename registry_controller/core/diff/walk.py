"""One walk through what an object should be and what it is: gives back the merged value, collects where they differ.

Laws: what the walk carries over it does not report, and what it reports it does not carry over · values never appear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from registry_controller.api.meta import Manifest
from registry_controller.core.diff.managed_fields import FieldOwners, canonical
from registry_controller.core.mutation.local_fields import Path, is_local

At = tuple[str | int, ...]
"""Keys and indices from the object down."""


@dataclass(slots=True)
class Walk:
    """Collects the `paths` that differ, the other `managers` who set them, and whether something extra may be ours."""

    local: frozenset[Path]
    paths: list[str] = field(default_factory=list)
    managers: set[str] = field(default_factory=set)
    is_ambiguous: bool = False

    def differs(self, at: At, owners: FieldOwners) -> None:
        """Note a difference."""
        self.paths.append(_spell(at))
        self.managers |= owners.others

    def mapping(self, desired: Manifest, current: Manifest, owners: FieldOwners, at: At) -> dict[str, Any]:
        """Merge two objects. A null that is desired is as good as nothing: servers drop it, or not."""
        merged: dict[str, Any] = {}
        for name, value in desired.items():
            here = (*at, name)
            if value is None:
                merged[name] = None
            elif current.get(name) is None:
                merged[name] = value
                self.differs(here, owners.of_field(name))
            else:
                merged[name] = self._value(value, current[name], owners.of_field(name), here)
        for name, value in current.items():
            extra = value is not None and desired.get(name) is None
            if extra and self._is_carried(value, owners.of_field(name), (*at, name)):
                merged[name] = value
        return merged

    def _value(self, desired: Any, current: Any, owners: FieldOwners, at: At) -> Any:
        if isinstance(desired, Mapping) and isinstance(current, Mapping):
            return self.mapping(desired, current, owners, at)
        if isinstance(desired, list) and isinstance(current, list):
            return self._sequence(desired, current, owners, at)
        if not _equal(desired, current):
            self.differs(at, owners)
        return desired

    def _sequence(self, desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners, at: At) -> list[Any]:
        """Merge two lists: by the elements' keys where managers tell them apart by keys, else by index."""
        pairs = _pair(desired, current, owners)
        elements = owners.of_elements(current)
        merged: list[Any] = []
        latest = -1
        for index, value in enumerate(desired):
            found = pairs.get(index)
            if found is None or found < latest:
                self.differs((*at, index), owners)
            if found is None:
                merged.append(value)
            else:
                latest = max(latest, found)
                merged.append(self._value(value, current[found], elements[found], (*at, index)))
        paired = set(pairs.values())
        merged.extend(
            value
            for index, value in enumerate(current)
            if index not in paired and self._is_carried(value, elements[index], (*at, index))
        )
        return merged

    def _is_carried(self, value: Any, owners: FieldOwners, at: At) -> bool:
        """Say whether what is here and not desired is to stay; note what is not."""
        if self.local and is_local(_general(at), value, fields=self.local):
            return True
        if not owners.known:
            self.is_ambiguous = True
            return False
        if not owners.nodes:
            return True
        self._note_extra(value, owners, at)
        return False

    def _note_extra(self, value: Any, owners: FieldOwners, at: At) -> None:
        """Note who set something that is not desired: down to the fields, for a part of it may be ours."""
        below: list[tuple[str | int, Any, FieldOwners]] = []
        if isinstance(value, Mapping) and not owners.own_all:
            below = [(name, child, owners.of_field(name)) for name, child in value.items()]
        elif isinstance(value, list) and not owners.own_all:
            found = zip(value, owners.of_elements(value), strict=True)
            below = [(index, child, element) for index, (child, element) in enumerate(found)]
        owned = [part for part in below if part[2].nodes]
        for step, child, element in owned:
            self._note_extra(child, element, (*at, step))
        if not owned:
            if owners.include_us:
                self.is_ambiguous = True
            else:
                self.differs(at, owners)


def _pair(desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners) -> dict[int, int]:
    """Find for each desired element, by index, the current one that stands for it."""
    keys = owners.element_keys()
    if keys or owners.is_set():
        wanted, found = _identities(desired, keys), _identities(current, keys)
        if len(set(wanted)) == len(wanted) and len(set(found)) == len(found):
            where = {identity: index for index, identity in enumerate(found)}
            return {index: where[identity] for index, identity in enumerate(wanted) if identity in where}
    return {index: index for index in range(min(len(desired), len(current)))}


def _identities(items: Sequence[Any], keys: tuple[str, ...]) -> list[str]:
    if keys and all(isinstance(item, Mapping) for item in items):
        return [canonical([item.get(key) for key in keys]) for item in items]
    return [canonical(item) for item in items]


def _equal(left: object, right: object) -> bool:
    """Compare scalars as JSON does: true is not 1, but 1.0 is."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _general(at: At) -> Path:
    return tuple("*" if isinstance(step, int) else step for step in at)


def _spell(at: At) -> str:
    text = ""
    for step in at:
        if isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
