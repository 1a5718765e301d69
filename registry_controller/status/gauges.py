"""Read the engine's own numbers into the metrics, when somebody asks for them.

Law: the hot path counts in plain integers; what a scrape costs is paid by the scrape.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from registry_controller.api.meta import ClusterUID
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.report.metrics import Metrics
from registry_controller.sync.results import ResultClass, Results
from registry_controller.sync.workqueue import WorkQueue


class Gauges:
    """The numbers of one daemon."""

    def __init__(
        self, *, metrics: Metrics, queue: WorkQueue, clusters: ClusterProvider, sources: SourceIndex, results: Results
    ) -> None:
        self._metrics = metrics
        self._queue = queue
        self._clusters = clusters
        self._sources = sources
        self._results = results
        self._counted_adds = 0
        self._counted_retries = 0
        self._counted_events: Counter[tuple[str, str]] = Counter()

    def render(self, accept: str) -> tuple[bytes, str]:
        """Bring the metrics up to date and spell them."""
        metrics = self._metrics
        metrics.workqueue_depth.set(len(self._queue))
        metrics.tasks.set(len(asyncio.all_tasks()))
        metrics.workqueue_adds_total.inc(self._queue.added - self._counted_adds)
        metrics.workqueue_retries_total.inc(self._queue.retried - self._counted_retries)
        self._counted_adds, self._counted_retries = self._queue.added, self._queue.retried
        self._count_peers()
        self._count_caches()
        self._count_copies()
        return metrics.render(accept)

    def _count_peers(self) -> None:
        states: Counter[str] = Counter()
        for resolved in self._clusters.resolved.values():
            if resolved.cluster.cluster_id != self._clusters.local:
                peer = self._clusters.peers.get(resolved.cluster.cluster_id)
                connected = peer is not None and peer.is_connected and not resolved.alias_of
                states["connected" if connected else "disabled" if resolved.disabled else "not connected"] += 1
        self._metrics.peers.clear()
        for state, count in states.items():
            self._metrics.peers.labels(state=state).set(count)

    def _count_caches(self) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        self._metrics.reflector_stalled.clear()
        for cache in self._sources.all_caches():
            place = (self._name_of(cache.peer), cache.kind.kind)
            streams = cache.streams.values()
            counts[place] += sum(stream.events for stream in streams)
            stalled = any(stream.error is not None for stream in streams)
            self._metrics.reflector_stalled.labels(peer=place[0], kind=place[1]).set(stalled)
        for (peer, kind), count in counts.items():
            fresh = count - self._counted_events[(peer, kind)]
            self._metrics.watch_events_total.labels(peer=peer, kind=kind).inc(max(fresh, 0))
        self._counted_events = counts

    def _count_copies(self) -> None:
        synced: Counter[tuple[str, str]] = Counter()
        held: Counter[tuple[str, str]] = Counter()
        for place in self._results.all_places():
            rule, owner = place
            active = self._clusters.active.get(rule)
            counts = self._results.counts(place)
            synced[(self._name_of(owner), active.rule.kind.kind if active else "")] += counts[ResultClass.SYNCED]
        for outcome, count in self._results.held():
            held[(self._name_of(outcome.owner), outcome.reason)] += count
        self._metrics.objects_synced.clear()
        for (peer, kind), count in synced.items():
            self._metrics.objects_synced.labels(peer=peer, kind=kind).set(count)
        self._metrics.held.clear()
        for (peer, reason), count in held.items():
            self._metrics.held.labels(peer=peer, reason=reason).set(count)

    def _name_of(self, member: ClusterUID) -> str:
        peer = self._clusters.peers.get(member)
        return peer.name if peer is not None else str(member)
