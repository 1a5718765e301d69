"""What is said of a decision: how its target fares, for whom, and who lost it.

Law: everything is read from the Decision and the View that it was taken on.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decide import BARRED
from registry_controller.core.decision import Apply, Decision, Delete, Hold, Reason, Skip
from registry_controller.core.own import Doubt, Voice
from registry_controller.core.view import Claim, View
from registry_controller.engine.ledger import Class, Outcome, Said
from registry_controller.report.reasons import AS_FALSE, words_of

RECHECKED: Final = frozenset(
    {Reason.NEEDS_PROOF, Reason.STALE_SOURCE, Reason.MAY_HOLD_NATIVE_OBJECTS, Reason.OWNER_LEAVES}
)
"""What no event ends: what was asked, of the owner or of ourselves, is asked again. All other holds end by an event."""


def outcomes_of(decision: Decision, view: View, *, losers: Sequence[str] = ()) -> list[Said]:
    """Say how a target fares, first for whom it is, then for whoever lost it; nothing for one that no rule wants.

    `losers` are the younger rules that want the same source otherwise.
    """
    if decision.reason is Reason.LOCAL_NOT_HEARD:
        return _unheard(view)
    rule, owner = rule_of(view, decision), owner_of(decision)
    if not rule or owner is None or isinstance(decision, Delete):
        return []
    if decision.reason in _NOBODYS:
        return []
    fate = _fate(decision)
    said = [Said(Outcome(rule, owner, fate, decision.reason.value), _message(view, decision))]
    if not losers and len(view.claims) == 1 and view.claims[0].owner == owner and view.claims[0].barrier is None:
        return said  # as it mostly is: nobody else wanted the place
    lost = _lost(view, decision) + [_lost_to_rule(loser, owner, winner=rule) for loser in losers]
    return said + lost + _barred(view, {(one.outcome.rule, one.outcome.owner) for one in said + lost})


def _fate(decision: Apply | Hold | Skip) -> Class:
    match decision:
        case Apply() | Skip(reason=Reason.IN_SYNC):
            return Class.SYNCED
        case Hold(reason=Reason.NAMESPACE_MISSING | Reason.NAMESPACE_TERMINATING):
            return Class.WAITING
        case Hold():
            return Class.HELD
        case Skip(reason=Reason.LOCAL_OBJECT_EXISTS | Reason.CONFLICT):
            return Class.CONFLICTING
        case Skip():
            return Class.SKIPPED


def _message(view: View, decision: Decision) -> str:
    """Say what somebody may have to know, or do; nothing where all is as it is meant."""
    reason = decision.reason
    if reason is Reason.COPY_FROZEN and view.current is not None:
        is_doubtful = view.current.marks.sync_disabled is Doubt.SAYS_FALSE
    else:
        offered = (claim for claim in view.claims if claim.owner == owner_of(decision))
        is_doubtful = reason is Reason.SYNC_DISABLED and any(c.sync_disabled is Doubt.SAYS_FALSE for c in offered)
    return AS_FALSE[reason] if is_doubtful else _MESSAGES.get(reason, "")


def _unheard(view: View) -> list[Said]:
    """Say of everybody's source that it waits: whose the place is shows once the kind is heard here (R2)."""
    reason = Reason.LOCAL_NOT_HEARD
    waiting = [
        Said(Outcome(claim.rule, claim.owner, Class.WAITING, reason.value), words_of(reason), claim.source)
        for claim in view.claims
        if _is_offered(claim)
    ]
    return waiting + _barred(view, {(one.outcome.rule, one.outcome.owner) for one in waiting})


def _lost(view: View, decision: Decision) -> list[Said]:
    """Name the sources that are for this target, too, and came later (O8), or all when it is native (O1)."""
    winner = _winner(view, decision)
    if view.membership or winner is None:
        return []
    found = []
    for claim in view.claims:
        if _is_offered(claim) and not claim.is_of(winner.source):
            why, words = _why_lost(claim, winner, decision.reason)
            outcome = Outcome(claim.rule, claim.owner, Class.CONFLICTING, why.value)
            found.append(Said(outcome, words, claim.source))
    return found


def _is_offered(claim: Claim) -> bool:
    may_be_made = claim.barrier is None and not claim.sync_disabled
    return claim.voice is Voice.OWNER and not claim.deleting and may_be_made


def _why_lost(claim: Claim, winner: Claim, reason: Reason) -> tuple[Reason, str]:
    if reason is Reason.LOCAL_OBJECT_EXISTS:
        return reason, _MESSAGES[reason]
    older = f"{winner.kind.kind} {winner.key}" if claim.owner == winner.owner else "an older object"
    words = f"{older}, of cluster {winner.owner}, has this place: it is taken over when that one goes"
    return Reason.CONFLICT, words


def _barred(view: View, told: Set[tuple[str, ClusterUID]]) -> list[Said]:
    """Name the rules that want this target and may not write it here."""
    found: dict[tuple[str, ClusterUID], Said] = {}
    for claim in view.claims:
        if claim.barrier is not None and (claim.rule, claim.owner) not in told:
            reason = BARRED[claim.barrier]
            said = Said(Outcome(claim.rule, claim.owner, Class.SKIPPED, reason.value), words_of(reason))
            found.setdefault((claim.rule, claim.owner), said)
    return list(found.values())


def _lost_to_rule(loser: str, owner: ClusterUID, *, winner: str) -> Said:
    words = f"rule {winner}, which is older, wants it otherwise"
    return Said(Outcome(loser, owner, Class.CONFLICTING, Reason.CONFLICT.value), words)


def owner_of(decision: Decision) -> ClusterUID | None:
    """Name the owner that a decision is about."""
    return decision.claim.owner if isinstance(decision, Apply) else decision.owner


def rule_of(view: View, decision: Decision) -> str:
    """Name the rule that a decision is about: that of its owner's claim, else the one that made the copy."""
    winner = _winner(view, decision)
    return winner.rule if winner is not None else view.rule or (view.claims[0].rule if view.claims else "")


def _winner(view: View, decision: Decision) -> Claim | None:
    """Find the claim that a decision is about: of its owner's, the one of which the copy is."""
    if isinstance(decision, Apply):
        return decision.claim
    owned = (claim for claim in view.claims if claim.owner == decision.owner)
    return min(owned, key=lambda c: (c.barrier is not None, not c.is_of(view.copied_from)), default=None)


_NOBODYS: Final = frozenset({
    Reason.NO_LONGER_WANTED, Reason.RULE_GONE, Reason.NOT_SELECTED, Reason.NOT_FOR_THIS_CLUSTER,
    Reason.OWNER_LEFT, Reason.UNKNOWN_OWNER, Reason.NOT_WANTED, Reason.OUR_OWN,
})  # fmt: skip

_MESSAGES: Final = {
    Reason.LOCAL_OBJECT_EXISTS: "an object of that name was made here; it is never overwritten: delete or rename one",
    Reason.NAMESPACE_MISSING: "the namespace is missing here: create it, or set createNamespaces on the rule",
    Reason.NAMESPACE_TERMINATING: "the namespace is being deleted here",
    Reason.OWNER_SILENT: "the owner does not answer; the copy stays until it does",
    Reason.DELETION_HALTED: "too many copies would go at once; they stay until the rule's annotation allows it",
    Reason.NOT_EVALUATED: "the rule cannot be evaluated on the source any more; the copy stays until it can",
    **{reason: words_of(reason) for reason in BARRED.values()},
}
