"""ROOT: builds everything and owns the one TaskGroup. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import kopf
import orjson
import uvloop

from registry_controller import __version__
from registry_controller.api import meta, names
from registry_controller.api.errors import InvalidKubeconfig, InvalidObject, InvalidOption, RegistryError
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.core.peer import backoff_s
from registry_controller.core.pruned import pruned_fields
from registry_controller.core.view import Claim
from registry_controller.engine.attention import Attention
from registry_controller.engine.bodies import Bodies
from registry_controller.engine.clustermetadata import read_metadata
from registry_controller.engine.copies import Copies, LocalFeed
from registry_controller.engine.gauges import Gauges
from registry_controller.engine.home import Home
from registry_controller.engine.homelink import CredentialStore, HomeLink, Namespaces
from registry_controller.engine.ledger import Ledger
from registry_controller.engine.members import Members
from registry_controller.engine.ownkinds import OwnKinds
from registry_controller.engine.registry import Registry
from registry_controller.engine.sources import Feed, Sources
from registry_controller.engine.standing import LocalMetadata, StandingReport
from registry_controller.engine.supervisor import Supervisor
from registry_controller.engine.views import Views
from registry_controller.engine.worker import Connection, Worker
from registry_controller.engine.workqueue import WorkQueue
from registry_controller.engine.writing import Hand
from registry_controller.handlers import Ear
from registry_controller.kube.connect import Reader, Writer, connect_home, connect_peer
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.login import read_login
from registry_controller.report import logs
from registry_controller.report.events import EventRecorder, Reference
from registry_controller.report.health import HealthServer
from registry_controller.report.metrics import Metrics
from registry_controller.report.status import StatusWriter
from registry_controller.settings import Settings

log = logs.get_logger(__name__)

KUBE_SYSTEM: Final = ObjectKey("", "kube-system")
_METADATA_PERIOD_S: Final = 300.0


def run(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code. A second signal ends it at once."""
    logs.configure(format=settings.log_format, verbosity=settings.log_verbosity)
    _tune()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_main(settings, kubeconfig=kubeconfig, context=context))
    except InvalidOption as error:
        log.error("cannot start", error=str(error))
        return 2


def _tune() -> None:
    """Keep pauses short: what was imported is never garbage, and the ear's thread hands over after half a millisecond.

    Python's own interval is 5 ms, more than a whole relay takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.0005)


async def _main(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_error)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stopping)
    log.info("starting", version=__version__, namespace=settings.namespace)
    for remark in settings.remarks():
        log.info("about an option", remark=remark)
    daemon = asyncio.create_task(_run_daemon(settings, kubeconfig=kubeconfig, context=context), name="daemon")  # noqa: TID251
    waiter = asyncio.create_task(stopping.wait(), name="stop")  # noqa: TID251
    await asyncio.wait((daemon, waiter), return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if not daemon.done():
        daemon.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await daemon
        log.info("stopped")
        return 0
    await daemon
    return 1


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what no task hears. A connection that broke while TLS still wrote to it is the peer's news, not an error."""
    if "transport" in context:
        log.debug("a connection ended while it was written to", error_type=logs.describe(context["exception"]))
        return
    loop.default_exception_handler(context)


