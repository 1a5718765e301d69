"""Records the result of a key, and decides when the key comes back.

Law: one failing object never blocks another.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from registry_controller.api.errors import (
    ApiError,
    Conflict,
    NotFound,
    NotYet,
    RegistryError,
    TooManyRequests,
)
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, NeedsProof, Reason, Skip, owner_of
from registry_controller.core.decision.state import TargetState
from registry_controller.report.logs import get_logger
from registry_controller.report.metrics import Metrics
from registry_controller.report.reasons import explain_refusal
from registry_controller.sync.outcomes import RECHECKED, WriteFailure, outcomes_of
from registry_controller.sync.reconciler import Judgment, Reconciliation
from registry_controller.sync.results import Results
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)

_SHOWN: Final = 5


class Recorder:
    """Records results in metrics, logs and the results of rules, and adds keys again that come back."""

    def __init__(
        self, *, queue: WorkQueue[Target], results: Results, metrics: Metrics, name_of: Callable[[ClusterUID], str]
    ) -> None:
        self._queue = queue
        self._results = results
        self._metrics = metrics
        self._outcomes = functools.partial(outcomes_of, name_of=name_of)

    def record(self, target: Target, found: Reconciliation, queued_s: float) -> None:
        """Record the result of a key whose event was at `queued_s` of the loop's time."""
        if found.error is not None:
            self._record_failure(target, found.judgment, found.error)
            return
        decision, state = found.result.decision, found.judgment.state
        reason = decision.reason.value
        self._bring_back(target, decision, state)
        self._metrics.decided(decision=type(decision).__name__, reason=reason)
        if isinstance(decision, Apply):
            self._metrics.copy_delay_seconds.observe(asyncio.get_running_loop().time() - queued_s)
            self._results.record_write((decision.claim.rule, decision.claim.owner), datetime.now(UTC))
        if decision.reason is Reason.DELETION_JUDGED:  # over in a moment: there is nothing to report yet
            return
        losers, lost = found.result.losers, found.result.lost
        changed = self._results.record(target, self._outcomes(decision, state, losers=losers, lost=lost))
        _log_lost(target, lost if changed else ())
        match decision:
            case Apply():
                if decision.reason is Reason.HISTORY_RESTORED:
                    place = (decision.claim.rule, decision.claim.owner)
                    self._results.record_history_restored(place, datetime.now(UTC))
                log.info("copy written", target=target, reason=reason, owner=decision.claim.owner)
            case Delete():
                log.info("copy deleted", target=target, reason=reason, owner=decision.owner)
            case Hold() | Skip() | NeedsProof():
                if changed:
                    log.debug("copy left unchanged", target=target, reason=reason)

    def _bring_back(self, target: Target, decision: Decision, state: TargetState) -> None:
        """Add a key again that no event brings back: whose question is asked again, or that may match until then."""
        if decision.reason is Reason.DELETION_JUDGED:
            return  # it comes back in a moment, and a question that is asked again then waits longer each time
        if isinstance(decision, Hold) and decision.reason in RECHECKED:
            self._queue.retry(target, at_least_s=1.0)
            return
        self._queue.reset_backoff(target)
        lost = state.origin.lost_match
        if isinstance(decision, Hold) and decision.reason is Reason.MAY_MATCH_AGAIN and lost is not None:
            delay_s = lost.due_s - asyncio.get_running_loop().time()
            self._queue.add_after(target, max(0.0, delay_s), decision.owner or "")

    def _record_failure(self, target: Target, judgment: Judgment, error: RegistryError) -> None:
        state, decision = judgment.state, judgment.decision
        if isinstance(error, Conflict):
            self._queue.retry(target)
            return
        if isinstance(error, NotFound) and error.details_kind == "namespaces":
            missing = Hold(Reason.NAMESPACE_MISSING, owner_of(decision))
            self._results.record(target, self._outcomes(missing, state))
            self._queue.retry(target, at_least_s=1.0)
            return
        if isinstance(error, NotYet):
            self._queue.reset_backoff(target)  # a wait by choice is no failure, and has its own end
        wait_s = error.retry_after_s if isinstance(error, TooManyRequests | NotYet) else 0.0
        is_told_to_wait = isinstance(error, TooManyRequests) and wait_s > 0
        delay_s = self._queue.retry(target, at_least_s=wait_s, not_before=is_told_to_wait)
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        reports = self._outcomes(decision, state, failure=WriteFailure(reason, explain_refusal(error)))
        if reports and self._results.record(target, reports):
            log.warning(
                "copy cannot be brought in step", target=target, error=str(error), retryAfterSeconds=round(delay_s, 2)
            )
        self._metrics.decided(decision=type(decision).__name__, reason=reason)


def _log_lost(target: Target, lost: Sequence[str]) -> None:
    if lost:
        log.warning("the API server does not store all fields of a copy", target=target, fields=list(lost[:_SHOWN]))
