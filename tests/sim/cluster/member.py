"""One simulated cluster and the daemon in it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from registry_controller import settings
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.app import Daemon
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.writer import WRITING, Writer
from registry_controller.report.metrics import Metrics
from tests.sim.cluster.apiserver import ApiServer, Snapshot, Write
from tests.sim.cluster.clock import ahead
from tests.sim.cluster.controllers import Controllers
from tests.sim.cluster.fields import Manifest, copied, merged
from tests.sim.cluster.kinds import BY_KIND, Kind
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.store import Change
from tests.sim.cluster.transport import Fault, Life, SimTransport, Wire

NAMESPACE = "cluster-registry"
DAEMON = "daemon "
"""How the tasks of daemons are called, before the member's name."""
READER = "cluster-registry-controller-reader"
_OPTIONS = {"WORKERS": "4", "MEMBER_LEFT_TRUST_SECONDS": "60"}
_SETTLED_S = 3.0
_OWN_KINDS = ("Cluster", "ResourceSyncRule", "ClusterFeature")


class Ways(Protocol):
    """What a member needs of its group: where its tasks live, and the ways to the servers."""

    @property
    def scope(self) -> asyncio.TaskGroup: ...

    def wire(self, who: str, server: str) -> Wire: ...

    def wire_to(self, who: str, url: str) -> Wire: ...

    def metrics(self) -> Metrics: ...


class SimEar:
    """What hears our own kinds in the place of kopf: what is there first, then every change.

    Only events of one object (one uid) come in order, as kopf's do. While the way home is broken it hears nothing, and
    afterwards what it missed. As the real one it asks for complete lists soon after it has started, because nobody told
    it what was deleted before.
    """

    def __init__(
        self, wire: Wire, on_event: Callable[[str, str, dict[str, Any]], None], on_restart: Callable[[], None]
    ) -> None:
        self._on_restart = on_restart
        self._wire = wire
        self._store = wire.server.store  # that of another cluster is none of ours
        self._on_event = on_event
        self._last_s: dict[str, float] = {}
        self._missed: list[tuple[str, str, Manifest]] = []
        self._on = False

    def start(self) -> None:
        """Begin to listen."""
        self._on = True
        self.list_again()
        self._store.listeners.append(self._hear)
        self._store.restored.append(self._list_anew)
        asyncio.get_running_loop().call_later(_SETTLED_S, self._resync)

    def list_again(self) -> None:
        """Hear everything that is there, as after each of kopf's lists."""
        for name in _OWN_KINDS:
            for found in self._store.all(BY_KIND[name]).values():
                self._later(BY_KIND[name], "ADDED", found)

    def _resync(self) -> None:
        if self._on:
            self._on_restart()

    def stop(self) -> None:
        """Stop listening."""
        if self._on:
            self._on = False
            self._store.listeners.remove(self._hear)
            self._store.restored.remove(self._list_anew)

    def _list_anew(self) -> None:
        """List after a restore, as kopf does when its watch is refused; it reports no deletion then."""
        self.list_again()
        asyncio.get_running_loop().call_later(_SETTLED_S, self._resync)

    def _hear(self, change: Change) -> None:
        if change.kind.kind in _OWN_KINDS:
            held = change.new or change.old
            assert held is not None
            self._later(change.kind, "DELETED" if not change.new else "MODIFIED" if change.old else "ADDED", held)

    def _later(self, kind: Kind, event_type: str, manifest: Manifest) -> None:
        loop, uid = asyncio.get_running_loop(), manifest["metadata"]["uid"]
        due_s = loop.time() + self._wire.delay() + self._wire.lateness()
        self._last_s[uid] = max(self._last_s.get(uid, 0.0) + 1e-6, due_s)
        loop.call_at(self._last_s[uid], self._tell, kind.plural, event_type, manifest)

    def _tell(self, plural: str, event_type: str, manifest: Manifest) -> None:
        if not self._on:
            return
        if self._wire.fault is Fault.NONE and not self._missed:
            self._on_event(plural, event_type, dict(manifest))
            return
        self._missed.append((plural, event_type, manifest))
        if len(self._missed) == 1:
            asyncio.get_running_loop().call_later(1.0, self._catch_up)

    def _catch_up(self) -> None:
        if self._wire.fault is not Fault.NONE and self._on:
            asyncio.get_running_loop().call_later(1.0, self._catch_up)
            return
        missed, self._missed = self._missed, []
        for plural, event_type, manifest in missed if self._on else ():
            self._on_event(plural, event_type, dict(manifest))


