"""The objects of one selection, as one of the streams of a cache."""

from __future__ import annotations

import math
from typing import Protocol

from registry_controller.api.errors import InvalidObject, RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.object import PartialObject
from registry_controller.watch.event_handler import EventHandler, LastChange


class StreamHandler(Protocol):
    """A cache: objects of one kind in one cluster."""

    @property
    def newest(self) -> int:
        """Return the highest revision of the objects that are known from any stream, or write; 0 without any."""

    @property
    def misses_deletion(self) -> bool:
        """Return whether no event has shown a deletion yet that the server has answered."""

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Take an object's present state."""

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object that is no longer in the stream's selection."""

    def on_stream_listing(self, stream: SelectionStream) -> None:
        """Note that a list of the stream begins, before its first object."""

    def on_stream_listed(self, stream: SelectionStream) -> None:
        """Note that a list of the stream has named all its objects; the deletions that it shows follow."""

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Note that the stream's list is complete."""

    def on_stream_changed(self, stream: SelectionStream) -> None:
        """Note that the stream's error changed."""

    def on_stream_interrupted(self, stream: SelectionStream) -> None:
        """Note that the stream's server may have another history when it answers again."""

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Note that the stream's objects may be out of date, and that its next list replaces them."""


class SelectionStream(EventHandler):
    """One selection of a cache. `bit` marks the records of the objects that this stream has.

    Every object that its server stored up to `revision` was received, or comes with the present list. `generation` is
    that of the cache's rules at the start of the last list, `listed` at the start of the last complete list, -1 before.
    `listed_at` is the revision of the last list, and `reached` the highest one before it, also before the server's
    history went back. `known_before` is the highest revision that the cache knew when the last complete list was
    requested, which may be of a history that is lost. While a list is read, `outdated` collects its objects that are
    older than the known ones. Objects that came after the revision `doubted_after` may lack fields, or be of a lost
    history, until a list.
    """

    def __init__(self, cache: StreamHandler, selection: Selection, bit: int, *, generation: int = 0) -> None:
        self.selection = selection
        self.bit = bit
        self.generation = generation
        self.listed = -1
        self.is_complete = False
        self.error: RegistryError | None = None
        self.revision = 0
        self.listed_at = self.reached = 0
        self._before_list = 0
        self.known_before = self._requested_at = 0
        self.outdated: dict[ObjectKey, PartialObject] | None = None
        self.doubted_after: float = math.inf
        self._written: LastChange | None = None
        self._cache = cache

    @property
    def misses_deletion(self) -> bool:
        """Return whether no event has shown a deletion yet that the server has answered."""
        return self._cache.misses_deletion

    @property
    def written_last(self) -> LastChange | None:
        """Return the last change that is known from the answer to a write, since the last reset."""
        return self._written

    def note_write(self, obj: PartialObject) -> None:
        """Note the object that the server stored for a write."""
        if self._written is None or obj.revision > self._written.revision:
            self._written = LastChange(obj)

    def covers(self, revision: int) -> bool:
        """Return whether the stream, once it is complete, has an object that was known at a revision and is there."""
        return revision <= max(self.revision, self.known_before)

    def on_list_request(self) -> int:
        """Note the highest known revision before a list."""
        self._requested_at = self._cache.newest
        return self._requested_at

    def on_list(self) -> None:
        """Note that a list begins."""
        self._before_list = self.revision
        self.outdated = {}
        self._cache.on_stream_listing(self)

    def on_list_end(self, revision: int) -> None:
        """Note the revision of a list before the deletions that it shows."""
        self.listed_at, self.reached = revision, max(self.reached, self._before_list)
        self._cache.on_stream_listed(self)
        self.reached = 0

    def on_object(self, obj: PartialObject) -> None:
        """Take an object's present state."""
        self.revision = max(self.revision, obj.revision)
        self._cache.on_object(self, obj)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object that was deleted, or left the selection."""
        if obj is not None:
            self.revision = max(self.revision, obj.revision)
        self._cache.on_delete(self, key, obj)

    def on_synced(self, revision: int) -> None:
        """Note that every object that existed at a revision was received."""
        self.revision = max(self.revision, revision)
        self.known_before = self._requested_at
        self.is_complete = True
        self.error = None
        self._cache.on_stream_synced(self)
        self.outdated, self.doubted_after = None, math.inf

    def on_error(self, error: RegistryError) -> None:
        """Note why the stream is not current."""
        self.error = error.without_traceback()
        self._cache.on_stream_changed(self)

    def on_interrupted(self) -> None:
        """Note that the server may have another history when it answers again."""
        self._cache.on_stream_interrupted(self)

    def on_reset(self) -> None:
        """Note that the objects may be out of date: the next events replace them, also with older revisions."""
        self.is_complete = False
        self.reached = max(self.reached, self.revision)
        self.revision = 0
        self.outdated = self._written = None
        self.on_doubt(-1)  # a known revision, also of what another stream has, may be another state there
        self._cache.on_stream_reset(self)

    def on_doubt(self, revision: int) -> None:
        """Note that objects which came after a revision may lack fields, until the next list is complete."""
        self.doubted_after = min(revision, self.doubted_after)

    def refused(self, error: InvalidObject) -> None:
        """Keep the error of an object that cannot be used until the stream is listed again."""
        self.error = error.without_traceback()
        self._cache.on_stream_changed(self)

    def on_recovered(self) -> None:
        """Note that the stream is current again."""
        if self.error is not None:
            self.error = None
            self._cache.on_stream_changed(self)
