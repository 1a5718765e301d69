"""A stream: where the reflector of one selection puts what it hears of a feed's kind."""

from __future__ import annotations

from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, InvalidObject, NotServed, RegistryError
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.watch import PartialObject
from registry_controller.report.reasons import granting, unless_narrowed


class StreamHandler(Protocol):
    """A feed: objects of one kind in one cluster."""

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Hear an object's present state."""

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that an object is gone from the stream."""

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Hear that the stream's list is complete."""

    def on_stream_changed(self) -> None:
        """Hear that the stream's standing changed."""

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Hear that what the stream has may not be so any more, and that its next list says what is."""


class SelectionStream:
    """One selection of a feed. `bit` marks the objects that this stream has.

    What its server stored up to `revision` was heard, or is about to be in the list that is under way.
    """

    def __init__(self, cache: StreamHandler, selection: Selection, bit: int) -> None:
        self.selection = selection
        self.bit = bit
        self.is_complete = False
        self.error: RegistryError | None = None
        self.events = 0
        self.revision = 0
        self._feed = cache

    def on_object(self, obj: PartialObject) -> None:
        """Hear an object's present state."""
        self.events += 1
        self.revision = max(self.revision, obj.revision)
        self._feed.on_object(self, obj)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that an object is gone: deleted, or out of the selection."""
        if obj is not None:
            self.revision = max(self.revision, obj.revision)
        self._feed.on_delete(self, key, obj)

    def on_synced(self, revision: int) -> None:
        """Hear that everything there was at a revision was heard."""
        self.revision = max(self.revision, revision)
        self.is_complete = True
        self.error = None
        self._feed.on_stream_synced(self)

    def on_error(self, error: RegistryError) -> None:
        """Hear that the stream is not current."""
        self.error = error.without_traceback()
        self._feed.on_stream_changed()

    def on_reset(self) -> None:
        """Hear that what was heard may not be so any more: what follows is the truth, even if it is older."""
        self.is_complete = False
        self.revision = 0
        self._feed.on_stream_reset(self)

    def refused(self, error: InvalidObject) -> None:
        """Hear of an object that cannot be used; it is said until the stream is listed again."""
        self.error = error.without_traceback()
        self._feed.on_stream_changed()

    def on_recovered(self) -> None:
        """Hear that the stream is current again."""
        if self.error is not None:
            self.error = None
            self._feed.on_stream_changed()


def why_unheard(kind: GVK, error: RegistryError, *, at_home: bool) -> str:
    """Say why a kind cannot be heard here, or there: verb and resource, and what to do (R2, S3)."""
    place = "here" if at_home else "there"
    if isinstance(error, Forbidden):
        label = meta.CONTROLLER_AGGREGATED if at_home else meta.READER_AGGREGATED
        words = f"cannot {error}; {granting(label, place=place)}"
        is_secret = (kind.group, kind.kind) == (meta.SECRET.group, meta.SECRET.kind)
        return f"{words}, {unless_narrowed(place=place)}" if is_secret else words
    if isinstance(error, NotServed):
        group = f"group {kind.group}" if kind.group else "the core group"
        correct = "install its CustomResourceDefinition, or correct the rule's groupVersionKind"
        return f"it is not served {place} in {group}, version {kind.version}; {correct}"
    return str(error)
