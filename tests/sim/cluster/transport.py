"""The edge: what `kube.connect` uses of a transport, between one daemon and one simulated API server.

Law: it raises what the real one raises, refuses what the real one refuses, and is as slow and as broken as it is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from email.utils import format_datetime
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import orjson

from registry_controller.api.errors import Unreachable
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.failures import FAILURES, PEER, error_of_failure, explain_unauthorized
from registry_controller.kube.translate import error_of_answer
from registry_controller.kube.transport import JSON, is_allowed
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.clock import time_of_day
from tests.sim.cluster.controllers import ca_pem
from tests.sim.cluster.request import Answer
from tests.sim.cluster.watch import Watch

Listener = Callable[[str, str, bytes | None, Answer], None]
"""What is told the method, the path and the body of a request, and the answer."""

_BOOKMARK_S = 60.0
_LAST_BOOKMARK_S = 2.0
"""Before the end of a watch an API server sends it one more."""
_READS = 4096
_STILL_S = 0.1
_UNAUTHORIZED = Answer(401, b'{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}')
_BROKEN = Answer(503, b"no healthy upstream")


def forbidden(plural: str, verb: str) -> Answer:
    """Answer as the authorizer by roles does."""
    words = f'{plural} is forbidden: User "sim" cannot {verb} resource "{plural}" at the cluster scope'
    said = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": words}
    return Answer(403, orjson.dumps(said))


class Fault(enum.Enum):
    """What is wrong between a daemon and an API server."""

    NONE = "none"
    REFUSED = "connections are refused, those that were open are reset"
    HUNG = "nothing comes through; what was under way is late"
    BROKEN = "a proxy answers 503"


@dataclass
class LateWrites:
    """The next `count` writes of a method: each is carried out after `late_s` seconds, and its connection is reset."""

    method: str
    count: int
    late_s: float


class Life:
    """One process: a dead one sends nothing more, but what it had sent may still arrive.

    While it `is_still`, nothing reaches it; while it is `behind_peers`, nothing of peers does. What watches bring waits
    meanwhile, and is then read event by event, in order: `has_stood_still` says that it may. `open` has its connections
    that were used, and are not closed.
    """

    def __init__(self) -> None:
        self.is_over = self.is_still = self.behind_peers = self.has_stood_still = False
        self.open: dict[SimTransport, None] = {}

    def waits(self, *, is_home: bool) -> bool:
        """Say whether what a server sends waits."""
        return self.is_still or (self.behind_peers and not is_home)

    async def go_on(self, *, is_home: bool) -> None:
        """Wait for as long as what a server sends waits."""
        while self.waits(is_home=is_home):  # noqa: ASYNC110
            await asyncio.sleep(_STILL_S)


class Wire:
    """The way from one daemon to one API server. `delay_s` bounds how long anything takes on it, one way. At `unhung_s`
    what hung on it went on, all at once.

    What may happen to what is under way: the next `lost` answers to writes never come, the next `torn` chunks of
    watches break off in the middle, and watches that begin anew are answered by a cache that is `lag` changes behind
    for `behind_s` seconds. Watches that resume begin `again` changes before where they were to: what happened then is
    heard once more. Each stream of events is late by up to `late_s` seconds, for itself, so that of two kinds, or two
    selections, what happened first may be heard last. The `unallowed` are the resources, by their plurals, on which the
    daemon's role at that server gives it no rights; on the `narrowed` it has some in these namespaces only. The events
    of the `stuck` ones wait until these are others.
    `reads` are the paths of the last lists, watches and GETs that reached the server. The `listeners` are told of each
    answer when it has come back to a daemon that still runs; an answer that is lost on its way is none.
    """

    def __init__(self, server: ApiServer, *, chance: random.Random, who: str) -> None:
        self.server = server
        self.who = who
        self.fault = Fault.NONE
        self.unhung_s = float("-inf")
        self._faults: list[tuple[float, Fault]] = []
        self.delay_s = (0.001, 0.02)
        self.lost = self.torn = self.lag = self.again = 0
        self.behind_s = self.late_s = 0.0
        self.unallowed: set[str] = set()
        self.narrowed: dict[str, set[str]] = {}
        self.stuck: frozenset[str] = frozenset()
        self.late_writes: LateWrites | None = None
        self.listeners: list[Listener] = []
        self._chance = chance
        self._changed = asyncio.Event()
        self._watches: dict[Watch, str] = {}
        self.reads: deque[str] = deque(maxlen=_READS)
        self.reset_count = self.travel_count = 0

    def set(self, fault: Fault) -> None:
        """Break or mend the way."""
        now = asyncio.get_running_loop().time()
        if self.fault is Fault.HUNG and fault is not Fault.HUNG:
            self.unhung_s = now
        self.fault = fault
        self._faults.append((now, fault))
        if fault in (Fault.REFUSED, Fault.BROKEN):
            self.cut()
        self._changed.set()
        self._changed = asyncio.Event()

    def broken_s(self, *, since: float, until: float) -> float:
        """Return for how many seconds of a time nothing came through."""
        spans = itertools.pairwise([*self._faults, (until, Fault.NONE)])
        return sum(
            max(0.0, min(end, until) - max(since, at)) for (at, fault), (end, _) in spans if fault is not Fault.NONE
        )

    def cut(self) -> None:
        """Reset what is open, with the requests that are on their way, and the answers."""
        self.reset_count += 1
        for watch in self._watches:
            watch.wake()

    def cross(self, answer: Answer | Watch, path: str) -> Watch:
        """Note that a watch is open."""
        assert isinstance(answer, Watch)
        self._watches[answer] = path
        return answer

    @property
    def open_watches(self) -> Sequence[str]:
        """List the paths of the watches that are open."""
        return sorted(self._watches.values())

    def leave(self, watch: Watch) -> None:
        """Note that a watch is over."""
        self._watches.pop(watch, None)
        watch.close()

    def is_silent(self, watch: Watch) -> bool:
        """Say whether the events of a watch wait."""
        return self.fault is Fault.HUNG or not self.stuck.isdisjoint(urlsplit(self._watches[watch]).path.split("/"))

    def delay(self) -> float:
        """Choose how long the next thing takes, one way, in seconds."""
        return self._chance.uniform(*self.delay_s)

    def lateness(self) -> float:
        """Choose how long the next events of one stream wait beside, in seconds."""
        return self._chance.uniform(0.0, self.late_s) if self.late_s else 0.0

    def lacking(self, path: str) -> str:
        """Name the resource of that path on which there is no right; empty where there is one."""
        parts = urlsplit(path).path.split("/")
        lacking = self.unallowed.intersection(parts)
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""
        lacking.update(
            plural for plural, within in self.narrowed.items() if plural in parts and namespace not in within
        )
        return min(lacking, default="")

    def resumed(self, path: str) -> str:
        """Let a watch that resumes begin with changes that it has heard of, where the server knows them still."""
        if not self.again:
            return path
        since = dict(parse_qsl(urlsplit(path).query)).get("resourceVersion") or "0"
        known = [change.revision for change in self.server.store.history if change.revision <= int(since)]
        if not known:
            return path
        return path.replace(f"resourceVersion={since}", f"resourceVersion={known[-self.again :][0] - 1}")

    async def travel(self) -> None:
        """Take the time that the way takes; OSError where it ends."""
        self.travel_count += 1
        resets = self.reset_count
        await asyncio.sleep(self.delay())
        while self.fault is Fault.HUNG:
            await self._changed.wait()
        if self.fault is Fault.REFUSED:
            raise ConnectionRefusedError("refused")
        if resets != self.reset_count:
            raise ConnectionResetError("reset")

    def chance(self, share: float) -> bool:
        """Say yes so often."""
        return self._chance.random() < share

    def split(self, data: bytes) -> list[bytes]:
        """Cut what is sent into chunks somewhere, as TCP does."""
        where = self._chance.randrange(len(data))
        return [part for part in (data[:where], data[where:]) if part]


class SimTransport:
    """A connection. `token` is None for the admin's; `trusts` is the CA, empty for that of whoever is there."""

    def __init__(self, wire: Wire, *, token: str | None, methods: frozenset[str], life: Life, trusts: str = "") -> None:
        self.answers = 0
        self._is_answered = False
        self.server = wire.server.url
        self.ca_pem = ca_pem(wire.server.generation)
        self._trusts = trusts or self.ca_pem
        self._wire = wire
        self._token = token
        self._methods = methods
        self._life = life
        self._closed = False
        self._deadlines: dict[asyncio.Timeout, None] = {}
        self._waiters: dict[Callable[[], None], None] = {}

    @property
    def _listeners(self) -> Sequence[Listener]:
        """List what hears the answers that come back."""
        return self._wire.listeners

    @property
    def dated(self) -> tuple[str, float]:
        """The header `Date` of an answer, and when it came; empty before the first one."""
        if not self._is_answered:
            return "", 0.0
        there = time_of_day(self._wire.server.clock_ahead)
        return format_datetime(there, usegmt=True), asyncio.get_running_loop().time()

    async def send(
        self,
        method: str,
        path: str,
        *,
        what: str,
        timeout_s: float,
        limit_bytes: int = 0,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        gvr: GVR | None = None,
        key: ObjectKey | None = None,
        warnings: list[str] | None = None,
    ) -> bytes:
        """Ask once and read the whole answer."""
        try:
            async with self._deadline(timeout_s):
                answer = await self._ask(method, path, lambda server: self._call(server, method, path, body, accept))
                assert isinstance(answer, Answer)
                await self._wire.travel()
                if self._wire.lost and method != "GET":
                    self._wire.lost -= 1
                    raise aiohttp.ServerDisconnectedError
        except FAILURES as error:
            raise error_of_failure(error, what=what, server=self.server, source=PEER) from error
        for hear in self._listeners if not self._life.is_over else ():
            hear(method, path, body, answer)
        status, content, said = answer
        if status in (200, 201, 202):
            if warnings is not None:
                warnings += said
            return content
        raise error_of_answer(status, content, what=what, gvr=gvr, key=key, hint=self._hint(status))

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, what: str, open_s: float, silence_s: float, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        watch: Watch | None = None
        try:
            async with self._deadline(open_s):
                wire = self._wire
                path = wire.resumed(path)
                found = await self._ask(
                    "GET", path, lambda api: api.watch(path, accept=accept, lag=wire.lag, behind_s=wire.behind_s)
                )
            if isinstance(found, Answer):
                raise error_of_answer(found.status, found.body, what=what, hint=self._hint(found.status))
            watch = self._wire.cross(found, path)
            yield self._chunks(watch, silence_s=silence_s)
        except FAILURES as error:
            raise error_of_failure(error, what=what, server=self.server, source=PEER) from error
        finally:
            if watch is not None:
                self._wire.leave(watch)

    async def close(self) -> None:
        """End what is under way as Unreachable."""
        self._closed = True
        self._life.open.pop(self, None)
        for deadline in self._deadlines:
            with contextlib.suppress(RuntimeError):
                deadline.reschedule(0.0)
        for wake in list(self._waiters):
            wake()

    def _hint(self, status: int) -> str:
        return explain_unauthorized(self.server, PEER) if status == 401 else ""

    def _call(self, server: ApiServer, method: str, path: str, body: bytes | None, accept: str) -> Answer:
        return server.answer(method, path, body, who=self._wire.who, accept=accept)

    async def _ask(self, method: str, path: str, ask: Callable[[ApiServer], Answer | Watch]) -> Answer | Watch:
        if not is_allowed(method, path, self._methods):
            raise AssertionError(f"{method} is never sent to {self.server}")
        if self._closed or self._life.is_over:
            raise Unreachable(f"{self.server}: the connection was closed here")
        self._life.open[self] = None
        try:
            await self._wire.travel()
            await self._life.go_on(is_home=self._token is None)
        except asyncio.CancelledError:
            may_arrive = self._life.is_over and self._wire.fault is Fault.NONE and self._is_trusted()
            if may_arrive and method != "GET" and self._wire.chance(0.5):
                ask(self._wire.server)
            raise
        if not self._is_trusted():
            raise Unreachable(f"{self.server}: certificate verify failed")
        found: Answer | Watch
        if self._wire.fault is Fault.BROKEN:
            found = _BROKEN
        elif self._token is not None and self._token not in self._wire.server.tokens:
            found = _UNAUTHORIZED
        elif lacking := self._wire.lacking(path):
            found = forbidden(lacking, "list" if method == "GET" else "update")
        else:
            if method == "GET":
                self._wire.reads.append(path)
            self._delay_write(method, ask)
            found = ask(self._wire.server)
        status = found.status if isinstance(found, Answer) else 200
        self.answers += status != 401 and status < 500
        self._is_answered = True
        return found

    def _delay_write(self, method: str, ask: Callable[[ApiServer], Answer | Watch]) -> None:
        """Let a write be carried out late; ServerDisconnectedError then."""
        late, server = self._wire.late_writes, self._wire.server
        if late is not None and method == late.method and late.count:
            late.count -= 1
            asyncio.get_running_loop().call_later(late.late_s, lambda: ask(server))
            raise aiohttp.ServerDisconnectedError

    def _waits(self) -> bool:
        return self._life.waits(is_home=self._token is None)

    def _is_trusted(self) -> bool:
        """Say whether it is the cluster that we know which stands there."""
        return self._trusts == ca_pem(self._wire.server.generation)

    async def _chunks(self, watch: Watch, *, silence_s: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        resets, ends_at = self._wire.reset_count, loop.time() + watch.timeout_s
        bookmark_at = min(loop.time() + _BOOKMARK_S, ends_at - _LAST_BOOKMARK_S)
        news = asyncio.Event()
        watch.wake = news.set
        self._waiters[news.set] = None
        quiet_until = loop.time() + silence_s
        try:
            while True:
                now = loop.time()
                self._check_open(resets)
                is_silent = self._wire.is_silent(watch) or self._waits()
                if watch.lines and not is_silent:
                    async with asyncio.timeout_at(quiet_until):
                        await self._wire.travel()
                        await asyncio.sleep(self._wire.lateness())
                    self._check_open(resets)  # a reset discards what is late, and what the server says after it
                    if self._life.has_stood_still:
                        data = watch.lines.popleft()
                    else:
                        data = b"".join(watch.lines)
                        watch.lines.clear()
                    for chunk in self._wire.split(data):
                        yield chunk
                        if self._wire.torn:
                            self._wire.torn -= 1
                            raise aiohttp.ClientPayloadError("the chunk breaks off")
                    quiet_until = loop.time() + silence_s
                elif now >= quiet_until:
                    raise TimeoutError
                elif now >= ends_at and not is_silent:
                    return
                elif now >= bookmark_at:
                    watch.bookmark()
                    last_at = ends_at - _LAST_BOOKMARK_S
                    bookmark_at = min(now + _BOOKMARK_S, last_at if last_at > now else math.inf)
                else:
                    news.clear()
                    due = min(quiet_until, bookmark_at, ends_at if ends_at > now else quiet_until)
                    if is_silent:
                        due = min(quiet_until, now + (1.0 if self._wire.is_silent(watch) else _STILL_S))
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(due):
                            await news.wait()
        finally:
            self._waiters.pop(news.set, None)

    def _check_open(self, resets: int) -> None:
        """Raise where the connection was closed, or reset since there were so many resets."""
        if self._closed or resets != self._wire.reset_count:
            raise aiohttp.ClientConnectionError("closed")

    @contextlib.asynccontextmanager
    async def _deadline(self, timeout_s: float) -> AsyncIterator[None]:
        async with asyncio.timeout(timeout_s) as deadline:
            self._deadlines[deadline] = None
            try:
                yield
            finally:
                del self._deadlines[deadline]
