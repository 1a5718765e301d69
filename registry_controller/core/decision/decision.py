"""The decision about one target and its reason. Status, Events, metrics and logs read this value."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from registry_controller.api.meta import GVK, ClusterUID, spell_allowance
from registry_controller.core.decision.state import Claim, OwnerAnswer


class Reason(enum.Enum):
    """The reason of a Decision. The values appear in status, Events and metrics."""

    CREATE = "Create"
    UPDATE = "Update"
    ADOPT = "Adopt"
    TAKE_OVER = "TakeOver"
    HISTORY_RESTORED = "HistoryRestored"
    RELAYED = "RelayedByMember"
    REBUILT = "RebuiltCluster"

    SOURCE_DELETED = "SourceDeleted"
    MOVED = "Moved"
    OWNER_LEFT = "OwnerLeft"

    IN_SYNC = "InSync"
    LOCAL_OBJECT_EXISTS = "LocalObjectExists"
    OUR_OWN = "OurOwnObject"
    NOT_WANTED = "NotWanted"
    NO_LONGER_WANTED = "NoLongerWanted"
    NO_LONGER_MATCHES = "NoLongerMatches"
    RULE_GONE = "RuleGone"
    NOT_SELECTED = "OwnerNotSelected"
    NOT_FOR_THIS_CLUSTER = "NotForThisCluster"
    OTHER_KIND = "RuleReadsAnotherKind"
    SYNC_DISABLED = "SyncDisabled"
    COPY_FROZEN = "CopyFrozen"
    DELETED_HERE = "DeletedHere"
    UNKNOWN_OWNER = "UnknownOwner"
    HAND_CARRIED = "WaitsForItsOwner"
    OWNER_DECIDES = "OwnerDecides"
    NOT_NEWER = "NotNewer"
    DISPUTED = "SecretNamedTwice"
    NOT_NAMED = "SecretNotNamed"
    ADDRESS_CHANGED = "AddressChangeRefused"
    NOT_PROVEN = "CredentialsNotProven"
    TOO_MANY = "TooManyClusters"
    CONFLICT = "Conflict"
    RESERVED = "ReservedForThisCluster"
    NOT_ALLOWED = "NotAllowedHere"
    CLOSED = "ClosedHere"

    OWNER_SILENT = "OwnerSilent"
    OWNER_CLONED = "OwnerCloned"
    OWNER_NOT_HEARD = "OwnerNotHeard"
    RULE_MISSING = "RuleMissing"
    LATER_FORMAT = "LaterFormat"
    NEEDS_PROOF = "NeedsProof"
    NOT_EVALUATED = "CannotBeEvaluated"
    TARGETS_UNREADABLE = "TargetsUnreadable"
    STALE_SOURCE = "StaleSource"
    LOCAL_NOT_HEARD = "LocalNotHeard"
    RULE_NOT_HEARD = "RuleNotHeard"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    CONTENT_REMAINS = "ContentRemains"
    BEING_DELETED = "BeingDeletedHere"
    NEW_COPY_MISSING = "NewCopyMissing"
    MAY_MATCH_AGAIN = "MayMatchAgain"
    OWNER_LEAVES = "OwnerLeaves"
    MISSING_AT_OWNER = "MissingAtOwner"
    DELETION_JUDGED = "DeletionBeingJudged"
    DELETION_HALTED = "DeletionHalted"


@dataclass(frozen=True, slots=True)
class Apply:
    """Write the target as the claim's source and rule require."""

    claim: Claim
    reason: Reason


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the copy, if it still has this uid and resourceVersion."""

    uid: str
    revision: int
    reason: Reason
    owner: ClusterUID
    is_order: bool = False
    """An order to delete all copies of this kind, so that their number is not a mistake."""
    is_anew: bool = False
    """A list shows that the source is gone, after its definition was installed again or its owner's history changed."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The object that halts deletions (W4): a rule for its own copies, or the Cluster of an owner for all of them.

    `kind` is the kind of that object, and `since` the moment that lifts the halt; empty before the halt is stored.
    """

    kind: GVK
    name: str
    since: str

    @property
    def command(self) -> str:
        """The command that lets the halted copies be deleted."""
        return spell_allowance(self.kind, self.name, since=self.since)


@dataclass(frozen=True, slots=True)
class Hold:
    """Do nothing yet: an event, or time, brings the next decision. `halt` is what halts a deletion."""

    reason: Reason
    owner: ClusterUID | None = None
    halt: Halt | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Do nothing until something changes."""

    reason: Reason
    owner: ClusterUID | None = None


@dataclass(frozen=True, slots=True)
class NeedsProof:
    """Do nothing before a question is answered.

    `expects` is the owner's answer that confirms the caches; None where the question is what lives in the copy here.
    `if_proven` is the decision on that answer. `is_presumed` marks a deletion that counts before the owner was asked,
    because the source matched before, or because any answer of the owner would lead to a deletion.
    """

    reason: Reason
    owner: ClusterUID
    expects: OwnerAnswer | None
    if_proven: Decision
    is_presumed: bool = False

    @property
    def if_unanswered(self) -> Hold:
        """Return the decision while there is no answer."""
        return Hold(self.reason, self.owner)


Decision = Apply | Delete | Hold | Skip | NeedsProof


def deletion_in(decision: Decision) -> Delete | None:
    """Return the deletion that a decision is, or becomes once it is proven; None for any other decision."""
    while isinstance(decision, NeedsProof):
        decision = decision.if_proven
    return decision if isinstance(decision, Delete) else None


def owner_of(decision: Decision) -> ClusterUID | None:
    """Return the owner that a decision is about."""
    return decision.claim.owner if isinstance(decision, Apply) else decision.owner
