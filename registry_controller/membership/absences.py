"""Counts for how long live members have had no Cluster of themselves: long enough, that is a departure (O6).

Law: the beginning of an absence is in the condition `OwnClusterMissing` of the member's Cluster here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.errors import NotServed
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.absence import (
    Absence,
    OwnClusterFacts,
    lasts_from_s,
    left_from_s,
    observe_absence,
)
from registry_controller.core.status.cluster import OWN_CLUSTER_MISSING, OwnCluster
from registry_controller.report.logs import get_logger

log = get_logger(__name__)


class AbsenceObserver(Protocol):
    """Receives the effects of absences."""

    def on_member_changed(self, member: ClusterUID) -> None:
        """The objects and copies of this member need new decisions."""


class Absences:
    """The absences of the members' own Clusters, by member.

    An absence of `lasts_s` seconds is a departure; 0 is never. `window_s` is the stabilization window. `now` is the
    wall clock, in which an absence outlives a restart. `had_own` are the members of which a Cluster of themselves was
    read there since they are connected.
    """

    def __init__(
        self,
        *,
        lasts_s: int,
        window_s: float,
        registry: Registry,
        sources: SourceIndex,
        peers: Mapping[ClusterUID, Peer],
        now: Callable[[], datetime],
        observer: AbsenceObserver,
    ) -> None:
        self.now: Mapping[ClusterUID, Absence] = {}
        self.had_own: frozenset[ClusterUID] = frozenset()
        self.lasts_s = lasts_s
        self._window_s = window_s
        self._registry = registry
        self._sources = sources
        self._peers = peers
        self._wall_now = now
        self._observer = observer
        self._left: frozenset[ClusterUID] = frozenset()

    @property
    def due_s(self) -> float | None:
        """In how many seconds time alone changes something; None for never."""
        now_s = _now_s()
        due_s = [at_s - now_s for absence in self.now.values() if (at_s := self._lasts_from_s(absence)) is not None]
        return min((found for found in due_s if found > 0), default=None)

    def update(self) -> None:
        """Observe every peer, and report the members that have left, or are back."""
        now_s = _now_s()
        found, having = {}, set[ClusterUID]()
        for member, peer in self._peers.items():
            facts, before = self._facts(member, peer), self.now.get(member)
            if facts.has_own or member in self.had_own:
                having.add(member)
            is_new = before is None and facts.is_heard and not facts.has_own
            stored_s = self._stored_since_s(member, now_s) if is_new else None
            absence = observe_absence(facts, before, now_s=now_s, stored_since_s=stored_s)
            if absence is not None:
                found[member] = absence
        self.now, self.had_own = found, frozenset(having)
        was, self._left = self._left, frozenset(member for member in found if self._is_over(found[member], now_s))
        for member in sorted(self._left ^ was):
            if member in self._left:
                log.info("a member has had no Cluster of itself for long", clusterID=member, seconds=self.lasts_s)
            self._observer.on_member_changed(member)

    def is_present(self, member: ClusterUID) -> bool | None:
        """Return whether a live member has a Cluster of itself; None while that is unknown."""
        peer = self._peers.get(member)
        facts = self._facts(member, peer) if peer is not None else OwnClusterFacts(is_heard=False)
        return facts.has_own if facts.is_heard else None

    def has_another(self, member: ClusterUID, name: str) -> bool:
        """Return whether a live member is known to have a Cluster of itself under another name than `name`.

        A Cluster of that name does not count: the list of a new rule, or the member's answer, may show before the watch
        that it is gone.
        """
        held = self._peers[member].clusters.held if self.is_present(member) else None
        return any(record.cluster_id == member and key != name for key, record in (held or {}).items())

    def serves_none(self, member: ClusterUID) -> bool:
        """Return whether a member answers, and does not serve Clusters: then it has none."""
        peer, cache = self._peers.get(member), self._sources.cache_of(member, meta.CLUSTER)
        stream = cache.streams.get(EVERYTHING) if cache is not None else None
        is_heard = peer is not None and peer.is_alive and peer.is_connected
        return is_heard and stream is not None and isinstance(stream.error, NotServed)

    def has_left(self, member: ClusterUID) -> bool:
        """Return whether a member has left, because its own Cluster has been missing for long enough."""
        return member in self._left and self.is_present(member) is False

    def lasting(self) -> frozenset[ClusterUID]:
        """Return the members whose own Cluster has been missing for so long that `leave NAME` may remove them."""
        now_s = _now_s()
        ends_s = {member: self._lasts_from_s(absence) for member, absence in self.now.items()}
        return frozenset(member for member, at_s in ends_s.items() if at_s is not None and at_s <= now_s)

    def is_recent(self, member: ClusterUID) -> bool:
        """Return whether a live member has no Cluster of itself, and that has not lasted."""
        return self.is_present(member) is False and member not in self.lasting()

    def report(self, member: ClusterUID) -> OwnCluster:
        """Return the state of the member's own Cluster, for the status of its Cluster here."""
        is_present, absence = self.is_present(member), self.now.get(member)
        if is_present is None or (absence is None and not is_present):
            return OwnCluster.UNKNOWN
        if is_present or absence is None:
            return OwnCluster.PRESENT
        if member in self.lasting():
            return OwnCluster.MISSING_FOR_LONG if absence.has_any else OwnCluster.ALL_MISSING_FOR_LONG
        return OwnCluster.MISSING if absence.has_any else OwnCluster.ALL_MISSING

    def _lasts_from_s(self, absence: Absence) -> float | None:
        return lasts_from_s(absence, lasts_s=self.lasts_s, window_s=self._window_s)

    def _is_over(self, absence: Absence, now_s: float) -> bool:
        at_s = left_from_s(absence, lasts_s=self.lasts_s, window_s=self._window_s)
        return at_s is not None and at_s <= now_s

    def _facts(self, member: ClusterUID, peer: Peer) -> OwnClusterFacts:
        if not peer.is_alive or not peer.is_connected:
            return OwnClusterFacts(is_heard=False)
        if self.serves_none(member):
            return OwnClusterFacts(is_heard=True)
        cache = self._sources.cache_of(member, meta.CLUSTER)
        stream = cache.streams.get(EVERYTHING) if cache is not None else None
        held = peer.clusters.held
        if held is None or not peer.clusters.is_current or stream is None or stream.error is not None:
            return OwnClusterFacts(is_heard=False)
        return OwnClusterFacts(
            is_heard=True, has_own=any(record.cluster_id == member for record in held.values()), has_any=bool(held)
        )

    def _stored_since_s(self, member: ClusterUID, now_s: float) -> float | None:
        """Return since when a condition here reports the absence, on the clock of `now_s`; None without one.

        Only the time counts that a live member's clock shows, too: that of this cluster may have been set.
        """
        for stored in self._registry.clusters_of(member):
            since = meta.condition_since(stored.manifest, OWN_CLUSTER_MISSING)
            if since is not None:
                shown = (peer.time_there for peer in self._peers.values() if peer.is_alive)
                latest = max((time for time in shown if time is not None), default=since)
                return now_s - max(0.0, (min(self._wall_now(), latest) - since).total_seconds())
        return None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
