"""Workers: take a key, have it judged and carried out, say what became of it.

Laws: level-based, a worker decides afresh each time · one failing object never blocks another.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Mistake,
    NotFound,
    NotYet,
    RegistryError,
    TooManyRequests,
)
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Apply, Delete, Hold, Reason, Skip, owner_of
from registry_controller.core.decision.state import TargetState
from registry_controller.report.logs import get_logger
from registry_controller.report.metrics import Metrics
from registry_controller.report.reasons import granting
from registry_controller.sync.applier import Applier, Result
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.outcomes import RECHECKED, WriteFailure, outcomes_of
from registry_controller.sync.reconciler import Judgment, Reconciler
from registry_controller.sync.results import Results
from registry_controller.sync.workqueue import WorkQueue

log = get_logger(__name__)


class Controller:
    """What all worker tasks share."""

    def __init__(
        self,
        *,
        queue: WorkQueue,
        judge: Reconciler,
        brake: DeletionLimiter,
        carrier: Applier,
        ledger: Results,
        metrics: Metrics,
        name_of: Callable[[ClusterUID], str],
    ) -> None:
        self._queue = queue
        self._judge = judge
        self._brake = brake
        self._carrier = carrier
        self._ledger = ledger
        self._metrics = metrics
        self._outcomes = functools.partial(outcomes_of, name_of=name_of)

    async def run(self) -> NoReturn:
        """Work forever."""
        while True:
            target, wanted_at = await self._queue.get()
            now = asyncio.get_running_loop().time()
            self._metrics.workqueue_latency_seconds.observe(now - wanted_at)
            try:
                await self._process(target, wanted_at)
            finally:
                self._queue.done(target)

    async def _process(self, target: Target, wanted_at: float) -> None:
        judgement = self._judge.decide(target)
        if await self._carrier.take_turn(judgement):
            judgement = self._judge.decide(target)
        try:
            judgement = await self._judge.decide_with_proof(judgement)
            weighed = self._brake.judge(target, judgement.decision, rule=judgement.view.rule)
            if weighed is not judgement.decision:
                judgement = judgement._replace(decision=weighed)
            carried = await self._carrier.apply(judgement)
        except RegistryError as error:
            self._failed(target, judgement, error)
        except Exception as error:  # what is written, and by which rule, may be a stranger's
            self._failed(target, judgement, Mistake.of(error, path="spec.rules"))
        else:
            self._settled(target, judgement.view, carried, wanted_at)

    def _settled(self, target: Target, view: TargetState, carried: Result, wanted_at: float) -> None:
        decision = carried.decision
        if isinstance(decision, Hold) and decision.reason in RECHECKED:
            self._queue.retry(target, at_least_s=1.0)
        else:
            self._queue.reset_backoff(target)
        self._metrics.decided(decision=type(decision).__name__, reason=decision.reason.value)
        if isinstance(decision, Apply):
            self._metrics.relay_seconds.observe(asyncio.get_running_loop().time() - wanted_at)
            self._ledger.record_write((decision.claim.rule, decision.claim.owner), datetime.now(UTC))
        if decision.reason is Reason.DELETION_JUDGED:  # over in a moment: nothing to say yet
            return
        changed = self._ledger.record(target, self._outcomes(decision, view, losers=carried.losers))
        match decision:
            case Apply():
                if decision.reason is Reason.HISTORY_RESTORED:
                    self._ledger.record_history_restored((decision.claim.rule, decision.claim.owner), datetime.now(UTC))
                log.info("wrote copy", target=str(target), reason=decision.reason.value, owner=decision.claim.owner)
            case Delete():
                log.info("deleted copy", target=str(target), reason=decision.reason.value, owner=decision.owner)
            case Hold() | Skip():
                if changed:
                    log.debug("left as it is", target=str(target), reason=decision.reason.value)

    def _failed(self, target: Target, judgement: Judgment, error: RegistryError) -> None:
        view, decision = judgement.view, judgement.decision
        if isinstance(error, Conflict):
            self._queue.retry(target)
            return
        if isinstance(error, NotFound) and error.details_kind == "namespaces":
            missing = Hold(Reason.NAMESPACE_MISSING, owner_of(decision))
            self._ledger.record(target, self._outcomes(missing, view))
            self._queue.retry(target, at_least_s=1.0)
            return
        if isinstance(error, NotYet):
            self._queue.reset_backoff(target)  # to wait by choice is no failure, and it ends when it was said to
        wait_s = error.retry_after_s if isinstance(error, TooManyRequests | NotYet) else 0.0
        is_told_to_wait = isinstance(error, TooManyRequests) and wait_s > 0
        delay_s = self._queue.retry(target, at_least_s=wait_s, not_before=is_told_to_wait)
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        said = self._outcomes(decision, view, failure=WriteFailure(reason, _words(error)))
        if said and self._ledger.record(target, said):
            log.warning("cannot bring copy into step", target=str(target), error=str(error), retry_s=round(delay_s, 2))
        self._metrics.decided(decision=type(decision).__name__, reason=reason)


def _words(error: RegistryError) -> str:
    """Say what went wrong; of a missing right, what grants it (S3)."""
    if isinstance(error, Forbidden) and error.lacks_right:
        return f"{error}; {granting(meta.CONTROLLER_AGGREGATED, place='here')}"
    return str(error)
