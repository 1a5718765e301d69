"""What to do about one target: the pure function that everything else serves.

Laws: the input is never changed and the same input gives the same Decision · a native object is never touched ·
no deletion without proof · no copy goes back to an older state of its owner · what an intermediary holds is no
source, membership apart · what nobody answered for is held, never deleted · nothing of a member of whose ID there are
clones is written or deleted · what a rule may not write here it may not delete either.

A Decision is Apply, Delete, Hold, Skip or NeedsProof, each with its reason; status, Events, metrics and logs read
that value.
"""

from __future__ import annotations

from dataclasses import replace

from registry_controller.core.decision.decision import (
    Apply,
    Decision,
    Delete,
    Hold,
    NeedsProof,
    Reason,
    Skip,
    deletion_in,
)
from registry_controller.core.decision.membership import decide_membership
from registry_controller.core.decision.ownership import Marks, Voice
from registry_controller.core.decision.proof import apply_over, judge_absence, unless_older
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    NamespaceState,
    OwnerAnswer,
    ProofResult,
    RuleState,
    TargetState,
    Tracking,
)
from registry_controller.core.rules.policy import Barrier


def decide(view: TargetState) -> Decision:
    """Decide what is to be done about the state's target."""
    decision = _decide(view)
    if not isinstance(decision, NeedsProof) or decision.expects is None:
        return decision
    if_proven = decide(view.with_proof(decision.expects))
    is_presumed = deletion_in(if_proven) is not None and _is_presumed(view, decision.expects)
    return replace(decision, if_proven=if_proven, is_presumed=is_presumed)


def _is_presumed(view: TargetState, expects: OwnerAnswer) -> bool:
    """Report whether a deletion is to be expected before its owner has confirmed it."""
    if expects.answer is not ProofResult.NOT_FOUND or (view.current is not None and view.current.may_hold_natives):
        return False
    if view.saw_match:
        return True
    return deletion_in(_decide(view.with_proof(expects._replace(answer=ProofResult.FOUND)))) is not None


def _decide(view: TargetState) -> Decision:
    if not view.local_synced:
        return Hold(Reason.LOCAL_NOT_HEARD)
    if view.current is not None and view.current.deleting:
        return Hold(Reason.BEING_DELETED, view.current.marks.owner)
    if view.contested and not view.has_left:
        cloned = _cloned(view)
        if cloned is not None:
            return cloned
        view = view._replace(claims=tuple(claim for claim in view.claims if claim.owner not in view.contested))
    allowed = tuple(claim for claim in view.claims if claim.barrier is None)
    if len(allowed) < len(view.claims) or view.barrier is not None:
        barred = _barred(view, allowed)
        if barred is not None:
            return barred
        view = view._replace(claims=allowed)
    decision = decide_membership(view) if view.membership else unless_older(view, _decide_ordinary(view))
    if isinstance(decision, Delete) and view.barrier is not None:
        return Skip(BARRED[view.barrier], decision.owner)
    if isinstance(decision, Apply) and view.current is None:
        return _with_namespace(view, decision)
    if isinstance(decision, Delete) and view.current is not None and view.current.may_hold_natives:
        held = Hold(Reason.MAY_HOLD_NATIVE_OBJECTS, decision.owner)
        return held if view.current.holds_natives else NeedsProof(held.reason, decision.owner, None, decision)
    return decision


def _with_namespace(view: TargetState, decision: Apply) -> Decision:
    if view.namespace is NamespaceState.TERMINATING:
        return Hold(Reason.NAMESPACE_TERMINATING, decision.claim.owner)
    if view.namespace is NamespaceState.MISSING and not view.create_namespace:
        return Hold(Reason.NAMESPACE_MISSING, decision.claim.owner)
    return decision


# Of whom there are clones nothing is believed, and nothing touched.


def _cloned(view: TargetState) -> Hold | None:
    """Leave alone what belongs to a member of whose ID there are clones; None for what is somebody else's."""
    current = view.current
    if current is None or not current.marks.is_copy or current.marks.frozen:
        return None
    owner = current.natural or current.marks.owner
    return Hold(Reason.OWNER_CLONED, owner) if owner in view.contested else None


# What the administrator here does not allow.


def _barred(view: TargetState, allowed: tuple[Claim, ...]) -> Decision | None:
    """Leave alone what only barred rules want, or made; None where others have a say in it."""
    marks = view.current.marks if view.current is not None else None
    is_copy = marks is not None and marks.owner not in (None, view.local)
    if view.barrier is not None and is_copy and marks is not None and not any(_counts(c, view) for c in allowed):
        return Skip(BARRED[view.barrier], marks.owner)
    if allowed or is_copy or (view.membership and marks is not None):
        return None
    first = min(view.claims, key=lambda c: (c.rank, c.peer, c.kind), default=None)
    return Skip(BARRED[first.barrier], first.owner) if first is not None and first.barrier is not None else None


