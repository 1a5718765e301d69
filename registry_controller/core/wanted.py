"""Which rules act on which peer.

Law: a rule that is not accepted, or suspended, acts on nobody; nothing else is left out silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.mutate import target_of
from registry_controller.core.selections import selections

_ANY = ObjectKey("", "any")


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule that is accepted and not suspended. `born` and `owner` are those of the rule where it was written."""

    rule: SyncRule
    born: str
    owner: ClusterUID
    selections: tuple[Selection, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """Name what this rule makes of a source: while it is the same, nothing needs to be read again."""
        return (self.rule.name, self.rule.uid, self.rule.generation, self.born, self.owner, self.rule.entries)

    @property
    def rank(self) -> tuple[str, ClusterUID, str]:
        """Order rules that want the same source (W2): the older at its owner, the lower owner ID, the name."""
        return (self.born or "~", self.owner, self.rule.name)


def activate(rule: SyncRule, *, born: str, owner: ClusterUID) -> ActiveRule:
    """Prepare an accepted rule for acting."""
    return ActiveRule(rule, born, owner, selections(rule))


def rules_for(rules: Iterable[ActiveRule], features: Iterable[Feature] | None) -> Mapping[GVK, tuple[ActiveRule, ...]]:
    """Sort out which rules read from a peer that holds these features, by kind and in order of rank.

    None stands for features that are not heard yet: only rules that ask for none act.
    """
    held = None if features is None else tuple(features)
    wanted: dict[GVK, list[ActiveRule]] = {}
    for active in sorted(rules, key=lambda active: active.rank):
        if _reads_from(active.rule, held):
            wanted.setdefault(active.rule.kind, []).append(active)
    return {kind: tuple(found) for kind, found in wanted.items()}


def _reads_from(rule: SyncRule, features: tuple[Feature, ...] | None) -> bool:
    if not rule.features:
        return True
    return features is not None and all(asked.matches(features) for asked in rule.features)


def target_kinds(rules: Iterable[ActiveRule]) -> Mapping[GVK, frozenset[Selection]]:
    """List the kinds that rules write here, with the parts of each that must be watched here.

    A target lies in its source's namespace, so what narrows the source to namespaces narrows the target, too. A wide
    part does not replace a narrow one: where only the narrow one is allowed, the rules that need no more go on.
    """
    kinds: dict[GVK, set[Selection]] = {}
    for active in rules:
        for entry in active.rule.entries:
            _, kind = target_of(active.rule.kind, _ANY, (entry,))
            kinds.setdefault(kind, set()).update(Selection(namespace=asked.namespace) for asked in active.selections)
    return {kind: frozenset(places) for kind, places in kinds.items()}
