"""Decides the state of the rule that made a copy: whether it acts, reads from the copy's owner, or was deleted (W3).

What made a copy is a rule, the cluster in which that rule was created, its UID there, and the kind that it reads. A
rule of the same name that differs in one of these is another rule.

Laws: an unknown fact proves nothing · a rule that is missing at its owner was deleted only where something shows that:
the event of the deletion, the owner's record, or the definition of rules in which the rule was, if it is still there ·
another rule of that name decides about each copy as the copy's own rule would, and the policy in the copy counts; if
another cluster created it, only once something shows that the copy's own rule was deleted.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from registry_controller.api.meta import ClusterUID, GroupKind
from registry_controller.core.decision.state import RuleState


class RulePresence(enum.Enum):
    """Whether a rule is at its owner, the cluster in which it was created."""

    THERE = "it is there, and is copied"
    MISSING = "its live owner does not have it"
    UNKNOWN = "its owner is silent, has not listed its rules, or the rule may be created again in a moment"


class Maker(NamedTuple):
    """A rule that makes copies: the cluster in which it was created, its UID there, and the kind that it reads.

    A provenance of an earlier version may lack `owner` or `uid`: an empty one is unknown, and differs from none.
    """

    owner: ClusterUID
    uid: str
    reads: GroupKind

    def is_of_another_cluster(self, owner: ClusterUID) -> bool:
        """Return whether this rule is known to be of another cluster than `owner`."""
        return bool(self.owner) and bool(owner) and self.owner != owner

    def is_same_rule(self, other: Maker) -> bool:
        """Return whether two rules of one name are one rule, which may read any kind."""
        is_uid_same = not self.uid or not other.uid or self.uid == other.uid
        return is_uid_same and not self.is_of_another_cluster(other.owner)

    def is_same(self, other: Maker) -> bool:
        """Return whether the copies of both, under one name, have one maker."""
        return self.is_same_rule(other) and self.reads == other.reads


class RuleFacts(NamedTuple):
    """The facts about the rule that made a copy, or has its name, towards the copy's owner; None is an unknown fact.

    `is_here` means that a rule of that name is in this cluster, `is_foreign` that it was created in another cluster
    than the rule that made the copy. `presence` and `was_deleted` count for such a rule, and where no rule is here:
    whether the owner of the copy's own rule has that, and whether anything shows that it was deleted there. `acts` is
    false for a rule that is suspended, is not accepted, or may not act here; `is_unclear` is true for one whose marks
    only a later version of the daemon can read (A11). `reads_kind` is false for one that reads another kind than that
    of the copy's source. `selects_us` is the answer of its `targetClusters`, `selects_owner` that of its
    `clusterFeatureMatch`, both stabilized.
    """

    is_here: bool
    is_foreign: bool = False
    presence: RulePresence = RulePresence.UNKNOWN
    was_deleted: bool = False
    acts: bool = False
    is_unclear: bool = False
    reads_kind: bool = True
    selects_us: bool | None = None
    selects_owner: bool | None = None


def evaluate_rule(facts: RuleFacts) -> RuleState:
    """Return the state of a rule."""
    if not facts.is_here or facts.is_foreign:
        own = evaluate_missing(facts.presence, was_deleted=facts.was_deleted)
        if not facts.is_here or own is not RuleState.GONE:
            return own
    if not facts.acts or facts.selects_us is None:
        return RuleState.SILENT
    if not facts.selects_us:
        return RuleState.NOT_HERE
    if not facts.reads_kind:
        return RuleState.OTHER_KIND
    if facts.selects_owner is None:
        return RuleState.SILENT
    return RuleState.READS if facts.selects_owner else RuleState.UNSELECTED


def is_unchosen(facts: RuleFacts) -> bool:
    """Return whether it is not known whether a rule that is here makes copies here of the owner's objects."""
    if facts.is_here and facts.is_unclear:
        return True
    if not (facts.is_here and facts.acts and facts.reads_kind):
        return False
    return facts.selects_us is None or (facts.selects_us and facts.selects_owner is None)


def evaluate_missing(presence: RulePresence, *, was_deleted: bool) -> RuleState:
    """Return the state of a rule that is not here."""
    if presence is not RulePresence.MISSING:
        return RuleState.SILENT
    return RuleState.GONE if was_deleted else RuleState.MISSING
