"""Which targets a change of rules or lists affects: no more than those whose decision may differ. R5, W3, O5."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.watch_plan import RuleChanges
from registry_controller.core.rules.active import activate
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import decode_object
from registry_controller.sync.enqueue import Enqueuer
from registry_controller.watch.body_cache import BodyCache
from tests.unit.cache.observers import Observer

B, C = ClusterUID("b"), ClusterUID("c")
MAP = GVK("", "v1", "ConfigMap")


def at(name: str, kind: GVK = MAP) -> Target:
    return Target(kind.group, kind.kind, "ns", name)


class World:
    """Copies here, and what a peer offers; `added` are the names of the targets that were enqueued."""

    def __init__(self) -> None:
        self.added: list[str] = []
        self.enqueue = Enqueuer(add=lambda target, _: self.added.append(target.name))
        observer = Observer(on_claims_changed=self._note_claims)
        self.sources = SourceIndex(bodies=BodyCache(), observer=observer)
        self.copies = CopyIndex(bodies=BodyCache(), observer=Observer(), offers=self.sources, local=ClusterUID("local"))
        self.enqueue.connect(sources=self.sources, copies=self.copies)

    def _note_claims(self, targets: Collection[Target], *_: object) -> None:
        for target in targets:
            self.copies.on_claim_changed(target)

    def copy(self, name: str, *, rule: str = "r", owner: ClusterUID = B, kind: GVK = MAP, marked: bool = True) -> None:
        """Let a copy be here, of the object of its name; not `marked`, an object of membership that is none."""
        cache, target = self.copies.open(kind), at(name, kind)
        cache.set_places((EVERYTHING,))
        provenance = Provenance(owner, rule, C, "Delete", kind, target.key, "u", "2026", 5, target)
        info: dict[str, Any] = {"name": name, "namespace": "ns", "uid": "uid", "resourceVersion": "5"}
        if marked:
            info["annotations"] = {meta.OWNER: owner, meta.PROVENANCE: encode(provenance)}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": info}
        if kind == meta.SECRET:
            body["type"] = meta.REGISTRY_SECRET_TYPE
        cache.streams[EVERYTHING].on_object(decode_object(json.dumps(body).encode()))

    def offer(self, *names: str, kind: GVK = MAP, deleting: str = "") -> SourceCache:
        """Let b offer objects by a rule."""
        spec = {"groupVersionKind": kind._asdict(), "rules": [{"match": [{}]}]}
        read, _ = read_and_validate({"metadata": {"name": "r"}, "spec": spec})
        assert read is not None
        rules = (activate(read, created_at="", owner=C),)
        cache = SourceCache(peer=B, kind=kind, rules=rules, sources=self.sources)
        self.sources.open(cache)
        for name in names:
            info: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"}
            if name == deleting:
                info["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": info}
            cache.streams[EVERYTHING].on_object(decode_object(json.dumps(body).encode()))
        return cache


def test_a_complete_list_affects_the_copies_that_it_may_prove_to_be_gone() -> None:
    world = World()
    for name in ("offered", "gone", "going"):
        world.copy(name)
    world.copy("others", owner=C)
    cache = world.offer("offered", "going", deleting="going")
    world.enqueue.on_source_synced(cache, [at("dropped"), at("gone")])
    assert world.added == ["dropped", "gone", "going"]


def test_a_changed_rule_affects_its_own_copies_and_those_of_its_kind_that_are_not_offered_to_their_rule() -> None:
    world = World()
    world.copy("own", rule="changed")
    world.copy("offered", rule="r")
    for name in ("offered-by-another", "gone"):
        world.copy(name, rule="other")
    world.offer("own", "offered", "offered-by-another")
    world.enqueue.on_rules_changed(RuleChanges({"changed"}, {("", "ConfigMap")}, set()))
    assert world.added == ["own", "offered-by-another", "gone"]
    world.added.clear()
    world.enqueue.on_rules_changed(RuleChanges({"changed"}, {("", "Secret")}, set()))
    assert world.added == ["own"]
    world.added.clear()
    world.enqueue.on_rules_changed(RuleChanges(set(), set(), {B}))
    assert world.added == ["own", "offered", "offered-by-another", "gone"]


def test_w3_once_missing_rules_are_known_their_copies_are_affected() -> None:
    world = World()
    for name in ("acting", "missing"):
        world.copy(name, rule=name)
        world.offer(name)
    world.enqueue.on_rules_changed(RuleChanges(set(), set(), set(), remaining={"acting"}))
    assert world.added == ["missing"]


@pytest.mark.parametrize("kind", [meta.SECRET, MAP])
def test_what_is_no_copy_is_affected_by_claims_alone(kind: GVK) -> None:
    world = World()
    world.copy("native", kind=kind, marked=False)
    cache = world.offer(kind=kind)
    world.enqueue.on_rules_changed(RuleChanges({"r"}, {("", kind.kind)}, {B}))
    world.enqueue.on_source_synced(cache, [])
    assert world.added == []


def test_rules_that_were_listed_affect_the_copies_of_rules_that_came_from_there() -> None:
    """W3: a copy whose rule is gone at its owner, whoever owns the source."""
    world = World()
    world.copy("copy", rule="r", owner=B)
    cache = world.offer(kind=meta.RULE)
    cache.peer = C
    world.enqueue.on_source_synced(cache, [])
    assert world.added == ["copy"]


def test_a_place_that_is_known_now_lets_its_claims_be_decided() -> None:
    world = World()
    world.offer("one", "two")
    local = world.copies.open(MAP)
    for place, names in ((EVERYTHING, ["one", "two"]), (EVERYTHING._replace(namespace="elsewhere"), [])):
        world.added.clear()
        world.enqueue.on_local_synced(local, place)
        assert world.added == names


def test_an_object_that_appears_affects_its_copies_wherever_they_are() -> None:
    world = World()
    world.copy("one")
    world.enqueue.on_claims_changed((), B, (MAP, ObjectKey("ns", "one")))
    world.enqueue.on_claims_changed((), B, (MAP, ObjectKey("ns", "none")))
    assert world.added == ["one"]
