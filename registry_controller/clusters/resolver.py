"""Decides for each Cluster object here whether it is read, and with which credentials, or why it is not read.

The first credentials are in the Secret that the Cluster names. `core/decision/ways.py` decides on the other ways and
their order. `clusters/dialer.py` tries them, and then the credentials that other members relay.

Pure. Laws: one cluster ID is read through one Cluster object, the other Clusters of that ID are aliases · the choice
does not depend on objects that only its own connection shows · two Clusters with the local ID are in conflict · clones
are not read until one of them is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.clusters.clones import CloneProbes, CloneState
from registry_controller.core.decision.ways import other_ways
from registry_controller.kube.kubeconfig import Credentials, with_endpoint

_BARRED: Final = (
    f"is of type {meta.CLUSTER_API_SECRET_TYPE}: only a Cluster that was made in this cluster may name it, and this "
    "one came from another member"
)
NO_SECRET_NAMED: Final = "spec.authInfo.secretRef needs a name and a namespace"


@dataclass(frozen=True, slots=True)
class ResolvedCluster:
    """The result for one Cluster object: at most one of the reasons is set; `credentials` only without any.

    `waiting` is True until its Secret has been listed. `others` are other ways to its cluster, also where the Cluster
    itself has no usable credentials (P7).
    """

    cluster: Cluster
    credentials: Credentials | None = None
    auth_problem: str = ""
    missing_auth: bool = False
    disabled: bool = False
    alias_of: str = ""
    conflict: str = ""
    waiting: bool = False
    others: tuple[Credentials, ...] = ()

    @property
    def ways(self) -> tuple[Credentials, ...]:
        """The ways to its cluster, in the order in which they are tried."""
        return (self.credentials, *self.others) if self.credentials is not None else self.others

    @property
    def unusable(self) -> str:
        """The reason why its own credentials are not used, while there are other ways; empty without one."""
        if not self.others or self.credentials is not None:
            return ""
        return self.auth_problem or NO_SECRET_NAMED


@dataclass(frozen=True, slots=True)
class ResolverInputs:
    """The facts that decide how Clusters are resolved.

    `credentials` has, by Secret, the credentials or the problem with them; a Secret that has not been listed is
    missing. `unnamed` are the credentials of Secrets that belong to a member and that no Cluster names.
    `of_cluster_api` are the Secrets with the rights of an administrator that Cluster API keeps.
    """

    local: ClusterUID
    network_name: str
    clusters: Mapping[ClusterUID, list[Cluster]]
    credentials: Mapping[ObjectKey, Credentials | str]
    clones: CloneState
    unnamed: Mapping[ClusterUID, Sequence[Credentials]] = field(default_factory=dict)
    of_cluster_api: frozenset[ObjectKey] = frozenset()
    disputed_secrets: Mapping[ObjectKey, tuple[str, ...]] = field(init=False)
    """The Secrets that Clusters of several members name, with the names of these Clusters."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "disputed_secrets", _find_disputed(self.clusters.values()))

    def is_barred(self, cluster: Cluster) -> bool:
        """Return whether a Cluster names a Secret that only a Cluster which was made here may name."""
        return cluster.is_copy and cluster.secret in self.of_cluster_api


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved Clusters by name, and the probes that look for clones: one for each of several Clusters of an ID."""

    clusters: Mapping[str, ResolvedCluster]
    clone_probes: CloneProbes


def sort_by_id(clusters: Iterable[Cluster]) -> Mapping[ClusterUID, list[Cluster]]:
    """Sort Clusters by their IDs."""
    found: dict[ClusterUID, list[Cluster]] = {}
    for cluster in clusters:
        found.setdefault(cluster.cluster_id, []).append(cluster)
    return found


def _find_disputed(clusters: Iterable[Iterable[Cluster]]) -> Mapping[ObjectKey, tuple[str, ...]]:
    named_by: dict[ObjectKey, list[Cluster]] = {}
    for cluster in (cluster for same in clusters for cluster in same if cluster.secret is not None):
        named_by.setdefault(cast(ObjectKey, cluster.secret), []).append(cluster)
    return {
        secret: tuple(sorted(cluster.name for cluster in named))
        for secret, named in named_by.items()
        if len({cluster.cluster_id for cluster in named}) > 1
    }


def find_servers(
    clusters: Mapping[ClusterUID, Sequence[Cluster]],
    secrets: Mapping[ObjectKey, Credentials | str | None],
    *,
    network_name: str,
) -> Mapping[str, str]:
    """Return the address to which each Cluster of an ID with several leads, by the Cluster's uid, read or not."""
    servers: dict[str, str] = {}
    for cluster in (cluster for same in clusters.values() if len(same) > 1 for cluster in same):
        found = secrets.get(cluster.secret) if cluster.secret is not None else None
        if isinstance(found, Credentials):
            with contextlib.suppress(InvalidKubeconfig):
                servers[cluster.uid] = with_endpoint(found, cluster.endpoint_for(network_name)).server
    return servers


