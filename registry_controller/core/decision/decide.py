"""Decides about one target. Every other package prepares this pure function's input or carries out its result.

Laws: the input is never changed, and the same input gives the same Decision · a native object is never touched, nor is
one whose marks nothing binds, unless its owner offers it · no deletion without proof · no copy that moves goes before
its new copy is here · no copy goes while its source may match again, or another rule may want it · no copy goes back to
an older state of its owner · an object at a relay is not a source, except of membership · without an answer a copy is
held, never deleted · a copy that a later version of the daemon wrote is left as it is, except of membership · no object
of a member whose ID has clones is written or deleted · a rule deletes nothing that it may not write here.

A Decision is Apply, Delete, Hold, Skip or NeedsProof, each with its reason; status, Events, metrics and logs read
that value.
"""

from __future__ import annotations

from dataclasses import replace

from registry_controller.api.meta import ClusterUID
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
from registry_controller.core.decision.marks import Binding, Marks, Voice
from registry_controller.core.decision.membership import decide_membership
from registry_controller.core.decision.proof import apply_over, judge_absence, judge_older
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    Move,
    NamespaceState,
    OwnerAnswer,
    ProofResult,
    RuleState,
    TargetState,
    Tracking,
)
from registry_controller.core.rules.policy import Barrier


def decide(state: TargetState) -> Decision:
    """Return the decision about the state's target."""
    decision = _decide(state)
    if not isinstance(decision, NeedsProof) or decision.expects is None:
        return decision
    if_proven = decide(state.with_proof(decision.expects))
    is_presumed = deletion_in(if_proven) is not None and _is_presumed(state, decision.expects)
    return replace(decision, if_proven=if_proven, is_presumed=is_presumed)


def _is_presumed(state: TargetState, expects: OwnerAnswer) -> bool:
    """Report whether a deletion is certain enough to be halted before its owner has confirmed it."""
    if expects.answer is not ProofResult.NOT_FOUND or (state.current is not None and state.current.may_hold_content):
        return False
    if state.origin.saw_match:
        return True
    return deletion_in(_decide(state.with_proof(expects._replace(answer=ProofResult.FOUND)))) is not None


def _decide(state: TargetState) -> Decision:
    waiting = _waits_here(state)
    if waiting is not None:
        return waiting
    if state.contested and not state.has_left:
        cloned = _cloned(state)
        if cloned is not None:
            return cloned
        state = state._replace(claims=tuple(claim for claim in state.claims if claim.owner not in state.contested))
    allowed = tuple([claim for claim in state.claims if claim.barrier is None])
    if len(allowed) < len(state.claims) or state.origin.barrier is not None:
        barred = _barred(state, allowed)
        if barred is not None:
            return barred
        state = state._replace(claims=allowed)
    member = state.membership
    decision = decide_membership(state, member) if member is not None else _decide_ordinary(state)
    if isinstance(decision, Delete) and state.origin.barrier is not None:
        return Skip(BARRED[state.origin.barrier], decision.owner)
    if isinstance(decision, Apply) and state.current is None:
        return _with_namespace(state, decision)
    if isinstance(decision, Delete) and state.current is not None and state.current.may_hold_content:
        held = Hold(Reason.CONTENT_REMAINS, decision.owner)
        return held if state.current.content is not None else NeedsProof(held.reason, decision.owner, None, decision)
    return decision


def _waits_here(state: TargetState) -> Hold | None:
    """Return a Hold while something in this cluster is awaited before anything is decided; else None."""
    if not state.local_synced:
        return Hold(Reason.LOCAL_NOT_HEARD)
    if state.current is not None and state.current.deleting:
        return Hold(Reason.BEING_DELETED, state.current.marks.owner)
    if state.current is not None and state.is_rule_behind:
        return Hold(Reason.RULE_NOT_HEARD, state.current.marks.owner)
    return None


