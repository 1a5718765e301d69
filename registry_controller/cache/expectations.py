"""Objects that are known before a stream names them, and events that arrive while a write is under way.

Law: an object that is known from another source is kept until the streams that cover it have named it, or have
listed everything without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from registry_controller.api.meta import ObjectKey
from registry_controller.kube.object import PartialObject
from registry_controller.watch.stream import SelectionStream, StreamHandler


class ExpectedObjects:
    """By stream the objects that it has yet to name, each with the revision at which it is known.

    `revisions` holds only streams with such objects, so mostly nothing.
    """

    def __init__(self) -> None:
        self.revisions: dict[SelectionStream, dict[ObjectKey, int]] = {}

    def expect(self, stream: SelectionStream, key: ObjectKey, revision: int) -> None:
        """Expect a stream to name an object at a revision, or a later one."""
        held = self.revisions.setdefault(stream, {})
        held[key] = max(revision, held.get(key, 0))

    def expects(self, stream: SelectionStream, key: ObjectKey) -> bool:
        """Return true if a stream has yet to name an object."""
        return key in self.revisions.get(stream, ())

    def reached(self, stream: SelectionStream, key: ObjectKey, revision: int) -> bool:
        """Note an event of a stream; return false where it is older than the known state."""
        held = self.revisions.get(stream)
        if not held or key not in held:
            return True
        if revision < held[key]:
            return False
        self._drop(stream, key)
        return True

    def missed(self, stream: SelectionStream) -> list[ObjectKey]:
        """Remove and return the objects that a stream's complete list is late enough to have, and has not named."""
        held = self.revisions.get(stream) or {}
        missed = [key for key, revision in held.items() if stream.covers(revision)]
        for key in missed:
            self._drop(stream, key)
        return missed

    def reset(self, stream: SelectionStream) -> None:
        """Expect the objects at any revision: the server's history may have gone back."""
        held = self.revisions.get(stream, {})
        held.update(dict.fromkeys(held, 0))

    def drop_stream(self, stream: SelectionStream) -> None:
        """Expect nothing of a stream any more."""
        self.revisions.pop(stream, None)

    def drop_object(self, key: ObjectKey) -> None:
        """Expect an object of no stream any more."""
        for stream in [stream for stream, held in self.revisions.items() if key in held]:
            self._drop(stream, key)

    def _drop(self, stream: SelectionStream, key: ObjectKey) -> None:
        held = self.revisions[stream]
        del held[key]
        if not held:
            del self.revisions[stream]


class PendingEvent(NamedTuple):
    """An event that a stream had for an object; `obj` is its last state, if the event had it."""

    stream: SelectionStream
    key: ObjectKey
    obj: PartialObject | None
    is_there: bool

    def is_echo_of(self, written: PartialObject) -> bool:
        """Return true if it shows a write, and nothing later."""
        obj = self.obj
        return self.is_there and obj is not None and (obj.uid, obj.revision) == (written.uid, written.revision)


class Expectations:
    """The writes of one cache: events wait while a write is under way, and older lists do not undo it.

    `on_written` is called with the key of an object after a write, and after the events that waited for it.
    """

    def __init__(self, cache: StreamHandler, *, on_written: Callable[[ObjectKey], None]) -> None:
        self.objects = ExpectedObjects()
        self._cache = cache
        self._on_written = on_written
        self._waiting: dict[ObjectKey, list[PendingEvent]] = {}

    @contextlib.contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """Buffer the events of an object while we write it.

        Most of them show our own write ahead of the answer: once the answer is known they are no news.
        """
        self._waiting[key] = []
        try:
            yield
        finally:
            self.release(key)
            self._on_written(key)

    def buffers(self, event: PendingEvent) -> bool:
        """Take an event; return true if it waits. An event from before our write does not count as its echo."""
        if event.obj is not None:
            self.objects.reached(event.stream, event.key, event.obj.revision)
        if (waiting := self._waiting.get(event.key)) is None:
            return False
        waiting.append(event)
        return True

    def pop_expected(self, written: PartialObject) -> tuple[SelectionStream, ...]:
        """Return the streams whose events show a write ahead of its answer, and drop them; none if more wait."""
        waiting = self._waiting.get(written.key, [])
        if not all(event.is_echo_of(written) for event in waiting):
            return ()
        streams = tuple(event.stream for event in waiting)
        waiting.clear()
        return streams

    def release(self, key: ObjectKey) -> None:
        """Pass on the events that waited."""
        for stream, _, obj, is_there in self._waiting.pop(key, ()):
            if is_there and obj is not None:
                self._cache.on_object(stream, obj)
            else:
                self._cache.on_delete(stream, key, obj)

    def expect(self, written: PartialObject, streams: Iterable[SelectionStream], *, had: int) -> None:
        """Expect an event of a write from these streams, but not from those whose bit in `had` is set: they had it."""
        for stream in streams:
            if not stream.bit & had or self.objects.expects(stream, written.key):
                self.objects.expect(stream, written.key, written.revision)

    def missed(self, stream: SelectionStream) -> list[ObjectKey]:
        """Remove and return the keys of objects that a stream's complete list lacks, though it is late enough."""
        return self.objects.missed(stream)

    def drop_stream(self, stream: SelectionStream) -> None:
        """Drop a stream's waiting events and expectations: it is over, or shows another history now."""
        self.objects.drop_stream(stream)
        for waiting in self._waiting.values():
            waiting[:] = [event for event in waiting if event.stream is not stream]
