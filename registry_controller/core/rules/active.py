"""Rules that act: which peers they read, which objects they match, and which kinds they write here.

Law: a rule that is not accepted or is suspended acts on no peer; no other rule is left out silently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import orjson

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, FeatureMatch
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.api.syncrule import Override, RuleEntry, SyncRule
from registry_controller.core.mutation.mutate import NO_CONTEXT, TemplateContext, build_copy, get_copy_kind
from registry_controller.core.mutation.templates import may_move
from registry_controller.core.rules.destinations import NOWHERE, Destinations, read_destinations
from registry_controller.core.rules.list_options import build_selections
from registry_controller.core.rules.matching import ObjectFacts, find_matching_entries
from registry_controller.core.rules.policy import UNRESTRICTED, Barrier, TargetPolicy
from registry_controller.gotemplate import Pool

_MAX_COMBINATIONS: Final = 32

Rank = tuple[str, ClusterUID, str]
"""Orders rules that want the same source (W2): by creation time at the owner, owner ID, and name."""


class Hit(NamedTuple):
    """A rule that matches an object: the entries that match, the copy's kind, and its target if that has another key.

    `barrier` is set when the local policy does not let the rule write the target. `rank` is the rule's rank, `rule_uid`
    its UID where it was created. `is_moved` is True if the copy has another kind or another key than the object.
    `overrides` is the digest of the entries' overrides, for the provenance. `named` is the Cluster that the object
    names, None for a rule that does not ask for that.
    """

    rank: Rank
    rule: str
    rule_owner: ClusterUID
    policy: str
    entries: tuple[RuleEntry, ...]
    kind: GVK
    context: TemplateContext
    moved_to: Target | None = None
    barrier: Barrier | None = None
    is_moved: bool = False
    overrides: str = ""
    rule_uid: str = ""
    named: ClusterIdentity | None = None

    def target(self, key: ObjectKey) -> Target:
        """Return the target of the object with that key."""
        return self.moved_to or Target(self.kind.group, self.kind.kind, key.namespace, key.name)


@dataclass(frozen=True, slots=True)
class _EntriesResult:
    """The result of a rule for every object that the same entries match.

    `hit` is for an object whose copy has the same key. With `depends_on_copy`, the copy must be built to know its key,
    or its Secret type. `may_be_barred` is True if the policy depends on the target; `barred` are the hits with a
    barrier.
    """

    hit: Hit
    depends_on_copy: bool
    may_be_barred: bool
    barred: dict[Barrier, Hit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule that is accepted and not suspended. `created_at`, `owner` and `uid` describe the rule in its own cluster.

    `target_policy` decides which targets the rule may write here. `context` holds the Clusters for its templates; it
    is NO_CONTEXT until the rule reads a peer. `own` is the Cluster that an object must name; None for a rule that does
    not ask for that.
    """

    rule: SyncRule
    created_at: str
    owner: ClusterUID
    selections: tuple[Selection, ...]
    target_policy: TargetPolicy = UNRESTRICTED
    context: TemplateContext = NO_CONTEXT
    uid: str = ""
    own: ClusterIdentity | None = field(default=None, hash=False)
    _results: dict[tuple[int, ...], _EntriesResult] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By the `id` of the matching entries, for a few combinations: objects that match the same ones share a hit."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that the rule's result depends on: while they are equal, no source has to be listed again."""
        rule = self.rule
        made = (rule.kind, rule.entries, rule.deletion_policy, rule.create_namespaces, rule.requires_targets, self.own)
        return (rule.name, self.uid, self.created_at, self.owner, made, self.target_policy, self.context)

    def with_context(self, context: TemplateContext) -> ActiveRule:
        """Return the rule with a context; a rule without templates gets none and stays equal."""
        return replace(self, context=context) if self.rule.has_templates else self

    def with_own(self, own: ClusterIdentity | None) -> ActiveRule:
        """Return the rule with the Cluster that objects must name; a rule that does not ask for that stays equal."""
        return replace(self, own=own) if self.rule.requires_targets else self

    def evaluate(
        self, facts: ObjectFacts, body: Callable[[], Manifest], *, owner: ClusterUID, pool: Pool | None = None
    ) -> Hit | None:
        """Evaluate this rule on an object; None when it does not match.

        `body` is called when the body is needed. The steps are also taken from the pool. Raises InvalidObject when the
        rule cannot be evaluated.
        """
        destinations = _read_destinations(facts) if self.rule.requires_targets else None
        if isinstance(destinations, Destinations) and (self.own is None or not destinations.include(self.own)):
            return None
        entries = find_matching_entries(self.rule, facts, body, pool=pool)
        if not entries:
            return None
        if isinstance(destinations, InvalidObject):
            raise destinations
        result = self._results.get(tuple(map(id, entries))) or self._prepare(entries)
        hit, secret_type = result.hit, facts.kind_type
        if result.depends_on_copy:
            copy = build_copy(body(), self.rule.kind, entries, owner=owner, context=self.context, pool=pool)
            secret_type = str(copy.manifest.get("type") or "")
            if copy.target.key != facts.key:
                barrier = self.target_policy.find_barrier(copy.target, source=self.rule.kind, secret_type=secret_type)
                return hit._replace(moved_to=copy.target, barrier=barrier, is_moved=True)
        if not result.may_be_barred:
            return hit
        barrier = self.target_policy.find_barrier(hit.target(facts.key), source=self.rule.kind, secret_type=secret_type)
        if barrier is None:
            return hit
        return result.barred.setdefault(barrier, hit._replace(barrier=barrier))

    def _prepare(self, entries: tuple[RuleEntry, ...]) -> _EntriesResult:
        """Compute and keep what depends on the matching entries alone."""
        rule, kind = self.rule, get_copy_kind(self.rule.kind, entries)
        overrides = [override for entry in entries for override in entry.mutations.overrides]
        may_have_other_key = any(may_move(override) for override in overrides)
        result = _EntriesResult(
            hit=Hit(
                self.rank,
                rule.name,
                self.owner,
                rule.deletion_policy,
                entries,
                kind,
                self.context,
                is_moved=(kind.group, kind.kind) != (rule.kind.group, rule.kind.kind),
                overrides=_digest(overrides),
                rule_uid=self.uid,
                named=self.own,
            ),
            depends_on_copy=may_have_other_key or self._may_change_secret_type(kind, has_overrides=bool(overrides)),
            may_be_barred=self.target_policy.may_bar(kind),
        )
        if len(self._results) >= _MAX_COMBINATIONS:
            self._results.clear()
        self._results[tuple(map(id, entries))] = result
        return result

    def _may_change_secret_type(self, kind: GVK, *, has_overrides: bool) -> bool:
        """Return whether the Secret type of the copy may differ from the source's, where the policy depends on it."""
        if not self.target_policy.is_synced or (kind.group, kind.kind) != ("", "Secret"):
            return False
        return has_overrides or (self.rule.kind.group, self.rule.kind.kind) != ("", "Secret")

    @property
    def rank(self) -> Rank:
        """The rule's place among rules that want the same source."""
        return (self.created_at or "~", self.owner, self.rule.name)


