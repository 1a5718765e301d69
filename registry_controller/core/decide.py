"""What to do about one target: the pure function that everything else serves.

Laws: the input is never changed and the same input gives the same Decision · a native object is never touched ·
no deletion without proof · no copy goes back to an older state of its owner · what an intermediary holds is no
source, membership apart · what nobody answered for is held, never deleted.

A Decision is Apply, Delete, Hold or Skip, each with its reason; status, Events, metrics and logs read that value.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.core.own import Marks, Voice


class Reason(enum.Enum):
    """Why a Decision was taken. The values appear in status, Events and metrics."""

    CREATE = "Create"
    UPDATE = "Update"
    ADOPT = "Adopt"
    TAKE_OVER = "TakeOver"
    HISTORY_RESTORED = "HistoryRestored"
    RELAYED = "RelayedByMember"

    SOURCE_DELETED = "SourceDeleted"

    IN_SYNC = "InSync"
    LOCAL_OBJECT_EXISTS = "LocalObjectExists"
    OUR_OWN = "OurOwnObject"
    NOT_WANTED = "NotWanted"
    NO_LONGER_WANTED = "NoLongerWanted"
    NO_LONGER_MATCHES = "NoLongerMatches"
    SYNC_DISABLED = "SyncDisabled"
    COPY_FROZEN = "CopyFrozen"
    UNKNOWN_OWNER = "UnknownOwner"
    HAND_CARRIED = "WaitsForItsOwner"
    OWNER_DECIDES = "OwnerDecides"
    NOT_NEWER = "NotNewer"
    DISPUTED = "SecretNamedTwice"
    NOT_NAMED = "SecretNotNamed"
    ADDRESS_CHANGED = "AddressChangeRefused"
    CONFLICT = "Conflict"

    OWNER_SILENT = "OwnerSilent"
    OWNER_NOT_HEARD = "OwnerNotHeard"
    NEEDS_PROOF = "NeedsProof"
    STALE_SOURCE = "StaleSource"
    LOCAL_NOT_HEARD = "LocalNotHeard"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    MAY_HOLD_NATIVE_OBJECTS = "MayHoldNativeObjects"
    BEING_DELETED = "BeingDeletedHere"


@dataclass(frozen=True, slots=True)
class SourceRef:
    """One object at one owner."""

    owner: ClusterUID
    kind: GVK
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Claim:
    """A source that maps onto the target. `owner` is who it speaks for, `peer` where it was read.

    `revision` is the resourceVersion at the owner: at an intermediary the one in its provenance, 0 if unknown.
    `rule` names the winning rule; `held_revision` is the resourceVersion at `peer`.
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
    sync_disabled: bool = False

    @property
    def source(self) -> SourceRef:
        return SourceRef(self.owner, self.kind, self.key)

    @property
    def rank(self) -> tuple[str, ClusterUID]:
        """Order rival owners (O8): older source first, then the lower cluster ID."""
        return (self.created or "~", self.owner)


@dataclass(frozen=True, slots=True)
class Current:
    """The target as it is here."""

    marks: Marks
    uid: str
    revision: int
    deleting: bool = False
    may_hold_natives: bool = False
    """A Namespace or CustomResourceDefinition in which native objects live, or may live (O1)."""
    natural: ClusterUID | None = None
    """Of a membership object: the cluster it stands for."""


class Tracking(enum.Enum):
    """What we hear of the source that the copy here came from."""

    NO_RULE = "no active rule asks for it"
    NOT_COMPLETE = "its owner's list is not complete"
    OFFERED = "it is there"
    ABSENT = "its owner's complete list does not have it, or it is being deleted"


class Answer(enum.Enum):
    """What the owner said when asked for the source by name."""

    NOT_ASKED = "not asked"
    NOT_FOUND = "a Status that names the object says NotFound, or it has a deletionTimestamp"
    FOUND = "it is there"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """An answer to a question by name. `revision` is the resourceVersion that was found."""

    source: SourceRef
    answer: Answer
    revision: int = 0


class NamespaceState(enum.Enum):
    """The target's namespace here."""

    ACTIVE = "active"
    MISSING = "missing"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class View:
    """Everything that bears on one target, read from the caches at one moment.

    `alive` holds the members that are alive for us, `known` all members that we know. `tracking` speaks of the
    copy's own source (`copied_from`). `tombstone` is the revision at which the target's natural owner was seen to
    have deleted it.
    """

    target: Target
    claims: tuple[Claim, ...]
    current: Current | None
    local: ClusterUID
    known: frozenset[ClusterUID]
    alive: frozenset[ClusterUID]
    membership: bool = False
    local_heard: bool = True
    namespace: NamespaceState = NamespaceState.ACTIVE
    create_namespace: bool = False
    copied_from: SourceRef | None = None
    tracking: Tracking = Tracking.NO_RULE
    inquiry: Inquiry | None = None
    tombstone: int = 0


