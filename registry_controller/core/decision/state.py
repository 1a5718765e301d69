"""The state of one target as plain data: the input of a decision, and the rank of rival claims (O8).

Law: a state is of one moment, and is never changed.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from registry_controller.api.meta import GVK, ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.core.decision.marks import Doubt, Marks, Voice
from registry_controller.core.rules.policy import Barrier

NAMESPACE: Final = GroupKind("", "Namespace")
CUSTOM_RESOURCE_DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


class SourceRef(NamedTuple):
    """One object at one owner."""

    owner: ClusterUID
    kind: GVK
    key: ObjectKey


class Rival(NamedTuple):
    """A younger rule that makes the same target of a source; `barrier` is set where it may not write here."""

    rule: str
    barrier: Barrier | None


SourceRank = tuple[str, bool, ClusterUID]
"""The creation time of a source, whether a daemon wrote it, and its owner; the lowest one wins."""


class Claim(NamedTuple):
    """A source that maps onto the target. `owner` is the cluster of the source, `peer` the cluster where it was read.

    `revision` is the resourceVersion at the owner; a relay's is in its provenance, 0 if unknown. `shown` is the later
    revision that a copy here had last, 0 without one. `rule` is the name of the winning rule, `rule_rank` its order
    among its `rivals`; `barrier` is set where it may not write here.
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
    """A relay's object of a membership that is over, by a tombstone (O6)."""
    made_by_daemon: bool = False
    """A daemon wrote the source: it was a copy before its marks were removed (O8)."""

    @property
    def source(self) -> SourceRef:
        return SourceRef(self.owner, self.kind, self.key)

    def is_of(self, source: SourceRef | None) -> bool:
        """Report whether this is the claim of a source, in any version of its kind."""
        named = (self.owner, self.kind.group, self.kind.kind, self.key)
        return source is not None and named == (source.owner, source.kind.group, source.kind.kind, source.key)

    @property
    def rank(self) -> SourceRank:
        """Order rival owners (O8): older source first, then one that no daemon wrote, then the lower cluster ID."""
        return (self.created or "~", self.made_by_daemon, self.owner)

    @property
    def order(self) -> tuple[object, ...]:
        """Order all claims: rival owners, an owner's sources, then the rules that want one source (W2)."""
        return (*self.rank, self.kind.group, self.kind.kind, self.key, self.rule_rank, self.kind.version)


class Content(NamedTuple):
    """The content of a container: an object that was found, or why there may be one (no `target`).

    `text` is for a person.
    """

    text: str
    target: Target | None = None


class CurrentCopy(NamedTuple):
    """The target as it is here."""

    marks: Marks
    uid: str
    revision: int
    deleting: bool = False
    may_hold_content: bool = False
    """A Namespace or CustomResourceDefinition in which objects may live, which would be deleted with it (O1)."""
    natural: ClusterUID | None = None
    """The cluster that a membership object represents."""
    disputed: bool = False
    """Clusters of several members name this registry Secret here (O7)."""
    content: Content | None = None
    """The content of a container; None for none, and before the look."""
    owner_had_it: bool = False
    """This daemon has seen that the owner has, or had, the object that the marks do not name."""


def is_container(target: Target) -> bool:
    """Return whether deleting the target deletes other objects with it."""
    return GroupKind(target.group, target.kind) in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)


class Tracking(enum.Enum):
    """The presence of the copy's own source in the caches."""

    NO_RULE = "no active rule asks for it"
    NOT_COMPLETE = "its owner's list is not complete"
    OFFERED = "it is there"
    UNCLEAR = "it is there, and a rule could not be evaluated on it"
    UNREADABLE = "it is there, and the annotations that name the clusters to copy it cannot be read"
    ABSENT = "its owner's complete list does not have it, or it is being deleted"


