"""Builds the caches, the clusters and the reconciler; nothing in it writes.

Law: the engine gets a connection that is only read. The daemon adds an applier and a status writer to it; a dry run
adds a client that records writes.

The engine observes its own parts: each `on_` method below lists the effects of a change, and `sync/enqueue.py` the
keys. Changes of the objects at peers only enqueue, so `sync/enqueue.py` observes them itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from datetime import UTC, datetime
from typing import Protocol

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.caches import Caches
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import HERE
from registry_controller.cache.crds import Definition
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.members import Members, cluster_target, secret_target
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.registry import Registry
from registry_controller.cache.registry_reader import RegistryReader
from registry_controller.cache.replicas import Replicas
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.local import LocalCluster, LocalOptions
from registry_controller.clusters.orphans import OrphanFinder
from registry_controller.clusters.peer import PeerFactory
from registry_controller.clusters.provider import ClusterOptions, ClusterProvider
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.clusters.watch_plan import RuleChanges, WatchPlanner
from registry_controller.core.decision.restoration import Restoration, find_restoration
from registry_controller.core.decision.stored_spec import NOT_AS_WRITTEN
from registry_controller.core.rules.policy import RulePolicy
from registry_controller.core.rules.reserved import OwnTargets
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.local.manifests import token_secret_keys
from registry_controller.local.reader_token import token_type
from registry_controller.membership.absences import Absences
from registry_controller.membership.departures import Departures
from registry_controller.membership.own_cluster import LostClusters
from registry_controller.membership.quota import MemberQuota
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.membership.tombstones import TombstoneTracker
from registry_controller.settings import Settings
from registry_controller.sync.container_copies import ContainerCopies
from registry_controller.sync.enqueue import Enqueuer
from registry_controller.sync.gone_copies import GoneCopies
from registry_controller.sync.lost_matches import LostMatches
from registry_controller.sync.made_once import MadeOnce
from registry_controller.sync.reconciler import Reconciler
from registry_controller.sync.relayed_credentials import RelayedCredentials
from registry_controller.sync.remaining_content import ContentFinder
from registry_controller.sync.replaced_copies import ReplacedCopies
from registry_controller.sync.state_reader import StateReader
from registry_controller.watch.body_cache import BodyCache


class EngineObserver(Protocol):
    """Receives the changes that the daemon reports or publishes. A call is cheap and never fails."""

    def on_target_changed(self, target: Target, flow: str = "") -> None:
        """A target is to be reconciled; `flow` is the member that the change is about, if there is one."""

    def on_copy_gone(self, target: Target) -> None:
        """A copy is deleted here; it is forgotten after this call."""

    def on_peers_changed(self) -> None:
        """The status of a Cluster may differ."""

    def on_replicas_changed(self) -> None:
        """Another replica may have to write the statuses, and the version of the daemon."""

    def on_schema_changed(self, kind: GroupKind) -> None:
        """The schemas of a kind here may have changed: its copies are to be compared again."""

    def on_watches_changed(self) -> None:
        """The errors or the completeness of a watch changed: the status of a rule may differ."""

    def on_own_kind_changed(self, plural: str, name: str) -> None:
        """An object of our own kinds changed."""

    def on_credentials_changed(self, key: ObjectKey) -> None:
        """A registry Secret changed."""

    def on_tokens_changed(self) -> None:
        """A token of a ServiceAccount in the daemon's namespace may have changed."""

    def on_records_changed(self) -> None:
        """Tombstones, or the record of deleted rules, are to be written here."""


