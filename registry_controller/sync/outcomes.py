"""Derives the results of a target from its Decision: one for the rule that wins, one for each claim that loses.

Law: every result is read from the Decision and the state that it was taken on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from typing import Final, NamedTuple

from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decide import BARRED
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, NeedsProof, Reason, Skip, owner_of
from registry_controller.core.decision.marks import Doubt, Voice
from registry_controller.core.decision.state import Claim, Rival, TargetState
from registry_controller.report.reasons import MESSAGES_FOR_FALSE, describe_halt, message_of
from registry_controller.sync.results import Place, ReportedResult, ResultClass, TargetResult

RECHECKED: Final = frozenset(
    {
        Reason.NEEDS_PROOF,
        Reason.STALE_SOURCE,
        Reason.RULE_NOT_HEARD,
        Reason.CONTENT_REMAINS,
        Reason.OWNER_LEAVES,
    }
)
"""The holds that no event ends: their question is asked again. Every other hold ends by an event."""


FIELDS_LOST: Final = "FieldsLost"
"""The reason of a copy that lacks fields, because the API server here does not store them."""

_SHOWN: Final = 5


class WriteFailure(NamedTuple):
    """The cause of a failed write: a reason for programs, and a message for people."""

    reason: str
    message: str


def outcomes_of(
    decision: Decision,
    state: TargetState,
    *,
    name_of: Callable[[ClusterUID], str],
    losers: Collection[str] = (),
    failure: WriteFailure | None = None,
    lost: Sequence[str] = (),
) -> list[ReportedResult]:
    """Return the results of a target: first for the claim that wins, then for each claim or rule that loses.

    A target that no rule claims has none. `losers` are the younger rules that make another copy of the same source;
    `failure` is why the decision cannot be carried out. `lost` are the wanted fields that the API server here does not
    store.
    """
    if lost and failure is None:
        failure = WriteFailure(FIELDS_LOST, _describe_lost(lost))
    winner, owner = _winner(state, decision), owner_of(decision)
    rule = _rule_of(state, winner)
    is_native_going = decision.reason is Reason.BEING_DELETED and owner is None
    if failure is None and (decision.reason is Reason.LOCAL_NOT_HEARD or is_native_going):
        return _waiting(state, decision.reason)
    if not rule or (owner is None and failure is None):
        return []
    owner = owner or ClusterUID("")
    if failure is not None:
        reports = [ReportedResult(TargetResult(rule, owner, ResultClass.FAILING, failure.reason), failure.message)]
    elif isinstance(decision, Delete):
        return []
    elif decision.reason in UNREPORTED:
        return _barred(state, frozenset())
    else:
        reports = [
            ReportedResult(
                TargetResult(rule, owner, _class_of(decision), decision.reason.value), _message(state, decision)
            )
        ]
    if len(state.claims) == 1 and state.claims[0] is winner and not winner.rivals and winner.barrier is None:
        return reports  # the usual case: one claim without rivals
    if winner is not None:
        reports += _of_rivals(reports[0], _rivals_of(winner, state), losers=losers)
        for claim, beaten in _lost(state, winner, decision.reason, name_of):
            reports += [beaten, *_of_rivals(beaten, claim.rivals)]
    return reports + _barred(state, {one.outcome.place for one in reports})


def _describe_lost(lost: Sequence[str]) -> str:
    shown = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
    return (
        f"the API server here does not store {shown}: upgrade the CustomResourceDefinition of its kind here, find the "
        "admission webhook that removes it, or remove it with an override"
    )


def _rivals_of(winner: Claim, state: TargetState) -> Iterator[Rival]:
    """List the younger rules that claim this target for the winner's source, in any version of its kind."""
    yield from winner.rivals
    for claim in state.claims:
        if claim is not winner and claim.is_of(winner.source) and claim.voice is Voice.OWNER:
            yield Rival(claim.rule, claim.barrier)
            yield from claim.rivals


