"""A cache ends with what its rules make of what is there, whatever happens to rules, objects and watches. R1, O5, W1.

A peer is simulated at the level of lists and watch events, each of which may be late by any amount.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

from hypothesis import given, settings
from hypothesis import strategies as st

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch.body_cache import BodyCache
from registry_controller.watch.lister import SelectionList
from registry_controller.watch.stream import SelectionStream

PEER, LOCAL = ClusterUID("peer"), ClusterUID("local")
KIND = GVK("", "v1", "ConfigMap")


def _rule(name: str, match: dict[str, Any], *, adds: str = "") -> ActiveRule:
    entry: dict[str, Any] = {"match": [match], "mutations": {"labels": {"add": {adds: "1"}}} if adds else {}}
    spec = {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [entry]}
    read, _ = read_and_validate({"metadata": {"name": name}, "spec": spec})
    assert read is not None
    return activate(read, created_at="", owner=LOCAL)


_MATCHES: list[dict[str, Any]] = [
    {},
    {"namespaces": ["x"]},
    {"namespaces": ["x"], "labels": [{"matchLabels": {"a": "1"}}]},
    {"labels": [{"matchLabels": {"a": "1"}}]},
    {"labels": [{"matchLabels": {"a": "1"}}], "content": [{"key": "data.n", "value": "1"}]},
    {"labels": [{"matchLabels": {"a": "1"}}], "content": [{"key": "data.n", "value": "2"}]},
]
_RULES = [_rule(name, match, adds=adds) for name in ("r", "s") for match in _MATCHES for adds in ("", "one")]
_KEYS = [ObjectKey("x", "p"), ObjectKey("x", "q"), ObjectKey("y", "p")]


class _Watch:
    """One stream: its events that are on their way, and the list that is under way, if one is."""

    def __init__(self, stream: SelectionStream) -> None:
        self.stream = stream
        self.known: set[ObjectKey] = set()
        self.events: list[tuple[ObjectKey, PartialObject, bool]] = []
        self.list: list[PartialObject] | None = None
        self.listed_at = 0
        self.named: set[ObjectKey] = set()
        self.is_open = False


class _Peer:
    """An API server, and a cache that reads it."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[ObjectKey, PartialObject] = {}
        self.watches: dict[SelectionStream, _Watch] = {}
        self.lists: dict[SelectionList, tuple[list[PartialObject], int]] = {}
        self.sources = SourceIndex(bodies=BodyCache(), observer=Mock())
        self.cache = SourceCache(
            peer=PEER, kind=KIND, rules=(), sources=self.sources, watches_changed=lambda _: self.follow()
        )
        self.sources.open(self.cache)

    def follow(self) -> None:
        """Let exactly the watches and lists of the cache be there."""
        streams = set(self.cache.streams.values())
        self.watches = {
            stream: self.watches.get(stream) or _Watch(stream)
            for stream in sorted(streams, key=lambda stream: stream.selection)
        }
        self.lists = {one: held for one, held in self.lists.items() if one in self.cache.lists.values()}

    def set_rules(self, rules: list[ActiveRule]) -> None:
        by_name = {rule.rule.name: rule for rule in rules}
        self.cache.set_rules(tuple(by_name[name] for name in sorted(by_name)))
        self.follow()

    def put(self, key: ObjectKey, labels: str, number: int) -> None:
        self.revision += 1
        was = self.objects.get(key)
        uid = was.uid if was is not None else f"u{self.revision}"
        info = {
            "name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": str(self.revision),
            "labels": dict.fromkeys(labels, "1"),
        }  # fmt: skip
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": {"n": str(number)}}
        self.objects[key] = decode_object(json.dumps(body).encode())
        self._tell(key, was, self.objects[key])

    def delete(self, key: ObjectKey) -> None:
        was = self.objects.pop(key, None)
        if was is not None:
            self.revision += 1
            self._tell(key, was, None)

    def _tell(self, key: ObjectKey, was: PartialObject | None, now: PartialObject | None) -> None:
        for watch in self.watches.values():
            if not watch.is_open:
                continue
            if now is not None and _selects(watch.stream.selection, now):
                watch.events.append((key, now, True))
            elif was is not None and _selects(watch.stream.selection, was):
                watch.events.append((key, _at(was, self.revision), False))

    def step(self, which: int) -> None:
        """Let one watch or list go on by one event, page or object."""
        works: list[_Watch | SelectionList] = [*self.watches.values(), *self.cache.lists.values()]
        if not works:
            return
        work = works[which % len(works)]
        if isinstance(work, SelectionList):
            self._step_list(work)
        else:
            self._step_watch(work)

    def _step_watch(self, watch: _Watch) -> None:
        stream = watch.stream
        if watch.list is None and not watch.is_open:
            self.cache.on_stream_listing(stream)
            watch.list = self._select(stream.selection)
            watch.listed_at, watch.named, watch.is_open = self.revision, set(), True
        elif watch.list:
            obj = watch.list.pop()
            watch.named.add(obj.key)
            watch.known.add(obj.key)
            stream.on_object(obj)
        elif watch.list is not None:
            watch.list = None
            for key in sorted(watch.known - watch.named):
                watch.known.discard(key)
                stream.on_delete(key, None)
            stream.on_synced(watch.listed_at)
        elif watch.events:
            key, obj, is_there = watch.events.pop(0)
            if is_there:
                watch.known.add(key)
                stream.on_object(obj)
            else:
                watch.known.discard(key)
                stream.on_delete(key, obj)

    def _step_list(self, listing: SelectionList) -> None:
        if listing not in self.lists:
            self.lists[listing] = (self._select(listing.selection), self.revision)
            return
        objects, revision = self.lists[listing]
        if objects:
            listing.on_object(objects.pop())
        elif not listing.on_synced(revision):
            self.lists.pop(listing, None)

    def expire(self, which: int) -> None:
        """Let a watch lose its place in history: it lists again."""
        watches = [watch for watch in self.watches.values() if watch.is_open and watch.list is None]
        if watches:
            watch = watches[which % len(watches)]
            watch.is_open = False
            watch.events.clear()

    def _select(self, selection: Selection) -> list[PartialObject]:
        return [obj for obj in self.objects.values() if _selects(selection, obj)]

    def is_at_rest(self) -> bool:
        return not self.cache.lists and all(
            watch.is_open and watch.list is None and not watch.events for watch in self.watches.values()
        )

    def expected(self) -> dict[ObjectKey, list[object]]:
        """Evaluate the present rules on what is there, from nothing."""
        fresh = SourceCache(
            peer=PEER, kind=KIND, rules=self.cache.rules, sources=SourceIndex(bodies=BodyCache(), observer=Mock())
        )
        for stream in fresh.streams.values():
            for obj in self._select(stream.selection):
                stream.on_object(obj)
        return dict(_shown(fresh))

    def assert_found_by_stream(self) -> None:
        """The records of each stream are found without a look at the others."""
        for bit in {stream.bit for stream in self.cache.streams.values()}:
            found = {key for key, _ in self.cache._objects.of_streams(bit)}
            assert found == {key for key, record in self.cache.records.items() if record.streams & bit}

    def assert_true_for_synced(self) -> None:
        """Once nothing is on its way, no rule that is synced lacks a hit, or has one too many."""
        if any(watch.events or watch.list is not None or not watch.is_open for watch in self.watches.values()):
            return
        expected, found = self.expected(), dict(_shown(self.cache))
        for rule in self.cache.rules:
            if self.cache.synced_for(rule.rule.name):
                name = rule.rule.name
                assert _of(expected, name) == _of(found, name), name


