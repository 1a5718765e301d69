"""Builds the daemon and owns its one TaskGroup."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import secrets
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, GroupKind, Manifest, ObjectKey, Target
from registry_controller.clusters.metadata import LocalMetadata
from registry_controller.core.rules.schema import find_pruned_fields
from registry_controller.engine import Engine
from registry_controller.handlers import KopfWatcher
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.writer import Writer
from registry_controller.local.controller import LocalController
from registry_controller.report import logs
from registry_controller.report.events import EventRecorder, Reference
from registry_controller.report.metrics import Metrics
from registry_controller.report.tracing import Tracing
from registry_controller.report.transitions import Transitions
from registry_controller.settings import Settings
from registry_controller.status.clusters import ClusterStatusReporter
from registry_controller.status.gauges import Gauges
from registry_controller.status.lease import LeaseWriter
from registry_controller.status.readiness import list_pending
from registry_controller.status.reporter import StatusReporter
from registry_controller.status.rules import RuleStatusReporter
from registry_controller.status.summary import StatusSummary
from registry_controller.status.writer import StatusWriter
from registry_controller.sync.applier import Applier, SourceReader
from registry_controller.sync.copy_updater import CopyUpdater
from registry_controller.sync.copy_writer import CopyWriter
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.lost_fields import LostFields
from registry_controller.sync.reconcile_spans import ReconcileTracer
from registry_controller.sync.reconciler import WorkerPool
from registry_controller.sync.recorder import Recorder
from registry_controller.sync.results import Results
from registry_controller.sync.steady_clock import SteadyClock
from registry_controller.sync.workqueue import WorkQueue

log = logs.get_logger(__name__)

_SPARE: Final = 3
"""For each group of this many workers, one more serves the flows of other members."""


class Daemon:
    """The engine, the parts that write, and the parts that report.

    `holder` is the name of the Pod or host, under which the daemon writes its Lease; it writes none without a name.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        writer: Writer,
        local: ClusterUID,
        metrics: Metrics,
        connect_peer: Callable[[Credentials], Reader] = connect_peer,
        holder: str = "",
        tracing: Tracing | None = None,
    ) -> None:
        self._settings = settings
        self._local = local
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._local_metadata = LocalMetadata(reader=writer, changed=self.on_peers_changed)
        self.queue = WorkQueue[Target](at_once=settings.workers)
        self.on_target_changed = self.queue.add
        self.engine = Engine(
            settings,
            client=writer,
            local=local,
            connect_peer=connect_peer,
            observer=self,
            now=lambda: datetime.now(UTC),
        )
        self.registry, self.clusters = self.engine.registry, self.engine.clusters
        self.status_reporter = StatusReporter(
            registry=self.registry,
            local=local,
            is_ready=lambda: self.queue.idle and not list_pending(self.engine),
        )
        self.results = Results(on_change=self.status_reporter.rule_changed)
        self.local_controller = LocalController(
            writer=writer,
            settings=settings,
            cluster_id=local,
            tombstones=self.engine.tombstones,
            deleted_rules=self.engine.rule_deletions,
            log=log,
            lost_clusters=self.engine.lost_clusters,
            writes_version=self.engine.replicas.writes_version,
            on_change=self.on_peers_changed,
        )
        self.events = EventRecorder(
            writer,
            namespace=settings.namespace,
            instance=socket.gethostname(),
            on_result=lambda result: metrics.kube_events_total.labels(result=result).inc(),
        )
        transitions = Transitions(events=self.events, metrics=metrics)
        self.status_writer = StatusWriter(
            writer,
            lambda: datetime.now(UTC),
            on_transition=transitions.report,
            writes_status_of=self.engine.replicas.writes_status_of,
        )
        self.summary = StatusSummary(
            registry=self.registry,
            clusters=self.clusters,
            local=local,
            definitions=self.engine.local_cluster.definitions.report_ours,
            now=lambda: datetime.now(UTC),
        )
        self._lease = self._build_lease(writer, holder)
        self.deletion_limiter = DeletionLimiter(
            percent=functools.partial(self.engine.replicas.lowest_limit, settings.deletion_limit_percent),
            queue=self.queue,
            copies=self.engine.copies,
            registry=self.registry,
            changed=self.status_reporter.rule_changed,
            owner_changed=self.status_reporter.cluster_counts_changed,
            now=SteadyClock(datetime.now(UTC), now_s=self._loop.time).now,
            has_earlier=self.engine.rule_deletions.has_earlier,
            has_lost_feature=self.engine.rule_states.has_lost_feature,
        )
        self.lost_fields = LostFields(reader=writer, copies=self.engine.copies, enqueue=self.queue.add)
        self.workers = WorkerPool(
            queue=self.queue,
            reconcile=functools.partial(
                self.engine.reconciler.reconcile, limiter=self.deletion_limiter, applier=self._build_applier(writer)
            ),
            recorder=Recorder(
                queue=self.queue, results=self.results, metrics=metrics, name_of=self.engine.clusters.name_of
            ),
            metrics=metrics,
            tracer=None if tracing is None else ReconcileTracer(tracing, name_of=self.engine.clusters.name_of),
        )
        self.gauges = Gauges(
            metrics=metrics,
            queue=self.queue,
            clusters=self.clusters,
            sources=self.engine.sources,
            results=self.results,
            token_expires_at_s=self.local_controller.token_expires_at_s,
        )

    def _build_lease(self, writer: Writer, holder: str) -> LeaseWriter | None:
        if not holder:
            return None
        lease = LeaseWriter(
            writer,
            namespace=self._settings.namespace,
            holder=holder,
            report=self.summary.report,
            now=lambda: datetime.now(UTC),
        )
        self.summary.on_change = lease.request
        return lease

    def _build_cluster_status(self) -> ClusterStatusReporter:
        engine = self.engine
        return ClusterStatusReporter(
            registry=engine.registry,
            clusters=engine.clusters,
            sources=engine.sources,
            tombstones=engine.tombstones,
            absences=engine.absences,
            quota=engine.quota,
            deletions=engine.rule_deletions,
            owner_limits=self.deletion_limiter.owners,
            is_settled=lambda: self.queue.idle and not list_pending(engine),
            keeps_generation=engine.local_cluster.definitions.keeps_generation_of_clusters,
            local=self.local_controller,
            local_metadata=self._local_metadata,
            writer=self.status_writer,
            summary=self.summary,
        )

    def _build_rule_status(self) -> RuleStatusReporter:
        engine = self.engine
        return RuleStatusReporter(
            registry=engine.registry,
            clusters=engine.clusters,
            sources=engine.sources,
            copies=engine.copies,
            results=self.results,
            deletion_limiter=self.deletion_limiter,
            definitions=engine.local_cluster.definitions,
            writer=self.status_writer,
            summary=self.summary,
            is_idle=lambda: self.queue.idle,
        )

    def _build_applier(self, writer: Writer) -> Applier:
        engine = self.engine
        copy_writer = CopyWriter(
            reader=writer,
            client=writer,
            discovery=engine.discovery,
            bodies=engine.bodies,
            digest_key=secrets.token_bytes(32),
            on_stored=self._stored,
            containers=engine.containers,
        )
        sources = SourceReader(
            bodies=engine.bodies, connection=engine.clusters.connection, evaluations=engine.sources.evaluations
        )
        updater = CopyUpdater(
            local=engine.local,
            copies=engine.copies,
            bodies=engine.bodies,
            writer=copy_writer,
            metrics=self._metrics,
            made_once=engine.made_once,
            replaced=engine.replaced_copies,
            recreated=self._report_recreated,
            put_back=self._report_put_back,
            lost=self.lost_fields.note,
        )
        return Applier(
            copies=engine.copies,
            sources=sources,
            updater=updater,
            gone_copies=engine.gone_copies,
            relays=engine.relay_policy,
            rules=engine.registry.rules,
            acting=engine.registry.acting,
            definitions=engine.registry.rule_definitions.found,
        )

    async def run(self, watcher: KopfWatcher, ready: dict[str, str | None]) -> None:
        """Run until cancelled, or until a bug ends it loudly."""
        clusters, rules = self._build_cluster_status(), self._build_rule_status()
        async with asyncio.TaskGroup() as scope:
            self.engine.start_local(scope)
            scope.create_task(self.status_writer.run(), name="status")
            scope.create_task(self.events.run(), name="events")
            scope.create_task(self.local_controller.run(), name="local controller")
            scope.create_task(self._local_metadata.run(), name="local metadata")
            scope.create_task(self.lost_fields.run(), name="lost fields")
            for number in range(self._settings.workers + math.ceil(self._settings.workers / _SPARE)):
                scope.create_task(self.workers.run(), name=f"worker {number}")
            await self.engine.registry_reader.read()
            ready["local-cluster"] = None
            watcher.start()
            self.engine.start_peers(scope)
            scope.create_task(self.status_reporter.run(clusters, rules), name="status reporter")
            if self._lease is not None:
                scope.create_task(self._lease.run(), name="lease")
            scope.create_task(self.engine.registry_reader.run(), name="registry reader")
            scope.create_task(self.engine.registry_reader.run_rules(), name="rule reader")
            log.info("started", clusterID=self._local)

    # Calls from kopf's thread.

    def hand_over(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        """Apply an event of our own kinds in the daemon's loop."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_own_event, plural, kind, body)

    def hand_over_restart(self) -> None:
        """Read our own kinds again, because events may be missing."""
        self._metrics.kopf_restarts_total.inc()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.engine.registry_reader.request_read)

    def _on_own_event(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        if self.registry.must_read(plural, kind, body):
            self.engine.registry_reader.request_rules()
        else:
            self.registry.apply(plural, kind, body)

    # The observer of the engine.

    def on_own_kind_changed(self, plural: str, name: str) -> None:
        """Report the status again; repair an object that this cluster publishes."""
        if plural == meta.CLUSTERS.resource:
            if name not in self.registry.clusters:
                self.status_writer.drop(meta.CLUSTERS, name)
                self.summary.drop_cluster(name)
            self.status_reporter.clusters_changed()
            self.deletion_limiter.cluster_changed()
        elif plural == meta.RULES.resource:
            if name not in self.registry.rules:
                self.status_writer.drop(meta.RULES, name)
                self.summary.drop_rule(name)
            self.status_reporter.rule_changed(name)
            self.deletion_limiter.rule_changed(name)
        else:
            self.status_reporter.cluster_counts_changed()  # it may be of a later format
        is_core = name in names.CORE_RULES or name == names.CORE_FEATURE_OBJECT
        if is_core or name.startswith(f"left-{self._local}.") or self._is_ours(plural, name):
            self.local_controller.request_pass()

    def on_credentials_changed(self, key: ObjectKey) -> None:
        """Repair the published Secret."""
        if any(cluster.secret == key for cluster in self.registry.local_clusters(self._local)):
            self.local_controller.request_pass()

    def on_tokens_changed(self) -> None:
        """Check the published token."""
        self.local_controller.request_pass()

    def on_records_changed(self) -> None:
        """Write tombstones and the record of deleted rules."""
        self.local_controller.request_pass()

    def on_copy_gone(self, target: Target) -> None:
        """Count a copy that goes; any daemon of this cluster may delete it."""
        self.deletion_limiter.note_gone(target, self.engine.reconciler.decide)

    def on_peers_changed(self) -> None:
        """Report the status of all Clusters again."""
        self.status_reporter.clusters_changed()

    def on_replicas_changed(self) -> None:
        """Report the status of all Clusters again, and write the version of the daemon."""
        self.on_peers_changed()
        self.local_controller.request_pass()

    def on_schema_changed(self, kind: GroupKind) -> None:
        """Compare the copies of the kind again."""
        self.lost_fields.on_schema_changed(kind)

    def on_watches_changed(self) -> None:
        """Report the status of all rules again."""
        for active in self.clusters.active.values():
            self.status_reporter.rule_changed(active.rule.name)

    def _is_ours(self, plural: str, name: str) -> bool:
        if plural != meta.CLUSTERS.resource:
            return False
        held = self.registry.clusters.get(name)
        return held is None or (held.cluster is not None and held.cluster.cluster_id == self._local)

    # Callbacks of the applier.

    def _report_recreated(self, target: Target, rule: str, why: str) -> None:
        self._report_copy(
            rule, type_="Normal", reason="Recreated", message=f"{target} was deleted and made again: {why}"
        )

    def _report_put_back(self, target: Target, rule: str, lists: tuple[str, ...]) -> None:
        message = (
            f"{target}: {', '.join(lists)} has no keys here, and another number of elements than the source's, so no "
            "field in it is left to this cluster: find its element by `name=`"
        )
        self._report_copy(rule, type_="Warning", reason="NotLeft", message=message)

    def _report_copy(self, rule: str, *, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        held = self.registry.rules.get(rule)
        uid = str(meta.metadata_of(held.manifest).get("uid", "")) if held is not None else ""
        self.events.emit(regarding=Reference(meta.RULE, "", rule, uid), type=type_, reason=reason, message=message)

    def _stored(self, target: Target, sent: Manifest, stored: Manifest) -> None:
        if target[:2] == meta.RULE_KIND:
            self.registry.set_pruned(target.name, find_pruned_fields(sent, stored=stored))
