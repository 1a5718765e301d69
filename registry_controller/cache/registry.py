"""Our own three kinds as the local API server has them: from kopf's events, and from a list at every start.

Laws: an older state never replaces a newer one, unless a later complete list has it · an object that a complete list
lacks is gone · a rule acts for the stabilization window after its deletion: a rule that is created again in the window
was not deleted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.cluster import Cluster, ClusterIdentity, read_cluster
from registry_controller.api.deleted_rules import DeletedRule, read_deleted_rules
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import read_feature
from registry_controller.api.formats import is_later_feature
from registry_controller.api.meta import GVK, ClusterUID, Manifest, Target
from registry_controller.api.provenance import RuleGeneration
from registry_controller.api.syncrule import SyncRule
from registry_controller.api.tombstone import (
    Tombstone,
    is_later_tombstone,
    is_own_tombstone,
    read_original_tombstone,
)
from registry_controller.cache.crds import OF_RULES, Definition, DefinitionRead, read_bundled
from registry_controller.cache.rule_copies import RuleCopies
from registry_controller.cache.rule_definitions import RuleDefinitions
from registry_controller.cache.rule_events import RuleEvents, last_policy
from registry_controller.cache.settled_clusters import SettledClusters
from registry_controller.cache.stored_objects import StoredCluster, StoredRule
from registry_controller.core.decision.marks import Marks, read_marks
from registry_controller.core.decision.stored_spec import NOT_AS_WRITTEN, goes_on
from registry_controller.core.decision.withdrawal import DeletionFacts, Withdrawal, evaluate_withdrawal
from registry_controller.core.rules.active import ActiveRule
from registry_controller.core.rules.policy import BarredRule, RulePolicy
from registry_controller.core.rules.validation import RuleVerdict, read_and_validate

_MOST_GONE: Final = 4096
"""Deleted objects whose last revision is kept. A late event is late by seconds, and the next list corrects it."""
_HEIR_S: Final = 5.0
"""The seconds for which a rule that ended acts on while the rule of another cluster is written under its name."""
_MOST_DELETED: Final = 512
"""The deleted Clusters whose last state is kept."""


class _DeletedTombstone(NamedTuple):
    """A tombstone whose deletion was an event at a revision, and at a time of the registry's clock."""

    manifest: Manifest
    revision: int
    at_s: float


