"""Walks through a wanted and a current object at once: returns the merged object, and collects the differences.

Laws: a current value is either kept or reported as a difference, never both · values leave this package as a digest
only · at a place that the rule leaves to this cluster, the value of another manager is kept, and that of the daemon
alone is not, unless the stored copy was written with this place left · a wanted field that is missing is lost, and one
that is there with another value is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from registry_controller.api.meta import Manifest
from registry_controller.core.diff.managed_fields import FieldOwners, format_canonical
from registry_controller.core.mutation.left_fields import LeftFields
from registry_controller.core.mutation.local_fields import Path, is_local_field

At = tuple[str | int, ...]
"""Keys and indices from the object down."""

_GONE: Final = object()
"""The result for a value that does not stay."""


@dataclass(slots=True)
class MergeWalk:
    """Collects the `paths` that differ, and their other `managers`.

    `is_ambiguous` is set when the daemon may have written a field that is not wanted; `ours` are the places of all that
    the daemon wrote, and that are not wanted. `replicas` is the field behind
    the kind's scale subresource. `left` collects the kept values of other managers at left places, and `unpaired` the
    lists whose elements cannot be paired although a place in them is left. With `only_left`, no other value that is
    not wanted stays: the result is a new object for the old one's place. `found` are the present values at `paths`,
    None where there is none. `lost` are the wanted fields that are missing, and `extras` the fields that make it
    ambiguous, outside of lists.
    """

    local_fields: frozenset[Path]
    replicas: Path = ()
    only_left: bool = False
    paths: list[str] = field(default_factory=list)
    managers: set[str] = field(default_factory=set)
    is_ambiguous: bool = False
    left: list[str] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)
    found: list[object] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    extras: list[Path] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)

    def add_difference(self, at: At, owners: FieldOwners, *, found: object) -> None:
        """Record a difference, with the present value."""
        self.paths.append(format_place(at))
        self.found.append(found)
        self.managers |= owners.other_managers

    def add_lost(self, at: At, value: object) -> None:
        """Record that a wanted value is missing, unless it is empty: servers need not store that."""
        if not _is_empty(value):
            self.lost.append(format_place(at))

    def merge_mapping(
        self, desired: Manifest, current: Manifest, owners: FieldOwners, at: At, left: LeftFields | None = None
    ) -> dict[str, Any]:
        """Merge two objects. A wanted null is like a missing field: some servers drop it."""
        merged: dict[str, Any] = {}
        for name, value in desired.items():
            here = (*at, name)
            if value is None:
                merged[name] = None
            elif current.get(name) is None:
                merged[name] = value
                if value or left is None or left.field(name) is None:  # some servers drop an emptied map
                    self.add_difference(here, owners.of_field(name), found=None)
                    self.add_lost(here, value)
            else:
                below = left.field(name) if left is not None else None
                merged[name] = self._merge_value(value, current[name], owners.of_field(name), here, below)
        for name, value in current.items():
            if value is not None and desired.get(name) is None:
                below = left.field(name) if left is not None else None
                kept = self._keep_extra(value, owners.of_field(name), (*at, name), below)
                if kept is not _GONE:
                    merged[name] = kept
        return merged

    def _merge_value(self, desired: Any, current: Any, owners: FieldOwners, at: At, left: LeftFields | None) -> Any:
        if isinstance(desired, Mapping) and isinstance(current, Mapping):
            return self.merge_mapping(desired, current, owners, at, left)
        if isinstance(desired, list) and isinstance(current, list):
            return self._merge_list(desired, current, owners, at, left)
        if not _is_equal(desired, current):
            self.add_difference(at, owners, found=current)
        return desired

    def _merge_list(
        self, desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners, at: At, left: LeftFields | None
    ) -> list[Any]:
        """Merge two lists: by the elements' keys where managedFields, or left places, have them, otherwise by index."""
        pairs, is_by_key = _pair_elements(desired, current, owners, left)
        has_pairs = is_by_key or len(desired) == len(current)
        if left is not None and left.below and not has_pairs and owners.other_managers:
            self.unpaired.append(format_place(at))
        elements = owners.of_elements(current)
        merged: list[Any] = []
        latest = -1
        for index, value in enumerate(desired):
            found = pairs.get(index)
            if found is None or found < latest:
                self.add_difference((*at, index), owners, found=None if found is None else current[found])
            if found is None:
                merged.append(value)
            else:
                latest = max(latest, found)
                below = left.element(index, value) if left is not None and has_pairs else None
                merged.append(self._merge_value(value, current[found], elements[found], (*at, index), below))
        paired = set(pairs.values())
        if len(pairs) < len(desired):
            extra = [value for index, value in enumerate(current) if index not in paired]
            missing = {index: value for index, value in enumerate(desired) if index not in pairs}
            for index, value in _list_lost(missing, extra, keys=owners.element_keys()):
                self.add_lost((*at, index), value)
        for index, value in enumerate(current):
            if index not in paired:
                below = left.extra_element(value) if left is not None else None
                kept = self._keep_extra(value, elements[index], (*at, index), below)
                if kept is not _GONE:
                    merged.append(kept)
        return merged

    def _keep_extra(self, value: Any, owners: FieldOwners, at: At, left: LeftFields | None) -> Any:
        """Return the part of a value that stays although it is not wanted; record the rest."""
        if self.local_fields and is_local_field(_generalize(at), value, fields=self.local_fields):
            return _GONE if self.only_left else value
        if left is not None and left.is_left:
            return self._keep_left(value, owners, at, left)
        if left is not None and value and isinstance(value, Mapping | list):
            return self._merge_value([] if isinstance(value, list) else {}, value, owners, at, left) or _GONE
        if self.only_left:
            return _GONE
        if not owners.is_known:
            self._note_ambiguous(at)
            return _GONE
        if not owners.entries:
            return value
        self._note_extra(value, owners, at)
        return _GONE

    def _keep_left(self, value: Any, owners: FieldOwners, at: At, left: LeftFields) -> Any:
        """Return the part of a value at a left place that stays; an element of a list stays as a whole or goes."""
        is_element = bool(at) and isinstance(at[-1], int)
        if is_element or not value or (owners.own_everything and not self._is_around_replicas(at)):
            return self._keep_whole(value, owners, at, left)
        if isinstance(value, Mapping):
            return self.merge_mapping({}, value, owners, at, left) or _GONE
        if not isinstance(value, list):
            return self._keep_whole(value, owners, at, left)
        elements = enumerate(zip(value, owners.of_elements(value), strict=True))
        judged = [self._keep_whole(item, element, (*at, index), left) for index, (item, element) in elements]
        return [item for item in judged if item is not _GONE] or _GONE

    def _keep_whole(self, value: Any, owners: FieldOwners, at: At, left: LeftFields) -> Any:
        """Return a value, or an element of a list with all its fields, where it is another manager's; else _GONE."""
        makers = owners.create if at and isinstance(at[-1], int) and owners.include_us else owners
        is_theirs = makers.has_stranger
        if is_theirs or left.is_settled or (at and at == self.replicas):
            if is_theirs or at == self.replicas:
                self.left.append(format_place(at))
            return value
        if self.only_left:
            return _GONE
        if owners.is_known and not owners.entries:
            return value
        if owners.is_known:
            self._note_extra(value, owners, at)
        else:
            self._note_ambiguous(at)
        return _GONE

    def _is_around_replicas(self, at: At) -> bool:
        return len(at) < len(self.replicas) and self.replicas[: len(at)] == at

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
                self._note_ambiguous(at)
            else:
                self.add_difference(at, owners, found=value)

    def _note_ambiguous(self, at: At) -> None:
        self.is_ambiguous = True
        self.ours.append(format_place(at))
        path = tuple(step for step in at if isinstance(step, str))
        if len(path) == len(at):
            self.extras.append(path)


