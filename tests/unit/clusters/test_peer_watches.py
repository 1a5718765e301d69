"""The tasks that fill the caches of a peer follow its rules, over whatever connection there is. R1, P7."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from registry_controller.api import meta
from registry_controller.api.errors import NotServed
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.members import Members
from registry_controller.cache.source_cache import RuleChange
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.peer_watches import PeerWatches
from registry_controller.core.rules.active import ActiveRule, activate, group_by_kind
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.connect import LineBudget
from registry_controller.watch.body_cache import BodyCache
from registry_controller.watch.reflector import NoObserver
from tests.sim.cluster.loop import virtual
from tests.unit.cache.observers import Observer

PEER, LOCAL = ClusterUID("peer"), ClusterUID("local")
MAP = GVK("", "v1", "ConfigMap")
X = Selection("x")
PLURALS = {meta.CLUSTER: meta.CLUSTERS, meta.FEATURE: meta.FEATURES, MAP: GVR("", "v1", "configmaps", True)}


def rule(name: str, *namespaces: str, adds: str = "", kind: GVK = MAP) -> ActiveRule:
    entry: dict[str, Any] = {"match": [{"namespaces": list(namespaces)}] if namespaces else [{}]}
    if adds:
        entry["mutations"] = {"labels": {"add": {adds: "1"}}}
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    spec = {"groupVersionKind": gvk, "rules": [entry]}
    read, _ = read_and_validate({"metadata": {"name": name}, "spec": spec})
    assert read is not None
    return activate(read, created_at="", owner=LOCAL)


class Server:
    """A reader and its discovery. `watches` and `lists` are what was asked for of ConfigMaps.

    `streams` are the open watches of all kinds, `open` those of ConfigMaps.
    """

    server = "https://peer.test"

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(4)
        self.lines = LineBudget()
        self.answers = 0
        self.watches: list[Selection] = []
        self.lists: list[Selection] = []
        self.streams: list[tuple[GVR, Selection]] = []
        self.objects: dict[str, str] = {}
        self.features: list[str] = []
        self.is_feature_defined = self.is_feature_served = True
        self.deleted = asyncio.Event()

    @property
    def open(self) -> list[Selection]:
        return [selection for gvr, selection in self.streams if gvr == PLURALS[MAP]]

    async def resolve(self, kind: GVK) -> GVR:
        if kind == meta.FEATURE and not self.is_feature_served:
            raise NotServed(f"{kind} is not served")
        return PLURALS[kind]

    async def may_create(self, kind: GVK) -> bool:
        """Serve the next definition once it was seen in discovery: then no watch has listed before."""
        self.is_feature_served = self.is_feature_served or self.is_feature_defined
        return self.is_feature_defined

    def invalidate(self, kind: GVK) -> None:
        pass

    def reinstall_features(self) -> None:
        """Delete the definition of features with all of them: the watch names one, and ends before it names the others.

        It is installed again when `is_feature_defined` is set.
        """
        self.is_feature_defined = self.is_feature_served = False
        self.deleted.set()

    async def list_page(self, gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> bytes:
        if not selection.fields and query["limit"] != "1":  # else the question where the server's history stands
            self.lists.append(selection)
        info = {"resourceVersion": "9"}
        return json.dumps({"metadata": info, "items": [self._object(name) for name in self.objects]}).encode()

    def _object(self, name: str) -> dict[str, Any]:
        info = {"name": name, "namespace": "x", "uid": name, "resourceVersion": "5"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}

    @asynccontextmanager
    async def stream(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.streams.append((gvr, selection))
        if gvr == PLURALS[MAP]:
            self.watches.append(selection)
        try:
            yield self._lines(gvr, is_initial="sendInitialEvents" in query)
        finally:
            self.streams.remove((gvr, selection))

    async def _lines(self, gvr: GVR, *, is_initial: bool) -> AsyncIterator[bytes]:
        if is_initial:
            for name in self.objects if gvr == PLURALS[MAP] else ():
                yield json.dumps({"type": "ADDED", "object": self._object(name)}).encode() + b"\n"
            for name in self.features if gvr == PLURALS[meta.FEATURE] else ():
                yield json.dumps({"type": "ADDED", "object": self._feature(name)}).encode() + b"\n"
            ends = {"k8s.io/initial-events-end": "true"}
            info = {"resourceVersion": "9", "annotations": ends}
            yield json.dumps({"type": "BOOKMARK", "object": {"metadata": info}}).encode() + b"\n"
        if gvr == PLURALS[meta.FEATURE] and self.features:
            await self.deleted.wait()
            gone = self._feature(self.features[0], revision="10")
            yield json.dumps({"type": "DELETED", "object": gone}).encode() + b"\n"
            self.features.clear()
            return
        await asyncio.get_running_loop().create_future()

    def _feature(self, name: str, *, revision: str = "5") -> dict[str, Any]:
        info = {"name": name, "uid": name, "resourceVersion": revision}
        version = f"{meta.FEATURE.group}/{meta.FEATURE.version}"
        return {"apiVersion": version, "kind": "ClusterFeature", "metadata": info, "spec": {"featureName": name}}


class World:
    """The watches of one peer, and its server."""

    def __init__(self) -> None:
        self.server = Server()
        self.sources = SourceIndex(
            bodies=BodyCache(),
            observer=Observer(),
        )
        self.watches = PeerWatches(
            PEER,
            sources=self.sources,
            members=Members(on_change=lambda _: None),
            changed=lambda: None,
            features_changed=lambda: None,
            observer=NoObserver(),
            window_s=0.0,
        )

    def set_rules(self, *rules: ActiveRule) -> RuleChange | None:
        return self.watches.set_rules(group_by_kind(rules)).get(MAP)

    def start(self, scope: asyncio.TaskGroup, server: Server | None = None) -> None:
        reader: Any = server or self.server
        self.watches.start(scope, reader, reader, name="peer")

    def stop(self) -> None:
        for task in self.watches.stop():
            task.cancel()

    def synced(self, rule: str) -> bool:
        cache = self.sources.cache_of(PEER, MAP)
        return cache is not None and cache.synced_for(rule)


async def settled() -> None:
    for _ in range(40):
        await asyncio.sleep(0)


@virtual
async def test_caches_and_their_watches_come_with_rules_and_go_with_the_last_one() -> None:
    world = World()
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        assert world.set_rules(rule("a", "x")) == RuleChange(opened=(X,))
        await settled()
        assert (world.server.open, world.synced("a")) == ([X], True)
        assert world.set_rules() == RuleChange(closed=(X,))
        await settled()
        assert (world.server.open, world.sources.cache_of(PEER, MAP)) == ([], None)
        assert {cache.kind for cache in world.sources.caches_of(PEER)} == {meta.CLUSTER, meta.FEATURE}
        world.stop()


@virtual
async def test_a_rule_that_changes_is_listed_beside_its_watch_which_goes_on() -> None:
    world = World()
    world.server.objects = {"one": "x"}
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        world.set_rules(rule("a", "x"))
        await settled()
        assert world.set_rules(rule("a", "x", adds="new")) == RuleChange(listed=(X,))
        assert not world.synced("a")
        await settled()
        assert world.synced("a")
        assert (world.server.open, world.server.watches, world.server.lists) == ([X], [X], [X])
        cache = world.sources.cache_of(PEER, MAP)
        assert cache is not None
        assert cache.records[ObjectKey("x", "one")].hits[0].entries[0].mutations.labels.add == {"new": "1"}
        world.stop()


@virtual
async def test_a_narrow_watch_ends_when_a_wide_one_shows_everything() -> None:
    world = World()
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        world.set_rules(rule("a", "x"))
        await settled()
        world.set_rules(rule("a", "x"), rule("wide"))
        await settled()
        assert (world.server.open, world.synced("a"), world.synced("wide")) == ([EVERYTHING], True, True)
        world.set_rules(rule("a", "x"))
        await settled()
        assert (world.server.open, world.synced("a")) == ([X], True)
        world.stop()


@virtual
async def test_rules_that_change_without_a_connection_are_listed_over_the_next_one() -> None:
    world, other = World(), Server()
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        world.set_rules(rule("a", "x"), rule("b", "y"))
        await settled()
        world.stop()
        await settled()
        assert world.server.open == []
        assert world.set_rules(rule("a", "x", adds="new"), rule("c", "z")) == RuleChange(
            opened=(Selection("z"),), closed=(Selection("y"),), listed=(X,)
        )
        await settled()
        assert not world.synced("a")
        world.start(scope, other)
        await settled()
        assert (sorted(other.open), other.lists) == ([X, Selection("z")], [X])
        assert world.synced("a")
        assert world.synced("c")
        world.stop()


@virtual
async def test_what_a_peer_offered_goes_with_it() -> None:
    world = World()
    world.server.objects = {"one": "x"}
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        world.set_rules(rule("a", "x"))
        await settled()
        world.stop()
        world.watches.close()
        assert list(world.sources.all_caches()) == []


@virtual
async def test_a_kind_is_watched_once_over_a_new_connection_while_a_list_beside_its_watch_is_due() -> None:
    """Each task of a connection ends with it: a task that nobody ends keeps the peer from connecting again."""
    world = World()
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        world.set_rules(rule("a", kind=meta.CLUSTER))
        await settled()
        world.set_rules(rule("a", adds="later", kind=meta.CLUSTER))
        world.stop()
        await settled()
        assert world.server.streams == []
        world.start(scope)
        await settled()
        assert sorted(gvr for gvr, _ in world.server.streams) == sorted([meta.CLUSTERS, meta.FEATURES])
        world.stop()


@virtual
async def test_features_that_went_with_their_definition_are_gone_after_the_list_of_the_next_one() -> None:
    """A5: also those that the watch of the former definition did not name, whatever is read first of the next one."""
    world = World()
    world.server.features = ["one", "two"]
    async with asyncio.TaskGroup() as scope:
        world.start(scope)
        await asyncio.sleep(1.0)
        assert [feature.name for feature in world.watches.features.held or ()] == ["one", "two"]
        world.server.reinstall_features()
        await asyncio.sleep(30.0)
        world.server.is_feature_defined = True
        await asyncio.sleep(60.0)
        assert world.watches.features.is_current
        assert world.watches.features.held == ()
        world.stop()
