"""Rebuilt clusters: a member offers another ID under a name that we know, and our own one is not alive (P11).

Laws: nothing is believed that the other cluster has not proven itself, with the credentials that are offered with it ·
it follows at once only where the old one was read: any server has an ID of its own, and can prove that much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.registry import Registry
from registry_controller.clusters.dialer import PROBE_TIMEOUT_S
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.silence import SilenceTimer
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.watch import decode_manifest, read_cluster_id
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

PERIOD_S: Final = 10.0
WAITING_PERIOD_S: Final = 60.0

Place = tuple[str, str]


class RebuiltCluster(NamedTuple):
    """A Cluster's name, the ID that is offered for it now, and who offers it."""

    name: str
    cluster_id: ClusterUID
    offered_by: ClusterUID


class RebuiltClusters:
    """Ask what is offered, until it proves itself. `changed` hears which Cluster has a proven successor: its name.

    At another address than the old one's, one follows when that was silent for `trusts_after_s` seconds while others
    were heard, 0 is never; `said` hears that somebody waits for that.
    """

    def __init__(
        self,
        *,
        network_name: str,
        registry: Registry,
        links: Mapping[ClusterUID, Peer],
        connect_peer: Callable[[Credentials], Reader],
        trusts_after_s: float,
        changed: Callable[[str], None],
        said: Callable[[], None],
    ) -> None:
        self._network_name = network_name
        self._registry = registry
        self._links = links
        self._connect_peer = connect_peer
        self._trusts_after_s = trusts_after_s
        self._changed = changed
        self._said = said
        self._silences = SilenceTimer(links)
        self._counted: set[ClusterUID] = set()
        self._tasks: dict[RebuiltCluster, asyncio.Task[None]] = {}
        self._proven: set[RebuiltCluster] = set()
        self._elsewhere: set[RebuiltCluster] = set()

    def successors(self, name: str) -> frozenset[ClusterUID]:
        """List the IDs that were proven for a Cluster's name."""
        return frozenset(found.cluster_id for found in self._proven if found.name == name)

    def wait_for(self, name: str) -> frozenset[ClusterUID]:
        """List the members that hold a proven successor of that name, which waits because it is at another address."""
        return frozenset(found.offered_by for found in self._elsewhere if found.name == name)

    def plan(self, scope: asyncio.TaskGroup) -> None:
        """Ask what is offered now, and forget what no longer is."""
        wanted = set(self._offered())
        self._counted |= {self._held_id(rebuild.name) for rebuild in wanted}
        self._counted = set(self._silences.count(self._counted))
        self._proven &= wanted
        self._elsewhere &= wanted
        for rebuild in [held for held in self._tasks if held not in wanted]:
            self._tasks.pop(rebuild).cancel()
        for rebuild in sorted(wanted - self._tasks.keys()):
            self._tasks[rebuild] = scope.create_task(self._ask(rebuild), name=f"rebuilt {rebuild.name}")

    def _offered(self) -> list[RebuiltCluster]:
        known = {held.cluster.cluster_id for held in self._registry.clusters.values() if held.cluster is not None}
        return [
            RebuiltCluster(name, view.cluster_id, peer)
            for peer, link in self._links.items()
            if link.alive
            for name, view in (link.clusters.held or {}).items()
            if view.secret is not None and view.cluster_id not in known and self._may_be_replaced(name)
        ]

    def _may_be_replaced(self, name: str) -> bool:
        """Say whether who has a name is silent; of one that cannot be asked, or is not to be, nobody knows."""
        link = self._links.get(self._held_id(name))
        return link is not None and not link.alive

    def _held_id(self, name: str) -> ClusterUID:
        held = self._registry.clusters.get(name)
        return held.cluster.cluster_id if held is not None and held.cluster is not None else ClusterUID("")

    async def _ask(self, rebuild: RebuiltCluster) -> None:
        while True:
            place: Place | None = None
            try:
                place = await self._prove(rebuild)
            except RegistryError as error:
                log.debug("a rebuilt cluster is not proven", peer=rebuild.name, error=str(error))
            if place is not None and self._may_follow(rebuild, place):
                self._proven.add(rebuild)
                log.info("a rebuilt cluster has proven its new ID", peer=rebuild.name, cluster_id=rebuild.cluster_id)
                self._changed(rebuild.name)
                return
            self._note(rebuild, waits=place is not None)
            await asyncio.sleep(PERIOD_S if place is None else WAITING_PERIOD_S)

    def _may_follow(self, rebuild: RebuiltCluster, place: Place) -> bool:
        """Say whether a proven cluster takes the name: it stands where the old one stood, or that was silent for long.

        Who is dialled at the old address is nobody's choice but that of whoever has it.
        """
        old = self._held_id(rebuild.name)
        link = self._links.get(old)
        if link is None or link.place == place:
            return link is not None
        return 0 < self._trusts_after_s <= self._silences.count(self._counted).get(old, 0.0)

    def _note(self, rebuild: RebuiltCluster, *, waits: bool) -> None:
        if waits != (rebuild in self._elsewhere):
            (self._elsewhere.add if waits else self._elsewhere.discard)(rebuild)
            self._said()

    async def _prove(self, rebuild: RebuiltCluster) -> Place | None:
        """Dial with what the member offers, and compare the ID; tell where that was, or None where it is not proven."""
        link = self._links.get(rebuild.offered_by)
        if link is None or link.reader is None:
            return None
        cluster = read_cluster(decode_manifest(await link.reader.get(meta.CLUSTERS, ObjectKey("", rebuild.name))))
        if cluster.cluster_id != rebuild.cluster_id or cluster.secret is None:
            return None
        credentials = await self._credentials(link.reader, cluster, cluster.secret)
        reader = self._connect_peer(credentials)
        try:
            found = await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
        finally:
            await reader.close()
        return credentials.place if found == rebuild.cluster_id else None

    async def _credentials(self, reader: Reader, cluster: Cluster, key: ObjectKey) -> Credentials:
        secret = decode_manifest(await reader.get(meta.SECRETS, key))
        found = read_secret(secret_type=secret.get("type", ""), data=secret.get("data") or {})
        return with_endpoint(found, cluster.endpoint_for(self._network_name))
