"""Delivers the objects of one selection to a handler, and keeps the position from which a watch resumes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Protocol

from registry_controller.api.errors import InvalidObject, ProtocolError, RegistryError
from registry_controller.api.meta import ObjectKey, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.object import PartialObject
from registry_controller.kube.watch import WatchEvent, WatchEventType
from registry_controller.watch.event_handler import EventHandler, LastChange
from registry_controller.watch.fairness import TURN_S, EvaluationLimiter, LoopYielder, Measurement

_CHECKED_EVERY: Final = 64  # new objects between two checks of the limit


class KeySet:
    """The keys of existing objects, and those that the present list has named.

    It calls `check_room` at intervals while new keys come; `check_room` raises TooMuch at the limit.
    """

    def __init__(self, check_room: Callable[[], None]) -> None:
        self._check_room = check_room
        self._known: dict[ObjectKey, None] = {}
        self._named: dict[ObjectKey, None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def begin(self) -> None:
        """Start a list, and drop the names of a list that did not end."""
        self._named = {}

    def add(self, key: ObjectKey) -> None:
        """Add an object; TooMuch at the limit."""
        if key not in self._known and len(self._known) % _CHECKED_EVERY == 0:
            self._check_room()
        self._known[key] = None
        if self._named is not None:
            self._named[key] = None

    def drop(self, key: ObjectKey) -> None:
        """Remove an object."""
        self._known.pop(key, None)
        if self._named is not None:
            self._named.pop(key, None)

    def gone(self) -> Sequence[ObjectKey]:
        """Return the known objects that the present list has not named; the caller drops each."""
        named = self._named
        return () if named is None else [key for key in self._known if key not in named]

    def end(self) -> None:
        """End a list."""
        self._named = None


class Delivery:
    """The state of one selection at its server, as its handler knows it.

    `resume_at` is the resourceVersion from which a watch resumes, empty before a complete list; `revision` is the
    same as a number. `is_tainted` is True after an object that could not be read, until the next list. `is_stalled` is
    True between an error and the recovery from it, `is_interrupted` from an early end of the watch to the next one.
    `awaited` is the revision that the watch must reach before the recovery, 0 where it recovers as it begins. `listed`
    is the revision of the last list.
    """

    def __init__(self, handler: EventHandler, *, limiter: KindLimiter, check_room: Callable[[], None]) -> None:
        self._handler = handler
        self._limiter = limiter
        self._keys = KeySet(check_room)
        self.resume_at = ""
        self.revision = 0
        self.is_tainted = False
        self.is_stalled = self.is_interrupted = False
        self.awaited = self.listed = 0
        self._delivered: LastChange | None = None

    @property
    def size(self) -> int:
        """Return the number of known objects."""
        return len(self._keys)

    @property
    def changed_last(self) -> LastChange | None:
        """Return the last known change: a write whose event was not delivered, an event, or the newest listed object.

        None without any.
        """
        written = self._handler.written_last
        return written if written is not None and written.revision > self.revision else self._delivered

    @property
    def is_unchanged(self) -> bool:
        """Return whether no change since the last list is known. What changed last before it may be a deletion."""
        last = self.changed_last
        return last is None or last.revision <= self.listed

    def request_list(self) -> int:
        """Note that a list is requested; return the revision that it has at least, unless it shows another history."""
        return max(self.reached, self._handler.on_list_request())

    @property
    def misses_deletion(self) -> bool:
        """Return whether no event has shown a deletion yet that the server has answered."""
        return self._handler.misses_deletion

    @property
    def reached(self) -> int:
        """Return the revision that the server has reached at least, unless it shows another history."""
        last = self.changed_last
        return self.revision if last is None else max(self.revision, last.revision)

    def begin_list(self) -> None:
        """Start a list."""
        self.is_tainted = False
        self._delivered = None
        self._keys.begin()
        self._handler.on_list()

    async def add(self, objects: Iterable[PartialObject]) -> None:
        """Deliver the objects of a page."""
        for obj in objects:
            if self._limiter.must_wait():
                await self._limiter.wait()
            self._add(obj)

    async def end_list(self, resource_version: str) -> None:
        """End a list: objects that it did not name are gone, unless one of its objects could not be read.

        Deletions are delivered one by one. When a cancellation interrupts this, the next list delivers the rest.
        """
        if not self.is_tainted:
            self._handler.on_list_end(revision(resource_version))
        for key in () if self.is_tainted else self._keys.gone():
            await self._limiter.wait()
            self._keys.drop(key)
            with self._limiter.measure():
                self._handler.on_delete(key, None)
        self._keys.end()
        self.resume_at = resource_version
        self.revision = self.listed = revision(resource_version)
        if self.is_tainted:
            return
        self._handler.on_synced(self.revision)
        self.recover()

    async def apply(self, event: WatchEvent) -> None:
        """Deliver an event; a bookmark has no object."""
        if self._limiter.must_wait():
            await self._limiter.wait()
        obj = event.object
        if event.refused:
            self.refuse(event.refused)
        elif obj is not None and event.type is WatchEventType.DELETED:
            self._keys.drop(obj.key)
            self._note(obj, is_gone=True)
            self._handler.on_delete(obj.key, obj)
        elif obj is not None:
            self._add(obj)

    def reset(self, *, forgets_revision: bool = False) -> None:
        """Require a list, which replaces everything delivered; `forgets_revision` after a restore from a backup."""
        if forgets_revision:
            self.revision = 0
        self.resume_at, self._delivered = "", None
        self._handler.on_reset()

    def doubt(self, *, since: int) -> None:
        """Require a list, because objects that came after a revision may lack fields."""
        self.resume_at = ""
        self._handler.on_doubt(since)

    def refuse(self, message: str) -> None:
        """Report an object that cannot be read as an error."""
        self.is_tainted = True
        self.stall(ProtocolError(message))

    def interrupt(self) -> None:
        """Report that a watch has ended before its time, once until the next one begins."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self._handler.on_interrupted()

    def resume(self) -> None:
        """Recover from an error, when a stream begins that goes on from a complete list, and awaits no revision."""
        self.is_interrupted = False
        if self.resume_at and not self.is_tainted and not self.awaited:
            self.recover()

    def await_revision(self, present: int) -> None:
        """Put off the recovery from an error until the watch has reached the present revision of its server."""
        self.awaited = present if self.is_stalled and present > self.revision else 0

    def advance(self, resource_version: str, reached: int) -> None:
        """Note the position of the watch as text and as number: it has shown every change up to there."""
        self.resume_at, self.revision = resource_version, reached
        if 0 < self.awaited <= reached and not self.is_tainted:
            self.recover()

    def stall(self, error: RegistryError) -> None:
        """Report an error."""
        self.is_stalled, self.awaited = True, 0
        self._handler.on_error(error)

    def recover(self) -> None:
        """Report the end of an error, if there was one."""
        self.awaited = 0
        if self.is_stalled:
            self.is_stalled = False
            self._handler.on_recovered()

    def _note(self, obj: PartialObject, *, is_gone: bool) -> None:
        if self._delivered is None or obj.revision >= self._delivered.revision:
            self._delivered = LastChange(obj.key, obj.revision, is_gone)

    def _add(self, obj: PartialObject) -> None:
        self._keys.add(obj.key)
        self._note(obj, is_gone=False)
        began_s = asyncio.get_running_loop().time()
        try:
            self._handler.on_object(obj)
        finally:
            self._limiter.end_evaluation(began_s=began_s)


