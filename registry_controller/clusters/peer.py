"""One peer's lifetime: reached, listened to, probed, lost, reached again; one cancellation scope.

Laws: a peer is read only once its kube-system UID is the one that its Cluster names · one peer's trouble never
touches another · what a lost connection had heard stays, and listening goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from registry_controller.api.errors import (
    Forbidden,
    InvalidObject,
    ProtocolError,
    RegistryError,
    Unauthorized,
)
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.dialer import Dialer
from registry_controller.clusters.metadata import read_metadata
from registry_controller.clusters.peer_watches import PeerWatches
from registry_controller.core.peer_health import PeerHealth
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

METADATA_PERIOD_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A live, proven connection to a peer."""

    reader: Reader
    discovery: Discovery


class Peer:
    """The connection to one peer, and the feeds that it fills.

    `changed` is called when something about the peer changed that a status may say; `features_changed` when rules
    may read from it or no longer.
    """

    def __init__(
        self,
        *,
        dialler: Dialer,
        sources: SourceIndex,
        members: Members,
        changed: Callable[[], None],
        features_changed: Callable[[], None],
    ) -> None:
        self.cluster_id = dialler.cluster_id
        self.health = PeerHealth(now=_now())
        self.reader: Reader | None = None
        self.discovery: Discovery | None = None
        self.failure = ""
        self.metadata: Mapping[str, object] | None = None
        self.metadata_problem = ""
        self.watches = PeerWatches(
            dialler.cluster_id,
            sources=sources,
            members=members,
            changed=changed,
            features_changed=features_changed,
            heard_from=self._heard,
            refused_by=self._refused,
        )
        self._changed = changed
        self._dialler = dialler
        self._next: Reader | None = None
        self._suspected = asyncio.Event()

    @property
    def name(self) -> str:
        """The name of its Cluster here."""
        return self._dialler.name

    @property
    def features(self) -> PeerFeatures:
        """The ClusterFeatures that the peer holds."""
        return self.watches.features

    @property
    def clusters(self) -> PeerClusters:
        """The Clusters that the peer holds."""
        return self.watches.clusters

    @property
    def place(self) -> tuple[str, str]:
        """Tell where the peer is known to be: the server, and the name that it is asked for by."""
        return self._dialler.place

    @property
    def connected(self) -> bool:
        """True while there is a proven connection."""
        return self.reader is not None

    @property
    def alive(self) -> bool:
        """True until two probes in a row went unanswered (P5)."""
        return self.health.alive

    def set_credentials(self, name: str, credentials: Credentials) -> None:
        """Use that name, and other credentials or another endpoint, from now on; the old ones until those work."""
        self._dialler.set_credentials(name, credentials)

    def close(self) -> None:
        """Withdraw everything this peer offered; the task that runs the link is cancelled by its owner."""
        self.watches.close()

    async def run(self) -> NoReturn:
        """Keep the link up. Never returns."""
        attempt = 0
        while True:
            try:
                reader, self._next = self._next or await self._dialler.dial(), None
            except RegistryError as error:
                self._fail(error)
                if not self.alive:
                    self._next = await self._dialler.dial_as_others(error)
                if self._next is None:
                    await self._dialler.pause(attempt)
                    attempt += 1
                continue
            attempt = 0
            try:
                await self._serve(reader)
            finally:
                self.reader = self.discovery = None
                await reader.close()

    async def _serve(self, reader: Reader) -> None:
        discovery = Discovery(reader)
        self.reader, self.discovery = reader, discovery
        self.failure = ""
        self.health.answered(_now())
        self._dialler.arrived()
        log.info("peer connected", peer=self.name, server=reader.server)
        self._changed()
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as scope:
                self.watches.start(scope, reader, discovery, name=self.name)
                own = (
                    scope.create_task(self._probe(reader, lost), name=f"probe {self.name}"),
                    scope.create_task(self._read_metadata(reader), name=f"metadata {self.name}"),
                    scope.create_task(self._renew(lost), name=f"renew {self.name}"),
                )
                # Nobody raises it: a group that fails in the turn in which it is cancelled loses the cancellation, and
                # the link would live on (Python before 3.13, https://github.com/python/cpython/issues/116720).
                self.failure = await lost
                for task in (*own, *self.watches.stop()):
                    task.cancel()
        finally:
            self.watches.stop()
            self._changed()

    async def _probe(self, reader: Reader, lost: asyncio.Future[str]) -> None:
        """Ask who is silent whether it lives; say why when the connection is no longer to be used."""
        while True:
            delay_s = self.health.next_probe_at() - _now()
            if delay_s > 0:
                self._suspected.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._suspected.wait()
                continue
            began = _now()
            try:
                await self._dialler.prove(reader)
            except RegistryError as error:
                is_refused = isinstance(error, Unauthorized)
                if self.health.probe_failed(_now(), started_at=began, refused=is_refused):
                    log.warning("peer unreachable", peer=self.name, error=str(error))
                    _settle(lost, str(error))
                    return
                if is_refused:
                    self.failure = str(error)
                    self._changed()
            else:
                self._note(self.health.answered(_now()))

    async def _renew(self, lost: asyncio.Future[str]) -> None:
        """Change over to credentials that are offered while the link is up, when they work."""
        self._next = await self._dialler.dial_anew()
        _settle(lost, "")

    async def _read_metadata(self, reader: Reader) -> NoReturn:
        while True:
            try:
                self.metadata, self.metadata_problem = await read_metadata(reader), ""
            except (Forbidden, InvalidObject, ProtocolError) as error:
                self.metadata_problem = str(error)
            except RegistryError:  # passing: what was read before still holds
                await asyncio.sleep(15.0)
                continue
            self._changed()
            pause_s = METADATA_PERIOD_S * (0.9 + 0.2 * random.random())  # noqa: S311
            await asyncio.sleep(30.0 if self.metadata_problem else pause_s)

    def _heard(self) -> None:
        self._note(self.health.signal_received(_now()))

    def _note(self, is_back: bool) -> None:
        if is_back:
            self._changed()
        if self.failure and self.connected and not self.health.refused:
            self.failure = ""
            self._changed()

    def _refused(self) -> None:
        if self.health.suspect(_now()):
            self._suspected.set()

    def _fail(self, error: RegistryError) -> None:
        became_unreachable = self.health.probe_failed(_now())
        text = str(error)
        if became_unreachable or text != self.failure:
            self.failure = text
            self._changed()


def _settle(lost: asyncio.Future[str], why: str) -> None:
    if not lost.done():
        lost.set_result(why)


def _now() -> float:
    return asyncio.get_running_loop().time()
