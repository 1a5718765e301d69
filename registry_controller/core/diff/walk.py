"""Walks through a wanted and a current object at once: returns the merged object, and collects the differences.

Laws: a current value is either kept or reported as a difference, never both · values are not collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from registry_controller.api.meta import Manifest
from registry_controller.core.diff.managed_fields import FieldOwners, format_canonical
from registry_controller.core.mutation.local_fields import Path, is_local_field

At = tuple[str | int, ...]
"""Keys and indices from the object down."""


@dataclass(slots=True)
class MergeWalk:
    """Collects the `paths` that differ, and their other `managers`.

    `is_ambiguous` is set when the daemon may have written a field that is not wanted.
    """

    local_fields: frozenset[Path]
    paths: list[str] = field(default_factory=list)
    managers: set[str] = field(default_factory=set)
    is_ambiguous: bool = False

    def add_difference(self, at: At, owners: FieldOwners) -> None:
        """Record a difference."""
        self.paths.append(_format_path(at))
        self.managers |= owners.other_managers

    def merge_mapping(self, desired: Manifest, current: Manifest, owners: FieldOwners, at: At) -> dict[str, Any]:
        """Merge two objects. A wanted null is like a missing field: some servers drop it."""
        merged: dict[str, Any] = {}
        for name, value in desired.items():
            here = (*at, name)
            if value is None:
                merged[name] = None
            elif current.get(name) is None:
                merged[name] = value
                self.add_difference(here, owners.of_field(name))
            else:
                merged[name] = self._merge_value(value, current[name], owners.of_field(name), here)
        for name, value in current.items():
            extra = value is not None and desired.get(name) is None
            if extra and self._keep_extra(value, owners.of_field(name), (*at, name)):
                merged[name] = value
        return merged

    def _merge_value(self, desired: Any, current: Any, owners: FieldOwners, at: At) -> Any:
        if isinstance(desired, Mapping) and isinstance(current, Mapping):
            return self.merge_mapping(desired, current, owners, at)
        if isinstance(desired, list) and isinstance(current, list):
            return self._merge_list(desired, current, owners, at)
        if not _is_equal(desired, current):
            self.add_difference(at, owners)
        return desired

    def _merge_list(self, desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners, at: At) -> list[Any]:
        """Merge two lists: by the elements' keys where managedFields have them, otherwise by index."""
        pairs = _pair_elements(desired, current, owners)
        elements = owners.of_elements(current)
        merged: list[Any] = []
        latest = -1
        for index, value in enumerate(desired):
            found = pairs.get(index)
            if found is None or found < latest:
                self.add_difference((*at, index), owners)
            if found is None:
                merged.append(value)
            else:
                latest = max(latest, found)
                merged.append(self._merge_value(value, current[found], elements[found], (*at, index)))
        paired = set(pairs.values())
        merged.extend(
            value
            for index, value in enumerate(current)
            if index not in paired and self._keep_extra(value, elements[index], (*at, index))
        )
        return merged

    def _keep_extra(self, value: Any, owners: FieldOwners, at: At) -> bool:
        """Return whether a value that is not wanted stays; record it if it does not."""
        if self.local_fields and is_local_field(_generalize(at), value, fields=self.local_fields):
            return True
        if not owners.is_known:
            self.is_ambiguous = True
            return False
        if not owners.entries:
            return True
        self._note_extra(value, owners, at)
        return False

    def _note_extra(self, value: Any, owners: FieldOwners, at: At) -> None:
        """Record a value that is not wanted, down to its fields, because the daemon may have written some of them."""
        below: list[tuple[str | int, Any, FieldOwners]] = []
        if isinstance(value, Mapping) and not owners.own_everything:
            below = [(name, child, owners.of_field(name)) for name, child in value.items()]
        elif isinstance(value, list) and not owners.own_everything:
            found = zip(value, owners.of_elements(value), strict=True)
            below = [(index, child, element) for index, (child, element) in enumerate(found)]
        owned = [part for part in below if part[2].entries]
        for step, child, element in owned:
            self._note_extra(child, element, (*at, step))
        if not owned:
            if owners.include_us:
                self.is_ambiguous = True
            else:
                self.add_difference(at, owners)


def _pair_elements(desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners) -> dict[int, int]:
    """Return, for each index of a wanted element, the index of the corresponding current element."""
    keys = owners.element_keys()
    if keys or owners.is_set():
        wanted, found = _list_identities(desired, keys), _list_identities(current, keys)
        if len(set(wanted)) == len(wanted) and len(set(found)) == len(found):
            indices = {identity: index for index, identity in enumerate(found)}
            return {index: indices[identity] for index, identity in enumerate(wanted) if identity in indices}
    return {index: index for index in range(min(len(desired), len(current)))}


def _list_identities(items: Sequence[Any], keys: tuple[str, ...]) -> list[str]:
    if keys and all(isinstance(item, Mapping) for item in items):
        return [format_canonical([item.get(key) for key in keys]) for item in items]
    return [format_canonical(item) for item in items]


def _is_equal(left: object, right: object) -> bool:
    """Compare scalars as JSON does: true differs from 1, 1.0 does not."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _generalize(at: At) -> Path:
    return tuple("*" if isinstance(step, int) else step for step in at)


def _format_path(at: At) -> str:
    text = ""
    for step in at:
        if isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
