"""Metrics of one daemon, in a registry of its own.

Law: no label holds the name of a synced object or its data. The labels `peer` and `rule` hold the names of Clusters and
rules, whose number is bounded.
Tests compare the docs and the dashboard with the table `METRICS`.
"""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from registry_controller import __version__

PREFIX: Final = "registrycontroller_"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A row: the name without the prefix, `counter`, `gauge` or `histogram`, the labels and the help text."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


METRICS: Final = (
    Metric("decisions_total", "counter", ("decision", "reason"), "Decisions, by their kind and reason."),
    Metric("writes_total", "counter", ("verb", "kind", "result"), "Writes to the local API server."),
    Metric("write_seconds", "histogram", ("verb",), "Duration of writes to the local API server, in seconds."),
    Metric("watch_events_total", "counter", ("peer", "kind"), "Watch events that were received."),
    Metric("reflector_stalled", "gauge", ("peer", "kind"), "1 while a kind cannot be read from a peer."),
    Metric("peers", "gauge", ("state",), "Peers, by their state."),
    Metric("peer_up", "gauge", ("peer",), "1 while a peer is connected and answers, else 0. Disabled peers have none."),
    Metric(
        "peer_last_contact_timestamp_seconds", "gauge", ("peer",),
        "When a peer last sent anything, in seconds since 1970.",
    ),
    Metric(
        "reader_token_expiry_timestamp_seconds", "gauge", (),
        "When the published token expires, in seconds since 1970; +Inf for never, NaN while that is not known.",
    ),
    Metric("copies", "gauge", ("rule", "state"), "Copies of a rule here, by their state."),
    Metric("objects_synced", "gauge", ("peer", "kind"), "Copies here that are in step with their source."),
    Metric("held", "gauge", ("peer", "reason"), "Copies that wait for proof or permission before they change."),
    Metric("workqueue_depth", "gauge", (), "Keys that wait for a worker."),
    Metric("workqueue_adds_total", "counter", (), "Keys that were put into the queue."),
    Metric("workqueue_retries_total", "counter", (), "Keys that were put back after a failure."),
    Metric("workqueue_latency_seconds", "histogram", (), "How long a key waited for a worker, in seconds."),
    Metric(
        "copy_delay_seconds", "histogram", (),
        "From a change to its copy, in seconds: from the watch event of the source, or of the rule, to the end of the "
        "write.",
    ),
    Metric("condition_transitions_total", "counter", ("type", "status"), "Conditions whose status or reason changed."),
    Metric("kube_events_total", "counter", ("result",), "Kubernetes Events, by their result."),
    Metric("kopf_restarts_total", "counter", (), "Restarts of kopf, which watches our own kinds."),
    Metric("tasks", "gauge", (), "Tasks of the daemon's event loop."),
    Metric("build_info", "gauge", ("version", "python"), "1, with the version of the daemon."),
)  # fmt: skip
_TABLE: Final = {metric.name: metric for metric in METRICS}


class Metrics:
    """The metrics of one daemon, as attributes with the names of the table's rows."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._decided: dict[tuple[str, str], Counter] = {}  # a lookup by labels costs more than the count
        self._written: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self.decisions_total = self._counter("decisions_total")
        self.writes_total = self._counter("writes_total")
        self.write_seconds = self._histogram("write_seconds")
        self.watch_events_total = self._counter("watch_events_total")
        self.reflector_stalled = self._gauge("reflector_stalled")
        self.peers = self._gauge("peers")
        self.peer_up = self._gauge("peer_up")
        self.peer_last_contact_timestamp_seconds = self._gauge("peer_last_contact_timestamp_seconds")
        self.reader_token_expiry_timestamp_seconds = self._gauge("reader_token_expiry_timestamp_seconds")
        self.reader_token_expiry_timestamp_seconds.set(math.nan)
        self.copies = self._gauge("copies")
        self.objects_synced = self._gauge("objects_synced")
        self.held = self._gauge("held")
        self.workqueue_depth = self._gauge("workqueue_depth")
        self.workqueue_adds_total = self._counter("workqueue_adds_total")
        self.workqueue_retries_total = self._counter("workqueue_retries_total")
        self.workqueue_latency_seconds = self._histogram("workqueue_latency_seconds")
        self.copy_delay_seconds = self._histogram("copy_delay_seconds")
        self.condition_transitions_total = self._counter("condition_transitions_total")
        self.kube_events_total = self._counter("kube_events_total")
        self.kopf_restarts_total = self._counter("kopf_restarts_total")
        self.tasks = self._gauge("tasks")
        self.build_info = self._gauge("build_info")
        self.build_info.labels(version=__version__, python=platform.python_version()).set(1)
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def decided(self, *, decision: str, reason: str) -> None:
        """Count a decision."""
        child = self._decided.get((decision, reason))
        if child is None:
            child = self._decided[decision, reason] = self.decisions_total.labels(decision=decision, reason=reason)
        child.inc()

    def wrote(self, *, verb: str, kind: str, result: str, seconds: float) -> None:
        """Count a write; `result` is `ok` or the reason of the error."""
        child = self._written.get((verb, kind, result))
        if child is None:
            total = self.writes_total.labels(verb=verb, kind=kind, result=result)
            child = self._written[verb, kind, result] = total, self.write_seconds.labels(verb=verb)
        total, duration = child
        total.inc()
        duration.observe(seconds)

    def forget_peer(self, peer: str) -> None:
        """Drop every series of a peer that is no longer a member."""
        for metric in (self.watch_events_total, self.reflector_stalled, self.objects_synced, self.held):
            metric.remove_by_labels({"peer": peer})

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Format all metrics as the `Accept` header requests; return body and content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _counter(self, name: str) -> Counter:
        row = _TABLE[name]
        return Counter(PREFIX + name, row.help, row.labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        row = _TABLE[name]
        return Gauge(PREFIX + name, row.help, row.labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        row = _TABLE[name]
        return Histogram(PREFIX + name, row.help, row.labels, registry=self.registry, buckets=_SECONDS)
