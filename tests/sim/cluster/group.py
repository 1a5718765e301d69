"""A group of simulated clusters with the real engine in each: one process, one thread, virtual time.

    async def scenario(group: SimGroup) -> None: ...
    simulate(scenario, n=3, seed=0)

The same seed gives the same run, as far as PYTHONHASHSEED is the same: sets have their own order in each process.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from registry_controller.api.errors import Unreachable
from registry_controller.api.meta import ObjectKey
from registry_controller.kube import kubeconfig
from registry_controller.local import kubeconfig_secret
from registry_controller.report.metrics import Metrics
from tests.sim.cluster.apiserver import ApiServer, Snapshot, Write
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.loop import run
from tests.sim.cluster.member import DAEMON, NAMESPACE, Member
from tests.sim.cluster.transport import Fault, Life, Wire

T = TypeVar("T")

kubeconfig_secret.render = functools.lru_cache(maxsize=4096)(kubeconfig_secret.render)
kubeconfig_secret.load_document = kubeconfig.load_document = functools.lru_cache(maxsize=4096)(kubeconfig.load_document)
"""To spell and to read YAML are functions of their arguments alone, and a tenth of all the time."""

_CLUSTER = BY_KIND["Cluster"]
_STOP_S = 60.0
"""How long a daemon may take to end: Kubernetes gives it half a minute, and answers may be under way."""


class SimGroup:
    """N clusters, named a, b, c, ... `uids` gives some of them an ID, by name; `metrics` makes each daemon's.

    `world` is what their API servers keep from the start; without it they are as new. `clones` are the API servers of
    clusters that were copied, by the name by which the copy calls itself.
    """

    def __init__(
        self,
        n: int,
        *,
        seed: int = 0,
        uids: dict[str, str] | None = None,
        metrics: Callable[[], Metrics] = Metrics,
        world: Mapping[str, Snapshot] | None = None,
    ) -> None:
        self._world = world or {}
        self.metrics = metrics
        self.chance = random.Random(seed)
        self.scope = asyncio.TaskGroup()
        self._n = n
        self._uids = uids or {}
        self._wires: dict[tuple[str, str], Wire] = {}
        self.clones: dict[str, ApiServer] = {}
        self.members: list[Member] = []
        self._lives: list[tuple[str, Life]] = []

    async def __aenter__(self) -> Self:
        await self.scope.__aenter__()
        for name in "abcdefghij"[: self._n]:
            uid, begins = self._uids.get(name, ""), self._world.get(name)
            self.members.append(Member(self, name, chance=self.chance, uid=uid, begins=begins))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.cancel()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        late: set[asyncio.Task[Any]] = set()
        if daemons := [task for task in running if task.get_name().startswith(DAEMON)]:
            _, late = await asyncio.wait(daemons, timeout=_STOP_S)
        for task in asyncio.all_tasks() - {asyncio.current_task()} if late else ():
            task.cancel()  # what lost the first one hears this one, and the loop can end
        await self.scope.__aexit__(kind, error, trace)
        if late and error is None:
            names = ", ".join(sorted(task.get_name() for task in late))
            raise AssertionError(f"{names}: told to stop, and not at its end {_STOP_S:.0f} s later")
        ended = [(who, life) for who, life in self._lives if not life.is_over]
        left = [f"the connection of {who} to {one.server}" for who, life in ended for one in life.open]
        if left and error is None:
            raise AssertionError(f"not closed: {', '.join(left)}")

    def __getitem__(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def begin_life(self, who: str) -> Life:
        """Begin a process, which must have closed its connections when the group ends, unless it was killed."""
        life = Life()
        self._lives.append((who, life))
        return life

    def wire(self, who: str, server: str) -> Wire:
        """Find the way from a daemon to a server."""
        if (who, server) not in self._wires:
            found = self.clones.get(server) or self[server].server
            self._wires[(who, server)] = Wire(found, chance=self.chance, who=who)
        return self._wires[(who, server)]

    def wire_to(self, who: str, url: str) -> Wire:
        """Find the way from a daemon to the server at a URL."""
        for member in self.members:
            if member.server.url == url:
                return self.wire(who, member.name)
        for name, server in self.clones.items():
            if server.url == url:
                return self.wire(who, name)
        raise Unreachable(f"{url}: no such host")

    def fail(self, name: str, fault: Fault) -> None:
        """Break, or mend, every way to a server."""
        for member in self.members:
            self.wire(member.name, name).set(fault)

    def cut(self, name: str) -> None:
        """Reset every connection to a server."""
        for member in self.members:
            self.wire(member.name, name).cut()

    def slow_down(self, delay_s: tuple[float, float]) -> None:
        """Make every way take so long, from and to, in seconds."""
        for who in self.members:
            for server in self.members:
                self.wire(who.name, server.name).delay_s = delay_s

    def rebuild(self, name: str) -> None:
        """Replace a cluster by a new one of that name, at the same address, with another CA; its daemon is to start."""
        member = self[name]
        member.kill()
        generation = member.server.generation + 1
        member.install(self.chance)
        member.server.generation = generation
        for who in self.members:
            wire = self.wire(who.name, name)
            wire.server = member.server
            wire.cut()

    def clone(self, name: str) -> str:
        """Copy a cluster as it is, and return the copy's name: it has an address of its own, and no daemon."""
        called = _clone_of(name)
        server = ApiServer(called, chance=self.chance, begins=self[name].server.snapshot())
        own = server.store.get(_CLUSTER, ObjectKey("", name))
        server.store.delete(_CLUSTER, ObjectKey("", name))
        renamed = {part: value for part, value in own.items() if part not in ("metadata", "status")}
        server.store.create(_CLUSTER, "", {**renamed, "metadata": {"name": called}}, manager="somebody")
        status = server.store.get(_CLUSTER, ObjectKey("", called)) | {"status": own["status"]}
        server.store.replace(_CLUSTER, ObjectKey("", called), status, manager="somebody", subresource="status")
        self.clones[called] = server
        return called

    def has_clone(self, name: str) -> bool:
        """Say whether a copy of a cluster runs."""
        return _clone_of(name) in self.clones

    def drop_clone(self, called: str) -> None:
        """Switch a clone off."""
        del self.clones[called]
        for way in [way for way in self._wires if way[1] == called]:
            self._wires.pop(way).set(Fault.REFUSED)

    def start(self) -> None:
        """Start every daemon."""
        for member in self.members:
            member.start()

    def swap_all(self, *, among: str = "") -> None:
        """Carry every member's Cluster and Secret to every other; with names, only among these."""
        members = [self[name] for name in among] or self.members
        for giver in members:
            for taker in members:
                if giver is not taker:
                    hand_over(giver, taker)

    async def join(self) -> Self:
        """Start every daemon, make all know all, and wait until everything rests."""
        self.start()
        await self.settle()
        self.swap_all()
        await self.settle()
        return self

    async def settle(self, *, quiet_s: float = 65.0, at_most_s: float = 900.0) -> None:
        """Let time pass until no daemon has asked for a write for `quiet_s` seconds, longer than any backoff."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most_s
        seen, since = -1, loop.time()
        while loop.time() - since < quiet_s:
            await asyncio.sleep(1.0)
            count = sum(len(member.server.journal) for member in self.members)
            if count != seen:
                seen, since = count, loop.time()
            if loop.time() > deadline:
                last = [write for member in self.members for write in member.server.journal[-5:]]
                raise AssertionError(f"no rest within {at_most_s} s: {last}")

    async def writes_within(self, duration_s: float) -> list[Write]:
        """Let time pass, and list what was asked for meanwhile."""
        before = [len(member.server.journal) for member in self.members]
        await asyncio.sleep(duration_s)
        return [
            write for member, count in zip(self.members, before, strict=True) for write in member.server.journal[count:]
        ]


def hand_over(giver: Member, taker: Member) -> None:
    """Carry one member's Cluster and Secret to another, as a person does: create what is not there."""
    for kind, namespace, name in (("Cluster", "", giver.name), ("Secret", NAMESPACE, giver.published)):
        carried = giver.get(kind, name, namespace=namespace)
        if taker.find(kind, name, namespace=namespace) is None:
            info = {name: value for name, value in carried["metadata"].items() if name != "resourceVersion"}
            taker.create({**carried, "metadata": info})