def _with_namespace(state: TargetState, decision: Apply) -> Decision:
    if state.namespace is NamespaceState.TERMINATING:
        return Hold(Reason.NAMESPACE_TERMINATING, decision.claim.owner)
    if state.namespace is NamespaceState.MISSING and not state.create_namespace:
        return Hold(Reason.NAMESPACE_MISSING, decision.claim.owner)
    return decision


# Members whose ID has clones.


def _cloned(state: TargetState) -> Hold | None:
    """Return a Hold for a copy of a member whose ID has clones; None for other objects."""
    current = state.current
    if current is None or not current.marks.is_copy or current.marks.frozen:
        return None
    owner = current.natural or current.marks.owner
    return Hold(Reason.OWNER_CLONED, owner) if owner in state.contested else None


# Rules that may not write here.


def _barred(state: TargetState, allowed: tuple[Claim, ...]) -> Decision | None:
    """Return a Skip where only barred rules claim the target, or made the copy; None where another rule claims it."""
    marks = state.current.marks if state.current is not None else None
    is_copy = marks is not None and marks.owner not in (None, state.local)
    if (
        state.origin.barrier is not None
        and is_copy
        and marks is not None
        and not any(_counts(c, state) for c in allowed)
    ):
        return Skip(BARRED[state.origin.barrier], marks.owner)
    if allowed or is_copy or (state.membership is not None and marks is not None):
        return None
    first = min(state.claims, key=lambda c: (c.rank, c.peer, c.kind), default=None)
    return Skip(BARRED[first.barrier], first.owner) if first is not None and first.barrier is not None else None


BARRED = {
    Barrier.RESERVED: Reason.RESERVED,
    Barrier.NOT_ALLOWED: Reason.NOT_ALLOWED,
    Barrier.CLOSED: Reason.CLOSED,
}
"""The reason for each barrier."""


# Ordinary objects: only the owner's object is a source.


def _decide_ordinary(state: TargetState) -> Decision:
    """Return the decision, unless it applies an older state than a copy of another owner showed here before (O3)."""
    decision = _decide_by_owner(state)
    if isinstance(decision, Apply) and decision.claim.revision < decision.claim.shown:
        return judge_older(state, decision.claim)
    return decision


def _decide_by_owner(state: TargetState) -> Decision:
    offers = [claim for claim in state.claims if _counts(claim, state)]
    if len(offers) > 1:
        offers.sort(key=lambda claim: claim.order)
    current = state.current
    if current is None:
        return _decide_new(state, offers)
    marks = current.marks
    if marks.binding is Binding.UNREADABLE:
        return Hold(Reason.LATER_FORMAT, marks.owner or (offers[0].owner if offers else None))
    if marks.owner is None or marks.owner == state.local:
        return _leave_native(offers)
    if marks.frozen:
        return Skip(Reason.COPY_FROZEN, marks.owner)
    held = _claim_behind(state, marks, offers)
    if held is None:
        return _judge_binding(state, current, offers) or _decide_without_claim(state, current, offers)
    if state.origin.is_rule_pending:
        return Hold(Reason.OWNER_NOT_HEARD, marks.owner)
    best = _best(offers, held, keeps=marks.by_go)
    return apply_over(state, current, best)


def _leave_native(offers: list[Claim]) -> Skip:
    return Skip(Reason.LOCAL_OBJECT_EXISTS if offers else Reason.NOT_WANTED, offers[0].owner if offers else None)


def _counts(claim: Claim, state: TargetState) -> bool:
    return claim.voice is Voice.OWNER and not claim.deleting and claim.owner not in state.departed


def depends_on_origin(state: TargetState) -> bool:
    """Report whether no claim of its own source stands for the copy that is here: `state.origin` decides then."""
    marks = state.current.marks if state.current is not None else None
    if marks is None or not marks.is_copy:
        return False
    return state.membership is not None or _own_claim(state) is None


