"""The receiver of a reflector's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.object import PartialObject, has_same_content


class LastChange(NamedTuple):
    """The object that a change left, or that was deleted, which `is_gone` shows."""

    obj: PartialObject
    is_gone: bool = False

    @property
    def key(self) -> ObjectKey:
        """Return the key of the object."""
        return self.obj.key

    @property
    def revision(self) -> int:
        """Return the revision of the change, also of a deletion."""
        return self.obj.revision

    def agrees(self, found: PartialObject | None) -> bool:
        """Return whether an object is still as this change left it, or has changed since.

        One that is missing now may have been deleted since, or may never have been in a restored history. There the
        same revision may be another change of the object.
        """
        if found is None or found.revision != self.revision:
            return self.is_gone if found is None else found.revision > self.revision
        return not self.is_gone and has_same_content(found, self.obj)


class EventHandler:
    """Receives the objects of one kind and selection; every method does nothing unless it is overridden.

    A handler never blocks, and never raises for a server's data.
    """

    def on_list_request(self) -> int:
        """Receive that a list is requested; return the highest revision that this server is known to have reached."""
        return 0

    def on_list(self) -> None:
        """Receive the beginning of a list, before its first object."""

    def on_object(self, obj: PartialObject) -> None:
        """Receive an object that was listed, added or modified."""

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Receive a deletion: with the last state, at the revision of the delete, or None when a list lacks it."""

    def on_list_end(self, revision: int) -> None:
        """Receive that a list at this revision has named all its objects; the deletions that it shows follow."""

    def on_synced(self, revision: int) -> None:
        """Receive the end of a list: every object that existed at `revision` was reported."""

    def on_error(self, error: RegistryError) -> None:
        """Receive an error: the objects may be out of date from now on. The reflector retries."""

    def on_recovered(self) -> None:
        """Receive the end of an error: the objects are current again."""

    def on_interrupted(self) -> None:
        """Receive that the watch ended before its time: the server may have another history when it answers again."""

    def on_reset(self) -> None:
        """Receive that the next list replaces everything reported so far, also with lower revisions."""

    def on_doubt(self, revision: int) -> None:
        """Receive that objects which came after a revision may lack fields; the next list has them as they are."""

    @property
    def misses_deletion(self) -> bool:
        """Return whether no event has shown a deletion yet that the server has answered."""
        return False

    @property
    def written_last(self) -> LastChange | None:
        """Return the last change that the handler knows from the answer to a write, since the last reset."""
        return None


class NotifyHandler(EventHandler):
    """Calls `notify` for every change, without the change itself."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def on_object(self, obj: PartialObject) -> None:
        """Notify of a new or changed object."""
        self._notify()

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Notify of a deletion."""
        self._notify()

    def on_recovered(self) -> None:
        """Notify: changes may have been missed."""
        self._notify()

    def on_reset(self) -> None:
        self._notify()