class Registry:
    """The objects of our own kinds. `on_change` receives the plural and the name of each changed object.

    `local` is the ID of the cluster that has the objects.
    `allowance` holds the limits that the local administrator set for rules. `rules` are the rules that are here;
    `acting` holds, too, those that were deleted in the last `window_s` seconds of the clock `now_s`; of a copy that
    was altered here it holds the rule as its owner wrote it, where this daemon knows it. A rule that is not in `acting`
    is missing once `shows_missing_rules` is true: a window after the first complete list. `rules_went_s` is when a rule
    was last found to be missing. `rule_definitions` has the definition that was here together with each of `rules`.
    """

    def __init__(
        self,
        *,
        on_change: Callable[[str, str], None],
        local: ClusterUID,
        allowance: RulePolicy | None = None,
        window_s: float = 0.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.allowance = allowance or RulePolicy()
        self._local = local
        self.clusters: dict[str, StoredCluster] = {}
        self.rules: dict[str, StoredRule] = {}
        self.acting: dict[str, StoredRule] = {}
        self.features: dict[str, Manifest] = {}
        self.pruned: dict[str, tuple[str, ...]] = {}
        self.later_features: set[str] = set()
        """The features that a later version of the daemon wrote, in a format that this one cannot read."""
        self._bars: dict[str, tuple[StoredRule, BarredRule | None]] = {}
        self.deleted_clusters: dict[ClusterUID, Manifest] = {}
        """The last states of the Clusters that were deleted since the start, by cluster ID; the newest ones.

        Of several Clusters of one ID it is the one that was there first.
        """
        self.deleted_tombstones: dict[str, Tombstone] = {}
        """The tombstones that a client deleted here since the start, as an event and the definition showed, by name."""
        self._unproven: dict[str, _DeletedTombstone] = {}
        self.tombstones_went_s = -math.inf
        self._settled = SettledClusters(window_s=window_s, now_s=now_s, most=_MOST_DELETED)
        self._active: dict[str, tuple[StoredRule, ActiveRule | None]] = {}
        self._revisions: dict[tuple[str, str], int] = {}
        self._gone: dict[tuple[str, str], int] = {}
        self._rules_listed_at = 0
        self._on_change = on_change
        self._window_s = window_s
        self._now_s = now_s
        self.deleted_rules: frozenset[DeletedRule] = frozenset()
        """This cluster's record of its deleted rules: parsed once, and read for each of their copies."""
        self.deletions = RuleEvents(now_s=now_s)
        """The events that deleted rules of this cluster."""
        self.rules_went_s = -math.inf
        self.rule_definitions = RuleDefinitions()
        self.rule_copies = RuleCopies()
        self._ends_at_s: dict[str, float] = {}
        """When a deleted rule ends to act."""
        self.left_to_heirs: frozenset[str] = frozenset()
        """The rules that ended, and act until the rule of another cluster has their name."""
        self._complete_at_s = math.inf
        """When a rule that was not seen since the start is missing for the window."""
        self.shows_missing_rules = window_s <= 0.0

    @property
    def due_s(self) -> float | None:
        """When the next deleted rule ends to act, or missing rules are known, on the clock `now_s`; None for never."""
        complete_at_s = () if self.shows_missing_rules or self._complete_at_s == math.inf else (self._complete_at_s,)
        return min((*self._ends_at_s.values(), *complete_at_s), default=None)

    def end_deleted_rules(self, *, has_heir: Callable[[str], bool] = lambda _: False) -> None:
        """End the rules whose deletion was a stabilization window ago.

        One whose name has an heir among the rules that are offered acts until that is here, for a moment at most.
        """
        now_s = self._now_s()
        self.shows_missing_rules = self.shows_missing_rules or now_s >= self._complete_at_s
        for name in [name for name, at_s in self._ends_at_s.items() if at_s <= now_s]:
            if name not in self.left_to_heirs and has_heir(name):
                self.left_to_heirs |= {name}
                self._ends_at_s[name] = now_s + _HEIR_S
                continue
            del self._ends_at_s[name]
            self.left_to_heirs -= {name}
            self.acting.pop(name, None)
            self.pruned.pop(name, None)
            self._bars.pop(name, None)

    def apply(self, plural: str, kind: str | None, manifest: Manifest) -> None:
        """Apply one event; `kind` is ADDED, MODIFIED, DELETED, or None for an item of a list."""
        name = meta.metadata_of(manifest).get("name", "")
        revision = meta.revision(meta.metadata_of(manifest).get("resourceVersion"))
        if not name or revision < self._known(plural, name):
            return
        if kind == "DELETED":
            self._drop(plural, name, revision, last=manifest)
            if plural == meta.FEATURES.resource:
                self._note_withdrawal(name, manifest, revision)
            if plural == meta.RULES.resource:
                self._note_deletion(name, manifest, revision)
        else:
            self._gone.pop((plural, name), None)
            self._revisions[(plural, name)] = revision
            self._hold(plural, name, manifest)
        self._on_change(plural, name)

    def must_read(self, plural: str, kind: str, manifest: Manifest) -> bool:
        """Return whether a watch event shows a rule whose spec is not known from a list.

        For some time after a definition has changed, the API server serves the watches that are open by the former
        one. Such an event lacks the new fields of the rule.
        """
        if plural != meta.RULES.resource or kind == "DELETED":
            return False
        info = meta.metadata_of(manifest)
        held = self.rules.get(name := info.get("name", ""))
        is_known = held is not None and held.manifest.get("spec") == manifest.get("spec")
        return not is_known and meta.revision(info.get("resourceVersion")) >= self._known(plural, name)

    def begin_list(self, plural: str) -> Mapping[str, int]:
        """Return the known revision of each object of a kind, before a list is read, for `replace`."""
        keys = (*self._gone, *self._revisions)
        return {name: self._known(plural, name) for of, name in keys if of == plural}

    def replace(
        self, plural: str, manifests: Iterable[Manifest], *, revision: int, known: Mapping[str, int] | None = None
    ) -> None:
        """Apply a complete list that was read at a resourceVersion: an object that it lacks is gone.

        It replaces each object whose revision is as it was in `known`, when the list began, also by an older state, as
        after the restore of an etcd. Without `known`, nothing has changed since then.
        """
        known = self.begin_list(plural) if known is None else known
        if plural == meta.RULES.resource and self._complete_at_s == math.inf:
            self.rules_went_s = self._now_s()
            self._complete_at_s = self.rules_went_s + self._window_s
        if plural == meta.RULES.resource:
            self.rule_definitions.on_list(revision)
            self._rules_listed_at = revision
        listed = set()
        for manifest in manifests:
            listed.add(name := meta.metadata_of(manifest).get("name", ""))
            if self._known(plural, name) == known.get(name, 0):
                self._revisions.pop((plural, name), None)
                self._gone.pop((plural, name), None)
            self.apply(plural, None, manifest)
        for name in [*self._names(plural)]:
            last = self._known(plural, name)
            if name not in listed and (last == known.get(name, 0) or last <= revision):
                self._drop(plural, name, last)
                self._on_change(plural, name)

    def set_pruned(self, rule: str, paths: tuple[str, ...]) -> None:
        """Record which fields of a copied rule the local CRD does not know: such a rule does nothing (A8)."""
        if self.pruned.get(rule, ()) != paths:
            self.pruned.pop(rule, None)
            if paths:
                self.pruned[rule] = paths
            self._on_change(meta.RULES.resource, rule)

    def compare_altered_rules(self) -> None:
        """Compare again the copies of rules that are not as their owners wrote them: an owner may show another rule."""
        for name, stored in list(self.rules.items()):
            if stored.verdict.reason == NOT_AS_WRITTEN.reason:
                self._hold(meta.RULES.resource, name, stored.manifest)
                if self.rules[name].verdict.reason != NOT_AS_WRITTEN.reason:
                    self._on_change(meta.RULES.resource, name)

    def clusters_of(self, cluster_id: ClusterUID) -> list[StoredCluster]:
        """List the Clusters here that stand for one cluster, in no order."""
        return [held for held in self.clusters.values() if held.cluster and held.cluster.cluster_id == cluster_id]

    def local_clusters(self, local: ClusterUID) -> list[Cluster]:
        """List the Clusters that stand for the local cluster, by name."""
        found = (held.cluster for held in self.clusters_of(local))
        return sorted(filter(None, found), key=lambda cluster: cluster.name)

    def own_cluster(self, local: ClusterUID) -> Manifest | None:
        """Find the Cluster object of the local cluster; None while there is not exactly one."""
        found = self.local_clusters(local)
        return self.clusters[found[0].name].manifest if len(found) == 1 else None

    def has_lost_own_cluster(self, local: ClusterUID) -> bool:
        """Return whether the Cluster of the local cluster was here and is missing, but did not leave."""
        if local not in self.deleted_clusters or self.local_clusters(local):
            return False
        found = self.standing_features()
        return not any(is_own_tombstone(one, of=local) or is_later_tombstone(one, of=local) for one in found)

    def own_identity(self, local: ClusterUID) -> ClusterIdentity | None:
        """Return what selectors see of our own Cluster; None while there is not exactly one."""
        own = self.own_cluster(local)
        return None if own is None else ClusterIdentity(meta.metadata_of(own).get("name", ""), meta.labels_of(own))

    def asking_rules(self, kind: GVK) -> Iterator[SyncRule]:
        """List the acting rules that read a kind in any version: those that are accepted and not suspended."""
        for held in self.acting.values():
            rule = held.rule
            if rule is None or not held.verdict.accepted or rule.suspend:
                continue
            if (rule.kind.group, rule.kind.kind) == (kind.group, kind.kind):
                yield rule

    def is_behind(self, rule: str, generation: RuleGeneration, *, written_at: int) -> bool:
        """Return whether a rule acts in an earlier generation than that by which a copy was written.

        A list of the rules since that revision, `written_at`, that has the rule shows otherwise: the copy is of another
        history. A rule that went acts as it was known last, which may be before its last edit.
        """
        acting = self.acting.get(rule)
        if acting is None or acting.generation.uid != generation.uid:
            return False
        is_listed = rule in self.rules and written_at <= self._rules_listed_at
        return acting.generation.generation < generation.generation and not is_listed

    def bar(self, name: str, *, local: ClusterUID) -> BarredRule | None:
        """Return why a rule may not act here; None where it may."""
        held = self.acting.get(name)
        if held is None:
            return None
        known = self._bars.get(name)
        if known is None or known[0] is not held:  # an event of the rule makes another one
            known = self._bars[name] = (held, held.bar(self.allowance, local=local))
        return known[1]

    def active_rules(self, local: ClusterUID) -> list[ActiveRule]:
        """List the accepted rules that may act here, with any `targetClusters`."""
        before, self._active = self._active, {}
        for name, held in sorted(self.acting.items()):
            was, active = before.get(name, (None, None))
            self._active[name] = (held, active if held.asks_the_same(was) else held.active(self.allowance, local=local))
        found = [active for name, (_, active) in self._active.items() if name not in self.pruned]
        return [active for active in found if active is not None]

    def _hold(self, plural: str, name: str, manifest: Manifest) -> None:
        if plural == meta.CLUSTERS.resource:
            try:
                self.clusters[name] = StoredCluster(read_cluster(manifest), "", manifest)
            except InvalidObject as error:
                self.clusters[name] = StoredCluster(None, str(error), manifest)
            if (cluster := self.clusters[name].cluster) is not None:
                self._settle(cluster.cluster_id)
        elif plural == meta.RULES.resource:
            rule, verdict = read_and_validate(manifest, definition=read_bundled()[OF_RULES])
            marks = self._read_marks(name, manifest)
            refusal = self.rule_copies.find_refusal(name, manifest, marks)
            if refusal is not None:
                verdict = RuleVerdict(False, *refusal)
            info, revision = meta.metadata_of(manifest), self._known(plural, name)
            generation = RuleGeneration(str(info.get("uid", "")), int(info.get("generation", 0)))
            self.rules[name] = stored = StoredRule(rule, verdict, marks, manifest, generation)
            self.rule_definitions.on_rule(name, uid=generation.uid, revision=revision)
            if not self._goes_on(name, stored):
                self.acting[name] = stored
            self.left_to_heirs -= {name}
            if self._ends_at_s.pop(name, None) is not None:
                self.pruned.pop(name, None)  # another object, of which nothing is known yet
        else:
            self.features[name] = manifest
            (self.later_features.add if _is_later(manifest) else self.later_features.discard)(name)
            self._forget_withdrawal(name)
            if name == names.DELETED_RULES_OBJECT:
                self.deleted_rules = read_deleted_rules(meta.annotations_of(manifest))

    def _goes_on(self, name: str, stored: StoredRule) -> bool:
        """Return whether the rule that acts goes on, because its copy here was altered, which is undone."""
        acting = self.acting.get(name)
        is_altered = stored.verdict.reason == NOT_AS_WRITTEN.reason
        return is_altered and acting is not None and goes_on(acting.manifest, acting.marks, marks=stored.marks)

    def _known(self, plural: str, name: str) -> int:
        """Return the last known revision of an object, also of a deleted one; 0 where none is known."""
        return self._revisions.get((plural, name), 0) or self._gone.get((plural, name), 0)

    def _drop(self, plural: str, name: str, revision: int, *, last: Manifest | None = None) -> None:
        self._revisions.pop((plural, name), None)
        self._gone.pop((plural, name), None)
        self._gone[(plural, name)] = revision
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]
        if plural == meta.CLUSTERS.resource:
            stored = self.clusters.get(name)
            if stored is not None and stored.cluster is not None:
                self._settle(stored.cluster.cluster_id)
                self._record_deleted(stored.cluster.cluster_id, name, last or stored.manifest)
            self.clusters.pop(name, None)
        elif plural == meta.RULES.resource:
            self.rules_went_s = self._now_s()
            self.rule_definitions.on_gone(name)
            if self.rules.pop(name, None) is not None:
                self._ends_at_s[name] = self.rules_went_s + self._window_s
                self.end_deleted_rules()
        else:
            self.features.pop(name, None)
            self.later_features.discard(name)
            if name == names.DELETED_RULES_OBJECT:
                self.deleted_rules = frozenset()

    def _note_deletion(self, name: str, manifest: Manifest, revision: int) -> None:
        """Keep the event that deleted a rule of this cluster; the deletion of a copy is no deletion of its rule."""
        if not self._read_marks(name, manifest).may_be_copy and name not in names.CORE_RULES:
            uid = str(meta.metadata_of(manifest).get("uid", ""))
            self.deletions.on_delete(name, uid, revision, policy=last_policy(lambda: manifest))

    def _read_marks(self, name: str, rule: Manifest) -> Marks:
        return read_marks(meta.annotations_of(rule), of=Target(*meta.RULE_KIND, "", name)).counted_in(self._local)

    def standing_features(self) -> Iterator[Manifest]:
        """List the features here, and the tombstones that were deleted and may have gone with their definition."""
        yield from self.features.values()
        for found in self._unproven.values():
            yield found.manifest

    def _note_withdrawal(self, name: str, manifest: Manifest, revision: int) -> None:
        """Note the deletion of a tombstone, which a read of the definition of features must prove."""
        if read_original_tombstone(manifest, at=self._local) is not None:
            self.tombstones_went_s = self._now_s()
            self._unproven[name] = _DeletedTombstone(manifest, revision, self.tombstones_went_s)
            if len(self._unproven) > _MOST_GONE:
                del self._unproven[next(iter(self._unproven))]

    def _forget_withdrawal(self, name: str) -> None:
        self.deleted_tombstones.pop(name, None)
        self._unproven.pop(name, None)

    def prove_withdrawals(self, definition: Definition | None, *, read: DefinitionRead) -> None:
        """Decide which deleted tombstones a client deleted, and which went with the definition of features.

        `definition` is as its watch shows it. Where the read shows another one, the watch is behind, and is waited for.
        """
        watched_uid, since = (definition.uid, definition.revision) if definition is not None else ("", 0)
        for name, found in list(self._unproven.items()):
            is_read_later = read.began_s >= found.at_s
            facts = DeletionFacts(found.revision, is_read_later, read.uid, watched_uid, defined_since=since)
            withdrawal = evaluate_withdrawal(facts)
            if withdrawal is Withdrawal.UNKNOWN:
                continue
            del self._unproven[name]
            stone = read_original_tombstone(found.manifest, at=self._local)
            if withdrawal is Withdrawal.BY_CLIENT and stone is not None:
                self.deleted_tombstones[name] = stone
                if len(self.deleted_tombstones) > _MOST_GONE:
                    self._forget_withdrawal(next(iter(self.deleted_tombstones)))
            self._on_change(meta.FEATURES.resource, name)

    def _settle(self, cluster_id: ClusterUID) -> None:
        """Record the Cluster of an ID while it is the only one."""
        same = self.clusters_of(cluster_id)
        self._settled.settle(cluster_id, same[0].manifest if len(same) == 1 else None)

    def _record_deleted(self, cluster_id: ClusterUID, name: str, manifest: Manifest) -> None:
        settled = self._settled.get(cluster_id)
        if settled is not None and meta.metadata_of(settled).get("name") != name:
            manifest = settled
        self.deleted_clusters.pop(cluster_id, None)
        self.deleted_clusters[cluster_id] = manifest
        if len(self.deleted_clusters) > _MOST_DELETED:
            del self.deleted_clusters[next(iter(self.deleted_clusters))]

    def _names(self, plural: str) -> Mapping[str, object]:
        if plural == meta.CLUSTERS.resource:
            return self.clusters
        return self.rules if plural == meta.RULES.resource else self.features


def _is_later(feature: Manifest) -> bool:
    try:
        return is_later_feature(read_feature(feature), meta.annotations_of(feature))
    except InvalidObject:
        return False
