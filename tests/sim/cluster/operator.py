"""A program on `registry_controller.group` in a simulated cluster: what it is made of, and one that makes objects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any, Final, Protocol

from registry_controller.group import Event, Group, Key, Object, Watch
from registry_controller.group.dialers import Context
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.ownership import Owner, Propagation
from registry_controller.group.sources import ClusterSource, MemberSource
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.writer import WRITING, Writer
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.clock import VirtualDatetime
from tests.sim.cluster.member import NAMESPACE
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Life, Listener, SimTransport, Wire

WATCHED: Final = "ConfigMap"
"""The kind whose events the program follows, all of them and those with the label."""
SELECTOR: Final = "sync=yes"
RECONCILED: Final = "Widget"
"""The kind whose objects are the keys of the program's controller."""
MADE: Final = "Job"
"""The kind of the objects that the program makes at home, one for each key, owned by the object of the key."""
MADE_IN: Final = "default"
OPERATOR: Final = "operator"
"""The name of the program, in its marks."""
_PROPAGATIONS: Final[Sequence[Propagation]] = ("Background", "Background", "Foreground", "Orphan")
_RESOURCES: Final = {WATCHED: "configmaps", RECONCILED: "widgets.sim.example", MADE: "jobs.batch"}
_FAILS, _ANEW, _ONCE_MORE_S = 0.2, 0.1, 5.0
_WORKS_S: Final = (0.0, 0.0, 0.01, 1.0)
_READS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.3, 4.0)


class Wires(Protocol):
    """What a program needs of its group: where its tasks live, and the ways of its cluster to the servers."""

    @property
    def scope(self) -> asyncio.TaskGroup: ...

    def wire(self, who: str, server: str) -> Wire: ...

    def wire_to(self, who: str, url: str) -> Wire: ...

    def begin_life(self, who: str) -> Life: ...


def writer_of(cluster: str) -> str:
    """Return the name under which the program of a cluster writes."""
    return f"program {cluster}"


def made_name(key: Key) -> str:
    """Return the name of the object that a program makes for a key."""
    return ".".join(part for part in key if part)


class ProgramTransport(SimTransport):
    """A connection of a program: what it hears, the daemon of its cluster has not heard."""

    @property
    def _listeners(self) -> Sequence[Listener]:
        return ()

    def _call(self, server: ApiServer, method: str, path: str, body: bytes | None, accept: str) -> Answer:
        return server.answer(method, path, body, who=writer_of(self._wire.who), accept=accept)


def make_group(
    wires: Wires,
    name: str,
    *,
    life: Life,
    source: Callable[[Callable[[Context], Any]], MemberSource] | None = None,
    reader: Callable[[Any], Reader] = Reader,
    operator: str = "",
    namespace: str = "default",
) -> Group:
    """Make a group for a program in a cluster, which has the credentials that the daemon has there.

    A context has the name of its cluster; without one it is the cluster of the program. With `operator` it may write
    to that cluster, and its counts are in `namespace`.
    """

    async def connect_by_context(context: Context) -> Reader:
        wire = wires.wire(name, context.name or name)
        return reader(ProgramTransport(wire, token=None, methods=READING, life=life))

    async def connect_writer(context: Context) -> Writer:
        transport: Any = ProgramTransport(wires.wire(name, name), token=None, methods=WRITING, life=life)
        return Writer(transport)

    def connect(credentials: Credentials) -> Reader:
        wire = wires.wire_to(name, credentials.server)
        found = ProgramTransport(wire, token=credentials.token, methods=READING, life=life, trusts=credentials.ca_pem)
        return reader(found)

    if source is None:
        found: MemberSource = ClusterSource(Context(), network_name="default", connect=connect_by_context)
    else:
        found = source(connect_by_context)
    local = None
    if operator:
        local = LocalAccess(
            Context(), operator=operator, namespace=namespace, connect=connect_writer,
            now=lambda: VirtualDatetime.now(UTC),
        )  # fmt: skip
    return Group(found, local=local, connect=connect, connect_by_context=connect_by_context)


@asynccontextmanager
async def operator_at(wires: Wires, name: str, *, operator: str = OPERATOR, **options: Any) -> AsyncIterator[Group]:
    """Run an operator in a cluster, beside the daemon there; `options` are of `make_group`."""
    life = wires.begin_life(f"the operator at {name}")
    async with make_group(wires, name, life=life, operator=operator, **options) as found:
        await found.wait_known()
        yield found


