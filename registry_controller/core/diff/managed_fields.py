"""Reads the managers of each field from an object's managedFields.

A step in fieldsV1 is `f:` a field, `k:` an element of a list by its key fields, `v:` a member of a set, `i:` an index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from registry_controller.api.meta import OWNER, Manifest, metadata_of


@dataclass(frozen=True, slots=True)
class _OwnedFields:
    """One manager's fields below a path. Without fields, it owns everything there.

    `made_copy` means that it wrote the owner's mark, as the daemon, the Go original and the restore of a backup do.
    """

    manager: str
    is_ours: bool
    made_copy: bool
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldOwners:
    """The managers of a field, or of fields below it. `is_known` is False for an object without managedFields."""

    entries: tuple[_OwnedFields, ...]
    is_known: bool

    @property
    def own_everything(self) -> bool:
        """True when no manager owns only a part."""
        return all(not node.fields for node in self.entries)

    @property
    def include_us(self) -> bool:
        return any(node.is_ours for node in self.entries)

    @property
    def create(self) -> FieldOwners:
        """The managers that own an element of a list as such, or all its fields."""
        return FieldOwners(tuple(node for node in self.entries if not node.fields or "." in node.fields), self.is_known)

    @property
    def other_managers(self) -> frozenset[str]:
        """The names of the managers other than the daemon."""
        return frozenset(node.manager for node in self.entries if not node.is_ours)

    @property
    def has_stranger(self) -> bool:
        """True when a manager that did not make the copy owns something here."""
        return any(not node.is_ours and not node.made_copy for node in self.entries)

    def of_field(self, name: str) -> FieldOwners:
        """Return the owners of an object's field."""
        return self._descend(f"f:{name}")

    def of_elements(self, items: Sequence[Any]) -> list[FieldOwners]:
        """Return the owners of each element of a list."""
        indices = [(node, _index_steps(node.fields)) for node in self.entries]
        return [
            FieldOwners(
                tuple(found for node, index in indices if (found := _find_element(node, index, item, at))),
                self.is_known,
            )
            for at, item in enumerate(items)
        ]

    def element_keys(self) -> tuple[str, ...]:
        """Return the names of the key fields of a list's elements; none for a list without keys."""
        for node in self.entries:
            for step in node.fields:
                if step.startswith("k:") and isinstance(key := _parse_step(step), dict):
                    return tuple(sorted(key))
        return ()

    def is_set(self) -> bool:
        """Return whether a list is a set."""
        return any(step.startswith("v:") for node in self.entries for step in node.fields)

    def _descend(self, step: str) -> FieldOwners:
        if not self.entries:
            return self
        return FieldOwners(tuple(found for node in self.entries if (found := _take_step(node, step))), self.is_known)


def read_owners(manifest: Manifest, *, manager: str) -> FieldOwners:
    """Read the managedFields of an object; `manager` is the daemon's name in entries of updates."""
    entries = [entry for entry in metadata_of(manifest).get("managedFields") or () if isinstance(entry, Mapping)]
    nodes = tuple(
        _OwnedFields(
            manager=str(entry.get("manager", "")),
            is_ours=entry.get("manager") == manager and entry.get("operation") == "Update",
            made_copy=_has_written_owner(entry["fieldsV1"]),
            fields=entry["fieldsV1"],
        )
        for entry in entries
        if isinstance(entry.get("fieldsV1"), Mapping) and entry["fieldsV1"]
    )
    return FieldOwners(nodes, bool(nodes))


def is_written_by(manifest: Manifest, *, manager: str) -> bool:
    """Return whether a manager wrote fields of an object other than its status."""
    entries = metadata_of(manifest).get("managedFields")
    return any(
        isinstance(entry, Mapping) and entry.get("manager") == manager and not entry.get("subresource")
        for entry in (entries if isinstance(entries, list) else ())
    )


def format_canonical(value: object) -> str:
    """Format a value as JSON so that equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _has_written_owner(fields: Mapping[str, Any]) -> bool:
    found: Any = fields
    for step in ("f:metadata", "f:annotations", f"f:{OWNER}"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found is not None


def _take_step(node: _OwnedFields, step: str) -> _OwnedFields | None:
    if not node.fields:
        return node
    below = node.fields.get(step)
    return replace(node, fields=below) if isinstance(below, Mapping) else None


def _parse_step(step: str) -> Any:
    try:
        return json.loads(step[2:])
    except ValueError:
        return None


_Index = Mapping[tuple[tuple[str, ...] | str, str], str]


def _index_steps(fields: Mapping[str, Any]) -> _Index:
    """Index a list's steps: by key fields and their values, by value, or by index."""
    index: dict[tuple[tuple[str, ...] | str, str], str] = {}
    for step in fields:
        if step.startswith("k:") and isinstance(key := _parse_step(step), dict):
            index[(tuple(sorted(key)), format_canonical(key))] = step
        elif step.startswith("v:"):
            index[("v", format_canonical(_parse_step(step)))] = step
        elif step.startswith("i:"):
            index[("i", step[2:])] = step
    return index


def _find_element(node: _OwnedFields, index: _Index, item: object, at: int) -> _OwnedFields | None:
    if not node.fields:
        return node
    step = index.get(("i", str(at)))
    if step is None and not isinstance(item, Mapping):
        step = index.get(("v", format_canonical(item)))
    elif step is None and isinstance(item, Mapping):
        keyed = {names for names, _ in index if isinstance(names, tuple)}
        candidates = ((names, format_canonical({name: item.get(name) for name in names})) for names in sorted(keyed))
        step = next((index[key] for key in candidates if key in index), None)
    return _take_step(node, step) if step is not None else None
