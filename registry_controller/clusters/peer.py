"""A peer of the daemon: its connection, the caches that this fills, and the metadata of its cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from registry_controller.api.errors import Forbidden, InvalidObject, ProtocolError, RegistryError
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.connection import PeerConnection
from registry_controller.clusters.dialer import Dialer, RelayedCredentialsSource, ServerAddress
from registry_controller.clusters.metadata import read_metadata
from registry_controller.clusters.peer_watches import PeerWatches
from registry_controller.clusters.plan import Engagement, PeerSnapshot
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials

METADATA_PERIOD_S: Final = 300.0


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


class Peer(PeerConnection[Dialer]):
    """The connection to one peer, and the caches that it fills."""

    def __init__(
        self, *, dialer: Dialer, sources: SourceIndex, members: Members, observer: PeerObserver, window_s: float
    ) -> None:
        super().__init__(dialer=dialer, status_changed=observer.on_peer_status_changed)
        self.cluster_id = dialer.cluster_id
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
        self._reading_metadata: asyncio.Task[NoReturn] | None = None

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

    def snapshot(self) -> PeerSnapshot:
        """Return the facts that plans are made from."""
        return PeerSnapshot(self.name, self.is_alive, self.clusters.held or {})

    def set_engagement(self, engagement: Engagement) -> None:
        """Use this name and these ways from now on; a connection stays until different credentials work."""
        self._dialer.set_credentials(engagement.name, engagement.credentials, engagement.others)

    def close(self) -> None:
        """Remove everything that was read from this peer. The provider cancels the task of `run`."""
        self.watches.close()

    def _start_reading(self, scope: asyncio.TaskGroup, reader: Reader, discovery: Discovery) -> None:
        self.watches.start(scope, reader, discovery, name=self.name)
        self._reading_metadata = scope.create_task(self._read_metadata(reader), name=f"metadata {self.name}")

    def _stop_reading(self) -> Iterable[asyncio.Task[Any]]:
        metadata, self._reading_metadata = self._reading_metadata, None
        return (*self.watches.stop(), *(() if metadata is None else (metadata,)))

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
