"""Passes kopf's events of our own three kinds to the registry cache.

kopf serves only Clusters, ResourceSyncRules and ClusterFeatures of the local cluster: few objects, which hold no
secrets, of kinds that this project owns. `watch.reflector` serves all other kinds, and all kinds at peers, because:

- kopf is fail-stop. An error in a stream, or a kind that it may not list, ends the whole operator. One kind that a
  cluster refuses must not end the watches of all kinds.
- kopf's change handlers keep a copy of the object in an annotation, also of a Secret, and log whole objects at DEBUG.
  Its delete handlers, timers and daemons add finalizers. A source must not be written to at all.
- kopf decodes each event into dicts: 686 events of 10 KB a second on one core, where a reflector decodes and digests
  13,457.
- An operator connects to one cluster. A reflector follows any cluster, by selectors, and continues over a new
  connection when credentials change.

Laws:
- kopf runs in a thread and an event loop of its own, because it cancels every task of its loop when it ends.
- Only `on.event` handlers that return None: other handlers write to the objects.
- kopf ends on errors that it does not expect. It is started again while the daemon lives.
- No event reports a deletion while kopf did not watch. Callers list again when `on_restart` is called.

Callbacks run in the thread of kopf: they pass the event on (`loop.call_soon_threadsafe`) and return at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import kopf
from kopf._cogs.structs.references import Insights
from kopf._core.engines.peering import Identity

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.kube.failures import FAILURES, KUBECONFIG, error_of_failure
from registry_controller.kube.kopf_login import KopfLogin
from registry_controller.report.lines import describe
from registry_controller.report.logs import get_logger

_log = get_logger(__name__)

PLURALS: Final = (meta.CLUSTERS.resource, meta.RULES.resource, meta.FEATURES.resource)
FINALIZER: Final = f"{meta.GROUP}/unused"
"""A finalizer of our own, so that kopf leaves that of another kopf operator alone. No object ever gets it."""

_RESTART_FIRST_S: Final = 0.5
_RESTART_MOST_S: Final = 30.0
_WAS_STABLE_S: Final = 60.0
_UNHEALTHY_AFTER_S: Final = 60.0
_SETTLED_S: Final = 3.0
"""The time after kopf's start in which its first lists end."""
_IDENTITY: Final = Identity("registry-controller")
"""kopf's name for itself, which only peers of kopf read. By default kopf asks for the user's name: a Pod's has none."""
_WATCHER: Final = "watcher for "
"""The names of kopf's watching tasks, one for each kind, begin so."""
_LOST_S: Final = 7.0
"""When one of these tasks ends, kopf cancels the rest within 5 s and ends by itself."""
_INCOMPLETE_S: Final = 15.0
"""The interval between scans for CRDs that are missing: discovery may know a new CRD only after a scan."""

OnEvent = Callable[[str, str, dict[str, Any]], None]
"""Takes the resource's plural, ADDED, MODIFIED or DELETED, and the object. Each list reports its objects as ADDED.

Events of one uid are in order. The DELETED of an object may follow the ADDED of its successor with the same name.
"""
LogIn = Callable[[], kopf.ConnectionInfo]
"""Makes fresh credentials for the local API server. It may block. kopf calls it again after each 401."""


def as_connection(login: KopfLogin) -> kopf.ConnectionInfo:
    """Convert a login to kopf's type."""
    return kopf.ConnectionInfo(
        server=login.server,
        ca_data=login.ca_pem or None,
        token=login.token or None,
        certificate_path=login.certificate_file or None,
        private_key_path=login.key_file or None,
        insecure=not login.verify,
    )


