"""Everything that bears on one target, as plain data: what a decision is made of.

Law: a View is of one moment, and nobody changes it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.core.decision.ownership import Doubt, Marks, Voice
from registry_controller.core.rules.policy import Barrier


class SourceRef(NamedTuple):
    """One object at one owner."""

    owner: ClusterUID
    kind: GVK
    key: ObjectKey


class Rival(NamedTuple):
    """A younger rule by which a source becomes the same target; `barrier` is what keeps it from writing here."""

    rule: str
    barrier: Barrier | None


class Claim(NamedTuple):
    """A source that maps onto the target. `owner` is who it speaks for, `peer` where it was read.

    `revision` is the resourceVersion at the owner: at an intermediary the one in its provenance, 0 if unknown.
    `shown` is the revision that a copy here showed of it last, if that was a later one, else 0. `rule` names the
    winning rule, which `rule_rank` orders among others, its `rivals`; `barrier` is what keeps it from writing here.
    """

    peer: ClusterUID
    owner: ClusterUID
    voice: Voice
    kind: GVK
    key: ObjectKey
    uid: str
    created: str
    revision: int
    rule: str
    deleting: bool = False
    sync_disabled: bool | Doubt = False
    barrier: Barrier | None = None
    shown: int = 0
    rule_rank: tuple[str, str, str] = ("", "", "")
    rivals: tuple[Rival, ...] = ()
    has_left: bool = False
    """What an intermediary holds of a membership that is over, as a tombstone says (O6)."""

    @property
    def source(self) -> SourceRef:
        return SourceRef(self.owner, self.kind, self.key)

    def is_of(self, source: SourceRef | None) -> bool:
        """Say whether it is the claim of that source, in whatever version of its kind."""
        named = (self.owner, self.kind.group, self.kind.kind, self.key)
        return source is not None and named == (source.owner, source.kind.group, source.kind.kind, source.key)

    @property
    def rank(self) -> tuple[str, ClusterUID]:
        """Order rival owners (O8): older source first, then the lower cluster ID."""
        return (self.created or "~", self.owner)

    @property
    def order(self) -> tuple[object, ...]:
        """Order all claims: rival owners, an owner's sources, then the rules that want one source (W2)."""
        return (*self.rank, self.kind.group, self.kind.kind, self.key, self.rule_rank, self.kind.version)


class CurrentCopy(NamedTuple):
    """The target as it is here."""

    marks: Marks
    uid: str
    revision: int
    deleting: bool = False
    may_hold_natives: bool = False
    """A Namespace or CustomResourceDefinition in which native objects live, or may live (O1)."""
    natural: ClusterUID | None = None
    """Of a membership object: the cluster it stands for."""
    disputed: bool = False
    """Of a registry Secret: Clusters of several members name it here (O7)."""
    holds_natives: bool = False
    """It is known that native objects live in it."""


class Tracking(enum.Enum):
    """What we hear of the source that the copy here came from."""

    NO_RULE = "no active rule asks for it"
    NOT_COMPLETE = "its owner's list is not complete"
    OFFERED = "it is there"
    UNCLEAR = "it is there, and a rule could not be evaluated on it"
    ABSENT = "its owner's complete list does not have it, or it is being deleted"


class RuleState(enum.Enum):
    """What is known of the rule that a copy here was made by, and of whether it reads from the copy's owner."""

    READS = "it acts here, and reads from the owner"
    UNSELECTED = "it acts here, and the live owner has no features that it asks for"
    NOT_HERE = "it is for other clusters than this one"
    GONE = "it was deleted, here or proven at its owner"
    SILENT = "nothing that a deletion could rest on"


class ProofResult(enum.Enum):
    """What the owner said when asked for the source by name."""

    NOT_ASKED = "not asked"
    NOT_FOUND = "a Status that names the object says NotFound, or it has a deletionTimestamp"
    FOUND = "it is there"


class OwnerAnswer(NamedTuple):
    """An answer to a question by name. `revision` is the resourceVersion that was found.

    `wanted` says that a rule makes the very target of what was found: its stream is only late.
    """

    source: SourceRef
    answer: ProofResult
    revision: int = 0
    wanted: bool = False


class NamespaceState(enum.Enum):
    """The target's namespace here."""

    ACTIVE = "active"
    MISSING = "missing"
    TERMINATING = "terminating"


class TargetState(NamedTuple):
    """Everything that bears on one target, read from the caches at one moment.

    `alive` holds the members that are alive for us, `known` all members that we know. `tracking` speaks of the
    copy's own source (`copied_from`), and `offered_at` is the resourceVersion at which that was heard, 0 if it was not.
    `others_heard` says that all rules which read the kind of that source from its owner have heard everything that they
    ask for. `tombstone` is the revision at which the target's natural
    owner was seen to have deleted it. `departed` holds the members whose leaving is proven (O6); of a Cluster,
    `owner_leaves` says that its live member has no Cluster for itself any more, and `leaves_behind` that copies of
    its objects are to go first. `successors` are the IDs that proved to be what a Cluster of that name stands for
    now (P11). `rule` is the one that made the copy; of a copy without provenance, one that reads its owner.
    `rule_state` is that of the rule which made the copy, `deletes_unwanted` its policy, and `moved` says that this
    very rule makes something else, elsewhere, of the copy's source now. `barrier` is what keeps that rule from
    touching the copy that is here: as long as nobody else wants it, it stays as it is.
    """

    target: Target
    claims: tuple[Claim, ...]
    current: CurrentCopy | None
    local: ClusterUID
    known: frozenset[ClusterUID]
    alive: frozenset[ClusterUID]
    membership: bool = False
    local_synced: bool = True
    namespace: NamespaceState = NamespaceState.ACTIVE
    create_namespace: bool = False
    copied_from: SourceRef | None = None
    tracking: Tracking = Tracking.NO_RULE
    offered_at: int = 0
    rule: str = ""
    others_synced: bool = True
    rule_state: RuleState = RuleState.SILENT
    deletes_unwanted: bool = False
    moved: bool = False
    barrier: Barrier | None = None
    proofs: tuple[OwnerAnswer, ...] = ()
    """The answers of owners, at most one about each source."""
    saw_match: bool = False
    """This daemon brought the copy in step with its source under the rule as it is now, and was not told since that
    the source is still there."""
    tombstone: int = 0
    departed: frozenset[ClusterUID] = frozenset()
    owner_leaves: bool = False
    leaves_behind: bool = False
    successors: frozenset[ClusterUID] = frozenset()
    gone: frozenset[ClusterUID] = frozenset()
    """Of the departed: whose Clusters are to go from here, as a tombstone says, or because this cluster leaves."""
    has_left: bool = False
    """This cluster itself has left the group."""
    contested: frozenset[ClusterUID] = frozenset()
    """The members of whose ID there are clones (P1)."""

    def with_proof(self, answer: OwnerAnswer) -> TargetState:
        """Return the state with an owner's answer, which replaces an earlier answer about the same source."""
        others = tuple(held for held in self.proofs if held.source != answer.source)
        return self._replace(proofs=(*others, answer))

    def with_natives(self, *, found: bool) -> TargetState:
        """Return the state once it is known whether native objects live in the copy."""
        assert self.current is not None
        return self._replace(current=self.current._replace(may_hold_natives=found, holds_natives=found))
