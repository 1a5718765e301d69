"""ROOT: builds everything and owns the one TaskGroup. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.core.pruned import pruned_fields
from registry_controller.engine.attention import Attention
from registry_controller.engine.bodies import Bodies
from registry_controller.engine.brake import Brake
from registry_controller.engine.clustermetadata import LocalMetadata
from registry_controller.engine.copies import Copies, LocalFeed
from registry_controller.engine.departures import Departures
from registry_controller.engine.gauges import Gauges
from registry_controller.engine.home import Home
from registry_controller.engine.homelink import CredentialStore, HomeLink, Namespaces
from registry_controller.engine.ledger import Ledger
from registry_controller.engine.leftovers import Leftovers
from registry_controller.engine.members import Members, cluster_target
from registry_controller.engine.ownkinds import OwnKinds
from registry_controller.engine.registry import Registry
from registry_controller.engine.rulestates import RuleStates
from registry_controller.engine.sources import Feed, Sources
from registry_controller.engine.standing import StandingReport
from registry_controller.engine.supervisor import Supervisor
from registry_controller.engine.views import Views
from registry_controller.engine.worker import Connection, Worker
from registry_controller.engine.workqueue import WorkQueue
from registry_controller.engine.writing import Hand
from registry_controller.handlers import Ear
from registry_controller.kube.connect import Reader, Writer, connect_peer
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.report import logs
from registry_controller.report.events import EventRecorder, Reference
from registry_controller.report.metrics import Metrics
from registry_controller.report.status import StatusWriter
from registry_controller.report.transitions import Transitions
from registry_controller.settings import Settings

log = logs.get_logger(__name__)


class Daemon:
    """Everything that one daemon consists of."""

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
        self._writer = writer
        self._local = local
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._local_metadata = LocalMetadata(reader=writer, changed=self._clusters_changed)
        discovery = Discovery(writer)
        bodies = Bodies()
        self.queue = WorkQueue()
        self.members = Members(on_change=self.queue.add)
        self.ledger = Ledger(on_change=self._rule_changed)
        self.sources = Sources(
            bodies=bodies,
            on_change=self.queue.add,
            on_complete=lambda feed: self.attention.feed_complete(feed),  # noqa: PLW0108 -- it is made below
            on_standing=self._standing_of,
        )
        self.copies = Copies(
            bodies=bodies,
            on_change=self.queue.add,
            on_complete=lambda feed: self.attention.local_feed_complete(feed),  # noqa: PLW0108 -- it is made below
            on_standing=self._standing_of,
        )
        self.attention = Attention(sources=self.sources, copies=self.copies, add=self.queue.add)
        self.registry = Registry(on_change=self._own_kind_changed)
        self.own_kinds = OwnKinds(reader=writer, registry=self.registry)
        credentials = CredentialStore(on_change=self._credentials_changed)
        self.namespaces = Namespaces(on_change=self.attention.namespace_changed)
        self.home_link = HomeLink(
            writer=writer,
            discovery=discovery,
            copies=self.copies,
            credentials=credentials,
            namespaces=self.namespaces,
            namespace=settings.namespace,
            tokens_changed=lambda: self.home.poke(),  # noqa: PLW0108 -- it is made below
        )
        self.leftovers = Leftovers(
            reader=writer,
            discovery=discovery,
            copies=self.copies,
            is_rule=lambda name: name in self.registry.rules,
            changed=lambda: self.supervisor.poke(),  # noqa: PLW0108
        )
        self.supervisor = Supervisor(
            local=local,
            network_name=settings.network_name,
            namespace=settings.namespace,
            registry=self.registry,
            sources=self.sources,
            members=self.members,
            credentials=credentials,
            home=self.home_link,
            leftovers=self.leftovers,
            connect_peer=connect_peer,
            changed=self._clusters_changed,
            standing_changed=self.attention.members_changed,
            rebuilt=lambda name: self.queue.add(cluster_target(name)),
        )
        self.home = Home(writer=writer, settings=settings, cluster_id=local, log=log, on_change=self._clusters_changed)
        self.events = EventRecorder(
            writer,
            namespace=settings.namespace,
            instance=socket.gethostname(),
            on_result=lambda result: metrics.kube_events_total.labels(result=result).inc(),
        )
        transitions = Transitions(events=self.events, metrics=metrics)
        status_writer = StatusWriter(writer, lambda: datetime.now(UTC), on_transition=transitions.say)
        self.status_writer = status_writer
        self.brake = Brake(
            percent=settings.deletion_limit_percent,
            queue=self.queue,
            copies=self.copies,
            registry=self.registry,
            changed=self._rule_changed,
            now=lambda: datetime.now(UTC),
        )
        self.report = StandingReport(
            registry=self.registry,
            supervisor=self.supervisor,
            sources=self.sources,
            copies=self.copies,
            ledger=self.ledger,
            brake=self.brake,
            home=self.home,
            writer=status_writer,
            is_idle=lambda: self.queue.idle,
            local_metadata=self._local_metadata,
        )
        departures = Departures(
            copies=self.copies, link=self.supervisor.links.get, look_at=self.attention.member_changed
        )
        views = Views(
            local=local,
            sources=self.sources,
            copies=self.copies,
            members=self.members,
            standing=self.supervisor.standing,
            namespace_state=self.namespaces.state,
            creates_namespaces=self._creates_namespaces,
            rule_states=RuleStates(
                registry=self.registry,
                sources=self.sources,
                local=local,
                link=self.supervisor.links.get,
            ),
            departures=departures,
            successors=self.supervisor.rebuilds.successors,
        )
        self.worker = Worker(
            queue=self.queue,
            brake=self.brake,
            departures=departures,
            views=views,
            copies=self.copies,
            bodies=bodies,
            ledger=self.ledger,
            hand=Hand(
                writer=writer,
                discovery=discovery,
                bodies=bodies,
                digest_key=secrets.token_bytes(32),
                on_stored=self._stored,
            ),
            writer=writer,
            metrics=metrics,
            connection=self._connection,
            may_relay=self.supervisor.may_relay,
            recreated=self._say_recreated,
        )
        self.gauges = Gauges(
            metrics=metrics, queue=self.queue, supervisor=self.supervisor, sources=self.sources, ledger=self.ledger
        )

    async def run(self, ear: Ear, ready: dict[str, str | None]) -> None:
        """Run until cancelled, or until a bug ends it loudly."""
        async with asyncio.TaskGroup() as scope:
            scope.create_task(self.home_link.run(), name="home link")
            scope.create_task(self.status_writer.run(), name="status")
            scope.create_task(self.events.run(), name="events")
            scope.create_task(self.home.run(), name="home")
            scope.create_task(self._local_metadata.run(), name="own metadata")
            for number in range(self._settings.workers):
                scope.create_task(self.worker.run(), name=f"worker {number}")
            await self.own_kinds.read()
            ready["home"] = None
            ear.start()
            scope.create_task(self.supervisor.run(), name="supervisor")
            scope.create_task(self.report.run(), name="standing")
            scope.create_task(self.own_kinds.run(), name="own kinds")
            scope.create_task(self.leftovers.find(), name="leftovers")
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
            self._loop.call_soon_threadsafe(self.own_kinds.poke)

    # What changed, and who is to know.

    def _own_kind_changed(self, plural: str, name: str) -> None:
        if plural == meta.CLUSTERS.resource:
            held = self.registry.clusters.get(name)
            self.members.set_here(name, held.cluster if held else None)
            if held is None:
                self.status_writer.forget(meta.CLUSTERS, name)
            self.report.clusters_changed()
        elif plural == meta.RULES.resource:
            if name not in self.registry.rules:
                self.status_writer.forget(meta.RULES, name)
            self.report.rule_changed(name)
            self.brake.rule_changed(name)
        if name in names.CORE_RULES or name == names.CORE_FEATURE_OBJECT or self._is_ours(plural, name):
            self.home.poke()
        self.supervisor.poke()

    def _is_ours(self, plural: str, name: str) -> bool:
        if plural != meta.CLUSTERS.resource:
            return False
        held = self.registry.clusters.get(name)
        return held is None or (held.cluster is not None and held.cluster.cluster_id == self._local)

    def _credentials_changed(self, key: ObjectKey) -> None:
        self.supervisor.poke()
        if any(cluster.secret == key for cluster in self.registry.local_clusters(self._local)):
            self.home.poke()

    def _clusters_changed(self) -> None:
        self.report.clusters_changed()

    def _rule_changed(self, name: str) -> None:
        self.report.rule_changed(name)

    def _standing_of(self, feed: Feed | LocalFeed) -> None:
        for active in self.supervisor.active.values():
            self.report.rule_changed(active.rule.name)

    # What workers ask.

    def _connection(self, peer: ClusterUID) -> Connection | None:
        link = self.supervisor.links.get(peer)
        if link is None or link.reader is None or link.discovery is None:
            return None
        return Connection(link.reader, link.discovery)

    def _creates_namespaces(self, rule: str) -> bool:
        active = self.supervisor.active.get(rule)
        return active is not None and active.rule.create_namespaces

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
            self.registry.set_pruned(target.name, pruned_fields(sent, stored=stored))
