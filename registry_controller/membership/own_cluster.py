"""Shows lost Clusters: the own one as it was seen here or is at live members, and the Clusters of members.

Law: a member's Cluster is read only from the member itself, once it has proven the ID in its Secret's marks, and only
while this cluster is a member there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.api.selection import EVERYTHING
from registry_controller.api.tombstone import read_original_tombstone
from registry_controller.cache.members import cluster_target, secret_target
from registry_controller.cache.peer_objects import spec_cluster_id
from registry_controller.cache.registry import Registry
from registry_controller.clusters.dialer import PROBE_TIMEOUT_S
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.lost_cluster import named_secret
from registry_controller.core.decision.marks import read_marks
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import decode_manifest
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report.logs import get_logger

log = get_logger(__name__)


class LostClusters:
    """Reads the registry and the peers. A Cluster that a person carried to a member is not shown."""

    def __init__(
        self,
        *,
        local: ClusterUID,
        registry: Registry,
        peers: Mapping[ClusterUID, Peer],
        connect_peer: Callable[[Credentials], Reader],
    ) -> None:
        self._local = local
        self._connect_peer = connect_peer
        self._registry = registry
        self._peers = peers

    @property
    def last(self) -> Manifest | None:
        """The Cluster as this process saw it last; None if it did not see it."""
        return self._registry.deleted_clusters.get(self._local)

    @property
    def awaits_members(self) -> bool:
        """True while the Clusters, or the features, of a member that may answer are not known yet."""
        stored = (held.cluster for held in self._registry.clusters.values())
        others = {cluster.cluster_id for cluster in stored if cluster is not None} - {self._local}
        answers = {uid for uid, peer in self._peers.items() if not peer.is_alive or _is_listed(peer)}
        return bool(others - answers)

    async def list_shown(self) -> Sequence[Manifest]:
        """Read its copies at live members."""
        found = []
        for _, peer in sorted(self._peers.items()):
            for name, record in dict(peer.clusters.held or {}).items() if peer.is_alive and _is_listed(peer) else ():
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

    async def read_member(self, secret: Manifest) -> Manifest | None:
        """Read the Cluster of the member that a copied registry Secret here gives access to; None if it has none."""
        info = meta.metadata_of(secret)
        key = ObjectKey(info.get("namespace", ""), info["name"])
        member = read_marks(meta.annotations_of(secret), of=secret_target(key)).owner
        if member in (None, self._local):
            return None
        try:
            clusters = await self._read_clusters(secret, member)
        except RegistryError as error:
            log.debug("a member cannot be read with its Secret", secret=key, error=str(error))
            return None
        own = [found for found in clusters if spec_cluster_id(found) == member and named_secret(found) == key]
        is_member_there = any(spec_cluster_id(found) == self._local for found in clusters)
        return own[0] if is_member_there and len(own) == 1 and not self._has_left(member, own[0]) else None

    async def _read_clusters(self, secret: Manifest, member: ClusterUID | None) -> Sequence[Manifest]:
        """List the Clusters of a member; none where another cluster answers."""
        reader = self._connect_peer(read_secret(secret_type=secret.get("type", ""), data=secret.get("data") or {}))
        try:
            if await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S) != member:
                return ()
            found: list[Manifest] = []
            async for page in list_objects(reader, meta.CLUSTERS, EVERYTHING, kind=meta.CLUSTER):
                found = [*([] if page.is_first else found), *(decode_manifest(obj.raw) for obj in page.items)]
            return found
        finally:
            await reader.close()

    def _has_left(self, member: ClusterUID | None, cluster: Manifest) -> bool:
        """Return whether a tombstone here names the membership of a member's Cluster."""
        uid = str(meta.metadata_of(cluster).get("uid", ""))
        features = self._registry.standing_features()
        stones = (read_original_tombstone(found, at=self._local) for found in features)
        return any(stone is not None and stone.member == member and stone.covers(uid) for stone in stones)


def _is_listed(peer: Peer) -> bool:
    """Report whether the Clusters of a peer are known, and its features, which show whether this cluster has left."""
    return peer.clusters.held is not None and peer.features.held is not None
