"""Which kinds are watched for copies that no rule asks for any more. W3."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.write_results import Stored
from registry_controller.clusters.orphans import COPIES, SEARCH_PERIOD_S, OrphanFinder
from registry_controller.core.decision.marks import Marks
from registry_controller.kube.discover import Served
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch.body_cache import BodyCache
from tests.sim.cluster.loop import run
from tests.unit.cache.observers import Observer, no_offers

OWNER, LOCAL = ClusterUID("owner"), ClusterUID("local")
MAP = GVK("", "v1", "ConfigMap")
X, Y = Selection("x"), Selection("y")


class Server:
    """An API server that serves ConfigMaps and holds `objects`. `asked_s` are the times of lists of the whole kind."""

    def __init__(self, *objects: PartialObject) -> None:
        self.turns = asyncio.Semaphore()
        self.objects = objects
        self.is_allowed = True
        self.asked_s: list[float] = []

    async def list_writable(self) -> Served:
        gvr = GVR("", "v1", "configmaps", namespaced=True)
        return Served([(MAP, gvr)], frozenset({MAP}), is_whole=True)

    async def list_page(self, gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> bytes:
        if not selection.namespace:
            self.asked_s.append(asyncio.get_running_loop().time())
        if not self.is_allowed:
            raise Forbidden("no")
        items = b",".join(found.raw for found in self.objects)
        return b'{"metadata": {"resourceVersion": "10"}, "items": [%s]}' % items


class World:
    """A finder, and the local caches that follow what it asks for. The copies of `rules` are needed."""

    def __init__(self, *rules: str, server: Server | None = None) -> None:
        self.plans = 0
        self.has_others, self.now_s = False, 0.0
        self.copies = CopyIndex(
            bodies=BodyCache(),
            offers=no_offers(),
            local=LOCAL,
            observer=Observer(on_local_uncertain=self._stand, on_local_status_changed=self._stand),
        )
        any_server: Any = server
        self.finder = OrphanFinder(
            reader=any_server,
            discovery=any_server,
            copies=self.copies,
            namespace="own",
            is_needed=lambda provenance: provenance.rule in rules,
            found_more=self._change,
            has_others=lambda: self.has_others,
            now_s=lambda: self.now_s,
        )

    def _stand(self, cache: LocalCache) -> None:
        self.finder.on_local_status_changed(cache)

    def _change(self) -> None:
        self.plans += 1

    def plan(self, *places: Selection) -> frozenset[Selection]:
        """Let rules write these places of ConfigMaps; return those that are watched then."""
        wanted: Mapping[GVK, frozenset[Selection]] = {MAP: frozenset(places)} if places else {}
        kinds = self.finder.with_kinds(wanted)
        self.copies.open(MAP).set_places(kinds.get(MAP, ()), kind=MAP)
        return kinds.get(MAP, frozenset())

    def cache(self) -> LocalCache:
        cache = self.copies.cache_of("", "ConfigMap")
        assert cache is not None
        return cache

    def list(self, place: Selection, objects: Iterable[PartialObject] = (), *, revision: int = 10) -> None:
        stream = self.cache().streams[place]
        for each in objects:
            stream.on_object(each)
        stream.on_synced(revision)


def marks(name: str, *, policy: str = "Delete") -> Marks:
    of = Target("", "ConfigMap", "x", name)
    provenance = Provenance(OWNER, "r", OWNER, policy, MAP, of.key, "u", "2026", 5, of)
    return Marks(OWNER, provenance, sync_disabled=False, go_written=False)


def copy(name: str, *, policy: str = "Delete", revision: int = 5, is_later: bool = False) -> PartialObject:
    provenance = marks(name, policy=policy).provenance
    assert provenance is not None
    text = encode(provenance)
    text = json.dumps({**json.loads(text), "format": 2}) if is_later else text
    info = {
        "name": name, "namespace": "x", "uid": name, "resourceVersion": str(revision),
        "annotations": {meta.OWNER: OWNER, meta.PROVENANCE: text},
    }  # fmt: skip
    return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode())


def test_places_that_rules_write_are_watched_and_no_more_once_everything_is_known() -> None:
    world = World()
    assert world.plan(EVERYTHING) == {EVERYTHING}
    world.list(EVERYTHING, [copy("one")])
    assert world.plan(EVERYTHING) == {EVERYTHING}


def test_a_place_that_rules_write_no_longer_is_searched_once() -> None:
    world = World()
    world.plan(X, Y)
    for place in (X, Y):
        world.list(place)
    assert world.plan(Y) == {Y, COPIES}
    world.list(COPIES)
    assert world.plan(Y) == {Y}


def test_w3_beside_other_replicas_a_kind_that_rules_write_no_longer_is_watched_for_a_minute() -> None:
    world = World()
    world.has_others = True
    world.plan(EVERYTHING)
    world.list(EVERYTHING)
    assert world.plan() == {COPIES}
    world.list(COPIES)
    world.now_s = 59.0
    assert world.plan() == {COPIES}
    world.now_s = 60.0
    assert world.plan() == frozenset()


def test_copies_that_may_have_to_go_are_watched_until_they_are_gone() -> None:
    world = World()
    world.plan(X)
    world.list(X, [copy("one")])
    assert world.plan() == {COPIES}
    record = world.cache().records[ObjectKey("x", "one")]
    world.list(COPIES, [copy("one")])
    assert world.cache().records[ObjectKey("x", "one")] is record
    assert world.plan() == {COPIES}
    world.cache().streams[COPIES].on_delete(ObjectKey("x", "one"), copy("one", revision=12))
    assert world.plan() == frozenset()


def test_a_list_from_before_a_copy_does_not_end_the_watch() -> None:
    world = World()
    world.plan(X)
    world.list(X, [copy("one", revision=9)])
    world.plan()
    world.list(COPIES, revision=8)
    assert world.plan() == {COPIES}
    world.list(COPIES, revision=9)
    assert world.plan() == frozenset()


def test_copies_that_stay_for_ever_are_not_watched_unless_they_are_needed() -> None:
    for rules, watched in (((), frozenset()), (("r",), frozenset({COPIES}))):
        world = World(*rules)
        world.plan(X)
        world.list(X, [copy("one", policy="Orphan")])
        world.plan()
        world.list(COPIES, [copy("one", policy="Orphan")])
        assert world.plan() == watched


def test_the_copies_of_the_core_rules_are_searched_again_once_this_cluster_has_left() -> None:
    """O6: the search came before the tombstone was known, and their policy is `Orphan`."""
    world = World()
    assert world.finder.with_kinds({}) == {}
    world.finder.on_left()
    assert world.plans == 1
    assert world.finder.with_kinds({}) == dict.fromkeys((meta.CLUSTER, meta.SECRET, meta.RULE), frozenset({COPIES}))


def test_copies_of_a_later_version_are_watched() -> None:
    """A11: they are left alone until that version writes them in this format."""
    world = World()
    world.plan(X)
    world.list(X, [copy("one", policy="Orphan", is_later=True)])
    world.plan()
    world.list(COPIES, [copy("one", policy="Orphan", is_later=True)])
    assert world.plan() == {COPIES}


def test_a_write_that_ends_after_its_place_went_is_searched() -> None:
    world = World()
    world.plan(X)
    world.list(X)
    world.plan(Y)
    world.list(COPIES)
    world.list(Y)
    cache = world.cache()
    with cache.writing(ObjectKey("x", "one")):
        assert world.plan(Y) == {Y}
        world.plans = 0
        cache.record_write(ObjectKey("x", "one"), Stored(copy("one"), marks("one"), b"d", b"b", is_plain=True))
    assert world.plans
    assert world.plan(Y) == {Y, COPIES}
    world.list(COPIES, [copy("one")])
    assert world.plan(Y) == {Y, COPIES}


def test_where_a_kind_may_not_be_read_whole_its_namespaces_are_searched_one_by_one() -> None:
    world = World()
    world.plan(X)
    world.list(X)
    world.finder._namespaced.add(("", "ConfigMap"))
    world.plan(X, EVERYTHING)
    world.cache().streams[EVERYTHING].on_error(Forbidden("no"))
    assert world.plan() == {COPIES._replace(namespace=name) for name in ("own", "x")}
    world.list(COPIES._replace(namespace="x"))
    world.cache().streams[COPIES._replace(namespace="own")].on_error(Forbidden("no"))
    assert world.plan() == frozenset()


def test_w3_a_kind_that_may_not_be_read_for_a_while_is_watched_whole_while_copies_are_known() -> None:
    world = World()
    world.finder._namespaced.add(("", "ConfigMap"))
    world.plan(EVERYTHING)
    world.list(EVERYTHING, [copy("one")])
    assert world.plan() == {COPIES}
    own = COPIES._replace(namespace="own")
    world.cache().streams[COPIES].on_error(Forbidden("no"))
    assert world.plan() == {COPIES, own}
    world.cache().streams[own].on_error(Forbidden("no"))
    assert world.plan() == {COPIES, own}
    assert ObjectKey("x", "one") in world.cache().records
    world.list(COPIES, [copy("one")])
    assert world.plan() == {COPIES}
    world.cache().streams[COPIES].on_delete(ObjectKey("x", "one"), copy("one", revision=12))
    assert world.plan() == frozenset()


def test_w3_a_kind_that_may_be_read_whole_since_is_searched_whole() -> None:
    world = World()
    world.finder._namespaced.add(("", "ConfigMap"))
    world.plan(EVERYTHING)
    world.cache().streams[EVERYTHING].on_error(Forbidden("no"))
    plans = world.plans
    world.list(EVERYTHING, [copy("one")])
    assert world.plans > plans
    assert world.plan() == {COPIES}


def test_w3_a_search_that_is_refused_is_repeated_soon_and_then_ever_more_rarely() -> None:
    async def scenario(world: World, server: Server) -> None:
        server.is_allowed, duration_s = False, 4 * 3600.0
        await asyncio.sleep(duration_s)
        pauses_s = [after - before for before, after in itertools.pairwise(server.asked_s)]
        assert pauses_s[0] < 60
        assert len(pauses_s) <= duration_s / SEARCH_PERIOD_S + 4
        assert world.plan() == frozenset()
        server.is_allowed = True
        await asyncio.sleep(SEARCH_PERIOD_S)
        assert world.plan() == {COPIES}

    _search(scenario)


def test_w3_a_kind_whose_watch_is_refused_after_its_search_is_searched_again_soon() -> None:
    async def scenario(world: World, server: Server) -> None:
        await asyncio.sleep(1)
        for _ in range(3):
            assert world.plan() == {COPIES}
            world.cache().streams[COPIES].on_error(Forbidden("no"))
            own = COPIES._replace(namespace="own")
            assert world.plan() == {own}
            world.cache().streams[own].on_error(Forbidden("no"))
            assert world.plan() == frozenset()
            await asyncio.sleep(60)
        assert len(server.asked_s) == 4

    _search(scenario)


def _search(scenario: Callable[[World, Server], Awaitable[None]]) -> None:
    """Run a scenario beside the search of a server with one copy."""

    async def main() -> None:
        server = Server(copy("one"))
        world = World(server=server)
        async with asyncio.TaskGroup() as tasks:
            search = tasks.create_task(world.finder.find())
            await scenario(world, server)
            search.cancel()

    run(main)
