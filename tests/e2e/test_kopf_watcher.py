"""KopfWatcher on a real API server: it reports events of our kinds, survives restarts, and writes nothing."""

from __future__ import annotations

import gc
import queue
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest

from hack.controlplane import Cluster, Group
from registry_controller.handlers import PLURALS, KopfWatcher, as_connection
from registry_controller.kube.kopf_login import KopfLogin

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""kopf leaves its connections to the garbage collector when its loop ends: sockets that nobody closed."""


@pytest.fixture(scope="module", autouse=True)
def _swept() -> Iterator[None]:
    """Collect the connections of kopf here, and not in the next module."""
    yield
    gc.collect()


ROOT = Path(__file__).parents[2]
GROUP = "clusterregistry.k8s.cisco.com"
PATH = f"/apis/{GROUP}/v1alpha1"
FEATURES = f"{PATH}/clusterfeatures"


class Watched:
    """A KopfWatcher, and the events that it passes on."""

    def __init__(self, cluster: Cluster, *, login: Callable[[], kopf.ConnectionInfo] | None = None) -> None:
        self.events: queue.Queue[tuple[str, str, str, float]] = queue.Queue()
        self.restarts: queue.Queue[float] = queue.Queue()
        self.watcher = KopfWatcher(
            login=login or (lambda: credentials(cluster)), on_event=self._on_event, on_restart=self._on_restart
        )

    def _on_event(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        self.events.put((plural, kind, body["metadata"]["name"], time.monotonic()))

    def _on_restart(self) -> None:
        self.restarts.put(time.monotonic())

    def wait_for(self, plural: str, kind: str, name: str, *, timeout_s: float = 180.0) -> float:
        """Return the time of an event; the events before it are dropped."""
        deadline = time.monotonic() + timeout_s
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            if event[:3] == (plural, kind, name):
                return event[3]


def credentials(cluster: Cluster) -> kopf.ConnectionInfo:
    entry = cluster.entry
    return as_connection(
        KopfLogin(
            server=entry.server,
            ca_pem=entry.server_ca.read_text(),
            certificate_file=str(entry.user.certificate),
            key_file=str(entry.user.key),
        )
    )


def feature(name: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ClusterFeature",
        "metadata": {"name": name},
        "spec": {"featureName": name},
    }


def install(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
    names = [f"crd/{plural}.{GROUP}" for plural in PLURALS]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=180s", *names)


def create(cluster: Cluster, name: str) -> None:
    """Create a feature, also where discovery has only just learnt of the kind."""
    deadline = time.monotonic() + 20
    while True:
        try:
            cluster.api.request("POST", FEATURES, body=feature(name))
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    with Group(1, prefix="kopf") as group:
        yield group[0]


@pytest.fixture
def watched(plane: Cluster) -> Iterator[Watched]:
    watched = Watched(plane)
    watched.watcher.start()
    yield watched
    began = time.monotonic()
    assert watched.watcher.stop(20), "the thread did not end"
    print(f"stopped in {time.monotonic() - began:.2f} s")
    assert not watched.watcher.healthy


def test_crds_that_come_later_are_noticed(plane: Cluster, watched: Watched) -> None:
    time.sleep(3)
    assert watched.watcher.healthy
    assert not watched.watcher.watches_all
    install(plane)
    create(plane, "late")
    print(f"heard {watched.wait_for('clusterfeatures', 'ADDED', 'late') - time.monotonic():.3f} s")
    deadline = time.monotonic() + 40
    while not watched.watcher.watches_all:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_event_is_heard_within_a_blink_and_nothing_is_written(plane: Cluster, watched: Watched) -> None:
    install(plane)
    create(plane, "first")
    watched.wait_for("clusterfeatures", "ADDED", "first")
    offset = plane.audit_offset()
    delays = []
    for number in range(30):
        began = time.monotonic()
        plane.api.request("POST", FEATURES, body=feature(f"blink-{number}"))
        delays.append(watched.wait_for("clusterfeatures", "ADDED", f"blink-{number}") - began)
    print(f"from request to event: median {statistics.median(delays) * 1000:.1f} ms, most {max(delays) * 1000:.1f} ms")
    assert statistics.median(delays) < 0.1
    for number in range(30):
        plane.api.request("DELETE", f"{FEATURES}/blink-{number}")
        watched.wait_for("clusterfeatures", "DELETED", f"blink-{number}")
    verbs = {(event["verb"], event.get("userAgent", "")) for event in plane.audit(since=offset)}
    assert not {verb for verb, agent in verbs if agent.startswith("kopf") and verb not in {"get", "list", "watch"}}


def test_the_end_of_the_api_server_is_survived(plane: Cluster, watched: Watched) -> None:
    install(plane)
    create(plane, "before")
    watched.wait_for("clusterfeatures", "ADDED", "before")
    plane.apiserver.stop()
    time.sleep(5)
    assert watched.watcher.healthy
    plane.apiserver.start()
    plane.apiserver.wait_ready(180)
    back = time.monotonic()
    create(plane, "after")
    print(f"heard {watched.wait_for('clusterfeatures', 'ADDED', 'after') - back:.2f} s after the return")


def test_kinds_that_go_and_come_back_are_heard_again(plane: Cluster, watched: Watched) -> None:
    install(plane)
    create(plane, "goes")
    watched.wait_for("clusterfeatures", "ADDED", "goes")
    plane.kubectl("delete", "-f", str(ROOT / "crds"), "--wait=true")
    watched.wait_for("clusterfeatures", "DELETED", "goes")
    time.sleep(2)
    install(plane)
    create(plane, "comes")
    watched.wait_for("clusterfeatures", "ADDED", "comes", timeout_s=180)
    assert watched.watcher.healthy


def test_a_login_that_fails_is_tried_again_and_a_refused_one_is_renewed(plane: Cluster) -> None:
    install(plane)
    tries: list[float] = []

    def login() -> kopf.ConnectionInfo:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OSError("no token file yet")
        if len(tries) == 3:
            return kopf.ConnectionInfo(server=plane.server, ca_data=plane.pki.server_ca.read_text(), token="expired")
        return credentials(plane)

    watched = Watched(plane, login=login)
    watched.watcher.start()
    try:
        create(plane, "renewed")
        watched.wait_for("clusterfeatures", "ADDED", "renewed")
        assert len(tries) == 4
    finally:
        assert watched.watcher.stop(20)


def test_a_restart_is_told(plane: Cluster, watched: Watched) -> None:
    install(plane)
    create(plane, "known")
    watched.wait_for("clusterfeatures", "ADDED", "known")
    assert watched.restarts.get(timeout=60) > 0, (
        "the first lists of kopf and of the registry may miss a delete in between"
    )
