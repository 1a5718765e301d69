"""Engages the peers of the group: reads the state, plans, and applies the plan.

Laws: level-based, a plan is made again from the whole state · an engaged peer has one cancellation scope, its task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.members import Members, secret_target
from registry_controller.cache.registry import Registry
from registry_controller.clusters.clones import CloneDetector, CloneState
from registry_controller.clusters.liveness import GracePeriods, Liveness
from registry_controller.clusters.peer import Connection, Peer, PeerFactory
from registry_controller.clusters.plan import ClusterPlan, PlanInputs, find_missing, find_silent, plan_members
from registry_controller.clusters.rebuilt import RebuiltClusters
from registry_controller.clusters.resolver import (
    Resolution,
    ResolvedCluster,
    ResolverInputs,
    find_servers,
    resolve_clusters,
    sort_by_id,
)
from registry_controller.clusters.watch_plan import RuleChanges, WatchPlanner, stable_part
from registry_controller.core.decision.restoration import Restoration
from registry_controller.core.decision.ways import unnamed_secrets
from registry_controller.core.rules.active import ActiveRule
from registry_controller.kube.kubeconfig import Credentials

_LEAST_S: Final = 0.001
"""The least time between plans that time alone asks for: a timer may end a little before its moment."""
_ORPHANS_PERIOD_S: Final = 5.0
"""The interval between plans while orphans are watched: their copies end at any time."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The local cluster's ID and network, the daemon's namespace, and the silence after which a relay is trusted."""

    local: ClusterUID
    namespace: str
    network_name: str
    trusts_after_s: float


class ClusterObserver(Protocol):
    """Receives the changes of the group. A call is cheap and never fails."""

    def on_peers_changed(self) -> None:
        """The status of a Cluster may differ."""

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        """These members are known or alive now, or no longer."""

    def on_member_changed(self, member: ClusterUID) -> None:
        """Whether the ID of a member has clones differs, or was unknown."""

    def on_rules_changed(self, changes: RuleChanges) -> None:
        """Rules changed, or which members they read from, or it is known now which rules are missing."""

    def on_rebuilt(self, name: str) -> None:
        """The Cluster of this name has a proven successor."""

    def on_planned(self) -> None:
        """A plan has been applied."""


