"""One simulated cluster and the daemon in it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from registry_controller import settings
from registry_controller.api.meta import DELETION_LIMIT_PERCENT, ClusterUID, ObjectKey
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
from tests.sim.cluster.request import Answer
from tests.sim.cluster.store import Change
from tests.sim.cluster.transport import Fault, Life, SimTransport, Wire, forbidden

NAMESPACE = "cluster-registry"
DAEMON = "daemon "
"""How the tasks of daemons are called, before the member's name."""
READER = "cluster-registry-controller-reader"
_PODS = ("daemon-1", "daemon-2")
_APP = "daemon"
_READY_S, _UNREADY_S = 1.0, 2.0
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

    def begin_life(self, who: str) -> Life: ...


class SimKopf:
    """What hears our own kinds in the place of kopf: what is there first, then every change.

    Only events of one object (one uid) come in order, as kopf's do. While the way home is broken it hears nothing, and
    afterwards what it missed. As the real one it asks for complete lists soon after it has started, because nobody told
    it what was deleted before. `lag_s` is how much later than usual it hears everything.
    """

    def __init__(
        self,
        wire: Wire,
        life: Life,
        on_event: Callable[[str, str, dict[str, Any]], None],
        on_restart: Callable[[], None],
    ) -> None:
        self._life = life
        self._on_restart = on_restart
        self._wire = wire
        self._store = wire.server.store  # that of another cluster is none of ours
        self._on_event = on_event
        self._last_s: dict[str, float] = {}
        self._missed: list[tuple[str, str, Manifest]] = []
        self._on = False
        self.lag_s = 0.0

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
        due_s = loop.time() + self._wire.delay() + self._wire.lateness() + self.lag_s
        self._last_s[uid] = max(self._last_s.get(uid, 0.0) + 1e-6, due_s)
        loop.call_at(self._last_s[uid], self._tell, kind.plural, event_type, manifest)

    def _tell(self, plural: str, event_type: str, manifest: Manifest) -> None:
        if not self._on:
            return
        if not self._waits() and not self._missed:
            self._on_event(plural, event_type, dict(manifest))
            return
        self._missed.append((plural, event_type, manifest))
        if len(self._missed) == 1:
            asyncio.get_running_loop().call_later(1.0, self._catch_up)

    def _catch_up(self) -> None:
        if self._waits() and self._on:
            asyncio.get_running_loop().call_later(1.0, self._catch_up)
            return
        missed, self._missed = self._missed, []
        for plural, event_type, manifest in missed if self._on else ():
            self._on_event(plural, event_type, dict(manifest))

    def _waits(self) -> bool:
        return self._wire.fault is not Fault.NONE or self._life.waits(is_home=True)


