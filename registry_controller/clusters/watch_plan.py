"""Plans which rules read from each peer, with the context of their templates, and which kinds are watched here.

Laws: the same Clusters give the same TemplateContext: a change of times in a status causes no evaluation · a peer's
rules are set again only when the rules, the context or the peer's features changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple, TypeVar

from registry_controller.api import meta
from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, Manifest
from registry_controller.cache.registry import Registry, RuleRequest
from registry_controller.clusters.local import LocalCluster
from registry_controller.clusters.orphans import OrphanFinder
from registry_controller.clusters.peer import Peer
from registry_controller.core.mutation.mutate import NO_CONTEXT, TemplateContext
from registry_controller.core.rules.active import ActiveRule, group_by_kind, list_target_kinds, reads_from
from registry_controller.watch.fairness import LoopYielder

_INFO: Final = ("name", "uid", "labels", "annotations", "creationTimestamp")
_PRIVATE: Final = frozenset((meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.KUBECTL_LAST_APPLIED))
_VOLATILE: Final = frozenset(("conditions", "message"))

_Key = TypeVar("_Key")


class RuleChanges(NamedTuple):
    """The names of changed rules, the groups and kinds that they read or did read, and members with other features."""

    rules: Set[str]
    kinds: Set[tuple[str, str]]
    members: Set[ClusterUID]


class _Assignment(NamedTuple):
    """The facts that decide which rules read from a peer."""

    peer: Peer
    active: list[ActiveRule]
    context: TemplateContext
    features: tuple[Feature, ...] | None


class WatchPlanner:
    """Sets the rules of each peer, and the kinds that are watched here.

    `has_orphans` is True while kinds are watched here only for copies that no rule asks for.
    """

    def __init__(
        self, *, local: ClusterUID, registry: Registry, local_cluster: LocalCluster, orphans: OrphanFinder
    ) -> None:
        self.active: Mapping[str, ActiveRule] = {}
        self.has_orphans = False
        self._local = local
        self._registry = registry
        self._local_cluster = local_cluster
        self._orphans = orphans
        self._contexts = TemplateContexts(registry=registry, local=local)
        self._assigned: dict[ClusterUID, _Assignment] = {}
        self._knows_local_cluster = False  # without it, a rule's cluster selector cannot be evaluated
        self._requests: Mapping[str, RuleRequest] = {}
        self._features: Mapping[ClusterUID, object] = {}

    def watch_secrets(self, namespaces: Iterable[str]) -> None:
        """Watch the registry Secrets in these namespaces."""
        self._local_cluster.set_secret_namespaces(namespaces)

    async def set_rules(self, peers: Mapping[ClusterUID, Peer]) -> None:
        """Set the rules of every peer, and watch the kinds that rules write."""
        active = self._registry.active_rules(self._local)
        self._knows_local_cluster = self._registry.own_cluster(self._local) is not None
        self.active = {found.rule.name: found for found in active}
        kinds = list_target_kinds(active, watched=self._local_cluster.kinds, served=self._orphans.served)
        watched = self._orphans.with_kinds(kinds)
        self.has_orphans = watched != kinds
        self._local_cluster.set_kinds(watched)
        before, self._assigned = self._assigned, {}
        for cluster_id, peer in peers.items():
            context = self._contexts.of(cluster_id, name=peer.name)
            assignment = _Assignment(peer, active, context, peer.features.held)
            if assignment != before.get(cluster_id):
                rules = [found.with_context(context) for found in active]
                peer.watches.set_rules(group_by_kind(await choose_rules(rules, assignment.features)))
            self._assigned[cluster_id] = assignment

    def take_changes(self, peers: Mapping[ClusterUID, Peer]) -> RuleChanges | None:
        """Return what changed since the last call; None without changes."""
        requests = self._registry.rule_requests(self._local)
        features = {uid: (peer.features.held, self._knows_local_cluster) for uid, peer in peers.items()}
        if (requests, features) == (self._requests, self._features):
            return None
        rules = differing(self._requests, requests)
        kinds = _kinds_read(rules, self._requests) | _kinds_read(rules, requests)
        changes = RuleChanges(rules, kinds, differing(self._features, features))
        self._requests, self._features = requests, features
        return changes

    def has_chosen_rules(self, peer: Peer, kind: GVK) -> bool:
        """Return whether a peer has all rules that read a kind from it, by its current features and by our Cluster."""
        assignment = self._assigned.get(peer.cluster_id)
        if assignment is None or assignment.peer is not peer:
            return False
        features = peer.features
        if not features.is_current:
            same = (kind.group, kind.kind)
            rules = (found.rule for found in self.active.values())
            if any(rule.features for rule in rules if (rule.kind.group, rule.kind.kind) == same):
                return False
        elif assignment.features != features.held:
            return False
        return self._knows_local_cluster or not self._registry.may_be_asked(kind, local=self._local)


class TemplateContexts:
    """The objects that templates see beside the synced one: the owner's Cluster and our own."""

    def __init__(self, *, registry: Registry, local: ClusterUID) -> None:
        self._registry = registry
        self._local = local
        self._made: dict[ClusterUID, TemplateContext] = {}

    def of(self, owner: ClusterUID, *, name: str) -> TemplateContext:
        """Return the context of a member whose Cluster here has that name; while it is missing, the last one."""
        made = self._made.get(owner, NO_CONTEXT)
        stored = self._registry.clusters.get(name)
        if stored is None:
            return made  # the Cluster is about to be restored
        context = TemplateContext(stable_part(stored.manifest), stable_part(self._registry.own_cluster(self._local)))
        if (made.cluster, made.local_cluster) != (context.cluster, context.local_cluster):
            made = self._made[owner] = context
        return made


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


async def choose_rules(rules: Iterable[ActiveRule], features: Iterable[Feature] | None) -> list[ActiveRule]:
    """Choose, in order of rank, the rules that read from a peer with these features. Yields the loop now and then."""
    held = None if features is None else tuple(features)
    chosen, yielder = list[ActiveRule](), LoopYielder(asyncio.get_running_loop().time())
    for active in sorted(rules, key=lambda active: active.rank):
        await yielder.yield_if_due()
        if reads_from(active.rule, held):
            chosen.append(active)
    return chosen


def differing(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> frozenset[_Key]:
    """Return the keys that only one of two mappings has, or whose values differ."""
    return frozenset(key for key in {*old, *new} if key not in old or key not in new or old[key] != new[key])


def _kinds_read(rules: Set[str], requests: Mapping[str, RuleRequest]) -> frozenset[tuple[str, str]]:
    found = (requests[name].rule for name in rules if name in requests)
    return frozenset((rule.kind.group, rule.kind.kind) for rule in found if rule is not None)
