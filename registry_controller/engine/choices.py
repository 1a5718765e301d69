"""Through which Cluster object each cluster is read, and with which credentials.

Laws: one cluster ID is read through one Cluster object, the others of that ID are aliases · a cluster whose ID is held
twice by itself is in conflict.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from registry_controller.api.cluster import Cluster, ClusterType
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
        self._cloned: set[ClusterUID] = set()

    def choose(self, clusters: Iterable[Cluster]) -> dict[str, Choice]:
        """Choose for each Cluster object, by its name."""
        by_id: dict[ClusterUID, list[Cluster]] = {}
        for cluster in clusters:
            by_id.setdefault(cluster.cluster_id, []).append(cluster)
        choices: dict[str, Choice] = {}
        for cluster_id, same in by_id.items():
            found = self._choose_local(same) if cluster_id == self._local else self._choose_peer(cluster_id, same)
            choices.update(found)
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

    def _choose_peer(self, cluster_id: ClusterUID, same: list[Cluster]) -> Mapping[str, Choice]:
        """Choose the Cluster object through which a peer is read (P1)."""
        own_names = {
            name
            for name, view in self._members.there(cluster_id).items()
            if view.cluster_id == cluster_id and view.type in ("", ClusterType.LOCAL.value)
        }
        ordered = sorted(same, key=lambda c: (c.name not in own_names, c.disabled, c.secret is None, c.created, c.name))
        read, *aliases = ordered
        genuine = [c.name for c in aliases if self._aliases.is_genuine(Alias(cluster_id, c.name))]
        if genuine and own_names and not own_names.issuperset(genuine):
            self._cloned.add(cluster_id)
        if not genuine:
            self._cloned.discard(cluster_id)
        if cluster_id in self._cloned:
            names = ", ".join(sorted([read.name, *genuine]))
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
