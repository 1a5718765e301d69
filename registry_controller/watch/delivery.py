"""Delivers the objects of one selection to a handler, and keeps the position from which a watch resumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from registry_controller.api.errors import ProtocolError, RegistryError
from registry_controller.api.meta import ObjectKey, revision
from registry_controller.kube.object import PartialObject
from registry_controller.kube.watch import WatchEvent, WatchEventType
from registry_controller.watch.event_handler import EventHandler, LastChange
from registry_controller.watch.fairness import KindLimiter

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
    `awaited` is the revision that the watch must reach before the recovery, 0 where it recovers as it begins.
    """

    def __init__(self, handler: EventHandler, *, limiter: KindLimiter, check_room: Callable[[], None]) -> None:
        self._handler = handler
        self._limiter = limiter
        self._keys = KeySet(check_room)
        self.resume_at = ""
        self.revision = 0
        self.is_tainted = False
        self.is_stalled = self.is_interrupted = False
        self.awaited = 0
        self._listed_at = 0
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
        return last is None or last.revision <= self._listed_at

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
        self.revision = self._listed_at = revision(resource_version)
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
            self._delivered = LastChange(obj, is_gone)

    def _add(self, obj: PartialObject) -> None:
        self._keys.add(obj.key)
        self._note(obj, is_gone=False)
        began_s = asyncio.get_running_loop().time()
        try:
            self._handler.on_object(obj)
        finally:
            self._limiter.end_evaluation(began_s=began_s)
