"""The keys of what one kind has at one server, and which of them a list that is under way has named so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from registry_controller.api.meta import ObjectKey

_ROOM: Final = 64  # new objects between two questions whether there is room


class KeySet:
    """Counts who is there. `make_room` is asked now and then, while new ones come; it raises what is to stop them."""

    def __init__(self, make_room: Callable[[], None]) -> None:
        self._make_room = make_room
        self._known: dict[ObjectKey, None] = {}
        self._named: dict[ObjectKey, None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def begin(self) -> None:
        """Begin a list, and forget what another had named that came to no end."""
        self._named = {}

    def add(self, key: ObjectKey) -> None:
        """Hear that an object is there."""
        if key not in self._known and len(self._known) % _ROOM == 0:
            self._make_room()
        self._known[key] = None
        if self._named is not None:
            self._named[key] = None

    def drop(self, key: ObjectKey) -> None:
        """Hear that an object is gone."""
        self._known.pop(key, None)
        if self._named is not None:
            self._named.pop(key, None)

    def gone(self) -> Sequence[ObjectKey]:
        """Tell who is known and was not named in the list that is under way; each is to be dropped."""
        named = self._named
        return () if named is None else [key for key in self._known if key not in named]

    def end(self) -> None:
        """End a list."""
        self._named = None
