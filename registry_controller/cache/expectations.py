"""Our own writes as streams tell of them: what they said while an answer was awaited, and what they still have to say.

Law: an object that we wrote is believed to be there until the streams that cover it have had their say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from registry_controller.api.meta import ObjectKey
from registry_controller.kube.watch import PartialObject
from registry_controller.watch.stream import SelectionStream, StreamHandler


class PendingEvent(NamedTuple):
    """What a stream said of an object; `heard` is its last state, if that was told."""

    stream: SelectionStream
    key: ObjectKey
    obj: PartialObject | None
    is_there: bool

    def is_echo_of(self, written: PartialObject) -> bool:
        """Say whether it tells of a write, and of nothing since."""
        obj = self.obj
        return self.is_there and obj is not None and (obj.uid, obj.revision) == (written.uid, written.revision)


class Expectations:
    """The writes of one feed."""

    def __init__(self, cache: StreamHandler) -> None:
        self._feed = cache
        self._waiting: dict[ObjectKey, list[PendingEvent]] = {}
        self._untold: dict[SelectionStream, dict[ObjectKey, int]] = {}

    @contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """Let what streams say of an object wait while we write it."""
        self._waiting[key] = []
        try:
            yield
        finally:
            self.release(key)

    def buffers(self, event: PendingEvent) -> bool:
        """Take what a stream says; say whether it waits. What is older than our write tells nothing of it."""
        untold, obj = self._untold.get(event.stream), event.obj
        if untold and obj is not None and obj.revision >= untold.get(event.key, obj.revision):
            untold.pop(event.key, None)
        if (waiting := self._waiting.get(event.key)) is None:
            return False
        waiting.append(event)
        return True

    def pop_expected(self, written: PartialObject) -> tuple[SelectionStream, ...]:
        """Name the streams that told of a write ahead of its answer, and of nothing else; that says nothing new."""
        waiting = self._waiting.get(written.key, [])
        if not all(event.is_echo_of(written) for event in waiting):
            return ()
        streams = tuple(event.stream for event in waiting)
        waiting.clear()
        return streams

    def release(self, key: ObjectKey) -> None:
        """Hear what waited."""
        for stream, _, obj, is_there in self._waiting.pop(key, ()):
            if is_there and obj is not None:
                self._feed.on_object(stream, obj)
            else:
                self._feed.on_delete(stream, key, obj)

    def expect(self, written: PartialObject, streams: Iterable[SelectionStream], *, had: int) -> None:
        """Await that these streams tell of a write, but for those whose bit says that they had the object already."""
        for stream in streams:
            untold = self._untold.setdefault(stream, {})
            if not stream.bit & had or written.key in untold:
                untold[written.key] = written.revision

    def missed(self, stream: SelectionStream) -> list[ObjectKey]:
        """Take the keys of writes that a stream's complete list is too late for: what it never had, it cannot lose."""
        untold = self._untold.get(stream) or {}
        missed = [key for key, revision in untold.items() if revision <= stream.revision]
        for key in missed:
            del untold[key]
        return missed

    def drop_stream(self, stream: SelectionStream) -> None:
        """Drop what a stream said and was to say: it tells another history now."""
        self._untold.pop(stream, None)
        for waiting in self._waiting.values():
            waiting[:] = [event for event in waiting if event.stream is not stream]