BARRED = {
    Barrier.RESERVED: Reason.RESERVED,
    Barrier.NOT_ALLOWED: Reason.NOT_ALLOWED,
    Barrier.CLOSED: Reason.CLOSED,
}
"""How a Decision calls what is in a rule's way."""


# Only its owner is a source of an ordinary object.


def _decide_ordinary(view: TargetState) -> Decision:
    counting = (claim for claim in view.claims if _counts(claim, view))
    offers = sorted(counting, key=lambda c: c.order)
    current = view.current
    if current is None:
        return _decide_new(view, offers)
    marks = current.marks
    if marks.owner is None or marks.owner == view.local:
        return Skip(Reason.LOCAL_OBJECT_EXISTS if offers else Reason.NOT_WANTED, offers[0].owner if offers else None)
    if marks.frozen:
        return Skip(Reason.COPY_FROZEN, marks.owner)
    held = _holder(view, marks, offers)
    if held is None:
        return _decide_without_holder(view, current, offers)
    best = _best(offers, held, keeps=marks.by_go)
    return apply_over(view, current, best)


def _counts(claim: Claim, view: TargetState) -> bool:
    return claim.voice is Voice.OWNER and not claim.deleting and claim.owner not in view.departed


def _decide_new(view: TargetState, offers: list[Claim]) -> Decision:
    wanted = next((claim for claim in offers if not claim.sync_disabled), None)
    if wanted is not None:
        return Apply(wanted, Reason.CREATE)
    if offers:
        return Skip(Reason.SYNC_DISABLED, offers[0].owner)
    ours = any(claim.voice is Voice.OURS for claim in view.claims)
    return Skip(Reason.OUR_OWN if ours else Reason.NOT_WANTED)


def _holder(view: TargetState, marks: Marks, offers: list[Claim]) -> Claim | None:
    """Find the claim that a copy stands for: that of its own source, else the next of its owner's.

    The next must be one that makes new copies (W5), unless nothing tells for sure which source was its own.
    """
    owned = [claim for claim in offers if claim.owner == marks.owner]
    own = next((claim for claim in owned if claim.is_of(view.copied_from)), None)
    if own is not None:
        return own
    return next((claim for claim in owned if not claim.sync_disabled or marks.provenance is None), None)


def _best(offers: list[Claim], held: Claim, *, keeps: bool) -> Claim:
    """Choose among rival owners. A copy by the Go original keeps the owner it has (O10)."""
    if keeps:
        return held
    return next(claim for claim in offers if claim is held or not claim.sync_disabled)


def _decide_without_holder(view: TargetState, current: CurrentCopy, offers: list[Claim]) -> Decision:
    """Decide about a copy whose owner does not (now) offer its source."""
    owner = current.marks.owner
    assert owner is not None
    rivals = [claim for claim in offers if not claim.sync_disabled]
    if owner not in view.known and owner not in view.departed:
        return Apply(rivals[0], Reason.TAKE_OVER) if rivals else Skip(Reason.UNKNOWN_OWNER, owner)
    older = next((claim for claim in rivals if _outranks(claim, current.marks)), None)
    if older is not None:
        return Apply(older, Reason.TAKE_OVER)
    reason = Reason.OWNER_LEFT if owner in view.departed else _UNWANTED.get(view.rule_state)
    if reason is None:
        if view.tracking is Tracking.NO_RULE:
            return Skip(Reason.NO_LONGER_WANTED, owner)
        absence = judge_absence(view, owner)
        if absence is not None and not _proves_unwanted(view, absence):
            return absence
        reason = Reason.SOURCE_DELETED if absence is None else Reason.MOVED if view.moved else absence.reason
    elif owner not in view.alive and reason is not Reason.OWNER_LEFT:
        return Hold(Reason.OWNER_SILENT, owner)
    elif not view.others_synced and reason is not Reason.OWNER_LEFT:
        return Hold(Reason.OWNER_NOT_HEARD, owner)  # another rule may want it
    if rivals:
        return Apply(rivals[0], Reason.TAKE_OVER)
    if reason in _ALWAYS or view.deletes_unwanted:
        return Delete(current.uid, current.revision, reason, owner)
    return Skip(reason, owner)


def _proves_unwanted(view: TargetState, absence: Decision) -> bool:
    """Say whether the rule reads the live owner, and its source is there and is not what the rule asks for."""
    return view.rule_state is RuleState.READS and absence.reason is Reason.NO_LONGER_MATCHES


_UNWANTED = {
    RuleState.GONE: Reason.RULE_GONE,
    RuleState.UNSELECTED: Reason.NOT_SELECTED,
    RuleState.NOT_HERE: Reason.NOT_FOR_THIS_CLUSTER,
}
_ALWAYS = frozenset({Reason.SOURCE_DELETED, Reason.MOVED})
"""What a copy goes for under both policies: its source is gone, or its rule has given it another name."""


def _outranks(claim: Claim, marks: Marks) -> bool:
    if marks.provenance is None or marks.owner is None or marks.by_go:
        return False
    return claim.rank < (marks.provenance.created or "~", marks.owner)
