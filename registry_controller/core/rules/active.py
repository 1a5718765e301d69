"""Which rules act on which peer.

Law: a rule that is not accepted, or suspended, acts on nobody; nothing else is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.api.syncrule import RuleEntry, SyncRule
from registry_controller.core.mutation.mutate import NO_CONTEXT, TemplateContext, build_copy, get_copy_kind
from registry_controller.core.mutation.templates import may_move
from registry_controller.core.rules.list_options import build_selections
from registry_controller.core.rules.matching import ObjectFacts, find_matching_entries
from registry_controller.core.rules.policy import UNRESTRICTED, Barrier, TargetPolicy
from registry_controller.gotemplate import Pool

Rank = tuple[str, ClusterUID, str]
"""What orders rules that want the same source (W2): the older at its owner, the lower owner ID, the name."""


class Hit(NamedTuple):
    """A rule that matches an object: its matching entries, the kind of the copy, and where to if it is moved.

    `barrier` is what keeps it from writing that; None where nothing does. `rank` is the rule's.
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

    def target(self, key: ObjectKey) -> Target:
        """Say what the object of that key becomes here."""
        return self.moved_to or Target(self.kind.group, self.kind.kind, key.namespace, key.name)

    def is_moved(self, source: GVK) -> bool:
        """Say whether an object of that kind becomes one of another kind, or elsewhere."""
        return self.moved_to is not None or (self.kind.group, self.kind.kind) != (source.group, source.kind)


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule that is accepted and not suspended. `born` and `owner` are those of the rule where it was written.

    `fence` says what it may write here; `context` is what its templates see beside the object, NOWHERE until the rule
    reads a peer.
    """

    rule: SyncRule
    created_at: str
    owner: ClusterUID
    selections: tuple[Selection, ...]
    target_policy: TargetPolicy = UNRESTRICTED
    context: TemplateContext = NO_CONTEXT

    @property
    def identity(self) -> tuple[object, ...]:
        """Everything that decides what the rule makes of a source: while it is equal, nothing must be listed again."""
        rule = self.rule
        made = (rule.kind, rule.entries, rule.deletion_policy, rule.create_namespaces)
        return (rule.name, self.created_at, self.owner, made, self.target_policy, self.context)

    def with_context(self, context: TemplateContext) -> ActiveRule:
        """Let templates see a context; rules without any see none, and need no second look when it changes."""
        return replace(self, context=context) if self.rule.has_templates else self

    def evaluate(
        self, facts: ObjectFacts, body: Callable[[], Manifest], *, owner: ClusterUID, pool: Pool | None = None
    ) -> Hit | None:
        """Say what this rule makes of an object; None when it does not match. What it takes, it takes of the pool, too.

        Raises InvalidObject for what cannot be evaluated.
        """
        entries = find_matching_entries(self.rule, facts, body, pool=pool)
        if not entries:
            return None
        rule, kind = self.rule, get_copy_kind(self.rule.kind, entries)
        overrides = [override for entry in entries for override in entry.mutations.overrides]
        target, secret_type, moved_to = Target(kind.group, kind.kind, *facts.key), facts.kind_type, None
        if any(may_move(override) for override in overrides) or self._may_change_secret_type(
            kind, has_overrides=bool(overrides)
        ):
            copy = build_copy(body(), rule.kind, entries, owner=owner, context=self.context, pool=pool)
            target, secret_type = copy.target, str(copy.manifest.get("type") or "")
            moved_to = target if target.key != facts.key else None
        barrier = self.target_policy.find_barrier(target, source=rule.kind, secret_type=secret_type)
        return Hit(
            self.rank, rule.name, self.owner, rule.deletion_policy, entries, kind, self.context, moved_to, barrier
        )

    def _may_change_secret_type(self, kind: GVK, *, has_overrides: bool) -> bool:
        """Say whether a copy may be a Secret of another type than its source, where that decides what is allowed."""
        if not self.target_policy.is_synced or (kind.group, kind.kind) != ("", "Secret"):
            return False
        return has_overrides or (self.rule.kind.group, self.rule.kind.kind) != ("", "Secret")

    @property
    def rank(self) -> Rank:
        """Order rules that want the same source."""
        return (self.created_at or "~", self.owner, self.rule.name)


def activate(
    rule: SyncRule, *, created_at: str, owner: ClusterUID, target_policy: TargetPolicy = UNRESTRICTED
) -> ActiveRule:
    """Prepare an accepted rule for acting within a fence."""
    return ActiveRule(rule, created_at, owner, build_selections(rule), target_policy)


def group_by_kind(rules: Iterable[ActiveRule]) -> Mapping[GVK, tuple[ActiveRule, ...]]:
    """Sort rules by the kind that they read, and leave them in their order."""
    found: dict[GVK, list[ActiveRule]] = {}
    for active in rules:
        found.setdefault(active.rule.kind, []).append(active)
    return {kind: tuple(held) for kind, held in found.items()}


def reads_from(rule: SyncRule, features: Collection[Feature] | None) -> bool:
    """Say whether a rule reads from a peer that holds these features; None for one whose features are not heard yet."""
    return all(features is not None and asked.matches(features) for asked in rule.features)


def list_target_kinds(
    rules: Iterable[ActiveRule], *, watched: Collection[GVK] = (), served: Collection[GVK] | None = None
) -> Mapping[GVK, frozenset[Selection]]:
    """List the kinds that rules write here, with the parts of each that must be watched here.

    An object is served in every version of its kind, so one is enough to hear it: of those that rules write one that
    is `served` here (None: nobody knows yet), the one that is `watched` already, that of the first rule in rank.

    A target lies in its source's namespace, so what narrows the source to namespaces narrows the target, too, unless
    an override may move it. A wide part does not replace a narrow one: where only the narrow one is allowed, the rules
    that need no more go on.
    """
    versions: dict[tuple[str, str], dict[GVK, None]] = {}
    parts: dict[tuple[str, str], set[Selection]] = {}
    for active in sorted(rules, key=lambda active: active.rank):
        for kind, places in _list_written_kinds(active).items():
            versions.setdefault((kind.group, kind.kind), {})[kind] = None
            parts.setdefault((kind.group, kind.kind), set()).update(places)

    def choose(kinds: Iterable[GVK]) -> GVK:
        return min(kinds, key=lambda kind: (served is not None and kind not in served, kind not in watched))

    return {choose(kinds): frozenset(parts[what]) for what, kinds in versions.items()}


def _list_written_kinds(active: ActiveRule) -> Mapping[GVK, set[Selection]]:
    """List what one rule writes, and where: of one source several entries may match, and change it one after the other.

    Of combinations beyond any use only those are seen that come first.
    """
    kinds: dict[GVK, set[Selection]] = {}
    for entry in active.rule.entries:
        moves = any(may_move(override) for override in entry.mutations.overrides)
        places = {EVERYTHING} if moves else {Selection(namespace=asked.namespace) for asked in active.selections}
        for kind, before in [(active.rule.kind, set[Selection]()), *kinds.items()][:_MAX_COMBINATIONS]:
            kinds.setdefault(get_copy_kind(kind, (entry,)), set()).update(before, places)
    return kinds


_MAX_COMBINATIONS: Final = 32