class Member:
    """One cluster, and the daemon in it while that runs.

    `starts` counts the daemons that there were, the last one from `started_s` on; `options` are what the next one is
    given beside its names.
    """

    def __init__(
        self, group: Ways, name: str, *, chance: random.Random, uid: str = "", begins: Snapshot | None = None
    ) -> None:
        self.name = name
        self.daemon: Daemon | None = None
        self.ready: dict[str, str | None] = {}
        self._group = group
        self.starts = 0
        self.started_s = 0.0
        self.options: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._ear: SimEar | None = None
        self._life = Life()
        self.install(chance, uid=uid, begins=begins)

    @property
    def home(self) -> Wire:
        """The way to its own server."""
        return self._group.wire(self.name, self.name)

    def install(self, chance: random.Random, *, uid: str = "", begins: Snapshot | None = None) -> None:
        """Set up the cluster, empty but for what a chart installs; again makes another cluster of it."""
        self.server = ApiServer(self.name, chance=chance, uid=uid, begins=begins)
        self._store = self.server.store
        Controllers(self.server)
        if begins is not None:
            return
        self.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.create({"kind": "ServiceAccount", "metadata": {"name": READER, "namespace": NAMESPACE}})

    @property
    def id(self) -> ClusterUID:
        """The cluster's ID."""
        return ClusterUID(self.server.uid)

    @property
    def writes(self) -> list[Write]:
        """List what this cluster's daemon asked to have written."""
        return [write for write in self.server.journal if write.who == self.name]

    @property
    def published(self) -> str:
        """The name of the Secret that the own Cluster names; that of the cluster without one."""
        own = self.find("Cluster", self.name) or {"spec": {}}
        return str(((own["spec"].get("authInfo") or {}).get("secretRef") or {}).get("name") or self.name)

    # The daemon.

    def start(self) -> None:
        """Start the daemon."""
        assert self._task is None
        self._task = self._group.scope.create_task(self._run(), name=f"{DAEMON}{self.name}")

    def start_again(self) -> None:
        """Start the daemon unless it runs."""
        if self._task is None:
            self.start()

    async def stop(self) -> None:
        """Stop the daemon, as SIGTERM does, and wait for its end; again is harmless."""
        task = self.cancel()
        if task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def cancel(self) -> asyncio.Task[None] | None:
        """Stop the daemon without waiting; None where none runs."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def restart(self) -> None:
        """Stop the daemon, and start another one, which remembers nothing."""
        await self.stop()
        self.start()

    def kill(self) -> None:
        """End the daemon at once, as SIGKILL does: it does nothing more, but what it had sent may arrive."""
        self._life.is_over = True
        self.cancel()

    def list_own_kinds_again(self) -> None:
        """Let the daemon hear all objects of our own kinds once more, unless it has not begun to."""
        if self._ear is not None and self.daemon is not None:
            self._ear.list_again()

    async def _run(self) -> None:
        wire = self.home
        ahead.set(lambda: self.server.clock_ahead)
        self.starts += 1
        self.started_s = asyncio.get_running_loop().time()
        self._life = life = Life()
        transport: Any = SimTransport(wire, token=None, methods=WRITING, life=life)
        writer = Writer(transport)
        options = {"PROVISION_LOCAL_CLUSTER": self.name, "NAMESPACE": NAMESPACE, **_OPTIONS, **self.options}
        self.daemon = Daemon(
            settings.load(options, {}),
            writer=writer,
            local=self.id,
            metrics=self._group.metrics(),
            connect_peer=lambda credentials: self._connect(credentials, life),
        )
        self._ear = ear = SimEar(wire, self.daemon.hand_over, self.daemon.hand_over_restart)
        stand_in: Any = ear
        try:
            await self.daemon.run(stand_in, self.ready)
        finally:
            ear.stop()
            await writer.close()
            self.daemon = None

    def _connect(self, credentials: Credentials, life: Life) -> Reader:
        wire = self._group.wire_to(self.name, credentials.server)
        transport: Any = SimTransport(
            wire, token=credentials.token, methods=READING, life=life, trusts=credentials.ca_pem
        )
        return Reader(transport)

    # The cluster, as its admin sees it.

    def create(self, manifest: Manifest, *, born: str = "") -> dict[str, Any]:
        """Create an object; `born` is the creationTimestamp that it gets, where clocks must not decide."""
        kind = BY_KIND[manifest["kind"]]
        self.server.check_created(kind)
        return copied(self._store.create(kind, _key(manifest).namespace, manifest, manager="kubectl", born=born))

    def apply(self, manifest: Manifest, *, born: str = "") -> dict[str, Any]:
        """Create an object, or merge into the one that is there."""
        kind, key = BY_KIND[manifest["kind"]], _key(manifest)
        if self.find(kind.kind, key.name, namespace=key.namespace) is None:
            return self.create(manifest, born=born)
        found = merged(self._store.get(kind, key), manifest)
        return copied(self._store.replace(kind, key, found, manager="kubectl"))

    def replace_by_force(self, manifest: Manifest, *, born: str = "") -> None:
        """Create an object, in the place of the one that is there: that one is deleted first."""
        kind, key = BY_KIND[manifest["kind"]], _key(manifest)
        if self.find(kind.kind, key.name, namespace=key.namespace) is not None:
            self.delete(kind.kind, key.name, namespace=key.namespace)
        self.create(manifest, born=born)

    def replace(self, manifest: Manifest, *, subresource: str = "") -> dict[str, Any]:
        """Replace an object, or its status, whatever its resourceVersion is by now."""
        kind, key = BY_KIND[manifest["kind"]], _key(manifest)
        info = {name: value for name, value in manifest["metadata"].items() if name != "resourceVersion"}
        body = {**manifest, "metadata": info}
        return copied(self._store.replace(kind, key, body, manager="kubectl", subresource=subresource))

    def write_as(self, manager: str, manifest: Manifest, *, subresource: str = "") -> dict[str, Any]:
        """Merge into an object as a controller does, under its own name; with `scale` through that subresource."""
        kind, key = BY_KIND[manifest["kind"]], _key(manifest)
        found = merged(self._store.get(kind, key), manifest)
        return copied(self._store.replace(kind, key, found, manager=manager, subresource=subresource))

    def delete(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object."""
        self._store.delete(BY_KIND[kind], ObjectKey(namespace, name))

    def get(self, kind: str, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Get an object; Refusal where it is not there."""
        return copied(self._store.get(BY_KIND[kind], ObjectKey(namespace, name)))

    def find(self, kind: str, name: str, *, namespace: str = "") -> dict[str, Any] | None:
        """Get an object, or None."""
        try:
            return self.get(kind, name, namespace=namespace)
        except Refusal as refused:
            if refused.code == 404:
                return None
            raise

    def list(self, kind: str, *, namespace: str = "") -> Sequence[dict[str, Any]]:
        """List the objects of a kind."""
        found = self._store.all(BY_KIND[kind])
        return [copied(item) for key, item in sorted(found.items()) if namespace in ("", key.namespace)]

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        """Find a condition; empty where there is none."""
        conditions = (self.get(kind, name).get("status") or {}).get("conditions") or []
        return next((found for found in conditions if found["type"] == type_), {})


def _key(manifest: Manifest) -> ObjectKey:
    info = manifest["metadata"]
    return ObjectKey(info.get("namespace", ""), info["name"])
