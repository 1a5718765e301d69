"""Follow one kind at one API server, for ever: list, watch, resume, list again.

Law: a reflector never returns. It absorbs what a server can do (refuse, vanish, lie, be slow); an error of our own
code goes up and ends the daemon loudly. It never says that a list is complete unless it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from typing import Final, NoReturn

from registry_controller.api.errors import (
    ApiError,
    Gone,
    Invalid,
    NotServed,
    ProtocolError,
    RegistryError,
    ServerError,
    Unauthorized,
    Unreachable,
)
from registry_controller.api.meta import GVK, GVR, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.failures import explain_timeout
from registry_controller.kube.watch import (
    PartialObject,
    WatchEvent,
    WatchEventType,
    list_objects,
    read_revision,
    watch_events,
)
from registry_controller.watch.event_handler import EventHandler
from registry_controller.watch.fairness import EvaluationLimiter, KindLimiter
from registry_controller.watch.pauses import RetryDelay
from registry_controller.watch.roll import KeySet

_WATCH_S: Final = (240, 290)  # below 290 s, so that lost permission is noticed
_TAINTED_WATCH_S: Final = (30, 60)  # something was refused: list again soon
_INITIAL_SILENCE_S: Final = 10.0  # a server with WatchList ends its initial events within about a second
_INITIAL_S: Final = 120.0  # 100,000 objects take ten seconds
_SILENCE_S: Final = 90.0  # bookmarks come about once a minute
_OVERTIME_S: Final = 30.0  # so long a stream may go on that was to end
_SHORT_S: Final = 5.0  # a stream that ends sooner counts as a failure for the backoff


class Reflector:
    """One kind, one selection, one server.

    `revision` is the last resourceVersion heard, `synced` whether a list was ever complete, `refused` how many
    objects were nonsense. `heard_from` is called for whatever proves that the server lives, `refused_by` for a 401.
    `make_room` is asked now and then, while objects come that were not known, and raises TooMuch when they are too
    many. `size` counts them. What takes long takes turns with what others do who share its `turns`.
    One that does not resume lists again whenever its stream broke: nothing that it calls complete is of before that.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        kind: GVK,
        selection: Selection,
        sink: EventHandler,
        heard_from: Callable[[], None],
        refused_by: Callable[[], None] = lambda: None,
        make_room: Callable[[], None] = lambda: None,
        watch_list: bool = True,
        resumes: bool = True,
        turns: EvaluationLimiter | None = None,
    ) -> None:
        self._reader = reader
        self._discovery = discovery
        self._kind = kind
        self._selection = selection
        self._sink = sink
        self._heard_from = heard_from
        self._refused_by = refused_by
        self._watch_list = watch_list
        self._resumes = resumes
        self.revision = 0
        self.synced = False
        self.refused = 0
        self._roll = KeySet(make_room)
        self._resume = ""  # empty: list
        self._pauses = RetryDelay()
        self._stalled = False
        self._tainted = False
        self._swapped = False
        self._ends_at_s = 0.0
        self._breath = KindLimiter(turns or EvaluationLimiter(), kind)

    @property
    def size(self) -> int:
        """Count the objects that are known."""
        return len(self._roll)

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._swapped = False
            error: RegistryError | None = None
            try:
                await self._follow(await self._discovery.resolve(self._kind))
            except RegistryError as caught:
                error = caught
            lasted_s = loop.time() - began
            if error is not None:
                await self._absorb(error, lasted_s=lasted_s)
                continue
            if not self._resumes and self._broke_off():
                self._start_over()
            if lasted_s < _SHORT_S:
                await self._pauses.wait()
            else:
                self._pauses.succeeded()

    def retry_now(self) -> None:
        """Try again at once: something has changed that the last failure may have been about."""
        self._pauses.end()

    def swap(self, reader: Reader, discovery: Discovery) -> None:
        """Go on with another connection to the same cluster, from where we are, once the old one is closed."""
        self._reader, self._discovery = reader, discovery
        self._swapped = True
        if not self._resumes:
            self._start_over()
        self.retry_now()

    async def _follow(self, gvr: GVR) -> None:
        """Hear everything if need be, and then events until the stream ends."""
        if not self._resume:
            if self._watch_list and await self._stream_everything(gvr):
                return
            await self._list_everything(gvr)
        elif self._broke_off() and await read_revision(self._reader, gvr, self._selection) < self.revision:
            self.revision = 0  # a backup was put back: its history does not reach to where we are
            self._start_over()
            return
        async with contextlib.aclosing(self._open(gvr, initial=False)) as events:
            await self._hear_on(events)

    async def _stream_everything(self, gvr: GVR) -> bool:
        """Hear everything and then events in one stream (WatchList); false when that is not to be had."""
        async with contextlib.aclosing(self._open(gvr, initial=True)) as events:
            if not await self._hear_initial(events, gvr):
                return False
            await self._hear_on(events)
        return True

    async def _hear_initial(self, events: AsyncGenerator[WatchEvent, None], gvr: GVR) -> bool:
        """Hear the initial events to their end; false when they have none, or are of the past."""
        self._begin_list()
        answers = self._reader.answers
        ends_at_s = asyncio.get_running_loop().time() + _INITIAL_S
        try:
            while (event := await self._next(events, ends_at_s=ends_at_s)) is not None:
                if event.is_initial_end:
                    if revision(event.resource_version) < self.revision:
                        return False  # of a cache that is late; a list says what is stored
                    await self._finish(event.resource_version)
                    return True
                if event.type is WatchEventType.BOOKMARK:
                    break  # the server did not understand what it was asked
                await self._breath.wait()
                self._take(event)
        except Invalid:
            pass
        except TimeoutError:
            if self._reader.answers == answers:
                words = explain_timeout(self._reader.server)
                raise Unreachable(f"watch {gvr} ({self._selection}): {words}") from None
        self._watch_list = False
        return False

    async def _hear_on(self, events: AsyncGenerator[WatchEvent, None]) -> None:
        """Hear events until the stream ends in order; what was refused in it is listed again.

        What happened before it began was heard: told once more, it would bring back for a moment what is gone.
        """
        began = self.revision
        with contextlib.suppress(TimeoutError):  # a server that does not end it when it was asked to
            async with asyncio.timeout_at(self._ends_at_s + _OVERTIME_S):
                async for event in events:
                    if event.object is not None and 0 < event.object.revision <= began:
                        continue
                    await self._breath.wait()
                    self._take(event)
                    self._advance(event)
        if self._tainted:
            self._resume = ""

    async def _list_everything(self, gvr: GVR) -> None:
        """Hear everything in pages."""
        pages = list_objects(self._reader, gvr, self._selection, kind=self._kind)
        async with contextlib.aclosing(pages):
            async for page in pages:
                self._heard_from()
                if page.is_first:
                    self._begin_list()
                for obj in page.items:
                    await self._breath.wait()
                    self._hear(obj)
                if page.refused:
                    self._refuse(f"list {gvr} ({self._selection}): {page.refused} items are no such objects")
                    self.refused += page.refused - 1
                if page.is_last:
                    await self._finish(page.resource_version)

    def _start_over(self) -> None:
        self._resume = ""
        self._sink.on_reset()

    def _broke_off(self) -> bool:
        """Say whether the last stream ended before its time: its server may be another one now, or have restarted."""
        return asyncio.get_running_loop().time() < self._ends_at_s - _SHORT_S

    def _open(self, gvr: GVR, *, initial: bool) -> AsyncGenerator[WatchEvent, None]:
        window = _TAINTED_WATCH_S if self._tainted and not initial else _WATCH_S
        timeout_s = random.randint(*window)  # noqa: S311
        self._ends_at_s = asyncio.get_running_loop().time() + timeout_s
        return watch_events(
            self._reader,
            gvr,
            self._selection,
            kind=self._kind,
            resource_version="" if initial else self._resume,
            initial=initial,
            timeout_s=timeout_s,
            on_bytes=self._on_bytes,
            silence_s=_SILENCE_S,
        )

    async def _next(self, events: AsyncGenerator[WatchEvent, None], *, ends_at_s: float) -> WatchEvent | None:
        """Wait for an event; None at the end. TimeoutError when initial events stop coming, or never end."""
        async with asyncio.timeout_at(min(ends_at_s, asyncio.get_running_loop().time() + _INITIAL_SILENCE_S)):
            return await anext(events, None)

    def _take(self, event: WatchEvent) -> None:
        obj = event.object
        if event.refused:
            self._refuse(event.refused)
        elif obj is not None and event.type is WatchEventType.DELETED:
            self._roll.drop(obj.key)
            self._sink.on_delete(obj.key, obj)
        elif obj is not None:
            self._hear(obj)

    def _hear(self, obj: PartialObject) -> None:
        self._roll.add(obj.key)
        with self._breath.spent():
            self._sink.on_object(obj)

    def _advance(self, event: WatchEvent) -> None:
        if event.resource_version:
            self._resume = event.resource_version
            self.revision = revision(event.resource_version)

    def _begin_list(self) -> None:
        self._tainted = False
        self._roll.begin()

    async def _finish(self, resource_version: str) -> None:
        """End a list: what was known and was not named is gone, unless something in it could not be read.

        That may be much: it is dropped piece by piece, and what is left of it when this is cancelled, by the next list.
        """
        for key in () if self._tainted else self._roll.gone():
            await self._breath.wait()
            self._roll.drop(key)
            with self._breath.spent():
                self._sink.on_delete(key, None)
        self._roll.end()
        self._resume = resource_version
        self.revision = revision(resource_version)
        if self._tainted:
            return
        self.synced = True
        self._sink.on_synced(self.revision)
        self._say_current()

    def _refuse(self, message: str) -> None:
        self.refused += 1
        self._tainted = True
        self._say_stalled(ProtocolError(message))

    def _on_bytes(self) -> None:
        self._heard_from()
        if self._stalled and self._resume and not self._tainted:
            self._say_current()

    def _say_stalled(self, error: RegistryError) -> None:
        self._stalled = True
        self._sink.on_error(error)

    def _say_current(self) -> None:
        if self._stalled:
            self._stalled = False
            self._sink.on_recovered()

    async def _absorb(self, error: RegistryError, *, lasted_s: float) -> None:
        """Say what went wrong, and wait as long as its kind asks for."""
        if _proves_life(error):
            self._heard_from()
        elif isinstance(error, Unauthorized):
            self._refused_by()
        error.without_traceback()  # the pause may be long
        if self._swapped:  # the old connection was closed under us; the new one goes on
            return
        if lasted_s >= _SHORT_S:
            self._pauses.succeeded()
        resuming = bool(self._resume)
        if not self._resumes:
            self._start_over()
        if isinstance(error, Gone | Invalid | NotServed | ProtocolError):
            self._resume = ""
        if isinstance(error, NotServed):
            self._discovery.invalidate(self._kind)
        broke = isinstance(error, Unreachable) and lasted_s >= _SHORT_S
        if not (resuming and (broke or isinstance(error, Gone))):  # tried again before anybody worries
            self._say_stalled(error)
        await self._pauses.wait_after(error)


def _proves_life(error: RegistryError) -> bool:
    """Say whether an error is an answer of the API server's own; 401 is none, and 5xx may be a proxy's before it."""
    answer = error.__cause__ if isinstance(error, NotServed) else error
    return isinstance(answer, ApiError) and not isinstance(answer, Unauthorized | ServerError)
