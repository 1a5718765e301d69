"""Builds the caches, the clusters and the reconciler; nothing in it writes.

Law: it is given a connection that is only read; whoever builds hands and a voice onto it is the daemon, whoever does
not can only tell what would be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from datetime import UTC, datetime
from typing import Protocol

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.members import Members, cluster_target
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.registry import Registry, RegistryReader
from registry_controller.cache.replicas import Replicas
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.local import LocalCluster
from registry_controller.clusters.orphans import OrphanFinder
from registry_controller.clusters.peer import Connection, PeerFactory
from registry_controller.clusters.provider import ClusterOptions, ClusterProvider
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.clusters.watch_plan import WatchPlanner
from registry_controller.core.rules.policy import RulePolicy
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.local.reader_token import token_type
from registry_controller.membership.departures import Departures
from registry_controller.membership.quota import MemberQuota
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.membership.tombstones import TombstoneTracker
from registry_controller.sync.enqueue import Enqueuer
from registry_controller.sync.reconciler import Reconciler
from registry_controller.sync.relayed_credentials import RelayedCredentials
from registry_controller.sync.resync import look_at_all
from registry_controller.sync.state_reader import StateReader
from registry_controller.watch.body_cache import BodyCache


class EngineObserver(Protocol):
    """Whoever is to know what changed. A call is cheap and never fails."""

    def target_changed(self, target: Target, lane: str = "") -> None:
        """Hear that a target wants a fresh look; `lane` is the member that it is about, if it is one."""

    def clusters_changed(self) -> None:
        """Hear that a member's standing may have changed."""

    def cache_changed(self, cache: SourceCache | LocalCache) -> None:
        """Hear that a feed's standing changed."""

    def own_kind_changed(self, plural: str, name: str) -> None:
        """Hear that an object of our own kinds changed."""

    def credentials_changed(self, key: ObjectKey) -> None:
        """Hear that a registry Secret changed."""

    def tokens_changed(self) -> None:
        """Hear that tokens of ServiceAccounts in our namespace changed."""

    def tombstones_changed(self) -> None:
        """Hear that others are to stand here."""


class Settings(Protocol):
    """The options that this room reads."""

    @property
    def namespace(self) -> str: ...

    @property
    def pod_name(self) -> str: ...

    @property
    def pod_selector(self) -> str: ...

    @property
    def network_name(self) -> str: ...

    @property
    def reader_token_expiration_seconds(self) -> int: ...

    @property
    def member_left_trust_seconds(self) -> int: ...

    @property
    def synced_rules_enabled(self) -> bool: ...

    @property
    def synced_rules_kinds(self) -> tuple[GroupKind, ...]: ...

    @property
    def synced_rules_namespaces(self) -> tuple[str, ...]: ...

    @property
    def closed_kinds(self) -> tuple[GroupKind, ...]: ...

    @property
    def closed_namespaces(self) -> tuple[str, ...]: ...


