"""What is known of this cluster's own Cluster while it is missing: as it was seen here, and as live members show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.cache.members import cluster_target
from registry_controller.cache.registry import Registry
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.ownership import read_marks
from registry_controller.kube.object import decode_manifest


class LostOwnCluster:
    """Reads the registry and the peers. A Cluster that a person carried to a member is not shown."""

    def __init__(self, *, local: ClusterUID, registry: Registry, peers: Mapping[ClusterUID, Peer]) -> None:
        self._local = local
        self._registry = registry
        self._peers = peers

    @property
    def last(self) -> Manifest | None:
        """The Cluster as this process saw it last; None if it did not see it."""
        return self._registry.deleted_clusters.get(self._local)

    @property
    def awaits_members(self) -> bool:
        """True while the Clusters of a member that may answer are not known yet."""
        stored = (held.cluster for held in self._registry.clusters.values())
        others = {cluster.cluster_id for cluster in stored if cluster is not None} - {self._local}
        answers = {uid for uid, peer in self._peers.items() if not peer.is_alive or peer.clusters.held is not None}
        return bool(others - answers)

    async def list_shown(self) -> Sequence[Manifest]:
        """Read the copies of it at live members."""
        found = []
        for _, peer in sorted(self._peers.items()):
            for name, record in dict(peer.clusters.held or {}).items() if peer.is_alive else ():
                reader = peer.reader
                if record.cluster_id != self._local or reader is None:
                    continue
                try:
                    manifest = decode_manifest(await reader.get(meta.CLUSTERS, ObjectKey("", name)))
                except RegistryError:
                    continue
                if read_marks(meta.annotations_of(manifest), of=cluster_target(name)).owner == self._local:
                    found.append(manifest)
        return found
