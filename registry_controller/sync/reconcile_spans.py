"""The span of a reconcile: which copy, of which rule and owner, with which result.

Law: a span has names and reasons only, as a log line has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from registry_controller.api.errors import ApiError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import owner_of
from registry_controller.report.tracing import Tracing
from registry_controller.sync.outcomes import rule_of
from registry_controller.sync.reconciler import Reconciliation


class ReconcileTracer:
    """Makes a span for each reconcile; `name_of` returns the name of a cluster."""

    def __init__(self, tracing: Tracing, *, name_of: Callable[[ClusterUID], str]) -> None:
        self._tracing = tracing
        self._name_of = name_of

    async def trace(
        self, target: Target, waited_s: float, reconcile: Callable[[Target], Awaitable[Reconciliation]]
    ) -> Reconciliation:
        """Reconcile a key whose event was `waited_s` seconds ago, within a span."""
        with self._tracing.reconcile(waited_s=waited_s) as span:
            found = await reconcile(target)
            decision, error = found.result.decision, found.error
            owner = owner_of(decision)
            span.end(
                attributes={
                    "rule": rule_of(found.judgment.state, decision),
                    "owner": self._name_of(owner) if owner else "",
                    "group": target.group,
                    "kind": target.kind,
                    "namespace": target.namespace,
                    "name": target.name,
                    "decision": type(decision).__name__,
                    "reason": decision.reason.value,
                },
                error=_reason_of(error) if error is not None else "",
            )
            return found


def _reason_of(error: Exception) -> str:
    return error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
