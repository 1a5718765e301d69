"""Groups of records, so that a question about a few records of a kind visits no other record.

Laws: a search costs no more than twice the records that it finds, and one look at each group · the keys of a group that
holds most records are not kept: it is the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from registry_controller.api.meta import ObjectKey

_R = TypeVar("_R")
_G = TypeVar("_G", bound=Hashable)


class KeyGroups(Generic[_R, _G]):
    """The keys of `records` by group. `group_of` returns the group of a record.

    The main group holds at least half of the records; there is none while no group is that large.
    """

    def __init__(self, records: Mapping[ObjectKey, _R], *, group_of: Callable[[_R], _G]) -> None:
        self._records = records
        self._group_of = group_of
        self._counts: Counter[_G] = Counter()
        self._keys: dict[_G, dict[ObjectKey, None]] = {}
        self._main: _G | None = None

    def move(self, key: ObjectKey, *, before: _G | None, after: _G | None) -> None:
        """Note that a record has another group, is new (`before` is None) or is gone (`after` is None)."""
        if before == after:
            return
        if before is not None:
            self._discard(key, before)
        if after is not None:
            self._counts[after] += 1
            if after != self._main:
                self._keys.setdefault(after, {})[key] = None
        total = len(self._records)
        if self._main is not None and 2 * self._counts[self._main] < total:
            main, self._main = self._main, None
            if keys := dict.fromkeys(self._scan(main)):
                self._keys[main] = keys
        if self._main is None and after is not None and 3 * self._counts[after] > 2 * total:
            self._main = after
            self._keys.pop(after, None)

    def find(self, is_wanted: Callable[[_G], bool]) -> Iterator[ObjectKey]:
        """Find the keys of the groups that are wanted. The records must not change meanwhile."""
        for group in self._counts:
            if is_wanted(group):
                yield from self._scan(group) if group == self._main else self._keys[group]

    def list_samples(self, is_wanted: Callable[[_G], bool]) -> Iterator[ObjectKey]:
        """List one key of each group that is wanted. The records must not change meanwhile."""
        for group in self._counts:
            if is_wanted(group):
                yield next(iter(self._scan(group) if group == self._main else self._keys[group]))

    def _discard(self, key: ObjectKey, group: _G) -> None:
        self._counts[group] -= 1
        if group != self._main:
            del self._keys[group][key]
            if not self._keys[group]:
                del self._keys[group]
        if not self._counts[group]:
            del self._counts[group]

    def _scan(self, group: _G) -> Iterator[ObjectKey]:
        return (key for key, record in self._records.items() if self._group_of(record) == group)