class ClusterProvider:
    """The engaged peers, by cluster ID, and the resolved Clusters, by name.

    `liveness` is replaced when a Cluster here, a peer or the clones change: decisions read it as it is.
    """

    def __init__(
        self,
        options: ClusterOptions,
        *,
        registry: Registry,
        members: Members,
        credentials: CredentialStore,
        watches: WatchPlanner,
        factory: PeerFactory,
        restoration: Callable[[ClusterUID, Target], Restoration],
        observer: ClusterObserver,
    ) -> None:
        self.local = options.local
        self.peers: dict[ClusterUID, Peer] = {}
        self.resolved: Mapping[str, ResolvedCluster] = {}
        self.liveness = Liveness(frozenset(), frozenset(), frozenset())
        self.rebuilt = RebuiltClusters(
            network_name=options.network_name,
            registry=registry,
            peers=self.peers,
            connect_peer=factory.connect_peer,
            trusts_after_s=options.trusts_after_s,
            observer=self,
        )
        self._options = options
        self._registry = registry
        self._members = members
        self._credentials = credentials
        self._watches = watches
        self._factory = factory
        self._observer = observer
        self._clones = CloneDetector(connect_peer=factory.connect_peer, changed=self.request_plan)
        self._clone_state = CloneState()
        self._grace = GracePeriods(restoration=restoration)
        self._tasks: dict[ClusterUID, asyncio.Task[NoReturn]] = {}
        self._reported = self.liveness
        self._secrets: Mapping[ObjectKey, Credentials | str | None] = {}
        self._unnamed: Mapping[ObjectKey, ClusterUID] = {}
        self._standing: frozenset[ClusterUID] = frozenset()
        self._planned_parts: dict[tuple[str, str], object] = {}
        self._is_requested = asyncio.Event()
        self._is_planned = False

    @property
    def active(self) -> Mapping[str, ActiveRule]:
        """The rules that act here, by name."""
        return self._watches.active

    @property
    def is_current(self) -> bool:
        """False before the first plan, and while another one is due."""
        return self._is_planned and not self._is_requested.is_set()

    def request_plan(self) -> None:
        """Request a plan; many requests at once cause one plan."""
        self._is_requested.set()

    def name_of(self, cluster_id: ClusterUID) -> str:
        """Return the name of a cluster's Cluster here; its ID without one."""
        peer = self.peers.get(cluster_id)
        if peer is not None:
            return peer.name
        return min(
            (name for name, found in self.resolved.items() if found.cluster.cluster_id == cluster_id),
            default=str(cluster_id),
        )

    def connection(self, member: ClusterUID) -> Connection | None:
        """Return the connection to a member; None while it is not connected."""
        peer = self.peers.get(member)
        if peer is None or peer.reader is None or peer.discovery is None:
            return None
        return Connection(peer.reader, peer.discovery)

    def selects_us(self, rule: SyncRule) -> bool | None:
        """Return whether a rule selects this cluster, for reports; None while our own Cluster is unknown."""
        return self._watches.selects_us(rule)

    def has_chosen_rules(self, member: ClusterUID, kind: GVK) -> bool:
        """Return whether a member has all rules that read a kind from it, by its features and by our Cluster."""
        peer = self.peers.get(member)
        return peer is not None and self._watches.has_chosen_rules(peer, kind)

    async def run(self) -> None:
        """Plan again at each change, until cancelled."""
        async with asyncio.TaskGroup() as scope:
            while True:
                self._is_requested.clear()
                self._is_planned = False
                await self._reconcile(scope)
                self._is_planned = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._plan_after_s()):
                        await self._is_requested.wait()
                await asyncio.sleep(0)  # changes of one turn of the loop cause one plan

    # Changes here.

    def on_own_kind_changed(self, plural: str, name: str) -> None:
        """Request a plan, unless an object of our kinds changed in no field that plans read, as by a written status."""
        if plural == meta.CLUSTERS.resource:
            self._update_liveness()
        key, part = (plural, name), self._planned_part(plural, name)
        is_same = part is not None and part == self._planned_parts.get(key)
        self._planned_parts.pop(key, None)
        if part is not None:
            self._planned_parts[key] = part
        if not is_same:
            self.request_plan()

    def on_credentials_changed(self, key: ObjectKey) -> None:
        """Request a plan if a Cluster names the Secret; a key without a name stands for its whole namespace."""
        read = (
            secret for secret in self._secrets if secret == key or ("", secret.namespace) == (key.name, key.namespace)
        )
        is_unnamed = key not in self._secrets and (key in self._unnamed or key in self._credentials.owners)
        if is_unnamed or any(self._credentials.find(secret) != self._secrets[secret] for secret in read):
            self.request_plan()

    # Observers of peers and of rebuilt clusters.

    def on_peer_status_changed(self) -> None:
        """Report the change; only another liveness affects the plan."""
        self._report_standing()
        if self._report_liveness():
            self.request_plan()
        self._observer.on_peers_changed()

    def on_peer_objects_changed(self) -> None:
        """Request a plan."""
        self.request_plan()

    def on_rebuilt(self, name: str) -> None:
        """Report a proven successor."""
        self._observer.on_rebuilt(name)

    def on_rebuilt_waiting(self) -> None:
        """Report that a status may differ."""
        self._observer.on_peers_changed()

    def _plan_after_s(self) -> float | None:
        """Return the time until time alone may change the plan in seconds; None for never."""
        orphans_s = _ORPHANS_PERIOD_S if self._watches.has_orphans else None
        due_s, now_s = self._watches.due_s, asyncio.get_running_loop().time()
        rules_s = max(_LEAST_S, due_s - now_s) if due_s is not None else None
        waits_s = (self._grace.update_after_s, orphans_s, rules_s)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    async def _reconcile(self, scope: asyncio.TaskGroup) -> None:
        resolution = self._resolve()
        self.resolved = resolution.clusters
        peers = {uid: peer.snapshot() for uid, peer in self.peers.items()}
        in_grace = self._grace.update(
            find_missing(resolution.clusters, peers, in_grace=self._grace.members),
            silent=find_silent(resolution.clusters, peers),
            is_home_lost=self._registry.has_lost_own_cluster(self.local),
        )
        plan = plan_members(PlanInputs(self._options.namespace, resolution, peers, in_grace))
        self._apply(plan, scope)
        await self._watches.set_rules(self.peers)
        changes = self._watches.take_changes(self.peers)
        if changes is not None:
            self._observer.on_rules_changed(changes)
        self._observer.on_planned()
        self._observer.on_peers_changed()

    def _resolve(self) -> Resolution:
        stored = self._registry.clusters.values()
        clusters = sort_by_id(held.cluster for held in stored if held.cluster is not None)
        peers = {uid: same for uid, same in clusters.items() if uid != self.local}
        secrets = {cluster.secret for same in peers.values() for cluster in same if cluster.secret is not None}
        self._secrets = {key: self._credentials.find(key) for key in secrets}
        servers = find_servers(peers, self._secrets, network_name=self._options.network_name)
        self._clone_state = self._clone_state.updated(peers, self._clones.answers, servers)
        self._update_liveness()
        self._unnamed = self._find_unnamed(peers.keys())
        unnamed: dict[ClusterUID, list[Credentials]] = {}
        for key, member in self._unnamed.items():
            if isinstance(found := self._credentials.find(key), Credentials):
                unnamed.setdefault(member, []).append(found)
        return resolve_clusters(
            ResolverInputs(
                local=self.local,
                network_name=self._options.network_name,
                clusters=clusters,
                credentials={key: found for key, found in self._secrets.items() if found is not None},
                clones=self._clone_state,
                unnamed=unnamed,
                of_cluster_api=self._credentials.of_cluster_api,
            )
        )

    def _find_unnamed(self, members: Set[ClusterUID]) -> Mapping[ObjectKey, ClusterUID]:
        """Find the Secrets that belong to members by their marks, and that no Cluster here names."""
        stored = self._registry.clusters.values()
        named = [held.cluster.secret for held in stored if held.cluster is not None and held.cluster.secret is not None]
        owned = self._credentials.owners.items()
        return {key: member for member in members for key in unnamed_secrets(owned, member=member, named=named)}

    def stands(self, member: ClusterUID) -> bool:
        """Return whether a member is read with the credentials that its Cluster here names."""
        return member in self._standing

    def _report_standing(self) -> None:
        """Report the unnamed Secrets of members that are read with their own credentials now."""
        before = self._standing
        self._standing = frozenset(
            found.cluster.cluster_id
            for found in self.resolved.values()
            if (peer := self.peers.get(found.cluster.cluster_id)) is not None and peer.is_read_with(found.credentials)
        )
        for key, member in self._unnamed.items():
            if member in self._standing - before:
                self._members.report(secret_target(key))

    def _apply(self, plan: ClusterPlan, scope: asyncio.TaskGroup) -> None:
        """Disengage peers that are not in the plan, engage those that are missing, and set all probes."""
        self._watches.watch_secrets(plan.secret_namespaces, cluster_api=plan.cluster_api_namespaces)
        self._clones.set_probes(scope, plan.clone_probes)
        for cluster_id in self.peers.keys() - plan.engaged.keys() - plan.retained:
            self._tasks.pop(cluster_id).cancel()
            self.peers.pop(cluster_id).close()
        for cluster_id, engagement in plan.engaged.items():
            peer = self.peers.get(cluster_id)
            if peer is not None:
                peer.set_engagement(engagement)
                continue
            peer = self.peers[cluster_id] = self._factory.make(cluster_id, engagement, observer=self)
            self._tasks[cluster_id] = scope.create_task(peer.run(), name=f"peer {peer.name}")
        self._report_liveness()
        self._report_standing()
        self.rebuilt.set_probes(scope, plan.rebuilt_probes)

    def _report_liveness(self) -> bool:
        """Report the members whose liveness changed; return whether there are any."""
        self._update_liveness()
        before, self._reported = self._reported, self.liveness
        if self.liveness == before:
            return False
        if members := self.liveness.changed_since(before):
            self._observer.on_members_changed(members)
        for member in self.liveness.contested ^ before.contested:
            self._observer.on_member_changed(member)
        return True

    def _update_liveness(self) -> None:
        known = {stored.cluster.cluster_id for stored in self._registry.clusters.values() if stored.cluster}
        known |= self._grace.members  # their Clusters may be restored
        alive = frozenset(uid for uid, peer in self.peers.items() if peer.is_alive)
        contested = self._clones.uncompared.union(self._clone_state.clones)
        self.liveness = Liveness(frozenset(known), alive, contested)

    def _planned_part(self, plural: str, name: str) -> object:
        """Return the fields of an object of our kinds that plans and their observers read; None when it is gone."""
        if plural == meta.CLUSTERS.resource and (cluster := self._registry.clusters.get(name)) is not None:
            return (cluster.cluster, meta.annotations_of(cluster.manifest), stable_part(cluster.manifest))
        if plural == meta.RULES.resource and (rule := self._registry.rules.get(name)) is not None:
            return (rule.rule, rule.verdict, rule.marks, self._registry.pruned.get(name))
        return None
