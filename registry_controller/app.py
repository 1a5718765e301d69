"""Builds the daemon and owns its one TaskGroup."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.source_cache import SourceCache
from registry_controller.clusters.metadata import LocalMetadata
from registry_controller.core.rules.schema import find_pruned_fields
from registry_controller.engine import Engine
from registry_controller.handlers import KopfWatcher
from registry_controller.kube.connect import Reader, Writer, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.local.controller import LocalController
from registry_controller.report import logs
from registry_controller.report.events import EventRecorder, Reference
from registry_controller.report.metrics import Metrics
from registry_controller.report.transitions import Transitions
from registry_controller.settings import Settings
from registry_controller.status.clusters import ClusterStatusReporter
from registry_controller.status.gauges import Gauges
from registry_controller.status.readiness import list_pending
from registry_controller.status.reporter import StatusReporter
from registry_controller.status.rules import RuleStatusReporter
from registry_controller.status.writer import StatusWriter
from registry_controller.sync.applier import Applier
from registry_controller.sync.controller import Controller
from registry_controller.sync.copy_writer import CopyWriter
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.results import Results
from registry_controller.sync.workqueue import WorkQueue
from registry_controller.webhook.webhook import Webhook

log = logs.get_logger(__name__)

_SPARE: Final = 3
"""For so many workers that one member's objects may take at a time, one more is there for everybody else's."""


class Daemon:
    """Everything that one daemon consists of: the engine, hands, and a voice."""

    def __init__(
        self,
        settings: Settings,
        *,
        writer: Writer,
        local: ClusterUID,
        metrics: Metrics,
        connect_peer: Callable[[Credentials], Reader] = connect_peer,
    ) -> None:
        self._settings = settings
        self._local = local
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._local_metadata = LocalMetadata(reader=writer, changed=self.clusters_changed)
        self.queue = WorkQueue(at_once=settings.workers)
        self.target_changed = self.queue.add
        self.engine = Engine(settings, home=writer, local=local, connect_peer=connect_peer, listener=self)
        self.registry, self.supervisor = self.engine.registry, self.engine.clusters
        self.ledger = Results(on_change=self._rule_changed)
        self.home = LocalController(
            writer=writer,
            settings=settings,
            cluster_id=local,
            tombstones=self.engine.tombstones,
            log=log,
            on_change=self.clusters_changed,
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
        self.brake = DeletionLimiter(
            percent=settings.deletion_limit_percent,
            queue=self.queue,
            copies=self.engine.copies,
            registry=self.registry,
            changed=self._rule_changed,
            now=lambda: datetime.now(UTC),
        )
        self.report = self._build_status_reporter()
        self.worker = Controller(
            queue=self.queue,
            judge=self.engine.reconciler,
            brake=self.brake,
            carrier=self._carrier(writer),
            ledger=self.ledger,
            metrics=metrics,
            name_of=self.engine.clusters.name_of,
        )
        self.webhook = None
        if settings.cluster_validator_webhook_enabled:
            self.webhook = Webhook(
                settings,
                writer=writer,
                discovery=self.engine.discovery,
                clusters=lambda: [held.manifest for held in self.registry.clusters.values()],
                holder=socket.gethostname(),
                clock=lambda: datetime.now(UTC),
            )
        self.gauges = Gauges(
            metrics=metrics,
            queue=self.queue,
            clusters=self.supervisor,
            sources=self.engine.sources,
            results=self.ledger,
        )

    def _build_status_reporter(self) -> StatusReporter:
        def is_idle() -> bool:
            return self.queue.idle

        engine, status = self.engine, self.status_writer
        clusters = ClusterStatusReporter(
            registry=engine.registry,
            clusters=engine.clusters,
            sources=engine.sources,
            tombstones=engine.tombstones,
            quota=engine.quota,
            local=self.home,
            local_metadata=self._local_metadata,
            writer=status,
        )
        rules = RuleStatusReporter(
            registry=engine.registry,
            clusters=engine.clusters,
            sources=engine.sources,
            copies=engine.copies,
            results=self.ledger,
            deletion_limiter=self.brake,
            writer=status,
            is_idle=is_idle,
        )
        return StatusReporter(
            registry=engine.registry,
            local=engine.local,
            clusters=clusters,
            rules=rules,
            is_ready=lambda: is_idle() and not list_pending(engine),
        )

    def _carrier(self, writer: Writer) -> Applier:
        engine = self.engine
        hand = CopyWriter(
            reader=writer,
            pen=writer,
            discovery=engine.discovery,
            bodies=engine.bodies,
            digest_key=secrets.token_bytes(32),
            on_stored=self._stored,
        )
        return Applier(
            copies=engine.copies,
            bodies=engine.bodies,
            turns=engine.sources.evaluations,
            hand=hand,
            metrics=self._metrics,
            connection=engine.connection,
            relays=engine.relay_policy,
            recreated=self._say_recreated,
        )

    async def run(self, ear: KopfWatcher, ready: dict[str, str | None]) -> None:
        """Run until cancelled, or until a bug ends it loudly."""
        async with asyncio.TaskGroup() as scope:
            self.engine.start_local(scope)
            scope.create_task(self.status_writer.run(), name="status")
            scope.create_task(self.events.run(), name="events")
            scope.create_task(self.home.run(), name="home")
            scope.create_task(self._local_metadata.run(), name="own metadata")
            for number in range(self._settings.workers + math.ceil(self._settings.workers / _SPARE)):
                scope.create_task(self.worker.run(), name=f"worker {number}")
            await self.engine.registry_reader.read()
            if self.webhook is not None:
                await self.webhook.register()  # before there is traffic: in a rolling update nothing goes unasked
                scope.create_task(self.webhook.run(), name="webhook")
            ready["home"] = None
            ear.start()
            self.engine.start_peers(scope)
            scope.create_task(self.report.run(), name="standing")
            scope.create_task(self.engine.registry_reader.run(), name="own kinds")
            log.info("started", cluster_id=self._local)

    # From the ear's thread.

    def hand_over(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        """Take an event of our own kinds from the ear's thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.registry.apply, plural, kind, body)

    def hand_over_restart(self) -> None:
        """Take word from the ear's thread that events may be missing."""
        self._metrics.ear_restarts_total.inc()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.engine.registry_reader.request_read)

    # What the engine tells.

    def own_kind_changed(self, plural: str, name: str) -> None:
        """Say anew what this bears on, and look after what is our own."""
        if plural == meta.CLUSTERS.resource:
            if name not in self.registry.clusters:
                self.status_writer.drop(meta.CLUSTERS, name)
            self.report.clusters_changed()
        elif plural == meta.RULES.resource:
            if name not in self.registry.rules:
                self.status_writer.drop(meta.RULES, name)
            self.report.rule_changed(name)
            self.brake.rule_changed(name)
        if name in names.CORE_RULES or name == names.CORE_FEATURE_OBJECT or self._is_ours(plural, name):
            self.home.request_pass()

    def credentials_changed(self, key: ObjectKey) -> None:
        """Look after the Secret that is our own."""
        if any(cluster.secret == key for cluster in self.registry.local_clusters(self._local)):
            self.home.request_pass()

    def tokens_changed(self) -> None:
        """Look after the token that is published."""
        self.home.request_pass()

    def tombstones_changed(self) -> None:
        """Look after the tombstones that are our own."""
        self.home.request_pass()

    def clusters_changed(self) -> None:
        """Say anew how the members stand."""
        self.report.clusters_changed()

    def cache_changed(self, cache: SourceCache | LocalCache) -> None:
        """Say anew how the rules stand."""
        for active in self.supervisor.active.values():
            self.report.rule_changed(active.rule.name)

    def _is_ours(self, plural: str, name: str) -> bool:
        if plural != meta.CLUSTERS.resource:
            return False
        held = self.registry.clusters.get(name)
        return held is None or (held.cluster is not None and held.cluster.cluster_id == self._local)

    def _rule_changed(self, name: str) -> None:
        self.report.rule_changed(name)

    # What the carrier tells.

    def _say_recreated(self, target: Target, rule: str, why: str) -> None:
        held = self.registry.rules.get(rule)
        uid = str(meta.metadata_of(held.manifest).get("uid", "")) if held is not None else ""
        self.events.emit(
            regarding=Reference(meta.RULE, "", rule, uid),
            type="Normal",
            reason="Recreated",
            message=f"{target} was deleted and made again: {why}",
        )

    def _stored(self, target: Target, sent: Manifest, stored: Manifest) -> None:
        if (target.group, target.kind) == (meta.GROUP, meta.RULE.kind):
            self.registry.set_pruned(target.name, find_pruned_fields(sent, stored=stored))
