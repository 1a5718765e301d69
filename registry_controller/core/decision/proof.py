"""What needs proof: that a source is gone (O5), and that one which looks older is what its owner has now (O3).

Laws: silence, an error, an incomplete list prove nothing · no copy goes back to an older state of its owner unless
the owner itself says that it did.
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


def judge_absence(view: TargetState, owner: ClusterUID) -> Decision | None:
    """Say what is to be done about an absent source, or None when its absence is proven (O5)."""
    source = view.copied_from
    if owner not in view.alive:
        return Hold(Reason.OWNER_SILENT, owner)
    if view.tracking is Tracking.NOT_COMPLETE or source is None:
        return Hold(Reason.OWNER_NOT_HEARD, owner)
    if view.tracking is Tracking.UNCLEAR:
        return Hold(Reason.NOT_EVALUATED, owner)
    answer = _answer(view, source)
    if view.tracking is Tracking.OFFERED:
        return _judge_offered(view, owner, source, answer)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.NEEDS_PROOF, OwnerAnswer(source, ProofResult.NOT_FOUND))
    if answer.answer is ProofResult.FOUND:
        return Hold(Reason.OWNER_NOT_HEARD, owner) if answer.wanted else Skip(Reason.NO_LONGER_MATCHES, owner)
    return None


def _judge_offered(view: TargetState, owner: ClusterUID, source: SourceRef, answer: OwnerAnswer | None) -> Decision:
    """Say that a source matches no more, unless what was heard of it comes from before what the copy shows (O3)."""
    provenance = view.current.marks.provenance if view.current is not None else None
    known = provenance.revision if provenance is not None and provenance.owner == owner else 0
    if view.offered_at >= known:
        return Skip(Reason.NO_LONGER_MATCHES, owner)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.STALE_SOURCE, OwnerAnswer(source, ProofResult.FOUND, view.offered_at))
    if answer.answer is ProofResult.FOUND and answer.revision == view.offered_at:
        return Skip(Reason.NO_LONGER_MATCHES, owner)  # its history went back, and the owner says so itself
    return Hold(Reason.STALE_SOURCE, owner)


def _answer(view: TargetState, source: SourceRef) -> OwnerAnswer | None:
    return next((answer for answer in view.proofs if answer.source == source), None)


def _question(reason: Reason, expects: OwnerAnswer) -> NeedsProof:
    """Ask for an answer; `decide` replaces the Hold by the decision on that answer."""
    owner = expects.source.owner
    return NeedsProof(reason, owner, expects, Hold(reason, owner))


def apply_over(view: TargetState, current: CurrentCopy, claim: Claim) -> Decision:
    """Apply to a copy that is here, unless the claim comes from before what the copy shows (O3)."""
    marks = current.marks
    provenance = marks.provenance
    if claim.owner != marks.owner:
        return Apply(claim, Reason.TAKE_OVER)
    if provenance is None:
        return Apply(claim, Reason.ADOPT)
    if claim.revision >= provenance.revision:
        return Apply(claim, Reason.UPDATE)
    return _judge_older(view, claim)


def unless_older(view: TargetState, decision: Decision) -> Decision:
    """Keep a decision, unless it applies a claim from before what a copy showed of it, which is another's now (O3)."""
    if not isinstance(decision, Apply) or decision.claim.revision >= decision.claim.shown:
        return decision
    return _judge_older(view, decision.claim)


def _judge_older(view: TargetState, claim: Claim) -> Decision:
    answer = _answer(view, claim.source)
    if answer is None or answer.answer is ProofResult.NOT_ASKED:
        return _question(Reason.STALE_SOURCE, OwnerAnswer(claim.source, ProofResult.FOUND, claim.revision))
    if answer.answer is ProofResult.FOUND and answer.revision == claim.revision:
        return Apply(claim, Reason.HISTORY_RESTORED)
    return Hold(Reason.STALE_SOURCE, claim.owner)
