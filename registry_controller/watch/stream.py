"""Receives the events of one selection's reflector, and the objects of a list beside it, for a cache."""

from __future__ import annotations

from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, InvalidObject, NotServed, RegistryError
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.object import PartialObject
from registry_controller.report.reasons import describe_grant, describe_narrowing
from registry_controller.watch.event_handler import EventHandler


class StreamHandler(Protocol):
    """A cache: objects of one kind in one cluster."""

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Take an object's present state."""

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object that is no longer in the stream's selection."""

    def on_stream_listing(self, stream: SelectionStream) -> None:
        """Note that a list of the stream begins, before its first object."""

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Note that the stream's list is complete."""

    def on_stream_changed(self, stream: SelectionStream) -> None:
        """Note that the stream's error changed."""

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Note that the stream's objects may be out of date, and that its next list replaces them."""


class SelectionStream(EventHandler):
    """One selection of a cache. `bit` marks the records of the objects that this stream has.

    Every object that its server stored up to `revision` was received, or comes with the present list. `generation` is
    that of the cache's rules at the start of the last list, `listed` at the start of the last complete list, -1 before.
    """

    def __init__(self, cache: StreamHandler, selection: Selection, bit: int, *, generation: int = 0) -> None:
        self.selection = selection
        self.bit = bit
        self.generation = generation
        self.listed = -1
        self.is_complete = False
        self.error: RegistryError | None = None
        self.revision = 0
        self._cache = cache

    def on_list(self) -> None:
        """Note that a list begins."""
        self._cache.on_stream_listing(self)

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
        self.is_complete = True
        self.error = None
        self._cache.on_stream_synced(self)

    def on_error(self, error: RegistryError) -> None:
        """Note why the stream is not current."""
        self.error = error.without_traceback()
        self._cache.on_stream_changed(self)

    def on_reset(self) -> None:
        """Note that the objects may be out of date: the next events replace them, also with older revisions."""
        self.is_complete = False
        self.revision = 0
        self._cache.on_stream_reset(self)

    def refused(self, error: InvalidObject) -> None:
        """Keep the error of an object that cannot be used until the stream is listed again."""
        self.error = error.without_traceback()
        self._cache.on_stream_changed(self)

    def on_recovered(self) -> None:
        """Note that the stream is current again."""
        if self.error is not None:
            self.error = None
            self._cache.on_stream_changed(self)


class ListHandler(Protocol):
    """A cache with a list of a part of a stream's selection, beside the watch."""

    def on_listed(self, listing: SelectionList, obj: PartialObject) -> None:
        """Take an object of the list."""

    def on_list_complete(self, listing: SelectionList) -> None:
        """Note that the list is complete."""

    def on_list_failed(self, listing: SelectionList) -> None:
        """Note that the list's error changed."""


class SelectionList:
    """One list of a selection, while its watch, `cover`, continues. It delivers known objects to new rules.

    `generation` is that of the cache's rules at the request of the list. Objects that the watch has named since then
    are left out: the watch is at least as recent, and the new rules have evaluated its events.
    """

    def __init__(self, cache: ListHandler, selection: Selection, cover: SelectionStream, *, generation: int) -> None:
        self.selection = selection
        self.cover = cover
        self.generation = generation
        self.is_complete = False
        self.error: RegistryError | None = None
        self._cache = cache
        self._began_at = cover.revision
        self._is_outdated = False
        self._named: set[ObjectKey] = set()

    def note_named(self, key: ObjectKey) -> None:
        """Note that the watch has named an object."""
        self._named.add(key)

    def on_object(self, obj: PartialObject) -> None:
        """Take an object of the list."""
        if obj.key not in self._named:
            self._cache.on_listed(self, obj)

    def refuse_outdated(self) -> None:
        """Mark the list as outdated: it holds an older state than the watch."""
        self._is_outdated = True

    def on_synced(self, revision: int) -> bool:
        """End the list; return False when it must be repeated, because it is older than the watch."""
        if self._is_outdated or revision < self._began_at:
            self._is_outdated = False
            return False
        self.is_complete = True
        self.error = None
        self._cache.on_list_complete(self)
        return True

    def on_error(self, error: RegistryError) -> None:
        """Keep the error of the list."""
        self.error = error.without_traceback()
        self._cache.on_list_failed(self)


def explain_unread(kind: GVK, error: RegistryError, *, is_local: bool) -> str:
    """Return why a kind cannot be read here, or at the peer: verb, resource, and what to do (R2, S3)."""
    place = "here" if is_local else "there"
    if isinstance(error, Forbidden):
        label = meta.CONTROLLER_AGGREGATED if is_local else meta.READER_AGGREGATED
        words = f"cannot {error}; {describe_grant(label, place=place)}"
        is_secret = (kind.group, kind.kind) == (meta.SECRET.group, meta.SECRET.kind)
        return f"{words}, {describe_narrowing(place=place)}" if is_secret else words
    if isinstance(error, NotServed):
        group = f"group {kind.group}" if kind.group else "the core group"
        correct = "install its CustomResourceDefinition, or correct the rule's groupVersionKind"
        return f"it is not served {place} in {group}, version {kind.version}; {correct}"
    return str(error)