def _of_rivals(
    older_report: ReportedResult, rivals: Iterable[Rival], *, losers: Collection[str] = ()
) -> Iterator[ReportedResult]:
    """Yield the results of younger rules: the older rule's result, or a conflict where they make another copy (W2)."""
    older, owner, result, reason = older_report.outcome
    for rule in dict.fromkeys(rival.rule for rival in rivals if rival.barrier is None and rival.rule != older):
        if result is ResultClass.FAILING and reason != FIELDS_LOST:
            message = f"rule {older}, which is older, has this place, and cannot be carried out"
            yield ReportedResult(
                TargetResult(rule, owner, ResultClass.CONFLICTING, Reason.CONFLICT.value), message, older_report.source
            )
        elif rule in losers:
            message = f"rule {older}, which is older, wants it otherwise"
            yield ReportedResult(
                TargetResult(rule, owner, ResultClass.CONFLICTING, Reason.CONFLICT.value), message, older_report.source
            )
        else:
            yield ReportedResult(TargetResult(rule, owner, result, reason), older_report.message, older_report.source)


def _class_of(decision: Apply | Hold | Skip | NeedsProof) -> ResultClass:
    match decision:
        case Apply() | Skip(reason=Reason.IN_SYNC):
            return ResultClass.SYNCED
        case Hold(reason=reason) if reason in _WAITS_HERE:
            return ResultClass.WAITING
        case Hold() | NeedsProof():
            return ResultClass.HELD
        case Skip(reason=Reason.LOCAL_OBJECT_EXISTS | Reason.CONFLICT):
            return ResultClass.CONFLICTING
        case Skip():
            return ResultClass.SKIPPED


def _message(state: TargetState, decision: Decision) -> str:
    """Return the message for a person; empty where nothing needs attention."""
    reason = decision.reason
    if isinstance(decision, Hold) and decision.halt is not None:
        return describe_halt(decision.halt)
    if reason is Reason.NEW_COPY_MISSING and state.origin.moved_to is not None:
        return f"{message_of(reason)}: {state.origin.moved_to}"
    if reason is Reason.CONTENT_REMAINS and state.current is not None and state.current.content is not None:
        return f"{message_of(reason)}: {state.current.content.text}"
    if reason is Reason.MAY_MATCH_AGAIN and state.origin.lost_match is not None:
        return f"{message_of(reason)}, at {state.origin.lost_match.due_at}"
    if reason is Reason.COPY_FROZEN and state.current is not None:
        is_doubtful = state.current.marks.sync_disabled is Doubt.SAYS_FALSE
    else:
        offered = (claim for claim in state.claims if claim.owner == owner_of(decision))
        is_doubtful = reason is Reason.SYNC_DISABLED and any(c.sync_disabled is Doubt.SAYS_FALSE for c in offered)
    return MESSAGES_FOR_FALSE[reason] if is_doubtful else _MESSAGES.get(reason, "")


def _waiting(state: TargetState, reason: Reason) -> list[ReportedResult]:
    """Report every claim as waiting: the winner is known once the target's kind is listed here (R2), or it is free."""
    waiting: list[ReportedResult] = []
    for claim in state.claims:
        if _is_offered(claim):
            outcome = TargetResult(claim.rule, claim.owner, ResultClass.WAITING, reason.value)
            report = ReportedResult(outcome, message_of(reason), claim.source)
            waiting += [report, *_of_rivals(report, claim.rivals)]
    return waiting + _barred(state, {one.outcome.place for one in waiting})


def _lost(
    state: TargetState, winner: Claim, reason: Reason, name_of: Callable[[ClusterUID], str]
) -> Iterator[tuple[Claim, ReportedResult]]:
    """Yield the claims that lose this target: the younger ones (O8), or all of them to a native object (O1)."""
    for claim in state.claims if not state.membership else ():
        if _is_offered(claim) and not claim.is_of(winner.source):
            why, message = _why_lost(claim, winner, reason, name_of)
            outcome = TargetResult(claim.rule, claim.owner, ResultClass.CONFLICTING, why.value)
            yield claim, ReportedResult(outcome, message, claim.source)