def carry_over(giver: Member, taker: Member, *, called: str = "") -> None:
    """Carry one member's Cluster and Secret to another, over what is there."""
    of_secret = called or giver.published
    for kind, namespace, name in (("Cluster", "", called or giver.name), ("Secret", NAMESPACE, of_secret)):
        found = giver.get(kind, name, namespace=namespace)
        parts = {part: value for part, value in found.items() if part not in ("metadata", "status")}
        taker.apply({**parts, "metadata": {"name": name, "namespace": namespace}})


def simulate(
    scenario: Callable[[SimGroup], Awaitable[T]], *, n: int, seed: int = 0, uids: dict[str, str] | None = None
) -> T:
    """Run a scenario on a group of its own, and give back what it gave."""

    async def main() -> T:
        async with SimGroup(n, seed=seed, uids=uids) as group:
            return await scenario(group)

    state = random.getstate()
    random.seed(seed)  # the engine's jitter
    try:
        return run(main)
    finally:
        random.setstate(state)


def rule(name: str, kind: dict[str, str], *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Write a ResourceSyncRule."""
    entries = list(rules) or [{"match": [{}]}]
    return {
        "kind": "ResourceSyncRule",
        "metadata": {"name": name},
        "spec": {"groupVersionKind": kind, "rules": entries, **spec},
    }


CONFIG_MAP = {"version": "v1", "kind": "ConfigMap"}
SECRET = {"version": "v1", "kind": "Secret"}


def config_map(name: str, data: dict[str, str], *, namespace: str = "default", **info: Any) -> dict[str, Any]:
    """Write a ConfigMap."""
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **info}, "data": data}


def _clone_of(name: str) -> str:
    return f"{name}-copy"