@dataclass(frozen=True, slots=True)
class Apply:
    """Make the target what the claim's source and rule say."""

    claim: Claim
    reason: Reason


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the copy, if it still is the one that was judged."""

    uid: str
    revision: int
    reason: Reason
    owner: ClusterUID


@dataclass(frozen=True, slots=True)
class Hold:
    """Do nothing yet. `ask` names a source whose owner is to be asked by name before deciding again."""

    reason: Reason
    owner: ClusterUID | None = None
    ask: SourceRef | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Do nothing; nothing is waited for but a change."""

    reason: Reason
    owner: ClusterUID | None = None


Decision = Apply | Delete | Hold | Skip


def decide(view: View) -> Decision:
    """Decide what is to be done about the view's target."""
    if not view.local_heard:
        return Hold(Reason.LOCAL_NOT_HEARD)
    if view.current is not None and view.current.deleting:
        return Hold(Reason.BEING_DELETED, view.current.marks.owner)
    decision = _decide_membership(view) if view.membership else _decide_ordinary(view)
    if isinstance(decision, Apply) and view.current is None:
        return _with_namespace(view, decision)
    if isinstance(decision, Delete) and view.current is not None and view.current.may_hold_natives:
        return Hold(Reason.MAY_HOLD_NATIVE_OBJECTS, decision.owner)
    return decision


def _with_namespace(view: View, decision: Apply) -> Decision:
    if view.namespace is NamespaceState.TERMINATING:
        return Hold(Reason.NAMESPACE_TERMINATING, decision.claim.owner)
    if view.namespace is NamespaceState.MISSING and not view.create_namespace:
        return Hold(Reason.NAMESPACE_MISSING, decision.claim.owner)
    return decision


# Ordinary objects: only their owner is a source.


def _decide_ordinary(view: View) -> Decision:
    offers = sorted((c for c in view.claims if c.voice is Voice.OWNER and not c.deleting), key=lambda c: c.rank)
    current = view.current
    if current is None:
        return _decide_new(view, offers)
    marks = current.marks
    if marks.owner is None or marks.owner == view.local:
        return Skip(Reason.LOCAL_OBJECT_EXISTS if offers else Reason.NOT_WANTED, offers[0].owner if offers else None)
    if marks.frozen:
        return Skip(Reason.COPY_FROZEN, marks.owner)
    held = next((claim for claim in offers if claim.owner == marks.owner), None)
    if held is None:
        return _decide_without_holder(view, current, offers)
    best = _best(offers, held, keeps=marks.provenance is None)
    return _apply_over(view, current, best)


def _decide_new(view: View, offers: list[Claim]) -> Decision:
    wanted = next((claim for claim in offers if not claim.sync_disabled), None)
    if wanted is not None:
        return Apply(wanted, Reason.CREATE)
    if offers:
        return Skip(Reason.SYNC_DISABLED, offers[0].owner)
    ours = any(claim.voice is Voice.OURS for claim in view.claims)
    return Skip(Reason.OUR_OWN if ours else Reason.NOT_WANTED)


def _best(offers: list[Claim], held: Claim, *, keeps: bool) -> Claim:
    """Choose among rival owners. A copy by the Go original keeps the owner it has (O10)."""
    if keeps:
        return held
    return next(claim for claim in offers if claim is held or not claim.sync_disabled)


def _decide_without_holder(view: View, current: Current, offers: list[Claim]) -> Decision:
    """Decide about a copy whose owner does not (now) offer its source."""
    owner = current.marks.owner
    assert owner is not None
    rivals = [claim for claim in offers if not claim.sync_disabled]
    if owner not in view.known:
        return Apply(rivals[0], Reason.TAKE_OVER) if rivals else Skip(Reason.UNKNOWN_OWNER, owner)
    older = next((claim for claim in rivals if _outranks(claim, current.marks)), None)
    if older is not None:
        return Apply(older, Reason.TAKE_OVER)
    if view.tracking is Tracking.NO_RULE:
        return Skip(Reason.NO_LONGER_WANTED, owner)
    gone = _judge_absence(view, owner)
    if gone is not None:
        return gone
    if rivals:
        return Apply(rivals[0], Reason.TAKE_OVER)
    return Delete(current.uid, current.revision, Reason.SOURCE_DELETED, owner)


def _outranks(claim: Claim, marks: Marks) -> bool:
    if marks.provenance is None or marks.owner is None:
        return False
    return claim.rank < (marks.provenance.created or "~", marks.owner)