def _stop(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(1)
    stopping.set()


async def _run_daemon(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> NoReturn:
    writer = await connect_home(kubeconfig=kubeconfig, context=context)
    metrics = Metrics()
    try:
        ready: dict[str, str | None] = {"home": "the own API server was not heard yet"}
        live: dict[str, Ear] = {}
        rendering: list[Callable[[str], tuple[bytes, str]]] = [metrics.render]
        server = HealthServer(
            health=settings.health_addr,
            metrics=settings.metrics_addr,
            live={"ear": lambda: None if not live or live["ear"].healthy else "listening to our own kinds has stopped"},
            ready={"home": lambda: ready["home"]},
            render=rendering[0],
        )
        async with server.serve():
            local = await _find_local_id(writer)
            daemon = Daemon(settings, writer=writer, local=local, metrics=metrics)
            rendering[0] = daemon.gauges.render
            ear = Ear(
                login=lambda: _login(kubeconfig=kubeconfig, context=context),
                on_event=daemon.hand_over,
                on_restart=daemon.hand_over_restart,
            )
            live["ear"] = ear
            try:
                await daemon.run(ear, ready)
            finally:
                await asyncio.to_thread(ear.stop, 3.0)
    finally:
        await writer.close()
    raise AssertionError("a daemon never returns")


async def _find_local_id(writer: Writer) -> ClusterUID:
    """Read our own ID; wait for our own API server as long as it takes."""
    attempt = 0
    while True:
        try:
            found = orjson.loads(await writer.get(meta.NAMESPACES, KUBE_SYSTEM))
            return ClusterUID(found["metadata"]["uid"])
        except RegistryError as error:
            log.warning("cannot read our own cluster's ID; trying again", error=str(error))
            await asyncio.sleep(backoff_s(attempt, base=0.5, cap=5.0, chance=random.random()))  # noqa: S311
            attempt += 1


def _login(*, kubeconfig: Path | None, context: str | None) -> kopf.ConnectionInfo:
    login = read_login(kubeconfig=kubeconfig, context=context)
    return kopf.ConnectionInfo(
        server=login.server,
        ca_data=login.ca_pem.encode() if login.ca_pem else None,
        token=login.token or None,
        certificate_path=login.certificate_file or None,
        private_key_path=login.key_file or None,
        insecure=not login.verify,
    )


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
        self._local_metadata = LocalMetadata()
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
        self.supervisor = Supervisor(
            local=local,
            network_name=settings.network_name,
            namespace=settings.namespace,
            registry=self.registry,
            sources=self.sources,
            members=self.members,
            credentials=credentials,
            home=self.home_link,
            connect_peer=connect_peer,
            changed=self._clusters_changed,
            standing_changed=self.attention.members_changed,
        )
        self.home = Home(writer=writer, settings=settings, cluster_id=local, log=log, on_change=self._clusters_changed)
        self.events = EventRecorder(
            writer,
            namespace=settings.namespace,
            instance=socket.gethostname(),
            on_result=lambda result: metrics.kube_events_total.labels(result=result).inc(),
        )
        status_writer = StatusWriter(writer, lambda: datetime.now(UTC), on_transition=self._transition)
        self.status_writer = status_writer
        self.report = StandingReport(
            registry=self.registry,
            supervisor=self.supervisor,
            sources=self.sources,
            copies=self.copies,
            ledger=self.ledger,
            home=self.home,
            writer=status_writer,
            is_idle=lambda: self.queue.idle,
            local_metadata=self._local_metadata,
        )
        views = Views(
            local=local,
            sources=self.sources,
            copies=self.copies,
            members=self.members,
            standing=self.supervisor.standing,
            namespace_state=self.namespaces.state,
            creates_namespaces=self._creates_namespaces,
        )
        self.worker = Worker(
            queue=self.queue,
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
            may_relay=self._may_relay,
            policy=self._policy,
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
            scope.create_task(self.report.run(), name="standing")
            scope.create_task(self.home.run(), name="home")
            scope.create_task(self._read_metadata(), name="own metadata")
            for number in range(self._settings.workers):
                scope.create_task(self.worker.run(), name=f"worker {number}")
            await self.own_kinds.read()
            ready["home"] = None
            ear.start()
            scope.create_task(self.supervisor.run(), name="supervisor")
            scope.create_task(self.own_kinds.run(), name="own kinds")
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

    def _transition(self, gvr: meta.GVR, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        self._metrics.condition_transitions_total.labels(
            type=str(condition.get("type", "")), status=str(condition.get("status", ""))
        ).inc()
        kind = meta.CLUSTER if gvr == meta.CLUSTERS else meta.RULE
        bad = (condition.get("type") in _BAD_WHEN_TRUE) == (condition.get("status") == "True")
        self.events.emit(
            regarding=Reference(kind, "", name, uid),
            type="Warning" if bad and condition.get("type") != "LocalCluster" else "Normal",
            reason=str(condition.get("reason", "")),
            message=str(condition.get("message", "")) or str(condition.get("reason", "")),
        )

    # What workers ask.

    def _connection(self, peer: ClusterUID) -> Connection | None:
        link = self.supervisor.links.get(peer)
        if link is None or link.reader is None or link.discovery is None:
            return None
        return Connection(link.reader, link.discovery)

    def _creates_namespaces(self, rule: str) -> bool:
        active = self.supervisor.active.get(rule)
        return active is not None and active.rule.create_namespaces

    def _policy(self, rule: str) -> str:
        active = self.supervisor.active.get(rule)
        return active.rule.deletion_policy if active is not None else "Orphan"

    def _may_relay(self, claim: Claim, manifest: Manifest) -> bool:
        """Say whether a record that an intermediary holds may change what is here (O4).

        Once a member has been Ready here, a Secret may change its credentials only, never its server or CA.
        """
        if manifest.get("kind") != "Secret":
            return True
        offered = _read(manifest)
        return offered is not None and self.supervisor.keeps_address(claim.owner, claim.key, offered)

    def _stored(self, target: Target, sent: Manifest, stored: Manifest) -> None:
        if (target.group, target.kind) == (meta.GROUP, meta.RULE.kind):
            self.registry.set_pruned(target.name, pruned_fields(sent, stored=stored))

    async def _read_metadata(self) -> NoReturn:
        while True:
            try:
                self._local_metadata.metadata = await read_metadata(self._writer)
                self._local_metadata.problem = ""
            except (RegistryError, InvalidObject) as error:
                self._local_metadata.problem = str(error)
            self.report.clusters_changed()
            await asyncio.sleep(15.0 if self._local_metadata.problem else _METADATA_PERIOD_S)


_BAD_WHEN_TRUE: Final = frozenset({"LocalConflict", "Stalled", "DeletionHalted", "HistoryRestored"})


def _read(manifest: Manifest) -> Credentials | None:
    try:
        return read_secret(secret_type=manifest.get("type", ""), data=manifest.get("data") or {})
    except InvalidKubeconfig:
        return None
