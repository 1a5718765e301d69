"""Copies the engine's counters and gauges into the metrics at each scrape.

Law: the hot path counts in plain integers; a scrape pays for its own cost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.report.metrics import Metrics
from registry_controller.sync.results import ResultClass, Results
from registry_controller.sync.workqueue import WorkQueue

_STATES: Final[Mapping[ResultClass, str]] = {
    ResultClass.SYNCED: "in_step",
    ResultClass.WAITING: "behind",
    ResultClass.FAILING: "failing",
    ResultClass.HELD: "held",
    ResultClass.CONFLICTING: "conflicting",
    ResultClass.SKIPPED: "skipped",
}
"""The label `state` of the metric `copies`."""


class Gauges:
    """The metrics of one daemon that are read at a scrape."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        queue: WorkQueue[Target],
        clusters: ClusterProvider,
        sources: SourceIndex,
        results: Results,
        token_expires_at_s: Callable[[], float],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._queue = queue
        self._clusters = clusters
        self._sources = sources
        self._results = results
        self._token_expires_at_s = token_expires_at_s
        self._now_s = now_s
        self._counted_adds = 0
        self._counted_retries = 0
        self._counted_events: Counter[tuple[str, str]] = Counter()

    def render(self, accept: str) -> tuple[bytes, str]:
        """Update the metrics; return the text for an Accept header, and its content type."""
        metrics = self._metrics
        metrics.workqueue_depth.set(len(self._queue))
        metrics.tasks.set(len(asyncio.all_tasks()))
        metrics.workqueue_adds_total.inc(self._queue.added - self._counted_adds)
        metrics.workqueue_retries_total.inc(self._queue.retried - self._counted_retries)
        self._counted_adds, self._counted_retries = self._queue.added, self._queue.retried
        metrics.reader_token_expiry_timestamp_seconds.set(self._token_expires_at_s())
        self._count_peers()
        self._count_caches()
        self._count_copies()
        return metrics.render(accept)

    def _count_peers(self) -> None:
        states: Counter[str] = Counter()
        up, contact = self._metrics.peer_up, self._metrics.peer_last_contact_timestamp_seconds
        up.clear()
        contact.clear()
        for name, choice in self._clusters.resolved.items():
            if choice.cluster.cluster_id != self._clusters.local:
                peer = self._clusters.peers.get(choice.cluster.cluster_id)
                connected = peer is not None and peer.is_connected and not choice.alias_of
                states["connected" if connected else "disabled" if choice.disabled else "not connected"] += 1
                if choice.disabled or choice.alias_of:
                    continue
                up.labels(peer=name).set(peer is not None and peer.is_connected and peer.is_alive)
                if peer is not None and peer.silence_s is not None:
                    contact.labels(peer=name).set(self._now_s() - peer.silence_s)
        self._metrics.peers.clear()
        for state, count in states.items():
            self._metrics.peers.labels(state=state).set(count)

    def _count_caches(self) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        self._metrics.reflector_stalled.clear()
        for cache in self._sources.all_caches():
            place = (self._name_of(cache.peer), cache.kind.kind)
            counts[place] += cache.events
            stalled = any(read.error is not None for read in cache.reads)
            self._metrics.reflector_stalled.labels(peer=place[0], kind=place[1]).set(stalled)
        for (peer, kind), count in counts.items():
            added = count - self._counted_events[(peer, kind)]
            self._metrics.watch_events_total.labels(peer=peer, kind=kind).inc(max(added, 0))
        for peer in {peer for peer, _ in self._counted_events} - {peer for peer, _ in counts}:
            self._metrics.forget_peer(peer)
        self._counted_events = counts

    def _count_copies(self) -> None:
        synced: Counter[tuple[str, str]] = Counter()
        held: Counter[tuple[str, str]] = Counter()
        copies: Counter[tuple[str, str]] = Counter()
        for place in self._results.all_places():
            rule, owner = place
            active = self._clusters.active.get(rule)
            counts = self._results.counts(place)
            for result, state in _STATES.items():
                copies[(rule, state)] += counts[result]
            synced[(self._name_of(owner), active.rule.kind.kind if active else "")] += counts[ResultClass.SYNCED]
        for outcome, count in self._results.held():
            held[(self._name_of(outcome.owner), outcome.reason)] += count
        self._metrics.objects_synced.clear()
        for (peer, kind), count in synced.items():
            self._metrics.objects_synced.labels(peer=peer, kind=kind).set(count)
        self._metrics.copies.clear()
        for (rule, state), count in copies.items():
            self._metrics.copies.labels(rule=rule, state=state).set(count)
        self._metrics.held.clear()
        for (peer, reason), count in held.items():
            self._metrics.held.labels(peer=peer, reason=reason).set(count)

    def _name_of(self, peer: ClusterUID) -> str:
        connected = self._clusters.peers.get(peer)
        return connected.name if connected is not None else str(peer)