def changes_rule(state: TargetState) -> bool:
    """Report whether another rule than the one that made a copy claims its source."""
    provenance = state.current.marks.provenance if state.current is not None else None
    if provenance is None or state.membership is not None:
        return False
    claim = _own_claim(state)
    return claim is not None and claim.rule != provenance.rule


def _own_claim(state: TargetState) -> Claim | None:
    """Return the claim of the source that a copy was made from; None without one that counts."""
    for claim in state.claims:
        if claim.barrier is None and claim.is_of(state.copied_from) and _counts(claim, state):
            return claim
    return None


def _decide_new(state: TargetState, offers: list[Claim]) -> Decision:
    for claim in offers:
        if not claim.sync_disabled:
            is_spent = bool(state.spent) and claim.uid == state.spent
            return Skip(Reason.DELETED_HERE, claim.owner) if is_spent else Apply(claim, Reason.CREATE)
    if offers:
        return Skip(Reason.SYNC_DISABLED, offers[0].owner)
    ours = any(claim.voice is Voice.OURS for claim in state.claims)
    return Skip(Reason.OUR_OWN if ours else Reason.NOT_WANTED)


def _claim_behind(state: TargetState, marks: Marks, offers: list[Claim]) -> Claim | None:
    """Return the claim behind a copy: the claim of its own source, else its owner's next claim.

    The next claim must be allowed to make new copies (W5), unless the copy has no provenance to identify its source.
    """
    owned = [claim for claim in offers if claim.owner == marks.owner]
    own = next((claim for claim in owned if claim.is_of(state.copied_from)), None)
    if own is not None:
        return own
    return next((claim for claim in owned if not claim.sync_disabled or marks.provenance is None), None)


def _best(offers: list[Claim], held: Claim, *, keeps: bool) -> Claim:
    """Choose among rival owners. A copy by the Go original keeps its owner (O10)."""
    if keeps:
        return held
    return next(claim for claim in offers if claim is held or not claim.sync_disabled)


def _judge_binding(state: TargetState, current: CurrentCopy, offers: list[Claim]) -> Decision | None:
    """Return the decision about an object whose marks nothing binds; None for a copy of the owner in the marks.

    Marks that do not name the object are bound by their owner, if it has, or had, the source of such a copy.
    """
    owner = current.marks.owner
    assert owner is not None
    if current.owner_had_it or current.marks.is_bound_in(state.local):
        return None
    may_ask = owner in state.known and owner not in state.departed and state.origin.tracking is not Tracking.NO_RULE
    if current.marks.binding is not Binding.UNPROVEN or not may_ask:
        return _leave_native(offers)
    absence = judge_absence(state, owner)
    if absence is None:
        return _leave_native(offers)
    return None if absence.reason is Reason.NO_LONGER_MATCHES else absence


def _decide_without_claim(state: TargetState, current: CurrentCopy, offers: list[Claim]) -> Decision:
    """Decide about a copy whose owner does not offer its source now."""
    owner = current.marks.owner
    assert owner is not None
    rivals = [claim for claim in offers if not claim.sync_disabled]
    if owner not in state.known and owner not in state.departed:
        return Apply(rivals[0], Reason.TAKE_OVER) if rivals else Skip(Reason.UNKNOWN_OWNER, owner)
    older = next((claim for claim in rivals if _outranks(claim, current.marks)), None)
    if older is not None:
        return Apply(older, Reason.TAKE_OVER)
    if owner not in state.departed and (awaited := _await_rule(state)) is not None:
        return Hold(awaited, owner)
    reason = Reason.OWNER_LEFT if owner in state.departed else _UNWANTED.get(state.origin.rule_state)
    if reason is None:
        if state.origin.tracking is Tracking.NO_RULE:
            return Skip(Reason.NO_LONGER_WANTED, owner)
        absence = _judge_unwanted(state, owner)
        if not isinstance(absence, Reason):
            return absence
        reason = absence
    if not rivals and reason not in _ALWAYS and not state.origin.deletes_unwanted:
        return Skip(reason, owner)
    if reason not in _UNDER_ALL_RULES and (owner not in state.alive or not state.origin.others_synced):
        return Hold(Reason.OWNER_NOT_HEARD if owner in state.alive else Reason.OWNER_SILENT, owner)
    if rivals:
        return Apply(rivals[0], Reason.TAKE_OVER)
    is_order = reason is Reason.OWNER_LEFT and (state.has_left or owner in state.ordered)
    is_anew = state.origin.is_anew or any(answer.is_anew for answer in state.proofs)
    return Delete(current.uid, current.revision, reason, owner, is_order=is_order, is_anew=is_anew)


