"""A peer: connected, watched, probed, lost and connected again, in one cancellation scope.

Laws: a peer is read only once its kube-system UID is the one that its Cluster names · a failure of one peer never
affects another · the caches outlive a connection, and the next connection resumes their watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, NoReturn, Protocol

from registry_controller.api.errors import (
    Forbidden,
    InvalidObject,
    ProtocolError,
    RegistryError,
    Unauthorized,
)
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.dialer import Dialer, RelayedCredentialsSource, ServerAddress
from registry_controller.clusters.metadata import read_metadata
from registry_controller.clusters.peer_watches import PeerWatches
from registry_controller.clusters.plan import Engagement, PeerSnapshot
from registry_controller.core.peer_health import PeerHealth
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

METADATA_PERIOD_S: Final = 300.0
_WARNED_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A live, proven connection to a peer."""

    reader: Reader
    discovery: Discovery


class PeerObserver(Protocol):
    """Receives the changes of peers."""

    def on_peer_status_changed(self) -> None:
        """A peer's liveness, connection, failure or metadata changed."""

    def on_peer_objects_changed(self) -> None:
        """The Clusters or ClusterFeatures that a peer holds changed."""


class Peer:
    """The connection to one peer, and the caches that it fills."""

    def __init__(
        self, *, dialer: Dialer, sources: SourceIndex, members: Members, observer: PeerObserver, window_s: float
    ) -> None:
        self.cluster_id = dialer.cluster_id
        self.health = PeerHealth(now=_now())
        self.reader: Reader | None = None
        self.discovery: Discovery | None = None
        self.failure = ""
        self.metadata: Mapping[str, object] | None = None
        self.metadata_problem = ""
        self.watches = PeerWatches(
            dialer.cluster_id,
            sources=sources,
            members=members,
            changed=observer.on_peer_objects_changed,
            features_changed=observer.on_peer_objects_changed,
            observer=self,
            window_s=window_s,
        )
        self._status_changed = observer.on_peer_status_changed
        self._dialer = dialer
        dialer.on_problem = self._status_changed
        self._next: Reader | None = None
        self._is_suspected = asyncio.Event()
        self._warned_at = -math.inf

    @property
    def name(self) -> str:
        """The name of its Cluster here."""
        return self._dialer.name

    @property
    def features(self) -> PeerFeatures:
        """The ClusterFeatures that the peer holds."""
        return self.watches.features

    @property
    def clusters(self) -> PeerClusters:
        """The Clusters that the peer holds."""
        return self.watches.clusters

    @property
    def address(self) -> ServerAddress:
        """The address in the peer's current credentials."""
        return self._dialer.address

    @property
    def problem_of_own(self) -> str:
        """The reason why its own credentials do not work, while other ones do; empty without one."""
        return self._dialer.problem if self.is_connected else ""

    def is_read_with(self, credentials: Credentials | None) -> bool:
        """Return whether it is connected with these credentials."""
        return credentials is not None and self.is_connected and self._dialer.is_used(credentials)

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

    def snapshot(self) -> PeerSnapshot:
        """Return the facts that plans are made from."""
        return PeerSnapshot(self.name, self.is_alive, self.clusters.held or {})

    def set_engagement(self, engagement: Engagement) -> None:
        """Use this name and these ways from now on; a connection stays until different credentials work."""
        self._dialer.set_credentials(engagement.name, engagement.credentials, engagement.others)

    def close(self) -> None:
        """Remove everything that was read from this peer. The provider cancels the task of `run`."""
        self.watches.close()

    async def run(self) -> NoReturn:
        """Keep the peer connected. Never returns."""
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
                self.watches.start(scope, reader, discovery, name=self.name)
                own = (
                    scope.create_task(self._probe(reader, lost), name=f"probe {self.name}"),
                    scope.create_task(self._read_metadata(reader), name=f"metadata {self.name}"),
                    scope.create_task(self._renew(lost), name=f"renew {self.name}"),
                )
                # No task raises it: a group that fails in the turn in which it is cancelled loses the cancellation, and
                # the peer would live on (Python before 3.13, https://github.com/python/cpython/issues/116720).
                self.failure = await lost
                for task in (*own, *self.watches.stop()):
                    task.cancel()
        finally:
            self.watches.stop()
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
            else:
                self._note_signal(is_back=self.health.answered(_now()))

    async def _replace(self, error: RegistryError, lost: asyncio.Future[str]) -> bool:
        """Replace the connection, whose credentials were refused, by one over another way; return whether one works."""
        found = await self._dialer.dial_over_others(error)
        if found is None:
            return False
        if lost.done():
            await found.close()
        else:
            self._next = found
            _settle(lost, "")
        return True

    async def _renew(self, lost: asyncio.Future[str]) -> None:
        """Replace the connection once changed credentials work."""
        self._next = await self._dialer.dial_with_changed()
        _settle(lost, "" if self._next is not None else "the credentials over which it was read are not here any more")

    async def _read_metadata(self, reader: Reader) -> NoReturn:
        while True:
            try:
                self.metadata, self.metadata_problem = await read_metadata(reader), ""
            except (Forbidden, InvalidObject, ProtocolError) as error:
                self.metadata_problem = str(error)
            except RegistryError:  # passes: the last metadata stay valid
                await asyncio.sleep(15.0)
                continue
            self._status_changed()
            pause_s = METADATA_PERIOD_S * (0.9 + 0.2 * random.random())  # noqa: S311
            await asyncio.sleep(30.0 if self.metadata_problem else pause_s)

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


class PeerFactory:
    """Makes peers. `connect_peer` opens a connection with credentials, without any request.

    `relayed_credentials` makes the source of a peer's credentials that other members hold. `window_s` is the
    stabilization window.
    """

    def __init__(
        self,
        *,
        connect_peer: Callable[[Credentials], Reader],
        relayed_credentials: Callable[[], RelayedCredentialsSource],
        sources: SourceIndex,
        members: Members,
        window_s: float,
    ) -> None:
        self.connect_peer = connect_peer
        self._relayed_credentials = relayed_credentials
        self._sources = sources
        self._members = members
        self._window_s = window_s

    def make(self, cluster_id: ClusterUID, engagement: Engagement, *, observer: PeerObserver) -> Peer:
        """Make a peer, which is not connected yet."""
        dialer = Dialer(
            cluster_id=cluster_id,
            name=engagement.name,
            credentials=engagement.credentials,
            others=engagement.others,
            connect_peer=self.connect_peer,
            relayed=self._relayed_credentials(),
        )
        return Peer(
            dialer=dialer,
            sources=self._sources,
            members=self._members,
            observer=observer,
            window_s=self._window_s,
        )


def _settle(lost: asyncio.Future[str], why: str) -> None:
    if not lost.done():
        lost.set_result(why)


def _now() -> float:
    return asyncio.get_running_loop().time()