class ProgramObserver(Protocol):
    """Hears what becomes of a program."""

    def see_start(self) -> None:
        """A program starts, which knows nothing."""

    def see_event(self, selector: str, event: Event) -> None:
        """It has taken an event of a watch."""

    def see_reconciled(self, key: Key, found: Object | None) -> None:
        """It has reconciled a key, and its cache had this object at the beginning."""

    def see_twice(self, key: Key) -> None:
        """It reconciles a key that it is reconciling."""


class Program:
    """A program in a cluster: it follows ConfigMaps, at its own pace, and makes a Job of each Widget, which fails at
    times.

    With `metadata_only` it knows no more of Widgets than their metadata.
    """

    def __init__(
        self, wires: Wires, name: str, observer: ProgramObserver, *, chance: random.Random, metadata_only: bool
    ) -> None:
        self.name = name
        self.group: Group | None = None
        self._wires = wires
        self._observer = observer
        self._chance = chance
        self._metadata_only = metadata_only
        self._life = Life()
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Return whether it was started, and has not ended since."""
        return self._task is not None

    def start_again(self) -> None:
        """Start it, unless it runs."""
        if self._task is None:
            self._task = self._wires.scope.create_task(self._run(), name=f"program {self.name}")

    def stop(self) -> None:
        """Stop it, as SIGTERM does."""
        if self._task is not None:
            self._task.cancel()
            self._task = self.group = None

    def kill(self) -> None:
        """End it at once, as SIGKILL does."""
        self._life.is_over = True
        self.stop()

    async def _run(self) -> None:
        self._life = self._wires.begin_life(f"the program at {self.name}")
        self._observer.see_start()
        group = make_group(self._wires, self.name, life=self._life, operator=OPERATOR, namespace=NAMESPACE)
        async with group:
            self.group = group
            kind = _RESOURCES[RECONCILED]
            controller = group.controller(_Reconciler(group, self._observer, self._chance).reconcile, workers=3)
            controller.watches(kind, metadata_only=self._metadata_only).owns(_RESOURCES[MADE])
            async with asyncio.TaskGroup() as scope:
                for selector in ("", SELECTOR):
                    watch = group.watch(_RESOURCES[WATCHED], label_selector=selector)
                    scope.create_task(self._follow(selector, watch), name=f"program {self.name} watch")
                await controller.run()

    async def _follow(self, selector: str, watch: Watch) -> None:
        async for event in watch:
            self._observer.see_event(selector, event)
            await asyncio.sleep(self._chance.choice(_READS_S))


class _Reconciler:
    """What a program does with keys, while it runs."""

    def __init__(self, group: Group, observer: ProgramObserver, chance: random.Random) -> None:
        self._group = group
        self._observer = observer
        self._chance = chance
        self._running: set[Key] = set()
        self._has_failed: set[Key] = set()

    async def reconcile(self, key: Key) -> float | None:
        """Make the object of a key, work for a while before, and fail at times, but not twice in a row."""
        if key in self._running:
            self._observer.see_twice(key)
        self._running.add(key)
        try:
            member, kind = self._group.get(key.member), _RESOURCES[RECONCILED]
            found = member.get(kind, key.name, namespace=key.namespace) if member is not None else None
            await asyncio.sleep(self._chance.choice(_WORKS_S))
            if key not in self._has_failed and self._chance.random() < _FAILS:
                self._has_failed.add(key)
                raise ValueError("it fails at times")
            if member is not None and found is not None:
                await self._make(key, member.as_owner(found))
            self._has_failed.discard(key)
            self._observer.see_reconciled(key, found)
        finally:
            self._running.discard(key)
        return _ONCE_MORE_S if self._chance.random() < _ANEW else None

    async def _make(self, key: Key, owner: Owner) -> None:
        info = {"name": made_name(key), "namespace": MADE_IN}
        manifest = {"apiVersion": "batch/v1", "kind": MADE, "metadata": info, "spec": {"of": str(key)}}
        propagation = self._chance.choice(_PROPAGATIONS)
        await self._group.local.apply(manifest, owner=owner, propagation=propagation)
