"""Reports transitions of conditions: one Event and one count each, with the same reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.report.events import EventRecorder, Reference
from registry_controller.report.metrics import Metrics

_BAD_WHEN_TRUE: Final = frozenset({"LocalConflict", "Stalled", "DeletionHalted", "HistoryRestored", "LaterFormat"})
_NEITHER: Final = frozenset({"LocalCluster", "ClustersSynced"})
"""Conditions whose status False is no problem by itself: other conditions warn instead."""

_EXPECTED: Final = frozenset({"Connecting", "ClusterIsDisabled"})
"""Reasons that are no problem: a Cluster is new, or a person has disabled it."""
_COUNTED: Final = frozenset({"Ready", "Reconciling"})
"""Conditions of rules that follow from other ones, which have the Events."""


class Transitions:
    """Receives conditions whose status or reason changed."""

    def __init__(self, *, events: EventRecorder, metrics: Metrics) -> None:
        self._events = events
        self._metrics = metrics

    def report(self, gvr: meta.GVR, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        """Emit the Event of a transition on a Cluster or a rule: Warning for a bad status, else Normal."""
        kind, status = str(condition.get("type", "")), str(condition.get("status", ""))
        self._metrics.condition_transitions_total.labels(type=kind, status=status).inc()
        if gvr == meta.RULES and kind in _COUNTED:
            return
        is_bad = (kind in _BAD_WHEN_TRUE) == (status == "True")
        reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
        is_problem = is_bad and kind not in _NEITHER and reason not in _EXPECTED
        self._events.emit(
            regarding=Reference(meta.CLUSTER if gvr == meta.CLUSTERS else meta.RULE, "", name, uid),
            type="Warning" if is_problem else "Normal",
            reason=reason,
            message=message or reason,
        )