class RuleState(enum.Enum):
    """The state of the rule that made the copy, or of the rule that has its name now, towards the copy's owner."""

    READS = "it acts here, and reads from the owner"
    MISSING = "its owner does not have it, and nothing shows that it was deleted there"
    OTHER_KIND = "it acts here, and reads another kind than that of the copy's source"
    UNSELECTED = "it acts here, and the live owner has no features that it asks for"
    NOT_HERE = "it is for other clusters than this one"
    GONE = "it was deleted, here or proven at its owner"
    SILENT = "nothing that a deletion could rest on"


class ProofResult(enum.Enum):
    """The owner's answer to a read of the source by name."""

    NOT_ASKED = "not asked"
    NOT_FOUND = "a NotFound Status that names the object, or an object with a deletionTimestamp"
    FOUND = "it is there"


class OwnerAnswer(NamedTuple):
    """An owner's answer about a source. `revision` is the resourceVersion that was found.

    `wanted` means that a rule makes this very target of the found object, or that the rule which made the copy gives
    that object another place now: its watch is only late. `is_anew` means that the definition of the kind is being
    deleted there, or is missing.
    """

    source: SourceRef
    answer: ProofResult
    revision: int = 0
    wanted: bool = False
    is_anew: bool = False


class NamespaceState(enum.Enum):
    """The target's namespace here."""

    ACTIVE = "active"
    MISSING = "missing"
    TERMINATING = "terminating"


class Move(enum.Enum):
    """Whether the rule that made a copy gives the copy's source another place now."""

    NONE = "its rule gives the source no other place"
    WAITS = "its rule gives the source another place, and no copy of the source is there"
    DONE = "a copy of the source is at the place that its rule gives it now"


class LostMatch(NamedTuple):
    """A source that its rule did not ask for, for less than the stabilization window: it may ask for it again.

    The window is over at `due_s` of the loop's time, which is the moment `due_at` (RFC 3339).
    """

    due_s: float
    due_at: str


class Origin(NamedTuple):
    """The facts in the caches about a copy's source and rule, while no claim stands for the copy.

    The defaults show nothing, and no deletion can rest on them. `rule` made the copy; for a copy without provenance it
    is a rule that reads its owner. `barrier` keeps that rule from changing the copy, which stays as it is unless
    another rule claims it. `offered_at` is the resourceVersion of the source in the caches, 0 if it is not there.
    `others_synced` means that every rule which reads the source's kind from its owner has its lists complete.
    `rule_state` is the state of the rule that made the copy, `deletes_unwanted` its policy; where another rule has its
    name here, the state of the latter, and the policy in the copy. For a copy of a rule, `source_rule` is the state of
    that rule at its owner; None for another copy. `move` is whether the rule that made the copy gives its source
    another place now, or whether another rule of its name waits to; `moved_to` is that place. `saw_match` means that
    this daemon has seen the rule, as it is now, match the source, and no answer that the source exists; `is_edited`
    that it brought the copy in step by other matches than the rule has now. `lost_match` is set while the rule is
    not obeyed yet in not asking for the source. `is_anew` means that the source, or the feature that the rule asks for,
    is absent since its definition was installed again, or since its owner has another history. `is_rule_pending` means
    that the rule is here and may want the copy: it is not known whether it is for this cluster and reads from the
    owner, or it has not evaluated the source yet. This is read, too, where the claim of another rule stands.
    """

    rule: str = ""
    barrier: Barrier | None = None
    tracking: Tracking = Tracking.NO_RULE
    offered_at: int = 0
    others_synced: bool = True
    rule_state: RuleState = RuleState.SILENT
    deletes_unwanted: bool = False
    source_rule: RuleState | None = None
    move: Move = Move.NONE
    moved_to: Target | None = None
    saw_match: bool = False
    is_edited: bool = False
    lost_match: LostMatch | None = None
    is_anew: bool = False
    is_rule_pending: bool = False

    @property
    def lacks_match(self) -> bool:
        """True if the copy's rule reads from the owner and does not match the source, which may exist.

        A copy that moves has a match.
        """
        is_unmatched = self.tracking in (Tracking.ABSENT, Tracking.OFFERED) and self.move is Move.NONE
        return is_unmatched and self.rule_state is RuleState.READS


