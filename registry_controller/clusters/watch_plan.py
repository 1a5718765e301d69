"""Plans which rules read from each peer, with the context of their templates, and which kinds are watched here.

Laws: the same Clusters give the same TemplateContext: a change of times in a status causes no evaluation · a peer's
rules are set again only when the rules, the context or the peer's features changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any, Final, NamedTuple, TypeVar

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, Manifest
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.members import MemberRecord
from registry_controller.cache.registry import Registry
from registry_controller.cache.settled_clusters import SettledClusters
from registry_controller.clusters.local import LocalCluster
from registry_controller.clusters.orphans import OrphanFinder
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.core.decision.rule_state import Maker
from registry_controller.core.mutation.mutate import NO_CONTEXT, TemplateContext
from registry_controller.core.rules.active import ActiveRule, group_by_kind, list_target_kinds

_INFO: Final = ("name", "uid", "labels", "annotations", "creationTimestamp")
_PRIVATE: Final = frozenset((meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.KUBECTL_LAST_APPLIED))
_VOLATILE: Final = frozenset(("conditions", "message"))

_Key = TypeVar("_Key")


class RuleChanges(NamedTuple):
    """The names of changed rules, the groups and kinds that they read or did read, and members with other features.

    `remaining` are the rules that act, once every other rule is known to be missing; None where that is no news.
    """

    rules: Set[str]
    kinds: Set[tuple[str, str]]
    members: Set[ClusterUID]
    remaining: Set[str] | None = None


class RuleRequest(NamedTuple):
    """The part of a rule that decides whether its copies are wanted here; while it is equal, no copy is affected."""

    rule: SyncRule | None
    accepted: bool
    selects_us: bool | None
    synced: bool
    maker: Maker | None
    named: ClusterIdentity | None = None
    """Our own Cluster, for a rule that copies only objects that name it."""


class _Assignment(NamedTuple):
    """The facts that decide which rules read from a peer."""

    peer: Peer
    active: list[ActiveRule]
    context: TemplateContext
    features: tuple[Feature, ...] | None
    selected: Mapping[Hashable, bool | None]


class WatchPlanner:
    """Sets the rules of each peer, and the kinds that are watched here.

    `has_orphans` is True while kinds are watched here only for copies that no rule asks for.
    """

    def __init__(
        self,
        *,
        local: ClusterUID,
        registry: Registry,
        selection: RuleSelection,
        deletions: RuleDeletions,
        local_cluster: LocalCluster,
        orphans: OrphanFinder,
        window_s: float = 0.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.active: Mapping[str, ActiveRule] = {}
        self.has_orphans = False
        self._local = local
        self._registry = registry
        self._selection = selection
        self._deletions = deletions
        self._local_cluster = local_cluster
        self._orphans = orphans
        self._contexts = TemplateContexts(registry=registry, local=local, window_s=window_s, now_s=now_s)
        self._assigned: dict[ClusterUID, _Assignment] = {}
        self._requests: Mapping[str, RuleRequest] = {}
        self._deleted: Mapping[tuple[ClusterUID, str], object] = {}
        self._kept: Mapping[str, str] = {}
        self._showed_missing_rules = registry.shows_missing_rules
        self._features: Mapping[ClusterUID, object] = {}

    def watch_secrets(self, namespaces: Iterable[str], *, cluster_api: Iterable[str]) -> None:
        """Watch the registry Secrets in these namespaces, and the Secrets of Cluster API in some."""
        self._local_cluster.set_secret_namespaces(namespaces, cluster_api=cluster_api)

    async def set_rules(self, peers: Mapping[ClusterUID, Peer]) -> None:
        """Set the rules of every peer, and watch the kinds that rules write."""
        self._registry.end_deleted_rules(has_heir=self._deletions.has_heir)
        self._registry.compare_altered_rules()
        self._local_cluster.read_definitions(
            rules_since_s=self._registry.rules_went_s, features_since_s=self._registry.tombstones_went_s
        )
        await self._selection.update(peers)
        self._deletions.update(peers)
        found = self._registry.active_rules(self._local)
        own = self._selection.own
        active = [rule.with_own(own) for rule in found if self._selection.selects_us(rule.rule)]
        self.active = {found.rule.name: found for found in active}
        kinds = list_target_kinds(active, watched=self._local_cluster.kinds, served=self._orphans.served)
        watched = self._orphans.with_kinds(kinds)
        self.has_orphans = watched != kinds
        self._local_cluster.set_kinds(watched)
        before, self._assigned = self._assigned, {}
        for cluster_id, peer in peers.items():
            context = self._contexts.of(cluster_id, name=peer.name, shown=peer.clusters.held or {})
            selected = self._selection.known_values(cluster_id)
            assignment = _Assignment(peer, active, context, peer.features.held, selected)
            if assignment != before.get(cluster_id):
                rules = [found.with_context(context) for found in active]
                peer.watches.set_rules(group_by_kind(choose_rules(rules, selected)))
            self._assigned[cluster_id] = assignment

    @property
    def due_s(self) -> float | None:
        """When time alone changes the rules of a peer, on the loop's clock; None for never."""
        due_s = (self._registry.due_s, self._selection.due_s, self._deletions.traces.due_s, self._contexts.due_s)
        return min((at_s for at_s in due_s if at_s is not None), default=None)

    def take_changes(self, peers: Mapping[ClusterUID, Peer]) -> RuleChanges | None:
        """Return what changed since the last call; None without changes."""
        requests = {
            name: RuleRequest(
                held.rule,
                held.verdict.accepted,
                held.rule is not None and self._selection.selects_us(held.rule),
                held.is_synced(self._local),
                held.maker(self._local),
                self._selection.own if held.rule is not None and held.rule.requires_targets else None,
            )
            for name, held in self._registry.acting.items()
        }
        features = {uid: (peer.features.held, self._selection.known_values(uid)) for uid, peer in peers.items()}
        is_news = self._registry.shows_missing_rules and not self._showed_missing_rules
        self._showed_missing_rules = self._registry.shows_missing_rules
        deleted, kept = self._deletions.shown(), self._deletions.kept
        news = (requests, features, deleted, kept)
        if news == (self._requests, self._features, self._deleted, self._kept) and not is_news:
            return None
        rules = differing(self._requests, requests) | {name for _, name in differing(self._deleted, deleted)}
        rules |= differing(self._kept, kept)
        kinds = _kinds_read(rules, self._requests) | _kinds_read(rules, requests)
        members = differing(self._features, features)
        changes = RuleChanges(rules, kinds, members, remaining=frozenset(requests) if is_news else None)
        self._requests, self._features, self._deleted, self._kept = news
        return changes

    def selects_us(self, rule: SyncRule) -> bool | None:
        """Return whether a rule selects this cluster, for reports; None while our own Cluster is unknown."""
        return self._selection.reported(rule)

    def has_chosen_rules(self, peer: Peer, kind: GVK) -> bool:
        """Return whether a peer has all rules that read a kind from it, by its current features and by our Cluster."""
        assignment = self._assigned.get(peer.cluster_id)
        if assignment is None or assignment.peer is not peer:
            return False
        features = peer.features
        if features.is_current and assignment.features != features.held:
            return False
        rules = self._registry.asking_rules(kind)
        return all(self._selection.is_known(rule, peer) for rule in rules)