class Engine:
    """The caches, the peers that fill them, and the reconciler that reads them."""

    def __init__(
        self,
        settings: Settings,
        *,
        client: Reader,
        local: ClusterUID,
        connect_peer: Callable[[Credentials], Reader],
        observer: EngineObserver,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.local = local
        self._network_name = settings.network_name
        self._observer = observer
        # cache
        self.discovery = Discovery(client)
        self.bodies = BodyCache()
        self.members = Members(on_change=observer.on_target_changed, own=_own_targets(settings, local))
        self.enqueue = Enqueuer(add=observer.on_target_changed)
        self.sources = SourceIndex(
            bodies=self.bodies, observer=self.enqueue, status_changed=observer.on_watches_changed
        )
        self.copies = CopyIndex(bodies=self.bodies, observer=self, offers=self.sources, local=local)
        self.enqueue.connect(sources=self.sources, copies=self.copies)
        window_s = float(settings.stabilization_window_seconds)
        self.registry = Registry(
            on_change=self.on_own_kind_changed,
            local=local,
            allowance=_rule_policy(settings),
            window_s=window_s,
            now_s=_now_s,
        )
        self.selection = RuleSelection(registry=self.registry, local=local, window_s=window_s, now_s=_now_s)
        self.rule_deletions = RuleDeletions(
            registry=self.registry,
            sources=self.sources,
            copies=self.copies,
            local=local,
            now=now,
            window_s=window_s,
            now_s=_now_s,
        )
        self.registry.rule_copies.spec_at_owner = self.rule_deletions.traces.spec_at_owner
        self.registry_reader = RegistryReader(reader=client, registry=self.registry)
        self.credentials = CredentialStore(on_change=self.on_credentials_changed)
        self.namespaces = NamespaceCache(on_change=self.on_namespace_changed)
        options = _local_options(settings)
        self.replicas = Replicas(
            own=settings.pod_name, changed=observer.on_replicas_changed, watches_pods=options.pods is not None
        )
        caches = Caches(self.sources, self.copies, self.members, self.namespaces)
        # clusters
        self.local_cluster = LocalCluster(
            reader=client,
            discovery=self.discovery,
            copies=self.copies,
            credentials=self.credentials,
            namespaces=self.namespaces,
            replicas=self.replicas,
            options=options,
            observer=self,
        )
        self.rule_deletions.traces.definitions = self.local_cluster.definitions
        self.orphans = OrphanFinder(
            reader=client,
            discovery=self.discovery,
            copies=self.copies,
            namespace=settings.namespace,
            is_needed=self._is_needed,
            found_more=self.on_orphans_found,
            has_others=self.replicas.has_others,
            now_s=_now_s,
        )
        self.clusters = ClusterProvider(
            ClusterOptions(
                local, settings.namespace, settings.network_name, trusts_after_s=settings.member_left_trust_seconds
            ),
            registry=self.registry,
            members=self.members,
            credentials=self.credentials,
            watches=WatchPlanner(
                local=local,
                registry=self.registry,
                selection=self.selection,
                deletions=self.rule_deletions,
                local_cluster=self.local_cluster,
                orphans=self.orphans,
                window_s=window_s,
                now_s=_now_s,
            ),
            factory=PeerFactory(
                connect_peer=connect_peer,
                relayed_credentials=self._relayed_credentials,
                sources=self.sources,
                members=self.members,
                window_s=window_s,
            ),
            restoration=self._restoration,
            observer=self,
        )
        self.rule_states = RuleStates(
            registry=self.registry,
            selection=self.selection,
            deletions=self.rule_deletions,
            local=local,
            peers=self.clusters.peers,
        )
        # membership
        self.quota = MemberQuota(copies=self.copies, members=self.members, add=observer.on_target_changed)
        self.relay_policy = RelayPolicy(
            credentials=self.credentials, registry=self.registry, members=self.members, quota=self.quota
        )
        self.absences = Absences(
            lasts_s=settings.member_absence_seconds,
            window_s=window_s,
            registry=self.registry,
            sources=self.sources,
            peers=self.clusters.peers,
            now=now,
            observer=self,
        )
        self.departures = Departures(
            copies=self.copies,
            absences=self.absences,
            rule_states=self.rule_states,
            observer=self,
        )
        self.tombstones = TombstoneTracker(
            local=local,
            trusts_after_s=settings.member_left_trust_seconds,
            registry=self.registry,
            peers=self.clusters.peers,
            absences=self.absences,
            departures=self.departures,
            writes_status_of=self.replicas.writes_status_of,
            today=lambda: now().date(),
            observer=self,
        )
        self.lost_clusters = LostClusters(
            local=local, registry=self.registry, peers=self.clusters.peers, connect_peer=connect_peer
        )
        # sync
        self.made_once = MadeOnce()
        self.gone_copies = GoneCopies()
        self.replaced_copies = ReplacedCopies()
        self.containers = ContainerCopies(
            copies=self.copies, replaced=self.replaced_copies, is_claimed=self._is_claimed
        )
        self.lost_matches = LostMatches(window_s=window_s, now_s=_now_s, now=now)
        self.states = StateReader(
            local=local,
            caches=caches,
            clusters=self.clusters,
            rule_states=self.rule_states,
            departures=self.departures,
            absences=self.absences,
            tombstones=self.tombstones,
            made_once=self.made_once,
            lost_matches=self.lost_matches,
        )
        self.reconciler = Reconciler(
            states=self.states,
            content=ContentFinder(
                client,
                cluster=local,
                ignored=settings.ignored_namespace_content,
                note_kind=self.containers.note_kind,
            ),
            containers=self.containers,
            connection=self.clusters.connection,
            departures=self.departures,
            evaluations=self.sources.evaluations,
            request_rules=self.registry_reader.request_rules,
        )

    def start_local(self, scope: asyncio.TaskGroup) -> None:
        """Watch the local cluster; peers are engaged once our own kinds have been read."""
        scope.create_task(self.local_cluster.run(), name="local cluster")

    def start_peers(self, scope: asyncio.TaskGroup) -> None:
        """Engage the peers."""
        scope.create_task(self.clusters.run(), name="clusters")
        scope.create_task(self.orphans.find(), name="orphans")
        scope.create_task(self.tombstones.run(), name="tombstones")
        scope.create_task(self.enqueue.run(), name="resync")

    def _is_claimed(self, target: Target) -> bool:
        return any(not offer.record.deleting for offer in self.sources.claiming(target))

    # Objects of the local cluster.

    def on_copy_changed(self, target: Target, owner: ClusterUID) -> None:
        """Enqueue the target; a copy of a departed member may have been its last one."""
        self._observer.on_target_changed(target, owner)
        self.departures.on_copy_changed(target)
        if target[:2] == meta.CLUSTER_KIND and self.quota.has_surplus:
            self.clusters.request_plan()  # there may be room now for Clusters that peers offer

    def on_copy_made(self, target: Target) -> None:
        """Record a copy that another daemon may have made."""
        self.lost_matches.on_copy_made(target)

    def on_copy_gone(self, target: Target) -> None:
        """Report a copy that goes: the limit on deletions may count it, and its container may go now."""
        self.gone_copies.record(target)
        self._observer.on_copy_gone(target)
        for container in self.containers.containers_that_wait_for(target):
            _, record = self.copies.find(container)
            self._observer.on_target_changed(container, record.marks.owner or HERE if record is not None else HERE)

    def on_local_synced(self, cache: LocalCache, place: Selection) -> None:
        """Enqueue the claims that waited for the list."""
        self.enqueue.on_local_synced(cache, place)

    def on_local_uncertain(self, cache: LocalCache) -> None:
        """Make no copy of the kind until the rules were read again: they may have gone with the copies."""
        cache.doubts += 1
        self.registry_reader.request_read(lambda: self._on_confirmed(cache))

    def _on_confirmed(self, cache: LocalCache) -> None:
        cache.doubts -= 1
        if not cache.doubts:
            self.enqueue.on_local_synced(cache, EVERYTHING)

    def on_local_status_changed(self, cache: LocalCache) -> None:
        """Report the change; the cache may have shown the last orphan of its kind."""
        self._observer.on_watches_changed()
        self.orphans.on_local_status_changed(cache)

    def on_namespace_changed(self, name: str) -> None:
        """Enqueue the claims on the namespace."""
        self.enqueue.on_namespace_changed(name)

    def on_kinds_changed(self) -> None:
        """Search the served kinds for orphans again."""
        self.orphans.on_kinds_changed()

    def on_schema_changed(self, kind: GroupKind) -> None:
        """Report the change: copies of the kind may not be stored as they were compared."""
        self._observer.on_schema_changed(kind)

    def on_definition_of_rules(self, definition: Definition | None) -> None:
        """Note the definition with which rules are here; it may be why a rule is not as it was written."""
        self.registry.rule_definitions.on_definition(definition)
        for name, stored in self.registry.rules.items():
            if stored.verdict.reason == NOT_AS_WRITTEN.reason:
                self._observer.on_own_kind_changed(meta.RULES.resource, name)

    def on_definition_of_rules_read(self) -> None:
        """Plan again: the read may show that rules were deleted."""
        self.clusters.request_plan()

    def on_definition_of_features(self) -> None:
        """Decide whether tombstones were deleted with the definition of features: that withdraws none."""
        definitions = self.local_cluster.definitions
        self.registry.prove_withdrawals(definitions.of_features, read=definitions.read_of_features)

    def on_orphans_found(self) -> None:
        """Plan again: more kinds are watched."""
        self.clusters.request_plan()

    def on_tokens_changed(self) -> None:
        """Report the change."""
        self._observer.on_tokens_changed()

    def on_own_kind_changed(self, plural: str, name: str) -> None:
        """Record a Cluster; report the change, and plan again where the plan depends on it."""
        if plural == meta.CLUSTERS.resource:
            stored = self.registry.clusters.get(name)
            self.members.set_here(name, stored.cluster if stored else None)
        self._observer.on_own_kind_changed(plural, name)
        self.clusters.on_own_kind_changed(plural, name)

    def on_credentials_changed(self, key: ObjectKey) -> None:
        """Plan again where a Cluster names the Secret; report the change."""
        self.clusters.on_credentials_changed(key)
        self._observer.on_credentials_changed(key)

    # Members.

    def on_peers_changed(self) -> None:
        """Report the change."""
        self._observer.on_peers_changed()

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        """Enqueue the targets that depend on these members."""
        self.enqueue.on_members_changed(members)

    def on_rules_changed(self, changes: RuleChanges) -> None:
        """Enqueue the targets that depend on these rules, kinds and members."""
        self.enqueue.on_rules_changed(changes)

    def on_rebuilt(self, name: str) -> None:
        """Enqueue the Cluster that has a proven successor."""
        self._observer.on_target_changed(cluster_target(name))

    def on_member_changed(self, member: ClusterUID) -> None:
        """Enqueue the objects and copies of a member that has left or is back, or whose ID has clones or no longer."""
        self.enqueue.on_member_changed(member)

    def on_departure(self, member: ClusterUID) -> None:
        """Enqueue the targets that a departure or a return affects; tombstones record a departure."""
        self.enqueue.on_member_changed(member)
        self.clusters.request_plan()

    def on_cluster_due(self, target: Target, flow: str) -> None:
        """Enqueue a Cluster whose removal waited for a copy."""
        self._observer.on_target_changed(target, flow)

    def on_relays_changed(self) -> None:
        """Enqueue the relayed Clusters and Secrets."""
        self.enqueue.on_members_changed(frozenset())

    def on_left(self) -> None:
        """Search the copies that may go now."""
        self.orphans.on_left()

    def on_tombstones_changed(self) -> None:
        """Report that tombstones are to be created or deleted here."""
        self._observer.on_records_changed()

    def on_planned(self) -> None:
        """Update the tombstones and the quota, which depend on the peers and on their Clusters."""
        self.tombstones.update()
        self.quota.update()
        if self.rule_deletions.has_new_records:
            self._observer.on_records_changed()

    def _relayed_credentials(self) -> RelayedCredentials:
        return RelayedCredentials(
            registry=self.registry,
            relays=self.relay_policy,
            states=self.states,
            connection=self.clusters.connection,
            network_name=self._network_name,
        )

    def _restoration(self, member: ClusterUID, target: Target) -> Restoration:
        return find_restoration(
            self.reconciler.decide(target).decision,
            member,
            has_left=self.tombstones.ends(member),
            had_own=member in self.absences.had_own,
            lacks_own=self.absences.is_recent(member),
        )

    def _is_needed(self, provenance: Provenance) -> bool:
        """Return whether a copy must be known under any policy.

        It may be deleted, because its rule is here or this cluster has left, or it shows that its rule was deleted.
        """
        rule = provenance.rule
        if rule in self.registry.acting or self.rule_deletions.is_shown_by(provenance):
            return True
        return rule in names.CORE_RULES and self.tombstones.now.has_left


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _local_options(settings: Settings) -> LocalOptions:
    namespace, tokens = settings.namespace, token_type(settings.reader_token_expiration_seconds)
    has_pods = bool(settings.pod_name and settings.pod_selector)
    return LocalOptions(
        tokens=Selection(namespace=namespace, fields=f"type={tokens}"),
        pods=Selection(namespace=namespace, labels=settings.pod_selector) if has_pods else None,
    )


def _own_targets(settings: Settings, local: ClusterUID) -> OwnTargets:
    """Return the Cluster and the Secrets that the daemon makes for this cluster, by the options."""
    name, namespace = settings.provision_local_cluster, settings.namespace
    provisioned = {cluster_target(name), secret_target(ObjectKey(namespace, name))} if name else ()
    keys = token_secret_keys(namespace, settings.reader_service_account_name)
    tokens = map(secret_target, keys if settings.manage_local_cluster_secret else ())
    return OwnTargets(local, frozenset(provisioned), frozenset(tokens))


def _rule_policy(settings: Settings) -> RulePolicy:
    return RulePolicy(
        enabled=settings.synced_rules_enabled,
        kinds=frozenset(settings.synced_rules_kinds),
        namespaces=frozenset(settings.synced_rules_namespaces),
        closed_kinds=frozenset(settings.closed_kinds),
        closed_namespaces=frozenset(settings.closed_namespaces),
    )
