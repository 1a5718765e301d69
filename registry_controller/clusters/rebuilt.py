"""Rebuilt clusters: a member offers another ID under a name that is known here, and the old cluster is silent (P11).

Laws: a new ID is used only once the new cluster has proven it, with the credentials that are offered with it · it is
used at once only at the old cluster's address: any server has an ID of its own, and can prove that much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.registry import Registry
from registry_controller.clusters.dialer import PROBE_TIMEOUT_S, ServerAddress
from registry_controller.clusters.liveness import SilenceTimer
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.plan import RebuiltCluster
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.object import decode_manifest
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

PERIOD_S: Final = 10.0
WAITING_PERIOD_S: Final = 60.0


class RebuiltObserver(Protocol):
    """Receives the results of proofs."""

    def on_rebuilt(self, name: str) -> None:
        """A cluster has proven the new ID that is offered under the name of a Cluster here."""

    def on_rebuilt_waiting(self) -> None:
        """The members that offer a proven cluster at another address changed; see `wait_for`."""


class RebuiltClusters:
    """Proves the offered IDs, by asking the offered servers again and again.

    At another address than the old cluster's, a proven ID is used once the old cluster has been silent for
    `trusts_after_s` seconds while other peers answered; 0 is never.
    """

    def __init__(
        self,
        *,
        network_name: str,
        registry: Registry,
        peers: Mapping[ClusterUID, Peer],
        connect_peer: Callable[[Credentials], Reader],
        trusts_after_s: float,
        observer: RebuiltObserver,
    ) -> None:
        self._network_name = network_name
        self._registry = registry
        self._peers = peers
        self._connect_peer = connect_peer
        self._trusts_after_s = trusts_after_s
        self._observer = observer
        self._silence = SilenceTimer(peers)
        self._counted: set[ClusterUID] = set()
        self._tasks: dict[RebuiltCluster, asyncio.Task[None]] = {}
        self._proven: set[RebuiltCluster] = set()
        self._elsewhere: set[RebuiltCluster] = set()

    def successors(self, name: str) -> frozenset[ClusterUID]:
        """List the IDs that were proven for a Cluster's name."""
        return frozenset(found.cluster_id for found in self._proven if found.name == name)

    def wait_for(self, name: str) -> frozenset[ClusterUID]:
        """List the members that offer a proven successor of that name which waits, because it is at another address."""
        return frozenset(found.offered_by for found in self._elsewhere if found.name == name)

    def set_probes(self, scope: asyncio.TaskGroup, wanted: Set[RebuiltCluster]) -> None:
        """Prove exactly these offers."""
        self._counted |= {self._old_id(offer.name) for offer in wanted}
        self._counted = set(self._silence.count(self._counted))
        self._proven &= wanted
        self._elsewhere &= wanted
        for offer in [offer for offer in self._tasks if offer not in wanted]:
            self._tasks.pop(offer).cancel()
        for offer in sorted(wanted - self._tasks.keys()):
            self._tasks[offer] = scope.create_task(self._run(offer), name=f"rebuilt {offer.name}")

    def _old_id(self, name: str) -> ClusterUID:
        stored = self._registry.clusters.get(name)
        return stored.cluster.cluster_id if stored is not None and stored.cluster is not None else ClusterUID("")

    async def _run(self, offer: RebuiltCluster) -> None:
        while True:
            address: ServerAddress | None = None
            try:
                address = await self._prove(offer)
            except RegistryError as error:
                log.debug("a rebuilt cluster is not proven", peer=offer.name, error=str(error))
            if address is not None and self._may_follow(offer, address):
                self._proven.add(offer)
                log.info("a rebuilt cluster has proven its new ID", peer=offer.name, clusterID=offer.cluster_id)
                self._observer.on_rebuilt(offer.name)
                return
            self._note(offer, is_waiting=address is not None)
            await asyncio.sleep(PERIOD_S if address is None else WAITING_PERIOD_S)

    def _may_follow(self, offer: RebuiltCluster, address: ServerAddress) -> bool:
        """Return whether a proven cluster takes the name: at the old cluster's address, or after its long silence.

        Only the owner of the old address decides which cluster answers there.
        """
        old = self._old_id(offer.name)
        peer = self._peers.get(old)
        if peer is None or peer.address == address:
            return peer is not None
        return 0 < self._trusts_after_s <= self._silence.count(self._counted).get(old, 0.0)

    def _note(self, offer: RebuiltCluster, *, is_waiting: bool) -> None:
        if is_waiting != (offer in self._elsewhere):
            (self._elsewhere.add if is_waiting else self._elsewhere.discard)(offer)
            self._observer.on_rebuilt_waiting()

    async def _prove(self, offer: RebuiltCluster) -> ServerAddress | None:
        """Connect with the offered credentials and compare the ID; return the address, or None without proof."""
        relay = self._peers.get(offer.offered_by)
        if relay is None or relay.reader is None:
            return None
        cluster = read_cluster(decode_manifest(await relay.reader.get(meta.CLUSTERS, ObjectKey("", offer.name))))
        if cluster.cluster_id != offer.cluster_id or cluster.secret is None:
            return None
        credentials = await self._read_credentials(relay.reader, cluster, cluster.secret)
        reader = self._connect_peer(credentials)
        try:
            found = await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
        finally:
            await reader.close()
        return credentials.server_address if found == offer.cluster_id else None

    async def _read_credentials(self, reader: Reader, cluster: Cluster, key: ObjectKey) -> Credentials:
        secret = decode_manifest(await reader.get(meta.SECRETS, key))
        found = read_secret(secret_type=secret.get("type", ""), data=secret.get("data") or {})
        return with_endpoint(found, cluster.endpoint_for(self._network_name))
