"""KopfWatcher with a stand-in for kopf's operator: restarts, stopping, and the events that it passes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import kopf
import pytest

from registry_controller import handlers
from registry_controller.handlers import KopfWatcher, as_connection
from registry_controller.kube.kopf_login import KopfLogin

Operator = Callable[..., Awaitable[None]]


class Listener:
    """Collect the events that a KopfWatcher passes on."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.restarts = 0
        self.watcher = KopfWatcher(login=_login, on_event=self._on_event, on_restart=self._on_restart, resync_s=3600)

    def _on_event(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        self.events.append((plural, kind, body["metadata"]["uid"]))

    def _on_restart(self) -> None:
        self.restarts += 1


def _login() -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server="https://127.0.0.1:1")


def eventually(is_so: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        time.sleep(0.01)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr(handlers, "_RESTART_FIRST_S", 0.01)
    return Listener()


def resource(plural: str) -> kopf.Resource:
    return kopf.Resource(
        handlers.meta.GROUP,
        handlers.meta.VERSION,
        plural,
        kind=plural,
        singular=plural,
        namespaced=False,
        preferred=True,
        verbs=frozenset({"list", "watch", "patch"}),
    )


def send(watcher: KopfWatcher, kind: str | None, uid: str = "1") -> None:
    event = {"type": kind, "object": {"metadata": {"uid": uid}}}
    assert asyncio.run(watcher._on_kopf_event(event=event, resource=resource("clusters"), body={}, patch={})) is None


def test_events_are_handed_on_and_what_a_list_finds_is_added(listener: Listener) -> None:
    for kind in (None, "MODIFIED", "DELETED", "ADDED"):
        send(listener.watcher, kind)
    assert [kind for _, kind, _ in listener.events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]


def test_a_second_list_of_the_same_object_asks_for_lists(listener: Listener) -> None:
    send(listener.watcher, None, "1")
    send(listener.watcher, None, "2")
    assert not listener.watcher._relist_due
    send(listener.watcher, None, "1")
    assert listener.watcher._relist_due


def test_kopf_is_started_again_when_it_ends_and_its_loss_is_told(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[BaseException | None] = [RuntimeError("bug"), None, asyncio.CancelledError(), kopf.LoginError("401")]
    running = threading.Event()

    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        if ends:
            end = ends.pop()
            if end is not None:
                raise end
            return
        running.set()
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    listener.watcher.start()
    try:
        assert running.wait(10)
        assert (listener.watcher.restarts, listener.restarts) == (4, 4)
        assert listener.watcher.healthy
    finally:
        assert listener.watcher.stop(10)
    assert not listener.watcher.healthy
    assert listener.watcher.stop(), "again is harmless"


def test_a_loop_that_does_not_turn_is_not_healthy(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_UNHEALTHY_AFTER_S", 0.7)
    free = threading.Event()

    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        await asyncio.sleep(0.1)
        free.wait(20)  # what no coroutine may do
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    assert not listener.watcher.healthy, "it has not started"
    listener.watcher.start()
    try:
        eventually(lambda: not listener.watcher.healthy)
        assert not listener.watcher.stop(0.05), "it does not end"
    finally:
        free.set()
        assert listener.watcher.stop(10)


def test_after_the_first_lists_the_registry_is_asked_to_list(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "_SETTLED_S", 0.05)

    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    listener.watcher.start()
    try:
        eventually(lambda: listener.restarts == 1)
        assert listener.watcher.restarts == 0
    finally:
        assert listener.watcher.stop(10)


def test_kinds_that_stay_missing_are_looked_for_again(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_INCOMPLETE_S", 0.05)
    starts: list[Any] = []

    async def operator(*, stop_flag: asyncio.Event, insights: Any, **_: object) -> None:
        starts.append(insights)
        if len(starts) > 1:
            insights.watched_resources.update(map(resource, handlers.PLURALS))
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    listener.watcher.start()
    try:
        eventually(lambda: listener.watcher.watches_all)
        time.sleep(0.7)
        assert len(starts) == 2
    finally:
        assert listener.watcher.stop(10)


def test_a_watcher_that_outlives_its_cancellation_does_not_keep_kopf_from_a_restart(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf waits for it forever when another one has ended; it is cancelled until it ends, and kopf starts again."""
    monkeypatch.setattr(handlers, "_LOST_S", 0.2)
    starts: list[int] = []

    async def watch(plural: str, *, lost: bool) -> None:
        if lost and plural == "clusters":
            await asyncio.sleep(0.7)
            raise ValueError("no JSON")
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not lost or plural == "resourcesyncrules":
                    raise
                lost = False  # taken for a pause

    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        lost = not starts
        starts.append(1)
        names = {plural: f"watcher for {plural}.v1alpha1.{handlers.meta.GROUP}@None" for plural in handlers.PLURALS}
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(watch(plural, lost=lost), name=names[plural]) for plural in names]
            if not lost:
                await stop_flag.wait()
                for watcher in watchers:
                    watcher.cancel()

    monkeypatch.setattr(kopf, "operator", operator)
    listener.watcher.start()
    try:
        eventually(lambda: len(starts) == 2)
    finally:
        assert listener.watcher.stop(10)


def test_kopf_is_set_up_to_write_nothing(listener: Listener) -> None:
    registry, settings = listener.watcher._make_registry(), handlers._make_settings()
    assert not settings.posting.enabled
    assert settings.persistence.finalizer == handlers.FINALIZER
    assert settings.process.ultimate_exiting_timeout is None
    assert settings.admission.server is None
    assert len(registry._watching.get_all_handlers()) == 3
    for others in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert not others.get_all_handlers()


def test_kopf_needs_no_name_of_a_user(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a Pod is a number without an entry in /etc/passwd."""

    def fail() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr("getpass.getuser", fail)
    listener.watcher.start()
    try:
        eventually(lambda: listener.watcher._server == _login().server)  # kopf logs in after it has named itself
        assert listener.watcher.restarts == 0
    finally:
        assert listener.watcher.stop(10)


def test_a_watcher_starts_only_once(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    listener.watcher.start()
    with pytest.raises(RuntimeError):
        listener.watcher.start()
    assert listener.watcher.stop(10)


def test_a_watcher_that_never_started_stops_at_once(listener: Listener) -> None:
    assert listener.watcher.stop(0.0)


def test_credentials_become_kopfs_own() -> None:
    pem = "-----BEGIN CERTIFICATE-----\n"
    found = as_connection(KopfLogin(server="https://h", ca_pem=pem, token="t"))
    assert (found.server, found.ca_data, found.token, found.certificate_path) == ("https://h", pem, "t", None)
    assert found.as_http_headers() == {"Authorization": "Bearer t"}
