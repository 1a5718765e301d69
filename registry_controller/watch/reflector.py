"""Lists and watches one kind at one API server, forever: list, watch, resume, list again.

Law: a reflector never returns. It handles all faults of a server (refusals, lost connections, wrong data, slow
answers); an error of our own code propagates and ends the daemon. It never reports an incomplete list as complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

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
from registry_controller.kube.discover import Discovery, has_definition
from registry_controller.kube.failures import explain_timeout
from registry_controller.kube.listing import count_present, describe_refused, list_objects, read_present
from registry_controller.kube.watch import WatchEvent, WatchEventType, watch_events
from registry_controller.watch.delivery import Delivery
from registry_controller.watch.event_handler import EventHandler
from registry_controller.watch.fairness import EvaluationLimiter, KindLimiter
from registry_controller.watch.retry import RetryDelay

_WATCH_S: Final = (240, 290)  # below 290 s, so that a lost right is noticed
_TAINTED_WATCH_S: Final = (30, 60)  # an object could not be read: list again soon
_AWAITING_WATCH_S: Final = (8, 10)  # two seconds before its end a watch gets a bookmark with the present revision
_INITIAL_SILENCE_S: Final = 10.0  # a server with WatchList ends its initial events within about a second
_INITIAL_S: Final = 120.0  # 100,000 objects take ten seconds
_SILENCE_S: Final = 90.0  # bookmarks come about once a minute
_OVERTIME_S: Final = 30.0  # a stream is ended so long after its requested end
_SHORT_S: Final = 5.0  # a stream that ends sooner counts as a failure for the backoff
_EARLY: Final = 1 / 6  # a stream ends in time up to `_SHORT_S` before its end, and up to this part of a short one


@dataclass(frozen=True, slots=True)
class WatchScope:
    """The objects that a reflector follows, and how.

    With `metadata_only` the server is asked for the metadata of the objects alone. `uses_watch_list` allows to stream
    the initial list (WatchList). Without `resumes`, every broken stream is followed
    by a list, so that nothing reported as complete is from before the break. With `awaits_present`, an error ends once
    the watch has shown every change up to the revision that the server had when it answered again. Otherwise it ends
    as the watch is opened, before those changes come.
    """

    kind: GVK
    selection: Selection
    metadata_only: bool = False
    uses_watch_list: bool = True
    resumes: bool = True
    awaits_present: bool = False


class ServerObserver(Protocol):
    """Receives signs of life of a server."""

    def on_answer(self) -> None:
        """Receive proof that the server is alive: an answer. `Reader.lines` keeps the time of a watch's bytes."""

    def on_unauthorized(self) -> None:
        """Receive a 401."""

    def on_no_answer(self, error: RegistryError) -> None:
        """Receive the failure of a request that got no answer."""


class NoObserver:
    """Ignores signs of life."""

    def on_answer(self) -> None:
        """Do nothing."""

    def on_unauthorized(self) -> None:
        """Do nothing."""

    def on_no_answer(self, error: RegistryError) -> None:
        """Do nothing."""


def _no_limit() -> None:
    """Allow any number of objects."""