def _pair_elements(
    desired: Sequence[Any], current: Sequence[Any], owners: FieldOwners, left: LeftFields | None
) -> tuple[dict[int, int], bool]:
    """Return, for each index of a wanted element, the index of its current element; and whether they have keys.

    The keys come from the schema, as managedFields show them, else from the rule, which finds an element by a key.
    """
    keys = owners.element_keys()
    choices = [keys] if keys or owners.is_set() else [(step.key,) for step in (left.matches if left else ())]
    for names in choices:
        wanted, found = _list_identities(desired, names), _list_identities(current, names)
        if len(set(wanted)) == len(wanted) and len(set(found)) == len(found):
            indices = {identity: index for index, identity in enumerate(found)}
            pairs = {index: indices[identity] for index, identity in enumerate(wanted) if identity in indices}
            return pairs, True
    return {index: index for index in range(min(len(desired), len(current)))}, False


def _list_identities(items: Sequence[Any], keys: tuple[str, ...]) -> list[str]:
    if keys and all(isinstance(item, Mapping) for item in items):
        return [format_canonical([item.get(key) for key in keys]) for item in items]
    return [format_canonical(item) for item in items]


def _list_lost(
    missing: Mapping[int, Any], extra: Sequence[Any], *, keys: tuple[str, ...]
) -> Iterator[tuple[int, object]]:
    """List the wanted elements that are missing: those for which no extra one can stand, spelled otherwise."""
    if keys and all(isinstance(item, Mapping) for item in (*missing.values(), *extra)):
        for index, value in missing.items():
            if not any(all(key not in value or value[key] == item.get(key) for key in keys) for item in extra):
                yield index, value
    elif len(extra) < len(missing):
        yield from missing.items()


def _is_empty(value: object) -> bool:
    """Return whether a value is empty: false, zero, an empty text, or a map or list of such values."""
    if isinstance(value, Mapping):
        return all(_is_empty(child) for child in value.values())
    return not value or (isinstance(value, list) and all(_is_empty(child) for child in value))


def _is_equal(left: object, right: object) -> bool:
    """Compare scalars as JSON does: true differs from 1, 1.0 does not."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _generalize(at: At) -> Path:
    return tuple("*" if isinstance(step, int) else step for step in at)


def list_lost(wanted: Manifest, stored: Manifest, *, at: At) -> tuple[str, ...]:
    """List the wanted fields that a stored object lacks; `at` is its place."""
    if wanted == stored:
        return ()
    walk = MergeWalk(frozenset())
    walk.merge_mapping(wanted, stored, FieldOwners((), is_known=True), at)
    return tuple(sorted(walk.lost))


def format_place(at: At) -> str:
    """Format a place as users read it: `spec.ports[0].port`."""
    text = ""
    for step in at:
        if isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
