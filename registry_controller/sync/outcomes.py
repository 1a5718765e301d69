"""What is said of a decision: how its target fares, for whom, and who lost it.

Law: everything is read from the Decision and the View that it was taken on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decide import BARRED
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, NeedsProof, Reason, Skip, owner_of
from registry_controller.core.decision.ownership import Doubt, Voice
from registry_controller.core.decision.state import Claim, Rival, TargetState
from registry_controller.report.reasons import AS_FALSE, words_of
from registry_controller.sync.results import Place, ReportedResult, ResultClass, TargetResult

RECHECKED: Final = frozenset(
    {Reason.NEEDS_PROOF, Reason.STALE_SOURCE, Reason.MAY_HOLD_NATIVE_OBJECTS, Reason.OWNER_LEAVES}
)
"""What no event ends: what was asked, of the owner or of ourselves, is asked again. All other holds end by an event."""


class WriteFailure(NamedTuple):
    """Why a decision cannot be carried out: a word for programs, and words for people."""

    reason: str
    words: str


def outcomes_of(
    decision: Decision,
    view: TargetState,
    *,
    name_of: Callable[[ClusterUID], str],
    losers: Collection[str] = (),
    failure: WriteFailure | None = None,
) -> list[ReportedResult]:
    """Say how a target fares, first for whom it is, then for whoever lost it; nothing for one that no rule wants.

    `losers` are the younger rules that want the same source otherwise; `failure` says why it cannot be carried out.
    """
    if failure is None and decision.reason is Reason.LOCAL_NOT_HEARD:
        return _unheard(view)
    rule, owner = rule_of(view, decision), owner_of(decision)
    if not rule or (owner is None and failure is None):
        return []
    owner = owner or ClusterUID("")
    if failure is not None:
        said = [ReportedResult(TargetResult(rule, owner, ResultClass.FAILING, failure.reason), failure.words)]
    elif isinstance(decision, Delete) or decision.reason in _NOBODYS:
        return []
    else:
        said = [
            ReportedResult(TargetResult(rule, owner, _fate(decision), decision.reason.value), _message(view, decision))
        ]
    winner = _winner(view, decision)
    if len(view.claims) == 1 and view.claims[0] is winner and not winner.rivals and winner.barrier is None:
        return said  # as it mostly is: nobody else wants the place
    if winner is not None:
        said += _of_rivals(said[0], _rivals_of(winner, view), losers=losers)
        for claim, lost in _lost(view, winner, decision.reason, name_of):
            said += [lost, *_of_rivals(lost, claim.rivals)]
    return said + _barred(view, {one.outcome.place for one in said})


def _rivals_of(winner: Claim, view: TargetState) -> Iterator[Rival]:
    """List the younger rules that want the winner's source here, in whatever version of its kind they read it."""
    yield from winner.rivals
    for claim in view.claims:
        if claim is not winner and claim.is_of(winner.source) and claim.voice is Voice.OWNER:
            yield Rival(claim.rule, claim.barrier)
            yield from claim.rivals


def _of_rivals(
    said: ReportedResult, rivals: Iterable[Rival], *, losers: Collection[str] = ()
) -> Iterator[ReportedResult]:
    """Say of younger rules that they fare as the older one does, but where that is not what they want (W2)."""
    older, owner, fate, reason = said.outcome
    for rule in dict.fromkeys(rival.rule for rival in rivals if rival.barrier is None and rival.rule != older):
        if fate is ResultClass.FAILING:
            words = f"rule {older}, which is older, has this place, and cannot be carried out"
            yield ReportedResult(
                TargetResult(rule, owner, ResultClass.CONFLICTING, Reason.CONFLICT.value), words, said.source
            )
        elif rule in losers:
            words = f"rule {older}, which is older, wants it otherwise"
            yield ReportedResult(
                TargetResult(rule, owner, ResultClass.CONFLICTING, Reason.CONFLICT.value), words, said.source
            )
        else:
            yield ReportedResult(TargetResult(rule, owner, fate, reason), said.message, said.source)