def _judge_unwanted(state: TargetState, owner: ClusterUID) -> Decision | Reason:
    """Return why a copy is not wanted: its source is gone, is elsewhere here, or does not match; else a decision.

    A move makes the new copy first: until that is here, the old one stays. A source that its rule matched a moment ago
    may match again.
    """
    absence = _judge_source(state, owner)
    if absence is None:
        return Reason.SOURCE_DELETED
    if not _proves_unwanted(state, absence):
        return absence
    if state.origin.move is Move.WAITS:
        return Hold(Reason.NEW_COPY_MISSING, owner)
    if state.origin.move is Move.DONE:
        return Reason.MOVED
    is_lost_now = state.may_lose_match and state.origin.lost_match is not None
    return Hold(Reason.MAY_MATCH_AGAIN, owner) if is_lost_now else absence.reason


def _await_rule(state: TargetState) -> Reason | None:
    """Return why a copy stays while it is not known whether its rule is here, or asks for it; else None.

    Nothing may show that a missing rule was deleted. Another daemon of this cluster may have made the copy.
    """
    if state.origin.rule_state is RuleState.MISSING and state.origin.deletes_unwanted:
        return Reason.RULE_MISSING
    return Reason.MAY_MATCH_AGAIN if state.is_unchosen and state.origin.lost_match is not None else None


def _judge_source(state: TargetState, owner: ClusterUID) -> Decision | None:
    """Return the decision about an absent source; None once its absence is proven.

    The absence of a rule counts once something shows that its owner deleted the rule.
    """
    absence, rule = judge_absence(state, owner), state.origin.source_rule
    is_absent = absence is None or (isinstance(absence, NeedsProof) and state.origin.tracking is Tracking.ABSENT)
    if not is_absent or rule in (None, RuleState.GONE):
        return absence
    return Hold(Reason.RULE_MISSING if rule is RuleState.MISSING else Reason.OWNER_NOT_HEARD, owner)


def _proves_unwanted(state: TargetState, absence: Decision) -> bool:
    """Report whether the rule reads from the live owner, and the source exists and does not match."""
    return state.origin.rule_state is RuleState.READS and absence.reason is Reason.NO_LONGER_MATCHES


_UNWANTED = {
    RuleState.GONE: Reason.RULE_GONE,
    RuleState.UNSELECTED: Reason.NOT_SELECTED,
    RuleState.NOT_HERE: Reason.NOT_FOR_THIS_CLUSTER,
    RuleState.OTHER_KIND: Reason.OTHER_KIND,
}
_ALWAYS = frozenset({Reason.SOURCE_DELETED, Reason.MOVED})
"""The deletions under both policies: the source is gone, or the copy of the new name is here."""
_UNDER_ALL_RULES = frozenset({Reason.SOURCE_DELETED, Reason.OWNER_LEFT})
"""The reasons for which no rule wants a copy. With any other one, another rule may want it still."""


def _outranks(claim: Claim, marks: Marks) -> bool:
    if marks.provenance is None or marks.owner is None or marks.by_go:
        return False
    return claim.rank < (marks.provenance.created or "~", False, marks.owner)