def _is_offered(claim: Claim) -> bool:
    may_be_made = claim.barrier is None and not claim.sync_disabled
    return claim.voice is Voice.OWNER and not claim.deleting and may_be_made


def _why_lost(claim: Claim, winner: Claim, reason: Reason, name_of: Callable[[ClusterUID], str]) -> tuple[Reason, str]:
    if reason is Reason.LOCAL_OBJECT_EXISTS:
        return reason, _MESSAGES[reason]
    older = f"{winner.kind.kind} {winner.key}" if claim.owner == winner.owner else "an older object"
    message = f"{older}, of cluster {name_of(winner.owner)}, has this place: it is taken over when that source goes"
    return Reason.CONFLICT, message


def _barred(state: TargetState, reported: Set[Place]) -> list[ReportedResult]:
    """List the results of rules that claim this target and may not write it here."""
    found: dict[Place, ReportedResult] = {}
    for claim in state.claims:
        for rule, barrier in (Rival(claim.rule, claim.barrier), *claim.rivals):
            if barrier is not None and (rule, claim.owner) not in reported:
                reason = BARRED[barrier]
                report = ReportedResult(
                    TargetResult(rule, claim.owner, ResultClass.SKIPPED, reason.value), message_of(reason)
                )
                found.setdefault((rule, claim.owner), report)
    return list(found.values())


def rule_of(state: TargetState, decision: Decision) -> str:
    """Return the name of a decision's rule: the rule of the owner's claim, else the rule that made the copy."""
    return _rule_of(state, _winner(state, decision))


def _rule_of(state: TargetState, winner: Claim | None) -> str:
    return winner.rule if winner is not None else state.origin.rule or (state.claims[0].rule if state.claims else "")


def _winner(state: TargetState, decision: Decision) -> Claim | None:
    """Return the claim that a decision is about: among its owner's claims, the one of the copy's source."""
    if isinstance(decision, Apply):
        return decision.claim
    owned = (claim for claim in state.claims if claim.owner == decision.owner)
    return min(owned, key=lambda c: (c.barrier is not None, not c.is_of(state.copied_from)), default=None)


UNREPORTED: Final = frozenset({
    Reason.NO_LONGER_WANTED, Reason.RULE_GONE, Reason.NOT_SELECTED, Reason.NOT_FOR_THIS_CLUSTER,
    Reason.OTHER_KIND, Reason.OWNER_LEFT, Reason.UNKNOWN_OWNER, Reason.NOT_WANTED, Reason.OUR_OWN,
})  # fmt: skip

_WAITS_HERE: Final = frozenset({
    Reason.NAMESPACE_MISSING, Reason.NAMESPACE_TERMINATING, Reason.NEW_COPY_MISSING, Reason.BEING_DELETED,
    Reason.CONTENT_REMAINS, Reason.LATER_FORMAT,
})  # fmt: skip
"""The holds that something in this cluster ends: until then the rule is not in sync."""

_MESSAGES: Final = {
    reason: message_of(reason)
    for reason in (
        Reason.LOCAL_OBJECT_EXISTS,
        Reason.NAMESPACE_MISSING,
        Reason.NAMESPACE_TERMINATING,
        Reason.BEING_DELETED,
        Reason.CONTENT_REMAINS,
        Reason.OWNER_SILENT,
        Reason.DELETED_HERE,
        Reason.LATER_FORMAT,
        Reason.DELETION_HALTED,
        Reason.NOT_EVALUATED,
        Reason.TARGETS_UNREADABLE,
        *BARRED.values(),
    )
}
"""The messages of the reasons that a person may have to act on."""