class MembershipState(NamedTuple):
    """The facts about the member of a Cluster or a registry Secret.

    `tombstone` is the revision up to which the target's natural owner deleted it. `gone` holds the departed members
    whose Clusters are deleted here, by a tombstone or because this cluster leaves. For a Cluster, `owner_has_another`
    means that its live member is known to have a Cluster of itself now, of another name, `owner_leaves` that it has had
    none for so long that it has left, and `leaves_behind` that copies of its objects must be deleted first.
    `has_cluster_here` means that any Cluster of the object's owner is here. `needs_way` means that its member is not
    read yet with the credentials that its Cluster here names, so that an earlier Secret is kept (P7). `successors` are
    the proven new IDs of the cluster of that name (P11).
    """

    tombstone: int = 0
    gone: frozenset[ClusterUID] = frozenset()
    owner_has_another: bool = False
    owner_leaves: bool = False
    leaves_behind: bool = False
    has_cluster_here: bool = True
    needs_way: bool = False
    successors: frozenset[ClusterUID] = frozenset()


class TargetState(NamedTuple):
    """The state of one target, read from the caches at one moment.

    `alive` holds the members that answer, `known` all members, `departed` those with a proven departure (O6), and
    `ordered` those whose departure is an order: their own tombstone, or `leave` here.
    `contested` those whose ID has clones (P1). `namespace` is read while nothing is here, and `create_namespace` while
    the namespace is missing. `copied_from` is the source of the copy that is here; `origin` is read while no claim
    stands for the copy. `membership` is None for an ordinary object. `has_left` means that this cluster itself has left
    the group. `spent` is the uid of the source whose copy another client deleted here, for a kind that acts when it
    is made.
    `is_rule_behind` means that a daemon of this cluster wrote the copy by a later state of its rule than is known.
    `proofs` are the answers of owners, at most one about each source.
    """

    target: Target
    claims: tuple[Claim, ...]
    current: CurrentCopy | None
    local: ClusterUID
    known: frozenset[ClusterUID]
    alive: frozenset[ClusterUID]
    departed: frozenset[ClusterUID] = frozenset()
    ordered: frozenset[ClusterUID] = frozenset()
    contested: frozenset[ClusterUID] = frozenset()
    has_left: bool = False
    local_synced: bool = True
    is_rule_behind: bool = False
    namespace: NamespaceState = NamespaceState.ACTIVE
    create_namespace: bool = False
    copied_from: SourceRef | None = None
    origin: Origin = Origin()
    membership: MembershipState | None = None
    spent: str = ""
    proofs: tuple[OwnerAnswer, ...] = ()

    @property
    def may_lose_match(self) -> bool:
        """True if a copy goes, or another source takes its place, once its rule is known not to match its source."""
        return self.origin.lacks_match and (self.origin.deletes_unwanted or bool(self.claims))

    @property
    def is_unchosen(self) -> bool:
        """True if the copy's rule is not for this cluster, or does not read from the owner, by their features."""
        return self.origin.rule_state in (RuleState.UNSELECTED, RuleState.NOT_HERE)

    def with_proof(self, answer: OwnerAnswer) -> TargetState:
        """Return the state with an owner's answer, which replaces an earlier answer about the same source."""
        others = tuple(held for held in self.proofs if held.source != answer.source)
        return self._replace(proofs=(*others, answer))

    def at(self, revision: int) -> TargetState:
        """Return the state with another resourceVersion of its copy; this state where there is no copy."""
        return self if self.current is None else self._replace(current=self.current._replace(revision=revision))

    def with_content(self, found: Content | None) -> TargetState:
        """Return the state with the answer about the content of the copy; None for none."""
        assert self.current is not None
        return self._replace(current=self.current._replace(may_hold_content=found is not None, content=found))
