"""Passes kopf's events of our own three kinds to the registry cache.

Laws:
- kopf lives in a thread and an event loop of its own: it ends every task of its loop when it ends.
- Only `on.event` handlers, which return None: all others write to the objects they hear of.
- kopf ends on errors that it does not expect; then it is started again, for as long as the daemon lives.
- No event tells what was deleted while nobody listened. Whoever listens must list again when `on_restart` says so.

Callbacks run in the ear's thread: they hand over (`loop.call_soon_threadsafe`) and return at once.
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

from registry_controller.api import meta
from registry_controller.kube.kopf_login import KopfLogin as HomeLogin
from registry_controller.report import logs

_log = logs.get_logger(__name__)

PLURALS: Final = (meta.CLUSTERS.resource, meta.RULES.resource, meta.FEATURES.resource)
FINALIZER: Final = f"{meta.GROUP}/unused-by-the-ear"
"""Ours, so that kopf leaves the default finalizer of other kopf operators alone. It is never put on anything."""

_RESTART_FIRST_S: Final = 0.5
_RESTART_MOST_S: Final = 30.0
_WAS_STABLE_S: Final = 60.0
_DEAF_AFTER_S: Final = 60.0
_SETTLED_S: Final = 3.0
"""After kopf's start, when its own first lists are done."""
_WATCHER: Final = "watcher for "
"""How kopf calls the tasks that watch, one for each kind."""
_LOST_S: Final = 7.0
"""After the loss of one of them kopf ends by itself; it leaves the others 5 s."""
_INCOMPLETE_S: Final = 15.0
"""How often to look again for CRDs that are missing: a scan may come before discovery knows a new one."""

OnEvent = Callable[[str, str, dict[str, Any]], None]
"""From the resource's plural, ADDED, MODIFIED or DELETED, and the object. What a list finds is ADDED, again and again.

Events of one uid come in order; the DELETED of an object may come after the ADDED of its successor of that name.
"""
KopfLogin = Callable[[], kopf.ConnectionInfo]
"""Makes fresh credentials for the local API server. It may block, and it is called again after every 401."""


def as_connection(login: HomeLogin) -> kopf.ConnectionInfo:
    """Spell a login as kopf wants it."""
    return kopf.ConnectionInfo(
        server=login.server,
        ca_data=login.ca_pem or None,
        token=login.token or None,
        certificate_path=login.certificate_file or None,
        private_key_path=login.key_file or None,
        insecure=not login.verify,
    )


