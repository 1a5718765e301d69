"""Keeps the members that have left, and which of their copies their removal waits for (O6).

`membership/tombstones.py` collects the tombstones, and `core/decision/tombstones.py` decides which members they remove.
`membership/absences.py` observes members that lack their own Cluster. `core/decision/membership.py` decides on the
deletion of the Cluster and the Secret of a member that has left.

Laws: a Cluster that is only missing here, or only for a while there, proves nothing · the reconciler removes the copies
of a leaving member first, and its Cluster last, so that a restart finds in the cluster everything that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import HERE, CopyRecord
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.core.decision.decision import Decision
from registry_controller.core.decision.membership import left_after
from registry_controller.core.decision.state import TargetState, is_container
from registry_controller.membership.absences import Absences
from registry_controller.report.logs import get_logger

log = get_logger(__name__)


class DepartureObserver(Protocol):
    """Receives the effects of departures."""

    def on_departure(self, member: ClusterUID) -> None:
        """A member has left or is back: its objects and copies need new decisions."""

    def on_cluster_due(self, target: Target, flow: str) -> None:
        """The removal of this Cluster waited for a copy, which has changed."""


class Departures:
    """The members that have left, each with the last known revision of its Cluster."""

    def __init__(
        self,
        *,
        copies: CopyIndex,
        absences: Absences,
        rule_states: RuleStates,
        observer: DepartureObserver,
    ) -> None:
        self.left: Mapping[ClusterUID, int] = {}
        self._copies = copies
        self._absences = absences
        self._rule_states = rule_states
        self._observer = observer
        self._waits_for: dict[Target, ClusterUID] = {}

    def leaves_behind(self, member: ClusterUID) -> bool:
        """Return whether copies of a member's objects are still to be removed here; `on_copy_changed` ends the wait."""
        behind = next(self._left_behind(member), None)
        if behind is not None:
            self._waits_for[behind] = member
            log.debug("copies of a leaving member are still here", clusterID=member, first=behind)
        return behind is not None

    def on_copy_changed(self, target: Target) -> None:
        """Report the Cluster of a member whose removal waited for this copy."""
        if target not in self._waits_for:
            return
        member = self._waits_for.pop(target)
        if (cache := self._copies.cache_of(*meta.CLUSTER_KIND)) is not None:
            for key, record in cache.records.items():
                if record.natural == member:
                    self._observer.on_cluster_due(cache.target(key), record.marks.owner or HERE)

    def _left_behind(self, member: ClusterUID) -> Iterator[Target]:
        return (
            cache.target(key)
            for cache in self._copies.all_caches()
            if (cache.kind.group, cache.kind.kind) != meta.CLUSTER_KIND
            for key in cache.find(lambda group: group.owner == member)
            if self._must_go(cache.target(key), cache.records[key])
        )

    def _must_go(self, target: Target, record: CopyRecord) -> bool:
        """Report whether a copy goes before the Cluster of its owner.

        A container goes once it is empty, however long that takes: it needs no Cluster for that.
        """
        return (
            self._rule_states.deletes_unwanted(record.marks.provenance)
            and not record.deleting
            and not record.marks.frozen
            and not self._is_barred(target, record)
            and not is_container(target)
        )

    def _is_barred(self, target: Target, record: CopyRecord) -> bool:
        """Return whether the rule that made a copy may not change it here."""
        barrier = self._rule_states.barrier(target, record.marks.provenance, secret_type=record.kind_type)
        return barrier is not None

    def record_decision(self, decision: Decision, state: TargetState) -> None:
        """Record from the decision on a Cluster that its member has left, or is back."""
        was, self.left = self.left, left_after(self.left, decision, state, is_present=self._absences.is_present)
        for member in self.left.keys() ^ was.keys():
            if member in self.left:
                log.info("member left", clusterID=member)
            else:
                log.info("member is back", clusterID=member)
            self._observer.on_departure(member)
