"""What may happen to events on their way: heard twice, and in another order than that in which they happened. R4."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson

from registry_controller.kube.connect import READING
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.group import config_map
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.loop import run
from tests.sim.cluster.member import SimKopf
from tests.sim.cluster.store import Store
from tests.sim.cluster.transport import Life, SimTransport, Wire

Heard = list[tuple[str, str, int]]
"""Of each event: its type, its name, and its resourceVersion."""


def _way() -> tuple[Store, Wire]:
    chance = random.Random(1)
    server = ApiServer("a", chance=chance)
    return server.store, Wire(server, chance=chance, who="b")


async def _listen(wire: Wire, plural: str, *, since: int, obj: Heard) -> None:
    """Watch a kind, and write down what is heard."""
    transport: Any = SimTransport(wire, token=None, methods=READING, life=Life())
    path = f"/{plural}?watch=1&resourceVersion={since}&timeoutSeconds=30"
    async with transport.stream(path, what="watch", open_s=5.0, silence_s=60.0) as chunks:
        rest = b""
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for found in map(orjson.loads, lines):
                info = found["object"]["metadata"]
                obj.append((found["type"], info["name"], int(info["resourceVersion"])))


def _put(store: Store, kind: str, name: str) -> None:
    made = config_map(name, {"value": "1"}) | {"kind": kind}
    store.create(BY_KIND[kind], "default", made, manager="kubectl")


def test_a_watch_that_resumes_may_hear_once_more_what_it_has_heard() -> None:
    """All of it, in order, and nothing twice when nothing is wrong."""

    async def scenario() -> tuple[int, Heard, Heard]:
        store, wire = _way()
        for name in "xyz":
            _put(store, "ConfigMap", name)
        since, once, again = store.revision, list[Any](), list[Any]()
        _put(store, "ConfigMap", "last")
        await _listen(wire, "api/v1/configmaps", since=since, obj=once)
        wire.again = 2
        await _listen(wire, "api/v1/configmaps", since=since, obj=again)
        return since, once, again

    since, once, again = run(scenario)
    assert once == [("ADDED", "last", since + 1)]
    assert again == [("ADDED", "y", since - 1), ("ADDED", "z", since), ("ADDED", "last", since + 1)]


def test_streams_may_be_late_each_for_itself() -> None:
    """Events of one stream stay in order; of two streams they do not."""

    async def scenario() -> Heard:
        store, wire = _way()
        wire.late_s = 3.0
        since, obj = store.revision, list[Any]()
        async with asyncio.TaskGroup() as group:
            for path in ("api/v1/configmaps", "apis/sim.example/v1/widgets"):
                group.create_task(_listen(wire, path, since=since, obj=obj))
            for number in range(20):
                await asyncio.sleep(0.5)
                kind = ("ConfigMap", "Widget")[number % 2]
                _put(store, kind, f"{kind}-{number}")
        return obj

    obj = run(scenario)
    for kind in ("ConfigMap", "Widget"):
        of_kind = [revision for _, name, revision in obj if name.startswith(kind)]
        assert len(of_kind) == 10
        assert of_kind == sorted(of_kind)
    revisions = [revision for _, _, revision in obj]
    assert revisions != sorted(revisions)


def test_our_own_kinds_are_heard_in_order_of_each_object_only() -> None:
    """As kopf tells them: the DELETED of an object may even come after the ADDED of the next one of its name."""

    async def scenario() -> list[tuple[str, str, str]]:
        store, wire = _way()
        wire.late_s = 3.0
        obj: list[tuple[str, str, str]] = []

        def on_event(plural: str, event_type: str, body: dict[str, Any]) -> None:
            obj.append((event_type, body["metadata"]["uid"], body["spec"]["featureName"]))

        kopf = SimKopf(wire, Life(), on_event, lambda: None)
        kopf.start()
        for number in range(30):
            made = {"metadata": {"name": "gold"}, "spec": {"featureName": str(number)}}
            stored = store.create(BY_KIND["ClusterFeature"], "", made, manager="kubectl")
            key = next(iter(store.all(BY_KIND["ClusterFeature"])))
            for more in ("-a", "-b"):
                await asyncio.sleep(0.1)
                changed = {**stored, "spec": {"featureName": f"{number}{more}"}}
                stored = store.replace(BY_KIND["ClusterFeature"], key, _unversioned(changed), manager="kubectl")
            store.delete(BY_KIND["ClusterFeature"], key)
        await asyncio.sleep(10.0)
        kopf.stop()
        return obj

    obj = run(scenario)
    assert len(obj) == 120
    lives: dict[str, list[str]] = {}
    for event_type, uid, _ in obj:
        lives.setdefault(uid, []).append(event_type)
    assert set(map(tuple, lives.values())) == {("ADDED", "MODIFIED", "MODIFIED", "DELETED")}
    ends = [number for number, (event_type, _, _) in enumerate(obj) if event_type == "DELETED"]
    assert any(obj[end - 1][1] != obj[end][1] for end in ends)


def _unversioned(manifest: dict[str, Any]) -> dict[str, Any]:
    info = {name: value for name, value in manifest["metadata"].items() if name != "resourceVersion"}
    return {**manifest, "metadata": info}
