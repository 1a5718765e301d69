"""The connection to one peer: proven, probed, lost and made again, in one cancellation scope.

Laws: a peer is read only once its kube-system UID is the one that is expected · a failure of one peer never affects
another · the objects of the watches outlive a connection, and the next connection resumes the watches.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from registry_controller.api.errors import RegistryError, Unauthorized
from registry_controller.core.peer_health import PeerHealth
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_WARNED_EVERY_S: Final = 60.0


class PeerDialer(Protocol):
    """Connects to one peer. `on_problem` is called when a problem with its credentials came or went."""

    on_problem: Callable[[], None]

    @property
    def name(self) -> str:
        """The name of the peer here."""

    async def dial(self) -> Reader:
        """Connect, and prove the peer's identity; RegistryError when no way works."""

    async def dial_over_others(self, error: RegistryError) -> Reader | None:
        """Connect over another way, after `error` over the one used last; None when no other way works."""

    async def dial_with_relayed(self, error: RegistryError) -> Reader | None:
        """Connect with credentials that other members hold; None when none of them works."""

    async def dial_with_changed(self) -> Reader | None:
        """Wait until the credentials change, and connect with them; None when the way in use is not here any more."""

    async def prove(self, reader: Reader) -> None:
        """Check the server's identity; RegistryError when it does not answer or is another cluster."""

    async def pause(self, attempt: int) -> None:
        """Wait after failure number `attempt` (0 is the first)."""

    def reset_relayed(self) -> None:
        """Note that the peer has answered."""


_D = TypeVar("_D", bound=PeerDialer)


