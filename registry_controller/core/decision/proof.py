"""Decisions that need an answer: that a source is gone (O5), or that an older state is the owner's present one (O3).

Laws: silence, an error or an incomplete list prove nothing · no copy goes back to an older state of its owner unless
the owner itself answers with that state.
"""

from __future__ import annotations

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Apply, Decision, Hold, NeedsProof, Reason, Skip
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    OwnerAnswer,
    ProofResult,
    SourceRef,
    TargetState,
    Tracking,
)


def judge_absence(state: TargetState, owner: ClusterUID) -> Decision | None:
    """Return the decision about an absent source; None once its absence is proven (O5)."""
    source = state.copied_from
    if owner not in state.alive:
        return Hold(Reason.OWNER_SILENT, owner)
    if state.origin.tracking is Tracking.NOT_COMPLETE or source is None:
        return Hold(Reason.OWNER_NOT_HEARD, owner)
    if state.origin.tracking is Tracking.UNCLEAR:
        return Hold(Reason.NOT_EVALUATED, owner)
    if state.origin.tracking is Tracking.UNREADABLE:
        return Hold(Reason.TARGETS_UNREADABLE, owner)
    answer = _answer(state, source)
    if state.origin.tracking is Tracking.OFFERED:
        return _judge_offered(state, owner, source, answer)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.NEEDS_PROOF, OwnerAnswer(source, ProofResult.NOT_FOUND))
    if answer.answer is ProofResult.FOUND:
        return Hold(Reason.OWNER_NOT_HEARD, owner) if answer.wanted else Skip(Reason.NO_LONGER_MATCHES, owner)
    return None


def _judge_offered(state: TargetState, owner: ClusterUID, source: SourceRef, answer: OwnerAnswer | None) -> Decision:
    """Report that a source no longer matches, unless the known state is older than the copy's (O3)."""
    provenance = state.current.marks.provenance if state.current is not None else None
    known = provenance.revision if provenance is not None and provenance.owner == owner else 0
    if state.origin.offered_at >= known:
        return Skip(Reason.NO_LONGER_MATCHES, owner)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.STALE_SOURCE, OwnerAnswer(source, ProofResult.FOUND, state.origin.offered_at))
    if answer.answer is ProofResult.FOUND and answer.revision == state.origin.offered_at:
        return Skip(Reason.NO_LONGER_MATCHES, owner)  # its history went back, as the owner itself confirms
    return Hold(Reason.STALE_SOURCE, owner)


def _answer(state: TargetState, source: SourceRef) -> OwnerAnswer | None:
    return next((answer for answer in state.proofs if answer.source == source), None)


def _question(reason: Reason, expects: OwnerAnswer) -> NeedsProof:
    """Return a question; `decide` replaces its Hold by the decision on the expected answer."""
    owner = expects.source.owner
    return NeedsProof(reason, owner, expects, Hold(reason, owner))


def apply_over(state: TargetState, current: CurrentCopy, claim: Claim) -> Decision:
    """Apply a claim to a copy that is here, unless the claim is older than the copy's state (O3)."""
    marks = current.marks
    provenance = marks.provenance
    if claim.owner != marks.owner:
        return Apply(claim, Reason.TAKE_OVER)
    if provenance is None:
        return Apply(claim, Reason.ADOPT)
    reason = Reason.UPDATE if marks.is_bound_in(state.local) else Reason.ADOPT
    if claim.revision >= provenance.revision:
        return Apply(claim, reason)
    # The lower revision of another object is no earlier state: only that of the same source shows a restored history.
    return judge_older(state, claim, confirmed=Reason.HISTORY_RESTORED if claim.is_of(state.copied_from) else reason)


def judge_older(state: TargetState, claim: Claim, *, confirmed: Reason = Reason.HISTORY_RESTORED) -> Decision:
    """Decide about a claim that is older than the copy here, or than an earlier copy of its source here (O3).

    `confirmed` is the reason to apply it once the owner answers with that state.
    """
    answer = _answer(state, claim.source)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.STALE_SOURCE, OwnerAnswer(claim.source, ProofResult.FOUND, claim.revision))
    if answer.answer is ProofResult.FOUND and answer.revision == claim.revision:
        return Apply(claim, confirmed)
    return Hold(Reason.STALE_SOURCE, claim.owner)