def _fate(decision: Apply | Hold | Skip | NeedsProof) -> ResultClass:
    match decision:
        case Apply() | Skip(reason=Reason.IN_SYNC):
            return ResultClass.SYNCED
        case Hold(reason=Reason.NAMESPACE_MISSING | Reason.NAMESPACE_TERMINATING):
            return ResultClass.WAITING
        case Hold() | NeedsProof():
            return ResultClass.HELD
        case Skip(reason=Reason.LOCAL_OBJECT_EXISTS | Reason.CONFLICT):
            return ResultClass.CONFLICTING
        case Skip():
            return ResultClass.SKIPPED


def _message(view: TargetState, decision: Decision) -> str:
    """Say what somebody may have to know, or do; nothing where all is as it is meant."""
    reason = decision.reason
    if reason is Reason.COPY_FROZEN and view.current is not None:
        is_doubtful = view.current.marks.sync_disabled is Doubt.SAYS_FALSE
    else:
        offered = (claim for claim in view.claims if claim.owner == owner_of(decision))
        is_doubtful = reason is Reason.SYNC_DISABLED and any(c.sync_disabled is Doubt.SAYS_FALSE for c in offered)
    return AS_FALSE[reason] if is_doubtful else _MESSAGES.get(reason, "")


def _unheard(view: TargetState) -> list[ReportedResult]:
    """Say of everybody's source that it waits: whose the place is shows once the kind is heard here (R2)."""
    reason = Reason.LOCAL_NOT_HEARD
    waiting: list[ReportedResult] = []
    for claim in view.claims:
        if _is_offered(claim):
            outcome = TargetResult(claim.rule, claim.owner, ResultClass.WAITING, reason.value)
            said = ReportedResult(outcome, words_of(reason), claim.source)
            waiting += [said, *_of_rivals(said, claim.rivals)]
    return waiting + _barred(view, {one.outcome.place for one in waiting})


def _lost(
    view: TargetState, winner: Claim, reason: Reason, name_of: Callable[[ClusterUID], str]
) -> Iterator[tuple[Claim, ReportedResult]]:
    """Name the sources that are for this target, too, and came later (O8), or all when it is native (O1)."""
    for claim in view.claims if not view.membership else ():
        if _is_offered(claim) and not claim.is_of(winner.source):
            why, words = _why_lost(claim, winner, reason, name_of)
            outcome = TargetResult(claim.rule, claim.owner, ResultClass.CONFLICTING, why.value)
            yield claim, ReportedResult(outcome, words, claim.source)


def _is_offered(claim: Claim) -> bool:
    may_be_made = claim.barrier is None and not claim.sync_disabled
    return claim.voice is Voice.OWNER and not claim.deleting and may_be_made


def _why_lost(claim: Claim, winner: Claim, reason: Reason, name_of: Callable[[ClusterUID], str]) -> tuple[Reason, str]:
    if reason is Reason.LOCAL_OBJECT_EXISTS:
        return reason, _MESSAGES[reason]
    older = f"{winner.kind.kind} {winner.key}" if claim.owner == winner.owner else "an older object"
    words = f"{older}, of cluster {name_of(winner.owner)}, has this place: it is taken over when that one goes"
    return Reason.CONFLICT, words


def _barred(view: TargetState, told: Set[Place]) -> list[ReportedResult]:
    """Name the rules that want this target and may not write it here."""
    found: dict[Place, ReportedResult] = {}
    for claim in view.claims:
        for rule, barrier in (Rival(claim.rule, claim.barrier), *claim.rivals):
            if barrier is not None and (rule, claim.owner) not in told:
                reason = BARRED[barrier]
                said = ReportedResult(
                    TargetResult(rule, claim.owner, ResultClass.SKIPPED, reason.value), words_of(reason)
                )
                found.setdefault((rule, claim.owner), said)
    return list(found.values())


def rule_of(view: TargetState, decision: Decision) -> str:
    """Name the rule that a decision is about: that of its owner's claim, else the one that made the copy."""
    winner = _winner(view, decision)
    return winner.rule if winner is not None else view.rule or (view.claims[0].rule if view.claims else "")


def _winner(view: TargetState, decision: Decision) -> Claim | None:
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