class PeerConnection(abc.ABC, Generic[_D]):
    """The connection to one peer. `status_changed` is called when its liveness, connection or failure changed.

    A subclass reads over it, in tasks that `_start_reading` starts and `_stop_reading` returns.
    """

    def __init__(self, *, dialer: _D, status_changed: Callable[[], None]) -> None:
        self.health = PeerHealth(now=_now())
        self.reader: Reader | None = None
        self.discovery: Discovery | None = None
        self.failure = ""
        self._status_changed = status_changed
        self._dialer = dialer
        dialer.on_problem = status_changed
        self._next: Reader | None = None
        self._is_suspected = asyncio.Event()
        self._warned_at = -math.inf

    @property
    def name(self) -> str:
        """The name of the peer here."""
        return self._dialer.name

    @property
    def time_there(self) -> datetime | None:
        """The time at the peer, by its API server's clock; None where it is unknown."""
        return self.reader.time_there() if self.reader is not None else None

    @property
    def day_there(self) -> date | None:
        """The day in UTC at the peer, by its API server's clock; None where it is unknown."""
        found = self.time_there
        return found.astimezone(UTC).date() if found is not None else None

    @property
    def is_connected(self) -> bool:
        """True while there is a proven connection."""
        return self.reader is not None

    @property
    def is_alive(self) -> bool:
        """True until two probes in a row went unanswered (P5)."""
        return self.health.alive

    @property
    def silence_s(self) -> float | None:
        """The time since the last signal in seconds; None before the first one."""
        lines = self.reader.lines if self.reader is not None else None
        signals = (self.health.last_signal_at, lines.received_at_s if lines is not None else None)
        last = max((at for at in signals if at is not None), default=None)
        return max(0.0, _now() - last) if last is not None else None

    async def run(self) -> NoReturn:
        """Keep the peer connected. Never returns."""
        try:
            await self._keep_connected()
        finally:
            if self._next is not None:
                await self._next.close()

    async def _keep_connected(self) -> NoReturn:
        attempt = 0
        while True:
            try:
                reader, self._next = self._next or await self._dialer.dial(), None
            except RegistryError as error:
                self._fail(error)
                if not self.is_alive:
                    self._next = await self._dialer.dial_with_relayed(error)
                if self._next is None:
                    await self._dialer.pause(attempt)
                    attempt += 1
                continue
            attempt = 0
            try:
                await self._serve(reader)
            finally:
                self.reader = self.discovery = None
                await reader.close()

    def on_answer(self) -> None:
        """Note an answer: the peer is alive."""
        self._note_signal(is_back=self.health.signal_received(_now()))

    def on_unauthorized(self) -> None:
        """Note a 401 to a watch or list, and probe the peer soon."""
        self._note_bytes()
        if self.health.suspect(_now()):
            self._is_suspected.set()

    def on_no_answer(self, error: RegistryError) -> None:
        """Log the first request without an answer; whether the peer is alive is found by probes."""
        self._warn(error)

    @abc.abstractmethod
    def _start_reading(self, scope: asyncio.TaskGroup, reader: Reader, discovery: Discovery) -> None:
        """Read over this connection, in tasks of that scope, until `_stop_reading`."""

    @abc.abstractmethod
    def _stop_reading(self) -> Iterable[asyncio.Task[Any]]:
        """Start no more tasks, and return those that still run."""

    def _warn(self, error: RegistryError) -> None:
        """Log that the peer did not answer, at most once a minute."""
        if _now() >= self._warned_at + _WARNED_EVERY_S:
            self._warned_at = _now()
            log.warning("peer does not answer", peer=self.name, error=str(error))

    async def _serve(self, reader: Reader) -> None:
        discovery = Discovery(reader)
        self.reader, self.discovery = reader, discovery
        self.failure = ""
        self.health.answered(_now())
        self._dialer.reset_relayed()
        log.info("peer connected", peer=self.name, server=reader.server)
        self._status_changed()
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as scope:
                self._start_reading(scope, reader, discovery)
                own = (
                    scope.create_task(self._probe(reader, lost), name=f"probe {self.name}"),
                    scope.create_task(self._renew(lost), name=f"renew {self.name}"),
                )
                # No task raises it: a group that fails in the turn in which it is cancelled loses the cancellation, and
                # the peer would live on (Python before 3.13, https://github.com/python/cpython/issues/116720).
                self.failure = await lost
                for task in (*own, *self._stop_reading()):
                    task.cancel()
        finally:
            self._stop_reading()
            self._status_changed()

    async def _probe(self, reader: Reader, lost: asyncio.Future[str]) -> None:
        """Probe a silent peer; set the reason in `lost` when the connection is not to be used any more."""
        while True:
            self._note_bytes()
            delay_s = self.health.next_probe_at() - _now()
            if delay_s > 0:
                self._is_suspected.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._is_suspected.wait()
                continue
            began = _now()
            try:
                await self._dialer.prove(reader)
            except RegistryError as error:
                is_refused = isinstance(error, Unauthorized)
                self._note_bytes()
                if self.health.probe_failed(_now(), started_at=began, refused=is_refused):
                    log.warning("peer unreachable", peer=self.name, error=str(error))
                    _settle(lost, str(error))
                    return
                if is_refused and await self._replace(error, lost):
                    return
                if is_refused:
                    self.failure = str(error)
                    self._status_changed()
                else:  # where packets are dropped, no watch ends, and a probe is the first request without an answer
                    self._warn(error)
            else:
                self._note_signal(is_back=self.health.answered(_now()))

    async def _replace(self, error: RegistryError, lost: asyncio.Future[str]) -> bool:
        """Replace the connection, whose credentials were refused, by one over another way; return whether one works."""
        found = await self._dialer.dial_over_others(error)
        if found is None:
            return False
        await self._use_next(found, lost)
        return True

    async def _renew(self, lost: asyncio.Future[str]) -> None:
        """Replace the connection once changed credentials work."""
        found = await self._dialer.dial_with_changed()
        if found is None:
            _settle(lost, "the credentials over which it was read are not here any more")
        else:
            await self._use_next(found, lost)

    async def _use_next(self, found: Reader, lost: asyncio.Future[str]) -> None:
        """Replace the connection by this one, unless it is lost already: the peer is dialled again then."""
        if lost.done():
            await found.close()
        else:
            self._next = found
            lost.set_result("")

    def _note_bytes(self) -> None:
        """Count the bytes that watches received since the last call as a signal; nothing else depends on them."""
        lines = self.reader.lines if self.reader is not None else None
        if lines is not None and lines.received_at_s is not None:
            self._note_signal(is_back=self.health.signal_received(lines.received_at_s))
            lines.received_at_s = None

    def _note_signal(self, *, is_back: bool) -> None:
        if is_back:
            self._status_changed()
        if self.failure and self.is_connected and not self.health.refused:
            self.failure = ""
            self._status_changed()

    def _fail(self, error: RegistryError) -> None:
        is_first = self.health.probe_failed(_now())
        text = str(error)
        if is_first or not self.failure:
            self._warn(error)
        if is_first or text != self.failure:
            self.failure = text
            self._status_changed()


def _settle(lost: asyncio.Future[str], why: str) -> None:
    if not lost.done():
        lost.set_result(why)


def _now() -> float:
    return asyncio.get_running_loop().time()
