"""What an API server calls itself: asked of one that nobody knows yet, so bounded in number and time. P1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import TooMuch, Unreachable
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.clusters import clones
from registry_controller.clusters.clones import CloneDetector, CloneState, find_clones
from registry_controller.kube.connect import PAGES
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import cluster

ID = ClusterUID("id")
A, B, BOTH, OTHER = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset("x")


class Server:
    """A Reader with `pages` of so many Clusters each; None has one more page, whatever was asked."""

    server = "https://fake.test"

    def __init__(self, pages: int | None, size: int) -> None:
        self.turns = asyncio.Semaphore(PAGES)
        self.asked = 0
        self._pages, self._size = pages, size

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float) -> bytes:
        return json.dumps({"metadata": {"name": key.name, "uid": ID}}).encode()

    async def list_page(self, gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> bytes:
        await asyncio.sleep(0)
        self.asked += 1
        items = [self._cluster(f"c{self.asked}-{number}") for number in range(self._size)]
        more = "" if self.asked == self._pages else f"t{self.asked}"
        return json.dumps({"metadata": {"continue": more}, "items": items}).encode()

    async def close(self) -> None: ...

    def _cluster(self, name: str) -> dict[str, Any]:
        told = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "metadata": {"name": name}}
        return told | {"spec": {"clusterID": ID}, "status": {"type": "Local"}}


async def names_of(server: Any) -> frozenset[str] | None:
    asking = CloneDetector(connect_peer=lambda _: server, changed=lambda: None)
    credentials: Any = None
    return await asking._own_names(ID, credentials)


async def test_p1_the_names_by_which_a_server_calls_itself_are_listed() -> None:
    assert await names_of(Server(2, 2)) == {"c1-0", "c1-1", "c2-0", "c2-1"}


async def test_p1_a_server_without_a_cluster_of_itself_has_said_nothing() -> None:
    assert await names_of(Server(1, 0)) is None


async def test_a_server_that_never_comes_to_an_end_is_left() -> None:
    server = Server(None, 500)
    with pytest.raises(TooMuch, match="more than 256 Clusters"):
        await names_of(server)
    assert server.asked == 1


async def test_a_server_that_is_slow_to_come_to_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clones, "_LIST_S", 0.05)
    server = Server(None, 0)

    async def slowly(*args: Any, **options: Any) -> bytes:
        await asyncio.sleep(0.02)
        return await Server.list_page(server, *args, **options)

    server.list_page = slowly  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="does not come to an end"):
        await names_of(server)
    assert server.asked < 10


class Naming(Server):
    """A server that calls itself by the next of these names at each list; it does not answer at an empty one."""

    def __init__(self, *names: str) -> None:
        super().__init__(1, 1)
        self._names = list(names)

    async def list_page(self, gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> bytes:
        self.asked += 1
        name = self._names.pop(0) if len(self._names) > 1 else self._names[0]
        if not name:
            raise Unreachable("no answer")
        return json.dumps({"metadata": {}, "items": [self._cluster(name)]}).encode()


def ask(*servers: Naming, for_s: float) -> tuple[list[tuple[float, list[str]]], Sequence[Naming]]:
    """Ask so many Clusters of one ID, and tell when which answers came: a name, or - for none."""
    told: list[tuple[float, list[str]]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        credentials: Any = {str(number): server for number, server in enumerate(servers)}

        def note() -> None:
            found = asking.answers.get(ID, {})
            told.append((round(loop.time() - began), ["".join(found.get(uid, "-")) for uid in credentials]))

        asking = CloneDetector(connect_peer=lambda server: server, changed=note)  # type: ignore[arg-type,return-value]
        began = loop.time()
        async with asyncio.TaskGroup() as scope:
            asking.set_probes(scope, {ID: credentials})
            await asyncio.sleep(for_s)
            asking.set_probes(scope, {})

    run(main)
    return told, servers


def test_p1_a_difference_counts_when_it_is_there_again() -> None:
    assert ask(Naming("a"), Naming("a"), for_s=200)[0] == [(0, ["a", "a"])]
    assert ask(Naming("a"), Naming("b"), for_s=200)[0] == [(2, ["a", "b"])]
    assert ask(Naming("a"), Naming("b", "a"), for_s=200)[0] == [(2, ["a", "a"])]
    assert ask(Naming("a"), Naming("a", "b", "a"), for_s=200)[0] == [(0, ["a", "a"])]


def test_who_does_not_answer_has_said_nothing() -> None:
    assert ask(Naming("a"), Naming("", "b", "b", ""), for_s=200)[0] == [
        (0, ["a", "-"]), (62, ["a", "b"]), (122, ["a", "-"])
    ]  # fmt: skip


@pytest.mark.parametrize("second", [["b"], ["a", "b"], ["a", "b", "b"], ["", "b"]])
def test_a_cluster_is_not_asked_more_often_for_what_it_answers(second: list[str]) -> None:
    _, servers = ask(Naming("a"), Naming(*second * 100), for_s=600)
    assert all(10 <= server.asked <= 22 for server in servers)


@pytest.mark.parametrize(
    ("told", "were", "clones"),
    [
        ({"a": A}, "", ""),
        ({"a": A}, "ab", ""),
        ({"a": A, "b": B}, "", "ab"),
        ({"a": A, "b": A}, "", ""),
        ({"a": A, "b": A}, "ab", ""),
        ({"a": BOTH, "b": BOTH}, "ab", ""),
        ({"a": A, "b": BOTH}, "", "ab"),
        ({"a": A, "b": frozenset()}, "ab", ""),
        ({"a": A, "b": None}, "", ""),
        ({"a": A, "b": None}, "ab", "ab"),
        ({"a": None, "b": None}, "", ""),
        ({"a": None, "b": None}, "ab", "ab"),
        ({"a": None, "b": None, "c": None}, "ab", "ab"),
        ({"a": A, "b": OTHER, "c": None}, "abc", "abc"),
        ({"a": A, "b": OTHER}, "ab", "ab"),
        ({"a": A, "b": OTHER}, "", ""),
        ({"a": A, "b": B, "c": A}, "ab", "ab"),
        ({"a": A, "b": B, "c": A}, "abc", "abc"),
        ({"a": None, "c": None}, "a", ""),
    ],
    ids=[
        "alone",
        "the other one went",
        "clones",
        "an alias",
        "an alias after all",
        "one server of two names",
        "a clone that kept the Cluster of the other",
        "b leads to another cluster now",
        "not asked yet",
        "a clone that is silent",
        "nobody was asked yet",
        "both are silent",
        "both are silent, and a third is new",
        "b was renamed, c is silent",
        "b was renamed",
        "b calls itself by another name from the beginning",
        "clones and an alias",
        "clones, and another way to one of them, after a restart",
        "an alias beside what was a clone",
    ],
)
def test_p1_clones_are_those_that_differ_and_the_silent_are_what_they_were(
    told: Mapping[str, frozenset[str] | None], were: str, clones: str
) -> None:
    assert find_clones(told, were=frozenset(were)) == frozenset(clones)


B = ClusterUID("id-b")


def clusters_of(*names: str, contested: bool = False) -> Mapping[ClusterUID, Sequence[Cluster]]:
    """Build Clusters of one ID."""
    status = {"conditions": [{"type": "LocalConflict", "status": "True"}]} if contested else {}
    return {B: [cluster(name, cluster_id=B, status=status) for name in names]}


def answers(**names: str) -> Mapping[ClusterUID, clones.Answers]:
    """Build answers by the names of Clusters; each letter is a name of the server."""
    return {B: {f"uid-{name}": frozenset(found) for name, found in names.items()}}


def test_p1_clones_are_remembered_until_one_of_their_clusters_goes() -> None:
    found = CloneState().updated(clusters_of("b", "c"), answers(b="b", c="c"), {})
    assert found.clones == {B: {"uid-b", "uid-c"}}
    silent = found.updated(clusters_of("b", "c"), {}, {})
    assert silent.clones == {B: {"uid-b", "uid-c"}}
    assert silent.updated(clusters_of("b"), answers(b="b"), {}).clones == {}


def test_p1_a_new_daemon_reads_from_the_status_that_there_were_clones() -> None:
    """Only once: what a status says later is what we have written."""
    begun = CloneState().updated(clusters_of("b", "c", contested=True), {}, {})
    assert begun.clones == {B: {"uid-b", "uid-c"}}
    resolved = begun.updated(clusters_of("b", "c", contested=True), answers(b="b", c="b"), {})
    assert resolved.clones == {}
    assert resolved.updated(clusters_of("b", "c", contested=True), {}, {}).clones == {}


@pytest.mark.parametrize(
    ("told", "servers", "contested"),
    [
        ({"c": "c"}, {"b": "b.test", "c": "c.test"}, "bc"),
        ({"c": "c"}, {"b": "b.test", "c": "b.test"}, ""),
        ({"c": "c"}, {"c": "c.test"}, ""),
        ({"c": "x"}, {"b": "b.test", "c": "c.test"}, ""),
        ({"c": "bc"}, {"b": "b.test", "c": "c.test"}, ""),
        ({"b": "b"}, {"b": "b.test", "c": "c.test"}, ""),
        ({"b": "c", "c": "c"}, {"b": "b.test", "c": "c.test"}, ""),
        ({}, {"b": "b.test", "c": "c.test"}, ""),
    ],
    ids=[
        "a server elsewhere calls itself by its Cluster's name",
        "at the same address: it was renamed",
        "nobody knows where the silent one is",
        "an alias elsewhere",
        "a server elsewhere has both names",
        "a later one is silent",
        "it was renamed, and answers at both addresses",
        "both are silent",
    ],
)
def test_p1_another_server_does_not_take_the_place_of_a_silent_one(
    told: Mapping[str, str], servers: Mapping[str, str], contested: str
) -> None:
    found = CloneState().updated(
        clusters_of("b", "c"), answers(**told), {f"uid-{name}": server for name, server in servers.items()}
    )
    assert found.clones == ({B: {f"uid-{name}" for name in contested}} if contested else {})


def test_p1_once_a_renamed_cluster_was_proven_the_former_one_may_be_silent_anywhere() -> None:
    """A restart begins anew with the older one; until then, what was proven counts."""
    both, servers = clusters_of("b", "c"), {"uid-b": "b.test", "uid-c": "c.test"}
    proven = CloneState().updated(both, answers(b="c", c="c"), servers)
    assert proven.updated(both, answers(c="c"), servers).clones == {}
    assert proven.updated(both, answers(b="b"), servers).clones == {B: {"uid-b", "uid-c"}}


def test_p1_the_names_by_which_an_id_calls_itself_stay_until_it_is_gone() -> None:
    found = CloneState().updated(clusters_of("b", "c"), answers(b="bx", c="bx"), {})
    assert found.own_names == {B: {"b", "x"}}
    assert found.updated(clusters_of("b", "c"), {}, {}).own_names == {B: {"b", "x"}}
    assert found.updated({}, {}, {}).own_names == {}


def test_p8_an_alias_shows_the_name_by_which_an_id_calls_itself_until_its_own_cluster_is_proven() -> None:
    """The Cluster of that name may be disabled, so that its own server is not asked."""
    both = clusters_of("b", "c")
    found = CloneState().updated(both, {}, {}).updated(both, answers(c="b"), {})
    assert found.own_names == {B: {"b"}}
    assert found.updated(both, answers(c="x"), {}).own_names == {B: {"b"}}
    assert found.updated(both, answers(c="c"), {}).own_names == {B: {"c"}}
