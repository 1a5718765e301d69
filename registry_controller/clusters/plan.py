"""Turns the resolved Clusters into a plan: which peers to engage, to keep, and to end, and which servers to probe.

`clusters.resolver` decides which Cluster is read, and with which credentials.

Pure, and level-based: `plan_members` makes the whole plan again from its inputs; the provider applies the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.credentials import may_be_of_cluster_api
from registry_controller.cache.members import MemberRecord, cluster_target, secret_target
from registry_controller.clusters.clones import CloneProbes
from registry_controller.clusters.resolver import Resolution, ResolvedCluster
from registry_controller.kube.kubeconfig import Credentials


class Engagement(NamedTuple):
    """The name of a peer's Cluster here, the credentials to read the peer with, and other ways to it."""

    name: str
    credentials: Credentials
    others: tuple[Credentials, ...] = ()


class RebuiltCluster(NamedTuple):
    """A new cluster ID that a relay offers under the name of a Cluster here."""

    name: str
    cluster_id: ClusterUID
    offered_by: ClusterUID


@dataclass(frozen=True, slots=True)
class PeerSnapshot:
    """An engaged peer at one moment; `clusters` are the Clusters that it holds, empty before its list is complete."""

    name: str
    is_alive: bool
    clusters: Mapping[str, MemberRecord]


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The facts that decide which peers are engaged.

    `namespace` is the daemon's, `peers` are the engaged ones. `in_grace` are peers without credentials that stay
    engaged, because their Cluster or Secret may be restored through them.
    """

    namespace: str
    resolution: Resolution
    peers: Mapping[ClusterUID, PeerSnapshot]
    in_grace: frozenset[ClusterUID] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The desired state. A peer that is neither in `engaged` nor in `retained` is disengaged.

    `engaged` has the peers to be read, `retained` those that stay engaged with the credentials that they have.
    `secret_namespaces` are the namespaces whose registry Secrets are watched, sorted. In `cluster_api_namespaces` also
    the Secrets of Cluster API are watched, because a Cluster names a Secret that may be one.
    """

    engaged: Mapping[ClusterUID, Engagement]
    retained: frozenset[ClusterUID]
    secret_namespaces: tuple[str, ...]
    clone_probes: CloneProbes
    rebuilt_probes: frozenset[RebuiltCluster]
    cluster_api_namespaces: tuple[str, ...] = ()


def plan_members(inputs: PlanInputs) -> ClusterPlan:
    """Plan which peers are engaged, which Secrets are watched, and which servers are probed."""
    clusters = inputs.resolution.clusters
    engaged = {
        resolved.cluster.cluster_id: Engagement(resolved.cluster.name, resolved.ways[0], resolved.ways[1:])
        for resolved in clusters.values()
        if resolved.ways
    }
    waiting = {resolved.cluster.cluster_id for resolved in clusters.values() if resolved.waiting}
    retained = (frozenset(waiting) | inputs.in_grace) & inputs.peers.keys() - engaged.keys()
    secrets = [resolved.cluster.secret for resolved in clusters.values() if resolved.cluster.secret is not None]
    staying = {uid: peer for uid, peer in inputs.peers.items() if uid in engaged or uid in retained}
    return ClusterPlan(
        engaged=engaged,
        retained=retained,
        secret_namespaces=tuple(sorted({inputs.namespace, *(key.namespace for key in secrets)})),
        clone_probes=inputs.resolution.clone_probes,
        rebuilt_probes=frozenset(_find_rebuilt(clusters, staying)),
        cluster_api_namespaces=tuple(sorted({key.namespace for key in secrets if may_be_of_cluster_api(key)})),
    )


def find_missing(
    clusters: Mapping[str, ResolvedCluster],
    peers: Mapping[ClusterUID, PeerSnapshot],
    *,
    in_grace: Set[ClusterUID] = frozenset(),
) -> Mapping[ClusterUID, Target]:
    """Find peers that can no longer be read, and for each the Cluster or Secret whose restoration changes that.

    They are alive, or in their grace period. A peer that is not to be read, because its Cluster is disabled or in
    conflict, is left out.
    """
    read = {resolved.cluster.cluster_id for resolved in clusters.values() if resolved.ways or resolved.waiting}
    missing = {
        member: _missing_target(member, peer, clusters)
        for member, peer in peers.items()
        if (peer.is_alive or member in in_grace) and member not in read
    }
    return {member: target for member, target in missing.items() if target is not None}


def find_silent(
    clusters: Mapping[str, ResolvedCluster], peers: Mapping[ClusterUID, PeerSnapshot]
) -> frozenset[ClusterUID]:
    """Find the silent peers that have no Cluster here, and whose name no other cluster has taken."""
    known = {resolved.cluster.cluster_id for resolved in clusters.values()}
    return frozenset(
        member
        for member, peer in peers.items()
        if not peer.is_alive and member not in known and peer.name not in clusters
    )


def _missing_target(member: ClusterUID, peer: PeerSnapshot, clusters: Mapping[str, ResolvedCluster]) -> Target | None:
    same = (resolved for resolved in clusters.values() if resolved.cluster.cluster_id == member)
    read = next((resolved for resolved in same if not resolved.alias_of), None)
    if read is None:
        return None if peer.name in clusters else cluster_target(peer.name)
    if not (read.missing_auth or read.auth_problem):
        return None
    secret, own = read.cluster.secret, peer.clusters.get(read.cluster.name)
    has_other_secret = own is not None and own.secret != secret
    return cluster_target(read.cluster.name) if has_other_secret or secret is None else secret_target(secret)


def _find_rebuilt(
    clusters: Mapping[str, ResolvedCluster], peers: Mapping[ClusterUID, PeerSnapshot]
) -> Iterator[RebuiltCluster]:
    """Find the unknown IDs that live peers offer under the names of silent peers (P11)."""
    known = {resolved.cluster.cluster_id for resolved in clusters.values()}
    silent = {
        name
        for name, resolved in clusters.items()
        if (peer := peers.get(resolved.cluster.cluster_id)) is not None and not peer.is_alive
    }
    for member, peer in peers.items():
        for name, record in peer.clusters.items() if peer.is_alive else ():
            if name in silent and record.secret is not None and record.cluster_id not in known:
                yield RebuiltCluster(name, record.cluster_id, member)