def _of(shown: dict[ObjectKey, list[object]], rule: str) -> dict[ObjectKey, object]:
    return {key: hit for key, hits in shown.items() for hit in hits if hit[2] == rule}  # type: ignore[index]


def _shown(cache: SourceCache) -> Iterator[tuple[ObjectKey, list[object]]]:
    for key, record in cache.records.items():
        yield key, [(record.uid, record.revision, hit.rule, hit.entries) for hit in record.hits]


def _selects(selection: Selection, obj: PartialObject) -> bool:
    labels = all(obj.labels.get(part.split("=")[0]) == "1" for part in selection.labels.split(",") if part)
    return labels and selection.namespace in ("", obj.key.namespace)


def _at(obj: PartialObject, revision: int) -> PartialObject:
    body = json.loads(obj.raw)
    body["metadata"]["resourceVersion"] = str(revision)
    return decode_object(json.dumps(body).encode())


_objects = st.tuples(st.sampled_from(_KEYS), st.sampled_from(["", "a"]), st.integers(1, 2))
_rules = st.lists(st.sampled_from(_RULES), min_size=1, max_size=3)
_deeds = st.one_of(
    st.tuples(st.just("rules"), _rules),
    st.tuples(st.just("put"), _objects),
    st.tuples(st.just("delete"), st.sampled_from(_KEYS)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
    st.tuples(st.just("step"), st.integers(0, 5)),
    st.tuples(st.just("step"), st.integers(0, 5)),
)


def _do(peer: _Peer, deed: str, what: Any) -> None:
    match deed:
        case "rules":
            peer.set_rules(what)
        case "put":
            peer.put(*what)
        case "delete":
            peer.delete(what)
        case "expire":
            peer.expire(what)
        case "step":
            peer.step(what)


def _rest(peer: _Peer) -> None:
    for number in range(2000):
        if peer.is_at_rest():
            return
        peer.step(number)
    raise AssertionError("no rest")


@settings(max_examples=600, deadline=None)
@given(_rules, st.lists(_objects, max_size=4), st.lists(_deeds, max_size=50))
def test_a_cache_ends_with_what_its_rules_make_of_what_is_there(
    rules: list[ActiveRule], objects: list[tuple[ObjectKey, str, int]], deeds: list[tuple[str, Any]]
) -> None:
    peer = _Peer()
    peer.set_rules(rules)
    for each in objects:
        peer.put(*each)
    _rest(peer)
    for deed, what in deeds:
        _do(peer, deed, what)
        peer.assert_true_for_synced()
        peer.assert_found_by_stream()
    _rest(peer)
    cache = peer.cache
    assert all(cache.synced_for(active.rule.name) for active in cache.rules)
    assert dict(_shown(cache)) == peer.expected()
    assert not cache._pending
    assert not cache._expected.revisions
    assert not cache._objects._went_back
    bits = sum(stream.bit for stream in cache.streams.values())
    assert all(record.streams and not record.streams & ~bits for record in cache.records.values())
    assert (EVERYTHING in cache.streams) <= any(EVERYTHING in active.selections for active in cache.rules)
