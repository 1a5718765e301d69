"""Through which Cluster object each cluster is read, and with which credentials.

Laws: one cluster ID is read through one Cluster object, the others of that ID are aliases · which one it is does not
depend on what only its own connection tells · a cluster whose ID is held twice by itself is in conflict · clones are
not believed until one goes, also not by the next daemon, to which the status of their Clusters says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.members import Members
from registry_controller.clusters.clones import CloneDetector
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, with_endpoint


@dataclass(frozen=True, slots=True)
class ResolvedCluster:
    """What becomes of one Cluster object. Exactly one of the texts is filled, or none and `credentials` is.

    `waiting` is True while its Secret was not heard yet.
    """

    cluster: Cluster
    credentials: Credentials | None = None
    auth_problem: str = ""
    missing_auth: bool = False
    disabled: bool = False
    alias_of: str = ""
    conflict: str = ""
    waiting: bool = False


class ClusterResolver:
    """Chooses. `changed` is called when one of several Clusters of an ID leads elsewhere."""

    def __init__(
        self,
        *,
        local: ClusterUID,
        network_name: str,
        members: Members,
        credentials: CredentialStore,
        connect_peer: Callable[[Credentials], Reader],
        changed: Callable[[], None],
    ) -> None:
        self._local = local
        self._network_name = network_name
        self._members = members
        self._credentials = credentials
        self._namesakes = CloneDetector(connect_peer=connect_peer, changed=changed)
        self._own_names: dict[ClusterUID, frozenset[str]] = {}
        self._clones: dict[ClusterUID, frozenset[str]] = {}
        self._seen: frozenset[str] = frozenset()

    @property
    def contested(self) -> frozenset[ClusterUID]:
        """The IDs of which there are clones: nobody can say whose is what belongs to them."""
        return frozenset(self._clones)

    def resolve(self, clusters: Iterable[Cluster]) -> dict[str, ResolvedCluster]:
        """Choose for each Cluster object, by its name."""
        by_id = _by_id(clusters)
        choices: dict[str, ResolvedCluster] = {}
        for cluster_id, same in by_id.items():
            if cluster_id == self._local:
                choices.update(self._choose_local(same))
            else:
                choices.update(self._choose_peer(cluster_id, same))
        self._seen = frozenset(cluster.uid for same in by_id.values() for cluster in same)
        self._clones = {uid: clones for uid, clones in self._clones.items() if uid in by_id}
        self._own_names = {uid: names for uid, names in self._own_names.items() if uid in by_id}
        return choices

    def probe_clones(self, scope: asyncio.TaskGroup, choices: Mapping[str, ResolvedCluster]) -> None:
        """Ask the Clusters of each ID that has several what they lead to, through those that can be used."""
        wanted: dict[ClusterUID, dict[str, Credentials]] = {}
        for cluster_id, same in _by_id(choice.cluster for choice in choices.values()).items():
            for cluster in same if len(same) > 1 and cluster_id != self._local else ():
                found = self._choose_credentials(cluster).credentials
                if found is not None:
                    wanted.setdefault(cluster_id, {})[cluster.uid] = found
        self._namesakes.plan(scope, wanted)

    def _choose_local(self, same: list[Cluster]) -> Mapping[str, ResolvedCluster]:
        names = sorted(cluster.name for cluster in same)
        words = ""
        if len(same) > 1:
            words = f"Clusters {', '.join(names)} all have this cluster's ID: keep one, delete the others"
        return {cluster.name: ResolvedCluster(cluster, conflict=words, disabled=cluster.disabled) for cluster in same}

    def _choose_peer(self, cluster_id: ClusterUID, same: list[Cluster]) -> Mapping[str, ResolvedCluster]:
        """Choose the Cluster object through which a peer is read (P1)."""
        clones = self._find_clones(cluster_id, same)
        if clones:
            names = ", ".join(sorted(clones))
            words = (
                f"two API servers have the ID {cluster_id}, as {names}: one is a clone; delete one of these Clusters"
            )
            return {
                cluster.name: ResolvedCluster(cluster, conflict=words, disabled=cluster.disabled) for cluster in same
            }
        own_names = self._own_names.get(cluster_id, frozenset())
        ordered = sorted(same, key=lambda c: (c.name not in own_names, c.disabled, c.secret is None, c.created, c.name))
        read, *aliases = ordered
        choices = {read.name: self._choose_credentials(read)}
        for alias in aliases:
            choices[alias.name] = ResolvedCluster(alias, alias_of=read.name, disabled=alias.disabled)
        return choices

    def _find_clones(self, cluster_id: ClusterUID, same: list[Cluster]) -> frozenset[str]:
        """Name the Clusters of one ID that lead to clones, and remember them, and what the ID calls itself."""
        answers = self._namesakes.answers(cluster_id)
        told = {cluster.name: answers.get(cluster.uid) for cluster in same}
        own_names = frozenset[str]().union(*(names for name, names in told.items() if names and name in names))
        if own_names:
            self._own_names[cluster_id] = own_names
        known = self._clones.pop(cluster_id, frozenset())
        if any(cluster.contested and cluster.uid not in self._seen for cluster in same):
            # Each has a status of its own, and one may not have been written.
            known |= {cluster.uid for cluster in same}
        clones = find_clones(told, were={cluster.name for cluster in same if cluster.uid in known})
        if clones:
            self._clones[cluster_id] = frozenset(cluster.uid for cluster in same if cluster.name in clones)
        return clones

    def _choose_credentials(self, cluster: Cluster) -> ResolvedCluster:
        if cluster.disabled:
            return ResolvedCluster(cluster, disabled=True)
        if cluster.secret is None:
            return ResolvedCluster(cluster, missing_auth=True)
        found = self._credentials.find(cluster.secret)
        if found is None:
            return ResolvedCluster(cluster, waiting=True)
        if isinstance(found, str):
            return ResolvedCluster(cluster, auth_problem=found)
        dispute = self._dispute(cluster.secret)
        if dispute:
            return ResolvedCluster(cluster, auth_problem=dispute)
        try:
            return ResolvedCluster(cluster, credentials=with_endpoint(found, cluster.endpoint_for(self._network_name)))
        except InvalidKubeconfig as error:
            return ResolvedCluster(cluster, auth_problem=str(error))

    def _dispute(self, secret: ObjectKey) -> str:
        for held, names in self._members.disputed_secrets():
            if held == secret:
                return f"Secret {secret} is named by the Clusters {', '.join(names)}: each needs one of its own"
        return ""


def _by_id(clusters: Iterable[Cluster]) -> Mapping[ClusterUID, list[Cluster]]:
    found: dict[ClusterUID, list[Cluster]] = {}
    for cluster in clusters:
        found.setdefault(cluster.cluster_id, []).append(cluster)
    return found


def find_clones(told: Mapping[str, frozenset[str] | None], *, were: Set[str]) -> frozenset[str]:
    """Name the Clusters of one ID that lead to different API servers.

    `told`: what the API server behind each calls itself; None while it does not answer, and then it is what it was.
    Others are not suspected before they call themselves by the names of their Clusters; those that `were` clones are,
    whatever they call themselves now.
    """
    suspects = {name: names for name, names in told.items() if names and (name in names or name in were)}
    silent = {name for name, names in told.items() if names is None and name in were}
    several = len(set(suspects.values())) + len(silent) > 1
    return frozenset({*suspects, *silent}) if several else frozenset()