class TemplateContexts:
    """The objects that templates see beside the synced one: the owner's Cluster and our own.

    A Cluster of another name takes the place of the one before once it was the only one for `window_s` seconds: where
    several come or go, their events are in no order, and a member that has several of itself will remove all but one.
    One of several whose name the member does not use takes no place: where none counted before, as after a start,
    templates see it only until the name is known. `due_s` is when time alone changes a context, None for never.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        local: ClusterUID,
        window_s: float = 0.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._local = local
        self._made: dict[ClusterUID, TemplateContext] = {}
        self._settled = SettledClusters(window_s=window_s, now_s=now_s)

    @property
    def due_s(self) -> float | None:
        return self._settled.due_s

    def of(self, owner: ClusterUID, *, name: str, shown: Mapping[str, MemberRecord]) -> TemplateContext:
        """Return the context of a member whose Cluster here has that name; while it is missing, the last one.

        `shown` are the Clusters that the member itself has, by name; empty while they are unknown.
        """
        made = self._made.get(owner, NO_CONTEXT)
        stored = self._registry.clusters.get(name)
        found = stored.manifest if stored is not None else None
        if self._settled.is_another(owner, name) and _has_several(shown, owner):
            found = None
        is_guess = self._settled.get(owner) is None and self._is_guess(owner, name, shown)
        theirs = found if is_guess else self._settled.settle(owner, found)
        ours = self._settled.settle(self._local, self._registry.own_cluster(self._local))
        if theirs is None or (ours is None and made.local_cluster is not None):
            return made  # the Cluster is about to be restored
        context = TemplateContext(stable_part(theirs), stable_part(ours))
        if (made.cluster, made.local_cluster) != (context.cluster, context.local_cluster):
            made = self._made[owner] = context
        return made

    def _is_guess(self, owner: ClusterUID, name: str, shown: Mapping[str, MemberRecord]) -> bool:
        """Return whether the member may call itself by the name of another of its Clusters here."""
        has_several = len(self._registry.clusters_of(owner)) > 1
        return has_several and not (name in shown and shown[name].cluster_id == owner)


def _has_several(shown: Mapping[str, MemberRecord], owner: ClusterUID) -> bool:
    return sum(record.cluster_id == owner for record in shown.values()) > 1


def stable_part(manifest: Manifest | None) -> Manifest | None:
    """Return a Cluster without the fields that change by themselves: a copy would follow them."""
    if manifest is None:
        return None
    info: dict[str, Any] = {key: value for key, value in meta.metadata_of(manifest).items() if key in _INFO}
    if annotations := info.get("annotations"):
        info["annotations"] = {key: text for key, text in annotations.items() if key not in _PRIVATE}
    status = {key: value for key, value in (manifest.get("status") or {}).items() if key not in _VOLATILE}
    identity = {"apiVersion": meta.API_VERSION, "kind": meta.CLUSTER.kind}
    return {**identity, "metadata": info, "spec": manifest.get("spec") or {}, "status": status}


def choose_rules(rules: Iterable[ActiveRule], selected: Mapping[Hashable, bool | None]) -> list[ActiveRule]:
    """Choose, in order of rank, the rules that read from a peer whose features are selected like this."""
    chosen = [active for active in rules if not active.rule.features or selected.get(active.rule.features)]
    return sorted(chosen, key=lambda active: active.rank)


def differing(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> frozenset[_Key]:
    """Return the keys that only one of two mappings has, or whose values differ."""
    return frozenset(key for key in {*old, *new} if key not in old or key not in new or old[key] != new[key])


def _kinds_read(rules: Set[str], requests: Mapping[str, RuleRequest]) -> frozenset[tuple[str, str]]:
    found = (requests[name].rule for name in rules if name in requests)
    return frozenset((rule.kind.group, rule.kind.kind) for rule in found if rule is not None)