class Engine:
    """The caches, the links that fill them, and the judge that reads them."""

    def __init__(
        self,
        settings: Settings,
        *,
        home: Reader,
        local: ClusterUID,
        connect_peer: Callable[[Credentials], Reader],
        listener: EngineObserver,
    ) -> None:
        self.local = local
        self._network_name = settings.network_name
        self._listener = listener
        self.discovery = Discovery(home)
        self.bodies = BodyCache()
        add = listener.target_changed
        self.members = Members(on_change=add)
        self.sources = SourceIndex(
            bodies=self.bodies,
            on_change=add,
            on_complete=lambda *synced: self.enqueue.on_source_synced(*synced),  # noqa: PLW0108 -- it is made below
            on_standing=listener.cache_changed,
            on_back=lambda *source: self.enqueue.on_source_back(*source),  # noqa: PLW0108 -- it is made below
        )
        self.copies = CopyIndex(
            bodies=self.bodies,
            on_change=self._copy_changed,
            on_complete=lambda *synced: self.enqueue.on_local_synced(*synced),  # noqa: PLW0108 -- it is made below
            on_standing=self._local_feed_changed,
        )
        self.enqueue = Enqueuer(sources=self.sources, copies=self.copies, add=add)
        self.registry = Registry(on_change=self._own_kind_changed, allowance=_allowance(settings))
        self.registry_reader = RegistryReader(reader=home, registry=self.registry)
        self.credentials = CredentialStore(on_change=self._credentials_changed)
        self.namespaces = NamespaceCache(on_change=self.enqueue.on_namespace_changed)
        self.replicas = Replicas(own=settings.pod_name, changed=listener.clusters_changed)
        self.local_cluster = LocalCluster(
            reader=home,
            discovery=self.discovery,
            copies=self.copies,
            credentials=self.credentials,
            namespaces=self.namespaces,
            replicas=self.replicas,
            namespace=settings.namespace,
            pod_selector=settings.pod_selector if settings.pod_name else "",
            token_type=token_type(settings.reader_token_expiration_seconds),
            tokens_changed=listener.tokens_changed,
            kinds_changed=lambda: self.orphans.kinds_changed(),  # noqa: PLW0108 -- it is made below
        )
        self.orphans = OrphanFinder(
            reader=home,
            discovery=self.discovery,
            copies=self.copies,
            namespace=settings.namespace,
            may_undo=self._may_undo,
            changed=lambda: self.clusters.request_plan(),  # noqa: PLW0108 -- it is made below
        )
        self.clusters = ClusterProvider(
            ClusterOptions(
                local, settings.namespace, settings.network_name, trusts_after_s=settings.member_left_trust_seconds
            ),
            registry=self.registry,
            members=self.members,
            credentials=self.credentials,
            watches=WatchPlanner(
                local=local, registry=self.registry, local_cluster=self.local_cluster, orphans=self.orphans
            ),
            factory=PeerFactory(
                connect_peer=connect_peer,
                relayed_credentials=self._relayed_credentials,
                sources=self.sources,
                members=self.members,
            ),
            is_due=lambda member, target: self.reconciler.is_due(member, target),  # noqa: PLW0108 -- it is made below
            observer=self,
        )
        self.rule_states = RuleStates(
            registry=self.registry, sources=self.sources, local=local, peers=self.clusters.peers
        )
        self.quota = MemberQuota(copies=self.copies, members=self.members, add=add)
        self.relay_policy = RelayPolicy(
            credentials=self.credentials, registry=self.registry, members=self.members, quota=self.quota
        )
        self.departures = Departures(
            copies=self.copies,
            peers=self.clusters.peers,
            rule_states=self.rule_states,
            observer=self,
        )
        self.tombstones = TombstoneTracker(
            local=local,
            trusts_after_s=settings.member_left_trust_seconds,
            registry=self.registry,
            peers=self.clusters.peers,
            departures=self.departures,
            writes_status_of=self.replicas.writes_status_of,
            today=lambda: datetime.now(UTC).date(),
            observer=self,
        )
        self._views = self._make_views()
        self.reconciler = Reconciler(
            states=self._views,
            local=home,
            connection=self.connection,
            departures=self.departures,
            evaluations=self.sources.evaluations,
        )

    def start_local(self, scope: asyncio.TaskGroup) -> None:
        """Begin to hear what is here; peers come when our own kinds have been read."""
        scope.create_task(self.local_cluster.run(), name="local cluster")

    def start_peers(self, scope: asyncio.TaskGroup) -> None:
        """Begin to read peers."""
        scope.create_task(self.clusters.run(), name="clusters")
        scope.create_task(self.orphans.find(), name="leftovers")
        scope.create_task(self.tombstones.run(), name="tombstones")
        looking = look_at_all(sources=self.sources, copies=self.copies, add=self._listener.target_changed)
        scope.create_task(looking, name="resync")

    def connection(self, peer: ClusterUID) -> Connection | None:
        """Find the connection to a peer; None while there is none."""
        found = self.clusters.peers.get(peer)
        if found is None or found.reader is None or found.discovery is None:
            return None
        return Connection(found.reader, found.discovery)

    def _relayed_credentials(self) -> RelayedCredentials:
        return RelayedCredentials(
            registry=self.registry,
            relays=self.relay_policy,
            views=self._views,
            connection=self.connection,
            network_name=self._network_name,
        )

    def _make_views(self) -> StateReader:
        return StateReader(
            local=self.local,
            sources=self.sources,
            copies=self.copies,
            members=self.members,
            standing=self.clusters.liveness,
            namespace_state=self.namespaces.state,
            creates_namespaces=self._creates_namespaces,
            rule_states=self.rule_states,
            departures=self.departures,
            leaving=self.tombstones,
            successors=self.clusters.rebuilt.successors,
            has_chosen_rules=self.clusters.has_chosen_rules,
        )

    def _may_undo(self, rule: str) -> bool:
        """Say whether what a rule made may have to go under any policy: it is here, or the group has been left."""
        return rule in self.registry.rules or (rule in names.CORE_RULES and self.tombstones.now.has_left)

    def _creates_namespaces(self, rule: str) -> bool:
        active = self.clusters.active.get(rule)
        return active is not None and active.rule.create_namespaces

    def _copy_changed(self, target: Target, owner: ClusterUID) -> None:
        self._listener.target_changed(target, owner)
        self.departures.on_copy_changed(target)
        if (target.group, target.kind) == (meta.CLUSTER.group, meta.CLUSTER.kind) and self.quota.has_surplus:
            self.clusters.request_plan()  # there may be room now for Clusters that peers offer

    def _local_feed_changed(self, cache: LocalCache) -> None:
        self._listener.cache_changed(cache)
        self.orphans.cache_changed(cache)

    # The observer of clusters, departures and tombstones.

    def on_peers_changed(self) -> None:
        """Report that the status of a Cluster may differ."""
        self._listener.clusters_changed()

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        """Enqueue the targets that depend on these members."""
        self.enqueue.on_members_changed(members)

    def on_rules_changed(self, rules: Set[str], kinds: Set[tuple[str, str]], members: Set[ClusterUID]) -> None:
        """Enqueue the targets that depend on these rules, kinds and members."""
        self.enqueue.on_rules_changed(rules, kinds, members)

    def on_rebuilt(self, name: str) -> None:
        """Enqueue the Cluster that has a proven successor."""
        self._listener.target_changed(cluster_target(name))

    def on_member_changed(self, member: ClusterUID) -> None:
        """Enqueue the objects and copies of a member that has left or is back."""
        self.enqueue.on_member_changed(member)

    def on_departure(self, member: ClusterUID) -> None:
        """Enqueue what is affected by a departure or a return; tombstones record a departure."""
        self.enqueue.on_member_changed(member)
        self.clusters.request_plan()

    def on_cluster_due(self, target: Target, flow: str) -> None:
        """Enqueue a Cluster whose removal waited for a copy."""
        self._listener.target_changed(target, flow)

    def on_relays_changed(self) -> None:
        """Enqueue the relayed Clusters and Secrets."""
        self.enqueue.on_members_changed(frozenset())

    def on_tombstones_changed(self) -> None:
        """Report that tombstones are to be created or deleted here."""
        self._listener.tombstones_changed()

    def on_planned(self) -> None:
        """Update what depends on the peers, whether a plan changed them or their objects changed."""
        self.tombstones.update()
        self.quota.update()

    def _own_kind_changed(self, plural: str, name: str) -> None:
        if plural == meta.CLUSTERS.resource:
            held = self.registry.clusters.get(name)
            self.members.set_here(name, held.cluster if held else None)
        self._listener.own_kind_changed(plural, name)
        self.clusters.on_own_kind_changed(plural, name)

    def _credentials_changed(self, key: ObjectKey) -> None:
        self.clusters.on_credentials_changed(key)
        self._listener.credentials_changed(key)


def _allowance(settings: Settings) -> RulePolicy:
    return RulePolicy(
        enabled=settings.synced_rules_enabled,
        kinds=frozenset(settings.synced_rules_kinds),
        namespaces=frozenset(settings.synced_rules_namespaces),
        closed_kinds=frozenset(settings.closed_kinds),
        closed_namespaces=frozenset(settings.closed_namespaces),
    )