class Reflector:
    """Follows one kind and selection at one server, and delivers its objects to `handler`.

    `find` looks for the kind in another version when this one is not served any more; NotServed when there is none.
    `prove` is called before each list, and raises RegistryError where the server is of another cluster by now.
    `check_room` is called at intervals while new objects come, and raises TooMuch at the limit. Reflectors with the
    same `turns` share the event loop fairly.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        scope: WatchScope,
        handler: EventHandler,
        observer: ServerObserver | None = None,
        find: Callable[[Discovery], Awaitable[WatchScope]] | None = None,
        prove: Callable[[Reader], Awaitable[None]] | None = None,
        check_room: Callable[[], None] = _no_limit,
        turns: EvaluationLimiter | None = None,
    ) -> None:
        self._reader = reader
        self._discovery = discovery
        self._scope = scope
        self._observer: ServerObserver = observer or NoObserver()
        self._find = find
        self._prove = prove
        self._uses_watch_list = scope.uses_watch_list
        limiter = KindLimiter(turns or EvaluationLimiter(), scope.kind)
        self._delivery = Delivery(handler, limiter=limiter, check_room=check_room)
        self._retry = RetryDelay()
        self._is_swapped = False
        self._ends_at_s = self._may_end_at_s = 0.0
        self._ended_in_time = False

    @property
    def size(self) -> int:
        """Return the number of known objects."""
        return self._delivery.size

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self._is_swapped = False
            error: RegistryError | None = None
            try:
                await self._list_and_watch(await self._resolve())
            except RegistryError as caught:
                error = caught
            if error is not None or not self._ended_in_time:
                self._delivery.interrupt()
            lasted_s = loop.time() - began_s
            if error is not None:
                await self._handle_error(error, lasted_s=lasted_s)
                continue
            if not self._scope.resumes and not self._ended_in_time:
                self._delivery.reset()
            if lasted_s < _SHORT_S:
                await self._retry.wait()
            else:
                self._retry.reset()

    def retry_now(self) -> None:
        """Try again at once: the cause of the last failure may be gone."""
        self._retry.end()

    def stall(self, error: RegistryError) -> None:
        """Report that the connection is lost: the objects may be out of date until the next one goes on."""
        self._ended_in_time = False
        self._delivery.stall(error)

    def swap(self, reader: Reader, discovery: Discovery) -> None:
        """Continue over another connection to the same cluster, once the old connection is closed."""
        self._reader, self._discovery = reader, discovery
        self._is_swapped = True
        if not self._scope.resumes:
            self._delivery.reset()
        self.retry_now()

    async def _resolve(self) -> GVR:
        """Return the resource of the kind, if need be in another version; its list replaces the known objects."""
        try:
            return await self._discovery.resolve(self._scope.kind)
        except NotServed:
            if self._find is None:
                raise
        self._scope = await self._find(self._discovery)
        return await self._discovery.resolve(self._scope.kind)

    async def _list_and_watch(self, gvr: GVR) -> None:
        """List unless a watch can resume, and then watch until the stream ends."""
        if not self._delivery.resume_at:
            if self._prove is not None:
                await self._prove(self._reader)  # a list shows deletions
            if self._uses_watch_list and await self._stream_list(gvr):
                return
            await self._list(gvr)
        elif not self._ended_in_time and not await self._goes_on(gvr):
            return
        async with contextlib.aclosing(self._open(gvr, initial=False)) as events:
            await self._watch(events)

    async def _goes_on(self, gvr: GVR) -> bool:
        """Return whether the history of the server contains the delivered changes; require a list otherwise.

        A server that was restored from a backup may be past the present position again. So the object that changed
        last is compared, too. The answer to a deletion has no revision: nothing compares it with the history. A list
        shows the object that changed last, but not whether another one was deleted after that. So the number of objects
        is compared, too, where no change since the list is known.
        """
        delivery, scope = self._delivery, self._scope
        if delivery.misses_deletion or (delivery.is_unchanged and not await self._has_same_count(gvr)):
            delivery.resume_at = ""
            return False
        last, reached = delivery.changed_last, delivery.reached
        key = last.key if last is not None else None
        present, found = await read_present(
            self._reader, gvr, scope.selection, kind=scope.kind, key=key, metadata_only=scope.metadata_only
        )
        is_behind = present < reached
        if not is_behind and (last is None or last.agrees(found)):
            if scope.awaits_present:
                delivery.await_revision(present)
            return True
        delivery.reset(forgets_revision=is_behind)
        return False

    async def _has_same_count(self, gvr: GVR) -> bool:
        scope = self._scope
        count = await count_present(
            self._reader, gvr, scope.selection, kind=scope.kind, metadata_only=scope.metadata_only
        )
        return count == self.size

    async def _stream_list(self, gvr: GVR) -> bool:
        """List and watch in one stream (WatchList); return False when the server does not offer that."""
        async with contextlib.aclosing(self._open(gvr, initial=True)) as events:
            if not await self._read_initial_events(events, gvr):
                return False
            await self._watch(events)
        return True

    async def _read_initial_events(self, events: AsyncGenerator[WatchEvent, None], gvr: GVR) -> bool:
        """Deliver the initial events; return False when the server sends none, or sends old ones."""
        reached = self._delivery.request_list()
        self._delivery.begin_list()
        answers = self._reader.answers
        ends_at_s = asyncio.get_running_loop().time() + _INITIAL_S
        try:
            while (event := await self._next(events, ends_at_s=ends_at_s)) is not None:
                if event.is_initial_end:
                    if revision(event.resource_version) < reached:
                        return False  # from a cache that lags behind; a list reads the stored objects
                    await self._delivery.end_list(event.resource_version)
                    return True
                if event.type is WatchEventType.BOOKMARK:
                    break  # the server does not know the parameter
                await self._delivery.apply(event)
        except Invalid:
            pass
        except TimeoutError:
            if self._reader.answers == answers:
                words = explain_timeout(self._reader.server)
                raise Unreachable(f"watch {gvr} ({self._scope.selection}): {words}") from None
        self._uses_watch_list = False
        return False

    async def _watch(self, events: AsyncGenerator[WatchEvent, None]) -> None:
        """Deliver events and advance the position until the stream ends.

        Require a list after an unreadable object, and where the stream has not reached the awaited revision.
        Events from before the present position are skipped: such an event would restore an object that is gone.
        Only a stream that the server ends when it was to end is in time. After any other end, also a late one without
        an answer, the server may be another one, or have restarted. Or it has another definition of the kind: for some
        time it serves the watches that are open by the former one, without the new fields, and then ends them.
        """
        delivery, began, has_news = self._delivery, self._delivery.revision, False
        with contextlib.suppress(TimeoutError):  # a server that does not end the stream in time
            async with asyncio.timeout_at(self._ends_at_s + _OVERTIME_S):
                async for event in events:
                    obj = event.object
                    if obj is not None and 0 < obj.revision <= began:
                        continue
                    has_news = has_news or obj is not None
                    await delivery.apply(event)
                    if event.resource_version:
                        reached = obj.revision if obj is not None else revision(event.resource_version)
                        delivery.advance(event.resource_version, reached)
                self._ended_in_time = asyncio.get_running_loop().time() >= self._may_end_at_s
                if has_news and not self._ended_in_time and has_definition(self._scope.kind):
                    delivery.doubt(since=began)
        if delivery.is_tainted or delivery.awaited:
            delivery.resume_at = ""

    async def _list(self, gvr: GVR) -> None:
        """Deliver a list in pages."""
        kind, selection, reached = self._scope.kind, self._scope.selection, self._delivery.request_list()
        pages = list_objects(self._reader, gvr, selection, kind=kind, metadata_only=self._scope.metadata_only)
        async with contextlib.aclosing(pages):
            async for page in pages:
                self._observer.on_answer()
                if page.is_first:
                    self._begin_list(revision(page.resource_version), reached=reached)
                await self._delivery.add(page.items)
                if page.refused:
                    self._delivery.refuse(describe_refused(gvr, selection, kind, count=page.refused))
                if page.is_last:
                    await self._delivery.end_list(page.resource_version)

    def _begin_list(self, listed: int, *, reached: int) -> None:
        """Start a list at a revision. One that a quorum read, and that is earlier than known, shows another history."""
        if 0 < listed < reached:
            self._delivery.reset(forgets_revision=True)
        self._delivery.begin_list()

    def _open(self, gvr: GVR, *, initial: bool) -> AsyncGenerator[WatchEvent, None]:
        window = _WATCH_S
        if not initial and self._delivery.awaited:
            window = _AWAITING_WATCH_S
        elif not initial and self._delivery.is_tainted:
            window = _TAINTED_WATCH_S
        timeout_s = random.randint(*window)  # noqa: S311
        self._ends_at_s = asyncio.get_running_loop().time() + timeout_s
        self._may_end_at_s = self._ends_at_s - min(_SHORT_S, timeout_s * _EARLY)
        self._ended_in_time = False
        return watch_events(
            self._reader,
            gvr,
            self._scope.selection,
            kind=self._scope.kind,
            resource_version="" if initial else self._delivery.resume_at,
            initial=initial,
            timeout_s=timeout_s,
            on_open=self._on_open,
            silence_s=_SILENCE_S,
            metadata_only=self._scope.metadata_only,
        )

    async def _next(self, events: AsyncGenerator[WatchEvent, None], *, ends_at_s: float) -> WatchEvent | None:
        """Return the next event, None at the end; TimeoutError when initial events stop coming, or do not end."""
        async with asyncio.timeout_at(min(ends_at_s, asyncio.get_running_loop().time() + _INITIAL_SILENCE_S)):
            return await anext(events, None)

    def _on_open(self) -> None:
        self._observer.on_answer()
        self._delivery.resume()

    async def _handle_error(self, error: RegistryError, *, lasted_s: float) -> None:
        """Report an error, and wait as long as its class requires."""
        if proves_life(error):
            self._observer.on_answer()
        elif isinstance(error, Unauthorized):
            self._observer.on_unauthorized()
        elif isinstance(error, Unreachable) and lasted_s < _SHORT_S:
            self._observer.on_no_answer(error)
        error.without_traceback()  # the pause may be long
        self._ended_in_time = False
        if self._is_swapped:  # the old connection was closed here; the new one continues
            return
        if lasted_s >= _SHORT_S:
            self._retry.reset()
        resumed = bool(self._delivery.resume_at)
        if not self._scope.resumes:
            self._delivery.reset()
        if isinstance(error, Gone | Invalid | NotServed | ProtocolError):
            self._delivery.resume_at = ""
        if isinstance(error, NotServed):
            self._discovery.invalidate(self._scope.kind)
        broke = isinstance(error, Unreachable) and lasted_s >= _SHORT_S
        if not (resumed and (broke or isinstance(error, Gone))):  # these are retried once before they are reported
            self._delivery.stall(error)
        await self._retry.wait_after(error)


def proves_life(error: RegistryError) -> bool:
    """Return whether the API server itself sent an error. A proxy before the server may send a 401 or 5xx."""
    answer = error.__cause__ if isinstance(error, NotServed) else error
    return isinstance(answer, ApiError) and not isinstance(answer, Unauthorized | ServerError)
