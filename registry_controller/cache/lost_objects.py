"""The absence of objects after their definition was installed again, or after their server's history changed (W4).

Laws: an object whose deletion was an event is absent for its owner's reason, unless its kind was not served after that
· an object that is newer than the list after such a change was deleted later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry_controller.api.feature import Feature
from registry_controller.api.meta import ObjectKey

_MOST: Final = 10_000
"""The deletions by an event that are kept."""
_MOST_FORMER: Final = 256
"""The features that are kept."""


class LostObjects:
    """The objects of one kind at one peer that may be lost with their definition, or with the server's history.

    `is_unserved` is true from the moment when the kind was not served until the next complete list. `deleted` holds
    the objects whose deletion was an event, since the kind was not served last, `former` the features that are gone, as
    they were last.
    """

    def __init__(self) -> None:
        self.is_unserved = False
        self._changed_at = 0
        self.deleted: dict[ObjectKey, None] = {}
        self.former: dict[ObjectKey, Feature] = {}

    def note_there(self, key: ObjectKey) -> None:
        """Note that an object exists."""
        self.deleted.pop(key, None)

    def note_deleted(self, key: ObjectKey) -> None:
        """Note the event of a deletion."""
        self.deleted[key] = None
        if len(self.deleted) > _MOST:
            del self.deleted[next(iter(self.deleted))]

    def note_former(self, key: ObjectKey, feature: Feature) -> None:
        """Note a feature that is gone, by an event or without."""
        self.former.pop(key, None)
        self.former[key] = feature
        if len(self.former) > _MOST_FORMER:
            del self.former[next(iter(self.former))]

    def note_back(self, key: ObjectKey) -> None:
        """Note that a feature exists: the former one of its name does not matter any more."""
        self.former.pop(key, None)

    def note_unserved(self) -> None:
        """Note that the kind is not served: its objects went with its definition, as events or without."""
        self.is_unserved = True
        self.deleted.clear()

    def note_listed(self, revision: int, *, reached: int) -> None:
        """Note a complete list at a revision, after the stream had `reached` another one; 0 for the first list."""
        if self.is_unserved or is_another_history(revision, reached=reached):
            self._changed_at = max(revision, reached)
        self.is_unserved = False

    def is_lost(self, key: ObjectKey, *, revision: int) -> bool:
        """Return whether an absent object, known at a revision, may be lost without a deletion by its owner."""
        return (self.is_unserved or revision <= self._changed_at) and key not in self.deleted

    def list_lost_features(self) -> Iterator[Feature]:
        """List the features that are gone and may be lost without a deletion by their owner."""
        if self.is_unserved or self._changed_at > 0:
            yield from (feature for key, feature in self.former.items() if key not in self.deleted)


_LEAP: Final = 500_000_000
"""More writes than a server takes between two lists; etcd's guide bumps revisions by a thousand million."""


def is_another_history(revision: int, *, reached: int) -> bool:
    """Report whether a list's revision does not continue the history that a stream has reached, 0 for none."""
    return reached > 0 and (revision < reached or revision - reached >= _LEAP)