class KindLimiter:
    """Limits the work of one task, all of one sort. It also yields after each 10 ms of short evaluations.

    A task that had no work for over 10 ms waited for its server, so that other tasks had their turn.
    """

    def __init__(self, turns: EvaluationLimiter, sort: Hashable) -> None:
        self._turns = turns
        self._sort = sort
        self._yielder = LoopYielder()
        self._worked_s = 0.0

    def measure(self) -> Measurement:
        """Measure an evaluation."""
        return self._turns.measure(self._sort)

    def end_evaluation(self, *, began_s: float) -> None:
        """End an evaluation, which began at `began_s` of the loop's time and contained no await."""
        turns, self._worked_s = self._turns, asyncio.get_running_loop().time()
        if turns.long_sorts or self._worked_s - began_s > TURN_S:
            turns.end_evaluation(self._sort, began_s=began_s, ended_s=self._worked_s)

    def must_wait(self) -> bool:
        """Return whether `wait` may have to wait or to yield; otherwise an evaluation may start at once."""
        turns, now_s = self._turns, asyncio.get_running_loop().time()
        if now_s - self._worked_s > TURN_S:
            self._yielder.since_s = now_s
        self._worked_s = now_s
        return turns.has_new_sort or self._sort in turns.long_sorts or now_s - self._yielder.since_s >= TURN_S

    async def wait(self) -> None:
        """Wait before an evaluation, and yield to other tasks when that is due."""
        await self._yielder.yield_if_due()
        await self._turns.wait(self._sort)


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
    older than the known ones. Objects that came after the revision `doubted_after` may lack fields, until a list.
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
            self._written = LastChange(obj.key, obj.revision)

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