def resolve_clusters(inputs: ResolverInputs) -> Resolution:
    """Resolve every Cluster object."""
    resolved: dict[str, ResolvedCluster] = {}
    probes: dict[ClusterUID, dict[str, Credentials]] = {}
    for cluster_id, same in inputs.clusters.items():
        if cluster_id == inputs.local:
            resolved |= _resolve_local(same)
            continue
        resolved |= _resolve_peer(cluster_id, same, inputs)
        for cluster in same if len(same) > 1 else ():
            if (found := _find_credentials(cluster, inputs).credentials) is not None:
                probes.setdefault(cluster_id, {})[cluster.uid] = found
    return Resolution(resolved, probes)


def _resolve_local(same: list[Cluster]) -> Mapping[str, ResolvedCluster]:
    names = sorted(cluster.name for cluster in same)
    conflict = ""
    if len(same) > 1:
        conflict = f"Clusters {', '.join(names)} all have this cluster's ID: keep one, delete the rest"
    return {cluster.name: ResolvedCluster(cluster, conflict=conflict, disabled=cluster.disabled) for cluster in same}


def _resolve_peer(cluster_id: ClusterUID, same: list[Cluster], inputs: ResolverInputs) -> Mapping[str, ResolvedCluster]:
    """Choose the Cluster object through which a peer is read (P1).

    While the names by which it calls itself are unknown, the first one counts, also a disabled one (P8).
    """
    clones = inputs.clones.clones.get(cluster_id)
    if clones:
        names = ", ".join(sorted(cluster.name for cluster in same if cluster.uid in clones))
        conflict = f"two API servers have the ID {cluster_id}, as {names}: one is a clone; delete one of these Clusters"
        return {
            cluster.name: ResolvedCluster(cluster, conflict=conflict, disabled=cluster.disabled) for cluster in same
        }
    own_names, first = inputs.clones.own_names.get(cluster_id, frozenset()), inputs.clones.first.get(cluster_id)
    ordered = sorted(
        same,
        key=lambda c: (
            c.name not in own_names,
            bool(own_names) and c.disabled,
            c.secret is None,
            c.uid != first,
            c.disabled,
            c.created,
            c.name,
        ),
    )
    read, *aliases = ordered
    resolved = {read.name: _with_other_ways(_find_credentials(read, inputs), aliases, inputs)}
    for alias in aliases:
        resolved[alias.name] = ResolvedCluster(alias, alias_of=read.name, disabled=alias.disabled)
    return resolved


def _with_other_ways(found: ResolvedCluster, aliases: Iterable[Cluster], inputs: ResolverInputs) -> ResolvedCluster:
    """Add the other ways to a cluster that is to be read: of its aliases, and of its Secrets."""
    if found.disabled or found.waiting:
        return found
    true_aliases = (alias for alias in aliases if alias.uid in inputs.clones.aliases)
    of_aliases = (_find_credentials(alias, inputs).credentials for alias in true_aliases)
    unnamed = inputs.unnamed.get(found.cluster.cluster_id, ())
    others = other_ways(
        found.credentials,
        aliases=(way for way in of_aliases if way is not None),
        unnamed=_at_endpoint(unnamed, found.cluster, inputs),
        as_stored=(*_find_stored(found.cluster, inputs), *unnamed),
    )
    return replace(found, others=others) if others else found


def _at_endpoint(ways: Iterable[Credentials], cluster: Cluster, inputs: ResolverInputs) -> Iterator[Credentials]:
    for credentials in ways:
        try:
            yield with_endpoint(credentials, cluster.endpoint_for(inputs.network_name))
        except InvalidKubeconfig:
            continue


def _find_stored(cluster: Cluster, inputs: ResolverInputs) -> tuple[Credentials, ...]:
    """Return the credentials in the Secret that a Cluster names, at the address in it; none in a disputed Secret."""
    if cluster.secret is None or cluster.secret in inputs.disputed_secrets or inputs.is_barred(cluster):
        return ()
    found = inputs.credentials.get(cluster.secret)
    return (found,) if isinstance(found, Credentials) else ()


def _find_credentials(cluster: Cluster, inputs: ResolverInputs) -> ResolvedCluster:
    if cluster.disabled:
        return ResolvedCluster(cluster, disabled=True)
    if cluster.secret is None:
        return ResolvedCluster(cluster, missing_auth=True)
    found = inputs.credentials.get(cluster.secret)
    if found is None:
        return ResolvedCluster(cluster, waiting=True)
    if isinstance(found, str):
        return ResolvedCluster(cluster, auth_problem=found)
    if names := inputs.disputed_secrets.get(cluster.secret):
        problem = f"Secret {cluster.secret} is named by the Clusters {', '.join(names)}: each needs one of its own"
        return ResolvedCluster(cluster, auth_problem=problem)
    if inputs.is_barred(cluster):
        return ResolvedCluster(cluster, auth_problem=f"Secret {cluster.secret}: {_BARRED}")
    try:
        return ResolvedCluster(cluster, credentials=with_endpoint(found, cluster.endpoint_for(inputs.network_name)))
    except InvalidKubeconfig as error:
        return ResolvedCluster(cluster, auth_problem=str(error))
