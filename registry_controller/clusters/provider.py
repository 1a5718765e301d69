"""The registry's state turned into links to peers, and the rules that read from each.

Law: level-based, the whole plan is made anew from the registry at each change.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Set
from typing import NoReturn, TypeVar

from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.members import Members
from registry_controller.cache.registry import Registry, RuleRequest
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.dialer import Dialer, RelayedCredentialsSource
from registry_controller.clusters.grace import GracePeriods
from registry_controller.clusters.local import LocalCluster
from registry_controller.clusters.orphans import OrphanFinder
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.rebuilt import RebuiltClusters
from registry_controller.clusters.resolver import ClusterResolver, ResolvedCluster
from registry_controller.clusters.rule_state import Liveness
from registry_controller.clusters.template_context import TemplateContexts
from registry_controller.core.rules.active import ActiveRule, by_kind, reads_from, target_kinds
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.watch.fairness import LoopYielder

_Key = TypeVar("_Key")


class ClusterProvider:
    """The owner of all peer links."""

    def __init__(
        self,
        *,
        local: ClusterUID,
        network_name: str,
        namespace: str,
        registry: Registry,
        sources: SourceIndex,
        members: Members,
        credentials: CredentialStore,
        home: LocalCluster,
        leftovers: OrphanFinder,
        connect_peer: Callable[[Credentials], Reader],
        hearsay: Callable[[], RelayedCredentialsSource],
        trusts_after_s: float,
        is_due: Callable[[ClusterUID, Target], bool],
        changed: Callable[[], None],
        members_changed: Callable[[Set[ClusterUID]], None],
        rules_changed: Callable[[Set[str], Set[tuple[str, str]], Set[ClusterUID]], None],
        rebuilt: Callable[[str], None],
        planned: Callable[[], None],
    ) -> None:
        self.local = local
        self.peers: dict[ClusterUID, Peer] = {}
        self.resolved: dict[str, ResolvedCluster] = {}
        self.active: dict[str, ActiveRule] = {}
        self._namespace = namespace
        self._registry = registry
        self._sources = sources
        self._members = members
        self._home = home
        self.orphans = leftovers
        self._connect_peer = connect_peer
        self._hearsay = hearsay
        self._changed = changed
        self._members_changed = members_changed
        self._rules_changed = rules_changed
        self._planned = planned
        self._poked = asyncio.Event()
        self._is_planned = False
        self._is_judged = False  # for which clusters a rule is: our own Cluster says which one we are
        self._contexts = TemplateContexts(registry=registry, local=local)
        self._given: dict[ClusterUID, tuple[Peer, object, object, object]] = {}
        self._wishes: Mapping[str, RuleRequest] = {}
        self._features: Mapping[ClusterUID, object] = {}
        self.rebuilt = RebuiltClusters(
            network_name=network_name,
            registry=registry,
            links=self.peers,
            connect_peer=connect_peer,
            trusts_after_s=trusts_after_s,
            changed=rebuilt,
            said=changed,
        )
        self._chooser = ClusterResolver(
            local=local,
            network_name=network_name,
            members=members,
            credentials=credentials,
            connect_peer=connect_peer,
            changed=self.request_plan,
        )
        self._lifelines = GracePeriods(is_due=is_due)
        self._tasks: dict[ClusterUID, asyncio.Task[NoReturn]] = {}
        self._standing = Liveness(frozenset(), frozenset(), frozenset())

    def request_plan(self) -> None:
        """Say that something the plan is made of has changed."""
        self._poked.set()

    @property
    def is_current(self) -> bool:
        """False before the first plan, and while another one is due."""
        return self._is_planned and not self._poked.is_set()

    def liveness(self) -> Liveness:
        """Tell who is known, who is alive for us, and who is a clone or has one."""
        known = {held.cluster.cluster_id for held in self._registry.clusters.values() if held.cluster}
        alive = frozenset(uid for uid, link in self.peers.items() if link.alive)
        return Liveness(frozenset(known), alive, self._chooser.contested)

    async def run(self) -> None:
        """Keep the plan, until cancelled."""
        async with asyncio.TaskGroup() as scope:
            while True:
                self._poked.clear()
                self._is_planned = False
                await self._plan(scope)
                self._is_planned = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._lifelines.look_again_s):
                        await self._poked.wait()
                await asyncio.sleep(0)  # what comes together is planned together

    def name_of(self, cluster_id: ClusterUID) -> str:
        """Find the name under which a cluster is read, or known; its ID where it has none here."""
        link = self.peers.get(cluster_id)
        if link is not None:
            return link.name
        return min(
            (name for name, choice in self.resolved.items() if choice.cluster.cluster_id == cluster_id),
            default=str(cluster_id),
        )

    def peer_changed(self) -> None:
        """Hear that something about a link changed."""
        self._compare_standing()
        self.request_plan()
        self._changed()

    async def _plan(self, scope: asyncio.TaskGroup) -> None:
        self._plan_members()
        self._chooser.probe_clones(scope, self.resolved)
        self._plan_links(scope)
        self.rebuilt.plan(scope)
        await self._plan_rules()
        self._planned()
        self._changed()

    def _plan_members(self) -> None:
        clusters = [held.cluster for held in self._registry.clusters.values() if held.cluster is not None]
        namespaces = {self._namespace, *(cluster.secret.namespace for cluster in clusters if cluster.secret)}
        self._home.set_secret_namespaces(sorted(namespaces))
        self.resolved = self._chooser.resolve(clusters)

    def _plan_links(self, scope: asyncio.TaskGroup) -> None:
        wanted = {c.cluster.cluster_id: c for c in self.resolved.values() if c.credentials is not None}
        waiting = {c.cluster.cluster_id for c in self.resolved.values() if c.waiting}
        others = {uid: link for uid, link in self.peers.items() if uid not in wanted and uid not in waiting}
        for cluster_id in others.keys() - self._lifelines.keep(others, self.resolved):
            self._tasks.pop(cluster_id).cancel()
            self.peers.pop(cluster_id).close()
        for cluster_id, choice in wanted.items():
            assert choice.credentials is not None
            link = self.peers.get(cluster_id)
            if link is not None:
                link.set_credentials(choice.cluster.name, choice.credentials)
                continue
            dialler = Dialer(
                cluster_id=cluster_id,
                name=choice.cluster.name,
                credentials=choice.credentials,
                connect_peer=self._connect_peer,
                others=self._hearsay(),
            )
            link = Peer(
                dialler=dialler,
                sources=self._sources,
                members=self._members,
                changed=self.peer_changed,
                features_changed=self.request_plan,
            )
            self.peers[cluster_id] = link
            self._tasks[cluster_id] = scope.create_task(link.run(), name=f"peer {link.name}")
        self._compare_standing()

    def has_chosen_rules(self, member: ClusterUID, kind: GVK) -> bool:
        """Say whether the rules that read a kind from a member are all that do, by its features and by our Cluster."""
        link, given = self.peers.get(member), self._given.get(member)
        if link is None or given is None or given[0] is not link:
            return False
        if not link.features.is_current:
            same = (kind.group, kind.kind)
            rules = (found.rule for found in self.active.values())
            if any(rule.features for rule in rules if (rule.kind.group, rule.kind.kind) == same):
                return False
        elif given[-1] != link.features.held:
            return False
        return self._is_judged or not self._registry.may_be_asked(kind, local=self.local)

    def _compare_standing(self) -> None:
        was, self._standing = self._standing, self.liveness()
        if self._standing != was:
            pairs = zip(self._standing, was, strict=True)
            self._members_changed(frozenset[ClusterUID]().union(*(now ^ then for now, then in pairs)))

    async def _plan_rules(self) -> None:
        active = self._registry.active_rules(self.local)
        self._is_judged = self._registry.own_cluster(self.local) is not None
        self.active = {found.rule.name: found for found in active}
        kinds = target_kinds(active, watched=self._home.kinds, served=self.orphans.served)
        self._home.set_kinds(self.orphans.with_kinds(kinds))
        given, self._given = self._given, {}
        for cluster_id, link in self.peers.items():
            context = self._contexts.of(cluster_id, name=link.name)
            giving = (link, active, context, link.features.held)
            if giving != given.get(cluster_id):
                shown = [found.within(context) for found in active]
                link.watches.set_rules(by_kind(await choose_rules(shown, link.features.held)))
            self._given[cluster_id] = giving
        wishes = self._registry.rule_requests(self.local)
        features = {uid: (link.features.held, self._is_judged) for uid, link in self.peers.items()}
        if (wishes, features) != (self._wishes, self._features):
            rules = _differing(self._wishes, wishes)
            read = _kinds_read(rules, self._wishes) | _kinds_read(rules, wishes)
            self._rules_changed(rules, read, _differing(self._features, features))
            self._wishes, self._features = wishes, features


async def choose_rules(rules: Iterable[ActiveRule], features: Iterable[Feature] | None) -> list[ActiveRule]:
    """Tell, in order of rank, which rules read from a peer with these features; others have the loop meanwhile."""
    held = None if features is None else tuple(features)
    chosen, stint = list[ActiveRule](), LoopYielder(asyncio.get_running_loop().time())
    for active in sorted(rules, key=lambda active: active.rank):
        await stint.interrupt()
        if reads_from(active.rule, held):
            chosen.append(active)
    return chosen


def _differing(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> frozenset[_Key]:
    return frozenset(key for key in {*old, *new} if key not in old or key not in new or old[key] != new[key])


def _kinds_read(rules: Set[str], wishes: Mapping[str, RuleRequest]) -> frozenset[tuple[str, str]]:
    found = (wishes[name].rule for name in rules if name in wishes)
    return frozenset((rule.kind.group, rule.kind.kind) for rule in found if rule is not None)