class Replica:
    """One daemon of a cluster, while it runs. `pod` is the name of its Pod; empty where nobody looks at Pods.

    Its Pod is ready a moment after it starts, is not ready some time after it was killed, and goes when it is stopped.
    It started at `started_s` last. `barred` are the HTTP methods that its API server refuses to it alone, `deleted` the
    paths of what it deleted. What watches of its own cluster that begin now show, it hears `late_s` later.
    """

    def __init__(self, member: Member, ways: Ways, *, pod: str = "", options: Mapping[str, str] | None = None) -> None:
        self.barred: set[str] = set()
        self.deleted: list[str] = []
        self.late_s = 0.0
        self.started_s = 0.0
        self.daemon: Daemon | None = None
        self.ready: dict[str, str | None] = {}
        self.pod = pod
        self._options = options or {}
        self._member = member
        self._ways = ways
        self._task: asyncio.Task[None] | None = None
        self._kopf: SimKopf | None = None
        self._life = Life()

    @property
    def runs(self) -> bool:
        """Return whether it was started, and not stopped since."""
        return self._task is not None

    def start(self) -> None:
        """Start the daemon."""
        assert self._task is None
        self.started_s = asyncio.get_running_loop().time()
        self._task = self._ways.scope.create_task(self._run(), name=f"{DAEMON}{self._member.name}")
        self.show_pod(ready=False)
        self._later(_READY_S, lambda: self.runs, ready=True)

    def cancel(self) -> asyncio.Task[None] | None:
        """Stop the daemon without waiting; None where none runs."""
        task = self._end()
        if task is not None and self.pod:
            with contextlib.suppress(Refusal):
                self._member.delete("Pod", self.pod, namespace=NAMESPACE)
        return task

    def kill(self) -> None:
        """End the daemon at once, as SIGKILL does: it does nothing more, but what it had sent may arrive."""
        self._life.is_over = True
        self._end()
        self._later(_UNREADY_S, lambda: not self.runs, ready=False)

    def hear_late(self, lag_s: float) -> None:
        """Let the daemon hear of our own kinds later than the other one from now on, once it has begun to listen."""
        if self._kopf is not None:
            self._kopf.lag_s = lag_s

    def stand_still(self) -> None:
        """Let nothing reach the daemon, as when its process is stopped."""
        self._life.is_still = self._life.has_stood_still = True

    @property
    def has_stood_still(self) -> bool:
        """Return whether the daemon stood still."""
        return self._life.has_stood_still

    def go_on(self) -> None:
        """Let what its own cluster sent reach a daemon that stood still."""
        self._life.is_still, self._life.behind_peers = False, self._life.is_still

    def hear_peers(self) -> None:
        """Let what peers sent reach it, too."""
        self._life.is_still = self._life.behind_peers = False

    def list_own_kinds_again(self) -> None:
        """Let the daemon hear all objects of our own kinds once more, unless it has not begun to."""
        if self._kopf is not None and self.daemon is not None:
            self._kopf.list_again()

    def show_pod(self, *, ready: bool) -> None:
        """Write the Pod as the kubelet does."""
        if not self.pod:
            return
        limit = self._read_settings().deletion_limit_percent
        notes = {DELETION_LIMIT_PERCENT: str(limit)}
        info = {"name": self.pod, "namespace": NAMESPACE, "labels": {"app": _APP}, "annotations": notes}
        state = {"type": "Ready", "status": "True" if ready else "False"}
        with contextlib.suppress(Refusal):  # its namespace may be gone
            if self._member.find("Pod", self.pod, namespace=NAMESPACE) is None:
                self._member.create({"kind": "Pod", "metadata": info})
            self._member.replace(
                {"kind": "Pod", "metadata": info, "status": {"conditions": [state]}}, subresource="status"
            )

    def _end(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    def _later(self, delay_s: float, still: Callable[[], bool], *, ready: bool) -> None:
        if self.pod:
            loop = asyncio.get_running_loop()
            loop.call_later(delay_s, lambda: self.show_pod(ready=ready) if still() else None)

    def _read_settings(self) -> settings.Settings:
        pods = {"POD_NAME": self.pod, "POD_SELECTOR": f"app={_APP}"} if self.pod else {}
        names = {"PROVISION_LOCAL_CLUSTER": self._member.name, "NAMESPACE": NAMESPACE}
        return settings.load({**names, **pods, **_OPTIONS, **self._member.options, **self._options}, {})

    async def _run(self) -> None:
        member = self._member
        wire = member.home
        ahead.set(lambda: member.server.clock_ahead)
        member.starts += 1
        self._life = life = self._ways.begin_life(f"the daemon of {member.name}")
        transport: Any = _HomeTransport(self, wire, life)
        writer = Writer(transport)
        self.daemon = Daemon(
            self._read_settings(),
            writer=writer,
            local=member.id,
            metrics=self._ways.metrics(),
            connect_peer=lambda credentials: self._connect(credentials, life),
            holder=(self.pod or member.name) if member.holds_leases else "",
        )
        self._kopf = kopf = SimKopf(wire, life, self.daemon.hand_over, self.daemon.hand_over_restart)
        stand_in: Any = kopf
        try:
            await self.daemon.run(stand_in, self.ready)
        finally:
            kopf.stop()
            await writer.close()
            self.daemon = None

    def _connect(self, credentials: Credentials, life: Life) -> Reader:
        wire = self._ways.wire_to(self._member.name, credentials.server)
        transport: Any = SimTransport(
            wire, token=credentials.token, methods=READING, life=life, trusts=credentials.ca_pem
        )
        return Reader(transport)


class _HomeTransport(SimTransport):
    """The connection of one replica to its own API server."""

    def __init__(self, replica: Replica, wire: Wire, life: Life) -> None:
        super().__init__(wire, token=None, methods=WRITING, life=life)
        self._replica = replica

    def _call(self, server: ApiServer, method: str, path: str, body: bytes | None, accept: str) -> Answer:
        if method in self._replica.barred:
            return forbidden(path, method.lower())
        answer = super()._call(server, method, path, body, accept)
        if method == "DELETE" and answer.status < 300:
            self._replica.deleted.append(path)
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(path, **options) as chunks:
            yield _late(chunks, self._replica.late_s) if self._replica.late_s else chunks


async def _late(chunks: AsyncIterator[bytes], late_s: float) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        await asyncio.sleep(late_s)
        yield chunk


class Member:
    """One cluster, and the daemon in it while that runs; sometimes a second one.

    `starts` counts the daemons that there were; `options` are what the next one is given beside its names. With
    `has_pods` they know of each other by their Pods, and with `holds_leases` each has a Lease. `had_two` means that
    there was ever a second one.
    """

    def __init__(
        self, group: Ways, name: str, *, chance: random.Random, uid: str = "", begins: Snapshot | None = None
    ) -> None:
        self.name = name
        self._group = group
        self.starts = 0
        self.options: dict[str, str] = {}
        self.has_pods = self.holds_leases = self.had_two = False
        self.first = Replica(self, group)
        self._second: Replica | None = None
        self.install(chance, uid=uid, begins=begins)

    @property
    def home(self) -> Wire:
        """The way to its own server."""
        return self._group.wire(self.name, self.name)

    def install(self, chance: random.Random, *, uid: str = "", begins: Snapshot | None = None) -> None:
        """Set up the cluster, empty but for what a chart installs; again makes another cluster of it."""
        self.server = ApiServer(self.name, chance=chance, uid=uid, begins=begins)
        self._store = self.server.store
        self._store.restored.append(lambda: asyncio.get_running_loop().call_later(_READY_S, self._show_pods))
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

    @property
    def daemon(self) -> Daemon | None:
        """The daemon; the first of two."""
        return self.first.daemon

    @property
    def ready(self) -> dict[str, str | None]:
        """What the daemon says of its readiness."""
        return self.first.ready

    @property
    def has_stood_still(self) -> bool:
        """Return whether one of the daemons that run stood still."""
        return any(one is not None and one.has_stood_still for one in (self.first, self._second))

    @property
    def has_two(self) -> bool:
        """Return whether a second daemon runs."""
        return self._second is not None and self._second.runs

    @property
    def started_s(self) -> float:
        """Return when that daemon started which has run longest; where none runs, when the first one did."""
        running = [one.started_s for one in (self.first, self._second) if one is not None and one.runs]
        return min(running, default=self.first.started_s)

    def start(self) -> None:
        """Start the daemon."""
        self.first.pod = _PODS[0] if self.has_pods and not self.first.pod else self.first.pod
        self.first.start()

    def start_again(self) -> None:
        """Start the daemon unless it runs."""
        if not self.first.runs:
            self.start()

    def start_second(self, **options: str) -> Replica:
        """Start a second daemon in a Pod of its own, with options of its own."""
        assert not self.has_two
        self.had_two = True
        pod = next(name for name in _PODS if name != self.first.pod)
        if self.find("Pod", pod, namespace=NAMESPACE) is not None:
            self.delete("Pod", pod, namespace=NAMESPACE)  # a killed one; this one has options of its own
        self._second = Replica(self, self._group, pod=pod, options=options)
        self._second.start()
        return self._second

    def stand_still(self, *, second: bool) -> Replica | None:
        """Let one of two daemons stand still; None where there are no two."""
        chosen = self._second if second else self.first
        if chosen is None or not self.has_two:
            return None
        chosen.stand_still()
        return chosen

    def roll_over(self) -> None:
        """Let the second daemon be the only one."""
        if self._second is not None and self._second.runs:
            self.first.cancel()
            self.first, self._second = self._second, None

    async def stop(self) -> None:
        """Stop the daemon, as SIGTERM does, and wait for its end; again is harmless."""
        for task in self.cancel():
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def cancel(self) -> Sequence[asyncio.Task[None]]:
        """Stop the daemons without waiting; return what ends."""
        ending = [found.cancel() for found in (self.first, self._second) if found is not None]
        return [task for task in ending if task is not None]

    async def restart(self) -> None:
        """Stop the daemon, and start another one, which remembers nothing."""
        await self.stop()
        self.start()

    def kill(self) -> None:
        """End the daemons at once, as SIGKILL does: they do nothing more, but what they had sent may arrive."""
        for found in (self.first, self._second):
            if found is not None and found.runs:
                found.kill()

    def list_own_kinds_again(self) -> None:
        """Let the daemons hear all objects of our own kinds once more, unless they have not begun to."""
        for found in (self.first, self._second):
            if found is not None:
                found.list_own_kinds_again()

    def _show_pods(self) -> None:
        """Write the Pods after a restore, once the kubelet and the controllers have made the store as it is here."""
        running = [found for found in (self.first, self._second) if found is not None and found.runs]
        for name in _PODS if self.has_pods else ():
            if all(found.pod != name for found in running) and self.find("Pod", name, namespace=NAMESPACE) is not None:
                self.delete("Pod", name, namespace=NAMESPACE)
        for found in running:
            found.show_pod(ready=True)

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
