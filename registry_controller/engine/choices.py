"""Through which Cluster object each cluster is read, and with which credentials.

Laws: one cluster ID is read through one Cluster object, the others of that ID are aliases · a cluster whose ID is held
twice by itself is in conflict · clones are not believed until one goes, also not by the next daemon, to which the
status of their Clusters says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.engine.aliases import Alias, Aliases
from registry_controller.engine.credentialstore import CredentialStore
from registry_controller.engine.members import Members
from registry_controller.engine.newcomers import MOST_OF_ONE
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials, with_endpoint


@dataclass(frozen=True, slots=True)
class Choice:
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


class Chooser:
    """Chooses. `changed` is called when what an alias leads to changed."""

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
        self._aliases = Aliases(connect_peer=connect_peer, changed=changed)
        self._clones: dict[ClusterUID, frozenset[str]] = {}
        self._seen: frozenset[str] = frozenset()

    def choose(self, clusters: Iterable[Cluster], *, listed: Set[ClusterUID]) -> dict[str, Choice]:
        """Choose for each Cluster object, by its name. `listed`: the peers whose Clusters have all been heard."""
        by_id: dict[ClusterUID, list[Cluster]] = {}
        clusters = list(clusters)
        for cluster in clusters:
            by_id.setdefault(cluster.cluster_id, []).append(cluster)
        choices: dict[str, Choice] = {}
        for cluster_id, same in by_id.items():
            if cluster_id == self._local:
                choices.update(self._choose_local(same))
            else:
                choices.update(self._choose_peer(cluster_id, same, is_listed=cluster_id in listed))
        self._seen = frozenset(cluster.uid for cluster in clusters)
        self._clones = {uid: names for uid, names in self._clones.items() if uid in by_id}
        return choices

    def ask_aliases(self, scope: asyncio.TaskGroup, choices: Mapping[str, Choice]) -> None:
        """Ask what is read through no other object whether it is what it says."""
        wanted: dict[Alias, Credentials] = {}
        of_one: Counter[ClusterUID] = Counter()
        for choice in choices.values():
            cluster = choice.cluster
            is_alias = (choice.alias_of or choice.conflict) and cluster.cluster_id != self._local
            found = self._choose_credentials(cluster).credentials if is_alias and not choice.disabled else None
            if found is not None and of_one[cluster.cluster_id] < MOST_OF_ONE:
                of_one[cluster.cluster_id] += 1
                wanted[Alias(cluster.cluster_id, cluster.name)] = found
        self._aliases.plan(scope, wanted)

    def _choose_local(self, same: list[Cluster]) -> Mapping[str, Choice]:
        names = sorted(cluster.name for cluster in same)
        words = ""
        if len(same) > 1:
            words = f"Clusters {', '.join(names)} all have this cluster's ID: keep one, delete the others"
        return {cluster.name: Choice(cluster, conflict=words, disabled=cluster.disabled) for cluster in same}

    def _choose_peer(self, cluster_id: ClusterUID, same: list[Cluster], *, is_listed: bool) -> Mapping[str, Choice]:
        """Choose the Cluster object through which a peer is read (P1)."""
        there = self._members.there(cluster_id)
        own_names = frozenset(name for name, view in there.items() if view.is_own_name_of(cluster_id))
        ordered = sorted(same, key=lambda c: (c.name not in own_names, c.disabled, c.secret is None, c.created, c.name))
        read, *aliases = ordered
        told = {c.name: self._aliases.names_at(Alias(cluster_id, c.name)) for c in same}
        if is_listed:
            told[read.name] = own_names
        heirs = {cluster.name for cluster in same if cluster.contested and cluster.uid not in self._seen}
        clones = find_clones(told, were=self._clones.pop(cluster_id, frozenset()) | heirs)
        if clones:
            self._clones[cluster_id] = clones
            names = ", ".join(sorted(clones))
            words = (
                f"two API servers have the ID {cluster_id}, as {names}: one is a clone; delete one of these Clusters"
            )
            return {cluster.name: Choice(cluster, conflict=words, disabled=cluster.disabled) for cluster in same}
        choices = {read.name: self._choose_credentials(read)}
        for alias in aliases:
            choices[alias.name] = Choice(alias, alias_of=read.name, disabled=alias.disabled)
        return choices

    def _choose_credentials(self, cluster: Cluster) -> Choice:
        if cluster.disabled:
            return Choice(cluster, disabled=True)
        if cluster.secret is None:
            return Choice(cluster, missing_auth=True)
        found = self._credentials.find(cluster.secret)
        if found is None:
            return Choice(cluster, waiting=True)
        if isinstance(found, str):
            return Choice(cluster, auth_problem=found)
        dispute = self._dispute(cluster.secret)
        if dispute:
            return Choice(cluster, auth_problem=dispute)
        try:
            return Choice(cluster, credentials=with_endpoint(found, cluster.endpoint_for(self._network_name)))
        except InvalidKubeconfig as error:
            return Choice(cluster, auth_problem=str(error))

    def _dispute(self, secret: ObjectKey) -> str:
        for held, names in self._members.disputed_secrets():
            if held == secret:
                return f"Secret {secret} is named by the Clusters {', '.join(names)}: each needs one of its own"
        return ""


def find_clones(told: Mapping[str, frozenset[str] | None], *, were: Set[str]) -> frozenset[str]:
    """Name the Clusters of one ID that lead to different API servers, each of which calls itself by that name.

    `told`: what the API server behind each calls itself; None while it does not answer, and then it is what it was.
    """
    genuine = {name: names for name, names in told.items() if names is not None and name in names}
    silent = {name for name, names in told.items() if names is None and name in were}
    several = len(set(genuine.values())) + len(silent) > 1
    return frozenset({*genuine, *silent}) if several else frozenset()
