"""Rebuilt clusters: a member offers another ID under a name that we know, and our own one is not alive (P11).

Law: nothing is believed that the other cluster has not proven itself, with the credentials that are offered with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.engine.peerlink import KUBE_SYSTEM, PROBE_TIMEOUT_S, PeerLink
from registry_controller.engine.registry import Registry
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.watch import decode_heard, decode_manifest
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

PERIOD_S: Final = 10.0


class Rebuild(NamedTuple):
    """A Cluster's name, the ID that is offered for it now, and who offers it."""

    name: str
    cluster_id: ClusterUID
    offered_by: ClusterUID


class Rebuilds:
    """Ask what is offered, until it proves itself. `changed` hears which Cluster has a proven successor: its name."""

    def __init__(
        self,
        *,
        local: ClusterUID,
        network_name: str,
        registry: Registry,
        links: Mapping[ClusterUID, PeerLink],
        connect_peer: Callable[[Credentials], Reader],
        changed: Callable[[str], None],
    ) -> None:
        self._local = local
        self._network_name = network_name
        self._registry = registry
        self._links = links
        self._connect_peer = connect_peer
        self._changed = changed
        self._tasks: dict[Rebuild, asyncio.Task[None]] = {}
        self._proven: set[Rebuild] = set()

    def successors(self, name: str) -> frozenset[ClusterUID]:
        """List the IDs that were proven for a Cluster's name."""
        return frozenset(found.cluster_id for found in self._proven if found.name == name)

    def plan(self, scope: asyncio.TaskGroup) -> None:
        """Ask what is offered now, and forget what no longer is."""
        wanted = set(self._offered())
        self._proven &= wanted
        for rebuild in [held for held in self._tasks if held not in wanted]:
            self._tasks.pop(rebuild).cancel()
        for rebuild in sorted(wanted - self._tasks.keys()):
            self._tasks[rebuild] = scope.create_task(self._ask(rebuild), name=f"rebuilt {rebuild.name}")

    def _offered(self) -> list[Rebuild]:
        known = {held.cluster.cluster_id for held in self._registry.clusters.values() if held.cluster is not None}
        return [
            Rebuild(name, view.cluster_id, peer)
            for peer, link in self._links.items()
            if link.alive
            for name, view in (link.clusters.held or {}).items()
            if view.secret is not None and view.cluster_id not in known and self._may_be_replaced(name)
        ]

    def _may_be_replaced(self, name: str) -> bool:
        held = self._registry.clusters.get(name)
        if held is None or held.cluster is None or held.cluster.cluster_id == self._local:
            return False
        link = self._links.get(held.cluster.cluster_id)
        return link is None or not link.alive

    async def _ask(self, rebuild: Rebuild) -> None:
        while True:
            try:
                if await self._is_proven(rebuild):
                    self._proven.add(rebuild)
                    log.info(
                        "a rebuilt cluster has proven its new ID", peer=rebuild.name, cluster_id=rebuild.cluster_id
                    )
                    self._changed(rebuild.name)
                    return
            except RegistryError as error:
                log.debug("a rebuilt cluster is not proven", peer=rebuild.name, error=str(error))
            await asyncio.sleep(PERIOD_S)

    async def _is_proven(self, rebuild: Rebuild) -> bool:
        """Dial with what the member offers, and compare the ID."""
        link = self._links.get(rebuild.offered_by)
        if link is None or link.reader is None:
            return False
        cluster = read_cluster(decode_manifest(await link.reader.get(meta.CLUSTERS, ObjectKey("", rebuild.name))))
        if cluster.cluster_id != rebuild.cluster_id or cluster.secret is None:
            return False
        reader = self._connect_peer(await self._credentials(link.reader, cluster, cluster.secret))
        try:
            answer = await reader.get(meta.NAMESPACES, KUBE_SYSTEM, timeout_s=PROBE_TIMEOUT_S)
        finally:
            await reader.close()
        return decode_heard(answer).uid == rebuild.cluster_id

    async def _credentials(self, reader: Reader, cluster: Cluster, key: ObjectKey) -> Credentials:
        secret = decode_manifest(await reader.get(meta.SECRETS, key))
        found = read_secret(secret_type=secret.get("type", ""), data=secret.get("data") or {})
        return with_endpoint(found, cluster.endpoint_for(self._network_name))
