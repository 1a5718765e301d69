"""How members stand: the status of every Cluster here, made anew from the caches.

Law: a status says only what the caches hold at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import Forbidden, InvalidObject, NotServed, ProtocolError
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.clusters.metadata import LocalMetadata
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.resolver import ResolvedCluster
from registry_controller.core.status.cluster import ClusterFacts, KnownCluster, build_cluster_status
from registry_controller.engine import Engine
from registry_controller.local.controller import LocalController
from registry_controller.status.writer import StatusWriter


class ClusterStatusReporter:
    """Statuses of Clusters."""

    def __init__(
        self, *, engine: Engine, local: LocalController, local_metadata: LocalMetadata, writer: StatusWriter
    ) -> None:
        self._registry = engine.registry
        self._clusters = engine.clusters
        self._sources = engine.sources
        self._tombstones = engine.tombstones
        self._quota = engine.quota
        self._local = local
        self._local_metadata = local_metadata
        self._writer = writer

    def report(self) -> None:
        """Say how every member stands."""
        here = self._list_known_clusters()
        for name, held in self._registry.clusters.items():
            info = meta.metadata_of(held.manifest)
            current = held.manifest.get("status")
            resolved = self._clusters.resolved.get(name)
            if held.cluster is None:
                facts = ClusterFacts(is_local=False, failure=held.problem)
            elif resolved is None or resolved.waiting:
                continue
            else:
                facts = self._collect_facts(resolved, here)
            status = build_cluster_status(facts, current=current)
            # No observedGeneration on Clusters: people carry them to members whose CRD does not know the field, and
            # kubectl refuses to create what it would drop.
            self._writer.set_wanted(meta.CLUSTERS, name, status, current, uid=info.get("uid", ""), generation=0)

    def _collect_facts(self, resolved: ResolvedCluster, here: Sequence[KnownCluster]) -> ClusterFacts:
        cluster = resolved.cluster
        if cluster.cluster_id == self._clusters.local:
            return ClusterFacts(
                is_local=True,
                disabled=resolved.disabled,
                conflict=resolved.conflict,
                connected=True,
                metadata=self._local_metadata.metadata,
                metadata_problem=self._local_metadata.problem,
                local_problem=self._local.problem,
            )
        peer = self._clusters.peers.get(cluster.cluster_id)
        is_read = peer is not None and not resolved.alias_of and resolved.credentials is not None
        return ClusterFacts(
            is_local=False,
            disabled=resolved.disabled,
            missing_auth=resolved.missing_auth,
            auth_problem=resolved.auth_problem,
            alias_of=resolved.alias_of,
            conflict=resolved.conflict,
            known_here=here,
            known_problem=self._get_list_problem(cluster.cluster_id),
            reported_left_by=self._list_departure_reporters(cluster.cluster_id),
            reported_rebuilt_by=self._list_names(self._clusters.rebuilt.wait_for(cluster.name)),
            **(_collect_peer_facts(peer) if is_read and peer is not None else {}),
        )

    def _list_departure_reporters(self, member: ClusterUID) -> Sequence[str]:
        """Name who says of a silent member that it has left (O6)."""
        return self._list_names(self._tombstones.now.pending.get(member, frozenset()))

    def _list_names(self, members: Iterable[ClusterUID]) -> Sequence[str]:
        local = self._clusters.local
        return sorted("this cluster" if uid == local else self._clusters.name_of(uid) for uid in members)

    def _get_list_problem(self, peer: ClusterUID) -> str:
        for kind in (meta.CLUSTER, meta.FEATURE):
            cache = self._sources.cache_of(peer, kind)
            error = cache.streams[EVERYTHING].error if cache is not None else None
            if isinstance(error, Forbidden | InvalidObject | NotServed | ProtocolError):
                return f"its {kind.kind}s cannot be listed: {error}"
        return self._quota.problem(peer)

    def _list_known_clusters(self) -> list[KnownCluster]:
        """List our Clusters with the state that we find them in."""
        found = []
        for name, resolved in sorted(self._clusters.resolved.items()):
            cluster = resolved.cluster
            ready = build_cluster_status(self._collect_facts(resolved, ()))["state"] == State.READY.value
            compared = not (resolved.alias_of or resolved.disabled)
            found.append(KnownCluster(cluster.cluster_id, name, ready, compared))
        return found


def _collect_peer_facts(peer: Peer) -> Mapping[str, Any]:
    there = None
    if (held := peer.clusters.held) is not None:
        there = [
            KnownCluster(view.cluster_id, name, view.state == State.READY.value, not view.disabled)
            for name, view in sorted(held.items())
        ]
    return {
        "failure": peer.failure,
        "connected": peer.is_connected,
        "metadata": peer.metadata,
        "metadata_problem": peer.metadata_problem,
        "known_there": there,
    }
