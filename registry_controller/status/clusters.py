"""Computes the status of every local Cluster object from the caches.

Law: a status describes the caches at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import Forbidden, InvalidObject, NotServed, ProtocolError
from registry_controller.api.formats import is_later_version
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.metadata import LocalMetadata
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.clusters.resolver import ResolvedCluster
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.core.status.cluster import ClusterFacts, KnownCluster, build_cluster_status
from registry_controller.core.status.missing_rules import RulesMissing
from registry_controller.local.controller import LocalController
from registry_controller.membership.absences import Absences
from registry_controller.membership.quota import MemberQuota
from registry_controller.membership.tombstones import TombstoneTracker
from registry_controller.status.summary import StatusSummary
from registry_controller.status.writer import StatusWriter
from registry_controller.sync.owner_limits import OwnerLimits


class ClusterStatusReporter:
    """Passes the status of each Cluster to the status writer."""

    def __init__(
        self,
        *,
        registry: Registry,
        clusters: ClusterProvider,
        sources: SourceIndex,
        tombstones: TombstoneTracker,
        absences: Absences,
        quota: MemberQuota,
        deletions: RuleDeletions,
        owner_limits: OwnerLimits,
        is_settled: Callable[[], bool],
        keeps_generation: Callable[[], bool],
        local: LocalController,
        local_metadata: LocalMetadata,
        writer: StatusWriter,
        summary: StatusSummary,
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._sources = sources
        self._tombstones = tombstones
        self._absences = absences
        self._quota = quota
        self._deletions = deletions
        self._owner_limits = owner_limits
        self._is_settled = is_settled
        self._keeps_generation = keeps_generation
        self._local = local
        self._local_metadata = local_metadata
        self._writer = writer
        self._summary = summary

    def report(self) -> None:
        """Compute the status of every Cluster whose credentials are known."""
        known_here = self._list_known_clusters()
        for name, stored in self._registry.clusters.items():
            info = meta.metadata_of(stored.manifest)
            current = stored.manifest.get("status")
            choice = self._clusters.resolved.get(name)
            if stored.cluster is None:
                facts = ClusterFacts(is_local=False, failure=stored.problem)
            elif choice is None or choice.waiting:
                continue
            else:
                facts = self._collect_facts(choice, known_here)
            facts = replace(facts, generation=self._get_generation(info, facts))
            status = build_cluster_status(facts, current=current)
            self._summary.note_cluster(name, status, current=current)
            self._writer.set_wanted(
                meta.CLUSTERS,
                name,
                status=status,
                current=current,
                uid=info.get("uid", ""),
                generation=0,
                revision=meta.revision(info.get("resourceVersion")),
            )

    def _get_generation(self, info: meta.Manifest, facts: ClusterFacts) -> int:
        """Return the generation that the status names; 0 where the definition here drops the field.

        The own Cluster has none, and no condition has one: people apply Clusters to members whose CRD lacks the fields,
        and kubectl refuses to create objects with unknown fields.
        """
        if facts.is_local or not self._keeps_generation():
            return 0
        return int(info.get("generation") or 0)

    def _collect_facts(self, choice: ResolvedCluster, known_here: Sequence[KnownCluster]) -> ClusterFacts:
        cluster = choice.cluster
        missing_rules = self._list_missing(cluster.cluster_id) if self._registry.shows_missing_rules else None
        if cluster.cluster_id == self._clusters.local:
            return ClusterFacts(
                is_local=True,
                name=cluster.name,
                missing_rules=missing_rules,
                disabled=choice.disabled,
                conflict=choice.conflict,
                connected=True,
                metadata=self._local_metadata.metadata,
                metadata_problem=self._local_metadata.problem,
                local_problem=self._local.problem,
                later=self._list_later(cluster.name),
            )
        peer = self._clusters.peers.get(cluster.cluster_id)
        is_read = peer is not None and not choice.alias_of and bool(choice.ways)
        is_over_other = is_read and peer is not None and peer.is_connected and bool(choice.unusable)
        is_settled = self._is_settled()
        if peer is not None and peer.is_alive and is_settled:
            self._owner_limits.nothing_waits(cluster.cluster_id)
        halt = self._owner_limits.report(cluster.cluster_id, is_settled=is_settled) if not choice.alias_of else None
        return ClusterFacts(
            is_local=False,
            name=cluster.name,
            missing_rules=missing_rules,
            disabled=choice.disabled,
            missing_auth=choice.missing_auth and not is_over_other,
            auth_problem="" if is_over_other else choice.auth_problem,
            unused_auth=choice.unusable or (peer.problem_of_own if is_read and peer is not None else ""),
            alias_of=choice.alias_of,
            conflict=choice.conflict,
            known_here=known_here,
            known_problem=self._get_list_problem(cluster.cluster_id),
            reported_left_by=self._list_departure_reporters(cluster.cluster_id),
            reported_rebuilt_by=self._list_names(self._clusters.rebuilt.wait_for(cluster.name)),
            own_cluster=self._absences.report(cluster.cluster_id),
            absence_s=self._absences.lasts_s,
            deletions=halt.form if halt is not None else None,
            deletions_waiting=halt.waiting if halt is not None else 0,
            deletions_known=halt is None or halt.is_known,
            **(_collect_peer_facts(peer) if is_read and peer is not None else {}),
        )

    def _list_missing(self, owner: ClusterUID) -> RulesMissing:
        found = self._deletions.missing.get(owner)
        if found is None:
            return RulesMissing()
        return RulesMissing(sorted(found.waiting), found.moment, sorted(found.going), found.allowed)

    def _list_later(self, name: str) -> Sequence[str]:
        """List the objects here that have a later format; `name` is that of our Cluster (A11)."""
        stored = self._registry.clusters.get(name)
        annotations = meta.annotations_of(stored.manifest) if stored is not None else {}
        is_later = is_later_version(annotations.get(meta.DAEMON, ""))
        own = [f"the annotation {meta.DAEMON} of Cluster {name}"] if is_later else []
        return [*own, *map(_name_feature, sorted(self._registry.later_features))]

    def _list_departure_reporters(self, member: ClusterUID) -> Sequence[str]:
        """List the names of the members that report the departure of a silent member (O6)."""
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
        """List the local Clusters with the state that this cluster finds them in."""
        known = []
        for name, choice in sorted(self._clusters.resolved.items()):
            cluster = choice.cluster
            ready = build_cluster_status(self._collect_facts(choice, ()))["state"] == State.READY.value
            compared = not (choice.alias_of or choice.disabled)
            known.append(KnownCluster(cluster.cluster_id, name, ready, compared))
        return known


def _collect_peer_facts(peer: Peer) -> Mapping[str, Any]:
    known_there = None
    if (stored := peer.clusters.held) is not None:
        known_there = [
            KnownCluster(cluster.cluster_id, name, cluster.state == State.READY.value, not cluster.disabled)
            for name, cluster in sorted(stored.items())
        ]
    return {
        "failure": peer.failure,
        "connected": peer.is_connected,
        "metadata": peer.metadata,
        "metadata_problem": peer.metadata_problem,
        "known_there": known_there,
        "later": None if (later := peer.features.later) is None else [*map(_name_feature, later)],
    }


def _name_feature(name: str) -> str:
    return f"{meta.FEATURE.kind} {name}"