def _judge_absence(view: View, owner: ClusterUID) -> Decision | None:
    """Say what is to be done about an absent source, or None when its absence is proven (O5)."""
    source = view.copied_from
    if owner not in view.alive:
        return Hold(Reason.OWNER_SILENT, owner)
    if view.tracking is Tracking.NOT_COMPLETE or source is None:
        return Hold(Reason.OWNER_NOT_HEARD, owner)
    if view.tracking is Tracking.OFFERED:
        return Skip(Reason.NO_LONGER_MATCHES, owner)
    answer = _answer(view, source)
    if answer is None or answer.answer is Answer.NOT_ASKED:
        return Hold(Reason.NEEDS_PROOF, owner, ask=source)
    if answer.answer is Answer.FOUND:
        return Skip(Reason.NO_LONGER_MATCHES, owner)
    return None


def _answer(view: View, source: SourceRef) -> Inquiry | None:
    return view.inquiry if view.inquiry is not None and view.inquiry.source == source else None


def _apply_over(view: View, current: Current, claim: Claim) -> Decision:
    """Apply to a copy that is here, unless the claim comes from before what the copy shows (O3)."""
    marks = current.marks
    provenance = marks.provenance
    if claim.owner != marks.owner:
        return Apply(claim, Reason.TAKE_OVER)
    if provenance is None:
        return Apply(claim, Reason.ADOPT)
    if claim.revision >= provenance.revision:
        return Apply(claim, Reason.UPDATE)
    answer = _answer(view, claim.source)
    if answer is None or answer.answer is Answer.NOT_ASKED:
        return Hold(Reason.STALE_SOURCE, claim.owner, ask=claim.source)
    if answer.answer is Answer.FOUND and answer.revision == claim.revision:
        return Apply(claim, Reason.HISTORY_RESTORED)
    return Hold(Reason.STALE_SOURCE, claim.owner)


# Membership: Clusters and registry Secrets, of which their natural owner speaks.


def _decide_membership(view: View) -> Decision:
    claims = sorted((claim for claim in view.claims if not claim.deleting), key=lambda claim: claim.rank)
    current = view.current
    natural = current.natural if current is not None else None
    own = next((c for c in claims if c.voice is Voice.OWNER and natural in (None, c.owner)), None)
    if any(claim.voice is Voice.OURS for claim in claims) or (current is not None and current.natural == view.local):
        return Skip(Reason.OUR_OWN, view.local)
    if any(claim.voice is Voice.DISPUTED for claim in claims):
        return Skip(Reason.DISPUTED)
    if current is None:
        return _decide_new_member(view, claims, own)
    if current.marks.frozen:
        return Skip(Reason.COPY_FROZEN, current.marks.owner)
    if own is not None:
        if not current.marks.is_copy:
            return Apply(own, Reason.ADOPT)
        return _apply_over(view, current, own) if current.marks.owner == own.owner else Apply(own, Reason.ADOPT)
    if not current.marks.is_copy:
        return Skip(Reason.HAND_CARRIED, current.natural)
    return _decide_absent_member(view, current, claims)


def _decide_new_member(view: View, claims: list[Claim], own: Claim | None) -> Decision:
    if own is not None:
        return Skip(Reason.SYNC_DISABLED, own.owner) if own.sync_disabled else Apply(own, Reason.CREATE)
    relayed = _best_relayed(claims)
    if relayed is None:
        silent = any(claim.voice is Voice.SILENT for claim in claims)
        return Skip(Reason.NOT_NAMED if silent else Reason.NOT_WANTED)
    if relayed.owner in view.alive:
        return Hold(Reason.OWNER_DECIDES, relayed.owner)
    if view.tombstone and relayed.revision <= view.tombstone:
        return Skip(Reason.NOT_NEWER, relayed.owner)
    return Skip(Reason.SYNC_DISABLED, relayed.owner) if relayed.sync_disabled else Apply(relayed, Reason.RELAYED)


def _best_relayed(claims: list[Claim]) -> Claim | None:
    """Choose the newest record that an intermediary holds; the lower peer among equals."""
    relayed = [claim for claim in claims if claim.voice is Voice.INTERMEDIARY]
    return min(relayed, key=lambda claim: (-claim.revision, claim.peer), default=None)


def _decide_absent_member(view: View, current: Current, claims: list[Claim]) -> Decision:
    """Decide about a membership copy that its natural owner does not (now) offer."""
    owner = current.natural or current.marks.owner
    assert owner is not None
    if owner in view.alive:
        if view.tracking is Tracking.NO_RULE:
            return Skip(Reason.NO_LONGER_WANTED, owner)
        held = _judge_absence(view, owner)
        return held or Delete(current.uid, current.revision, Reason.SOURCE_DELETED, owner)
    relayed = _best_relayed([claim for claim in claims if claim.owner == owner])
    known = current.marks.provenance.revision if current.marks.provenance else 0
    if relayed is not None and relayed.revision > known:
        return Apply(relayed, Reason.RELAYED)
    return Hold(Reason.OWNER_SILENT, owner)
