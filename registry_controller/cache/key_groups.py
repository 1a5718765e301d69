"""Keys in groups, so that a question about some objects of a kind visits no other object.

Law: a key is in one group at most.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from registry_controller.api.meta import ObjectKey

_Group = TypeVar("_Group", bound=Hashable)


class KeyGroups(Generic[_Group]):
    """The keys of objects by group. A group is what the questions about its objects depend on."""

    def __init__(self) -> None:
        self._keys: dict[_Group, dict[ObjectKey, None]] = {}

    def add(self, key: ObjectKey, group: _Group) -> None:
        """Add a key to a group; it must be in no other one."""
        self._keys.setdefault(group, {})[key] = None

    def discard(self, key: ObjectKey, group: _Group) -> None:
        """Remove a key from a group."""
        keys = self._keys.get(group)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._keys[group]

    def find(self, is_wanted: Callable[[_Group], bool]) -> Iterator[ObjectKey]:
        """Find the keys of the groups that are wanted. The groups must not change meanwhile."""
        for group, keys in self._keys.items():
            if is_wanted(group):
                yield from keys