def _read_destinations(facts: ObjectFacts) -> Destinations | InvalidObject:
    """Return the clusters that an object names, or why they cannot be read; a registry Secret names none."""
    if facts.kind_type == meta.REGISTRY_SECRET_TYPE:
        return NOWHERE
    try:
        return read_destinations(facts.annotations)
    except InvalidObject as error:
        return error


def _digest(overrides: Iterable[Override]) -> str:
    """Return the digest of overrides; empty without any. A template belongs to the rule and has no object data."""
    parts = [(override.type, override.pointer, override.value, override.parse_value) for override in overrides]
    return hashlib.blake2b(orjson.dumps(parts), digest_size=6).hexdigest() if parts else ""


def activate(
    rule: SyncRule, *, created_at: str, owner: ClusterUID, target_policy: TargetPolicy = UNRESTRICTED, uid: str = ""
) -> ActiveRule:
    """Return the active rule of an accepted rule."""
    return ActiveRule(rule, created_at, owner, build_selections(rule), target_policy, uid=uid)


def group_by_kind(rules: Iterable[ActiveRule]) -> Mapping[GVK, tuple[ActiveRule, ...]]:
    """Group rules by the kind that they read; keep their order."""
    groups: dict[GVK, list[ActiveRule]] = {}
    for active in rules:
        groups.setdefault(active.rule.kind, []).append(active)
    return {kind: tuple(group) for kind, group in groups.items()}


def have_features(wanted: Iterable[FeatureMatch], features: Collection[Feature] | None) -> bool:
    """Return whether a peer with these features has those that a rule wants; None until they were listed."""
    return all(features is not None and match.matches(features) for match in wanted)


def list_target_kinds(
    rules: Iterable[ActiveRule], *, watched: Collection[GVK] = (), served: Collection[GVK] | None = None
) -> Mapping[GVK, frozenset[Selection]]:
    """List the kinds that rules write here, with the selections of each that must be watched here.

    Every version of a kind serves the same objects, so one version is watched. In this order of preference: a version
    that is `served` here (None: not known yet), the version that is `watched` already, that of the first rule in rank.

    A target is in its source's namespace unless an override may move it, so a rule's namespaces narrow the targets too.
    A wide selection does not replace a narrow one: where only the narrow one is allowed, the rules that need no more
    keep working.
    """
    versions: dict[tuple[str, str], dict[GVK, None]] = {}
    selections: dict[tuple[str, str], set[Selection]] = {}
    for active in sorted(rules, key=lambda active: active.rank):
        for kind, written in _list_written_kinds(active).items():
            versions.setdefault((kind.group, kind.kind), {})[kind] = None
            selections.setdefault((kind.group, kind.kind), set()).update(written)

    def choose(kinds: Iterable[GVK]) -> GVK:
        return min(kinds, key=lambda kind: (served is not None and kind not in served, kind not in watched))

    return {choose(kinds): frozenset(selections[group_kind]) for group_kind, kinds in versions.items()}


def _list_written_kinds(active: ActiveRule) -> Mapping[GVK, set[Selection]]:
    """List the kinds that one rule writes, each with the selections of its targets.

    Several entries may match one source and change its kind one after the other; the first combinations are enough.
    """
    kinds: dict[GVK, set[Selection]] = {}
    for entry in active.rule.entries:
        moves = any(may_move(override) for override in entry.mutations.overrides)
        written = {EVERYTHING} if moves else {Selection(namespace=source.namespace) for source in active.selections}
        for kind, before in [(active.rule.kind, set[Selection]()), *kinds.items()][:_MAX_COMBINATIONS]:
            kinds.setdefault(get_copy_kind(kind, (entry,)), set()).update(before, written)
    return kinds