class _Backoffs:
    """Delays in seconds between tries of one request, without end: a grant or the server's return ends them."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.1, 0.2, 0.5, 1.0)
        while True:
            yield 2.0


class KopfWatcher:
    """Hear our own kinds while started.

    `resync_s` is how often `on_restart` is called even when nothing seems to have happened.
    """

    def __init__(
        self, *, login: KopfLogin, on_event: OnEvent, on_restart: Callable[[], None], resync_s: float = 300.0
    ) -> None:
        self._login, self._on_event, self._on_restart = login, on_event, on_restart
        self._resync_s = resync_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # over the two below: `stop` races with the end of a loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_flag: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._insights: Insights | None = None
        self._pulse_at = 0.0
        self._relist_due = False
        self._listed: set[str] = set()
        self.restarts = 0

    @property
    def healthy(self) -> bool:
        """True while the ear's thread lives and its loop turns (or it waits to start again)."""
        alive = self._thread is not None and self._thread.is_alive()
        return alive and time.monotonic() - self._pulse_at < _DEAF_AFTER_S

    @property
    def watches_all(self) -> bool:
        """True while all three kinds are served and watched."""
        insights = self._insights
        return insights is not None and {found.plural for found in insights.watched_resources} >= set(PLURALS)

    def start(self) -> None:
        """Begin to listen."""
        if self._thread is not None:
            raise RuntimeError("the ear starts only once")
        self._pulse_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="ear", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Stop listening and wait for the thread; False when it has not ended in time. Again is harmless."""
        self._stopping.set()
        self.rewatch()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def rewatch(self) -> None:
        """Begin anew, with a fresh login: kopf asks for one only after a 401."""
        with self._lock:
            if self._loop is not None and self._stop_flag is not None:
                self._loop.call_soon_threadsafe(self._stop_flag.set)

    def _run(self) -> None:
        """Let kopf run, again and again, until stopped."""
        delay_s = _RESTART_FIRST_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                asyncio.run(self._listen())
            except (Exception, asyncio.CancelledError) as error:  # whatever it was, deafness is worse
                _log.warning("listening to our own kinds ended; it starts again", problem=_describe(error))
            if self._stopping.is_set():
                return
            if time.monotonic() - began_s > _WAS_STABLE_S:
                delay_s = _RESTART_FIRST_S
            self.restarts += 1
            self._pulse_at = time.monotonic()
            self._stopping.wait(delay_s)
            delay_s = min(delay_s * 2, _RESTART_MOST_S)
            self._tell_restart()

    async def _listen(self) -> None:
        """Run one kopf operator to its end."""
        stop_flag = asyncio.Event()
        with self._lock:
            self._loop, self._stop_flag = asyncio.get_running_loop(), stop_flag
        if self._stopping.is_set():
            stop_flag.set()
        self._listed.clear()
        self._insights = Insights()
        try:
            async with asyncio.TaskGroup() as group:  # born before the operator, which spares what it finds
                pulse = group.create_task(self._pulse(stop_flag), name="pulse")
                try:
                    await kopf.operator(
                        registry=self._make_registry(),
                        settings=_make_settings(),
                        insights=self._insights,
                        standalone=True,
                        clusterwide=True,
                        stop_flag=stop_flag,
                    )
                finally:
                    pulse.cancel()
        finally:
            with self._lock:
                self._loop = self._stop_flag = None

    def _make_registry(self) -> kopf.OperatorRegistry:
        """Make kopf's list of handlers: one event handler a kind, and our login."""
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, id="login")(self._log_in)
        for plural in PLURALS:
            kopf.on.event(meta.GROUP, meta.VERSION, plural, registry=registry, id=plural)(self._hear)
        return registry

    async def _log_in(self, **_: object) -> kopf.ConnectionInfo:
        """Get credentials; never fail, because kopf waits forever for a login that has failed."""
        for delay_s in _Backoffs():
            try:
                return await asyncio.to_thread(self._login)
            except Exception as error:
                _log.warning("cannot log in to the local API server", problem=logs.describe(error))
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays have no end")

    async def _hear(self, *, event: Any, resource: kopf.Resource, **_: object) -> None:
        """Hand one event on. Returns None: kopf would write anything else into the object's status."""
        kind, body = event["type"], event["object"]
        uid = body["metadata"].get("uid", "")
        if kind is None:
            if uid in self._listed:
                self._relist_due = True  # kopf has listed again; it does not say what was gone by then
            self._listed.add(uid)
        elif kind == "DELETED":
            self._listed.discard(uid)
        if not self._stopping.is_set():
            self._on_event(resource.plural, kind or "ADDED", body)

    async def _pulse(self, stop_flag: asyncio.Event) -> None:
        """Show that the loop turns; ask for lists when events may be missing, and for a new scan of the kinds."""
        began_s = time.monotonic()
        resync_at = began_s + _SETTLED_S
        heard_all_s = math.inf
        while True:
            now = self._pulse_at = time.monotonic()
            if now >= resync_at or self._relist_due:
                self._relist_due, resync_at = False, now + self._resync_s
                self._tell_restart()
            if not self.watches_all and now - began_s > _INCOMPLETE_S:
                _log.info("not all of our kinds are served; looking again")
                stop_flag.set()
            watchers = _watchers()
            if len(watchers) >= len(PLURALS) and not stop_flag.is_set():
                heard_all_s = now
            elif now - heard_all_s > _LOST_S:
                _let_go(watchers)
            await asyncio.sleep(0.5)

    def _tell_restart(self) -> None:
        if not self._stopping.is_set():
            self._on_restart()


def _watchers() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith(_WATCHER)]


def _let_go(watchers: list[asyncio.Task[Any]]) -> None:
    """Cancel what is left of kopf's watchers, and again if they go on.

    One that waits for the head of an answer takes its cancellation for a pause, and watches on (kopf 1.45,
    `_cogs/clients/api.py`, `stream`). kopf then waits for it forever, and nobody hears the kinds whose watchers have
    ended.
    """
    if watchers:
        _log.warning("a part of our own kinds is not heard any more; the rest is let go", watchers=len(watchers))
    for task in watchers:
        task.cancel()


def _describe(error: BaseException) -> str:
    """Spell the first error inside of groups, where the reason is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return logs.describe(error)


def _make_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # else it kills the process when its own end takes long
    settings.posting.enabled = False
    settings.persistence.finalizer = FINALIZER
    settings.execution.executor = concurrent.futures.ThreadPoolExecutor(max_workers=1)  # for handlers we do not have
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10.0
    settings.watching.reconnect_backoff = 0.1
    settings.queueing.exit_timeout = 0.5
    settings.queueing.idle_timeout = 1.0
    return settings