class _Backoffs:
    """Delays in seconds between tries of a request, without end: a grant or the server's return ends the tries."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.1, 0.2, 0.5, 1.0)
        while True:
            yield 2.0


class KopfWatcher:
    """Watches our own kinds between `start` and `stop`.

    `on_restart` is also called every `resync_s` seconds, in case an event was missed.
    """

    def __init__(
        self, *, login: LogIn, on_event: OnEvent, on_restart: Callable[[], None], resync_s: float = 300.0
    ) -> None:
        self._login, self._on_event, self._on_restart = login, on_event, on_restart
        self._server = ""
        self._resync_s = resync_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the next two: `stop` races with the end of a loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_flag: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._insights: Insights | None = None
        self._alive_at_s = 0.0
        self._relist_due = False
        self._listed: set[str] = set()
        self.restarts = 0

    @property
    def healthy(self) -> bool:
        """Return whether the thread lives and its loop runs, or waits to start again."""
        alive = self._thread is not None and self._thread.is_alive()
        return alive and time.monotonic() - self._alive_at_s < _UNHEALTHY_AFTER_S

    @property
    def watches_all(self) -> bool:
        """Return whether all three kinds are served and watched."""
        insights = self._insights
        return insights is not None and {found.plural for found in insights.watched_resources} >= set(PLURALS)

    def start(self) -> None:
        """Start the thread; RuntimeError for a second start."""
        if self._thread is not None:
            raise RuntimeError("a KopfWatcher starts only once")
        self._alive_at_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Stop kopf and wait for the thread; return False when it has not ended in time. It may be called again."""
        self._stopping.set()
        self.rewatch()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def rewatch(self) -> None:
        """Restart kopf with a fresh login, which kopf requests by itself only after a 401."""
        with self._lock:
            if self._loop is not None and self._stop_flag is not None:
                self._loop.call_soon_threadsafe(self._stop_flag.set)

    def _run(self) -> None:
        """Run kopf, again and again, until stopped."""
        delay_s = _RESTART_FIRST_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                asyncio.run(self._run_operator())
            except (Exception, asyncio.CancelledError) as error:  # after any error, kopf must watch again
                _log.warning("kopf ended, restarting it", error=self._describe(error))
            if self._stopping.is_set():
                return
            if time.monotonic() - began_s > _WAS_STABLE_S:
                delay_s = _RESTART_FIRST_S
            self.restarts += 1
            self._alive_at_s = time.monotonic()
            self._stopping.wait(delay_s)
            delay_s = min(delay_s * 2, _RESTART_MOST_S)
            self._notify_restart()

    async def _run_operator(self) -> None:
        """Run one kopf operator to its end."""
        stop_flag = asyncio.Event()
        with self._lock:
            self._loop, self._stop_flag = asyncio.get_running_loop(), stop_flag
        if self._stopping.is_set():
            stop_flag.set()
        self._listed.clear()
        self._insights = Insights()
        try:
            async with asyncio.TaskGroup() as group:  # a task older than the operator, which cancels only younger ones
                supervisor = group.create_task(self._supervise(stop_flag), name="supervise kopf")
                try:
                    await kopf.operator(
                        registry=self._make_registry(),
                        settings=_make_settings(),
                        insights=self._insights,
                        identity=_IDENTITY,
                        standalone=True,
                        clusterwide=True,
                        stop_flag=stop_flag,
                    )
                finally:
                    supervisor.cancel()
        finally:
            with self._lock:
                self._loop = self._stop_flag = None

    def _make_registry(self) -> kopf.OperatorRegistry:
        """Make kopf's registry: one event handler for each kind, and our login."""
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, id="login")(self._log_in)
        for plural in PLURALS:
            kopf.on.event(meta.GROUP, meta.VERSION, plural, registry=registry, id=plural)(self._on_kopf_event)
        return registry

    async def _log_in(self, **_: object) -> kopf.ConnectionInfo:
        """Return credentials; retry without end, because kopf waits forever after a failed login."""
        for delay_s in _Backoffs():
            try:
                connection = await asyncio.to_thread(self._login)
            except Exception as error:
                _log.warning("cannot log in to the local API server", error=self._describe(error))
            else:
                self._server = connection.server
                return connection
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays have no end")

    async def _on_kopf_event(self, *, event: Any, resource: kopf.Resource, **_: object) -> None:
        """Pass one event on. It returns None: kopf writes any other value into the object's status."""
        kind, body = event["type"], event["object"]
        uid = body["metadata"].get("uid", "")
        if kind is None:
            if uid in self._listed:
                self._relist_due = True  # kopf has listed again, and does not report deletions before it
            self._listed.add(uid)
        elif kind == "DELETED":
            self._listed.discard(uid)
        if not self._stopping.is_set():
            self._on_event(resource.plural, kind or "ADDED", body)

    async def _supervise(self, stop_flag: asyncio.Event) -> None:
        """Record that the loop runs; request lists after missed events, and a new scan for a missing CRD."""
        began_s = time.monotonic()
        resync_at_s = began_s + _SETTLED_S
        complete_at_s = math.inf
        while True:
            now = self._alive_at_s = time.monotonic()
            if now >= resync_at_s or self._relist_due:
                self._relist_due, resync_at_s = False, now + self._resync_s
                self._notify_restart()
            if not self.watches_all and now - began_s > _INCOMPLETE_S:
                _log.info("a CRD of this project is missing, restarting kopf to find it")
                stop_flag.set()
            watchers = _watchers()
            if len(watchers) >= len(PLURALS) and not stop_flag.is_set():
                complete_at_s = now
            elif now - complete_at_s > _LOST_S:
                _cancel_watchers(watchers)
            await asyncio.sleep(0.5)

    def _notify_restart(self) -> None:
        if not self._stopping.is_set():
            self._on_restart()

    def _describe(self, error: BaseException) -> str:
        """Return a message for the first error inside of groups, which is the cause."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, FAILURES):
            error = error_of_failure(error, what="watch our own kinds", server=self._server, source=KUBECONFIG)
        return str(error) if isinstance(error, RegistryError) else describe(error)


def _watchers() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith(_WATCHER)]


def _cancel_watchers(watchers: list[asyncio.Task[Any]]) -> None:
    """Cancel the rest of kopf's watching tasks; the next call cancels those that continue.

    A task that waits for the head of an answer takes its cancellation for a pause, and continues (kopf 1.45,
    `_cogs/clients/api.py`, `stream`). kopf then waits for it forever, without the tasks that have ended.
    """
    if watchers:
        _log.warning("kopf stopped watching a kind, cancelling its other watches", watches=len(watchers))
    for task in watchers:
        task.cancel()


def _make_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # by default kopf kills the process when it ends slowly
    settings.posting.enabled = False
    settings.persistence.finalizer = FINALIZER
    settings.execution.executor = concurrent.futures.ThreadPoolExecutor(
        max_workers=1
    )  # for synchronous handlers; there is no such handler
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10.0
    settings.watching.reconnect_backoff = 0.1
    settings.queueing.exit_timeout = 0.5
    settings.queueing.idle_timeout = 1.0
    return settings
