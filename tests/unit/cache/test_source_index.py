"""Which objects of which peers claim which target. O8, W2."""

from __future__ import annotations

import json
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch.body_cache import BodyCache
from tests.unit.cache.observers import Observer

B, C = ClusterUID("b"), ClusterUID("c")
MAP = GVK("", "v1", "ConfigMap")
X, MOVED = Target("", "ConfigMap", "ns", "x"), Target("", "ConfigMap", "ns", "moved")


def obj(name: str, *, owner: str = "", deleting: bool = False) -> PartialObject:
    info: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"}
    if owner:
        info["annotations"] = {meta.OWNER: owner}
    if deleting:
        info["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode())


def rule(name: str, *, to: str = "") -> ActiveRule:
    overrides = [{"type": "replace", "path": "/metadata/name", "value": to}] if to else []
    spec = {
        "groupVersionKind": {"version": "v1", "kind": "ConfigMap"},
        "rules": [{"match": [{}], "mutations": {"overrides": overrides}}],
    }
    read, _ = read_and_validate({"metadata": {"name": name}, "spec": spec})
    assert read is not None
    return activate(read, created_at="", owner=B)


def index() -> SourceIndex:
    return SourceIndex(
        bodies=BodyCache(),
        observer=Observer(),
    )


def opened(sources: SourceIndex, peer: ClusterUID, *rules: ActiveRule, objects: tuple[PartialObject, ...]) -> None:
    cache = SourceCache(peer=peer, kind=MAP, rules=rules, sources=sources)
    sources.open(cache)
    for each in objects:
        cache.streams[EVERYTHING].on_object(each)


def claiming(sources: SourceIndex, target: Target) -> list[tuple[ClusterUID, str, str]]:
    return [(cache.peer, key.name, hit.rule) for cache, key, _, hit in sources.claiming(target)]


def test_objects_of_all_peers_that_become_a_target_claim_it() -> None:
    sources = index()
    opened(sources, B, rule("plain"), objects=(obj("x"),))
    opened(sources, C, rule("plain"), rule("moves", to="moved"), objects=(obj("x"), obj("y")))
    assert claiming(sources, X) == [(B, "x", "plain"), (C, "x", "plain")]
    assert claiming(sources, MOVED) == [(C, "x", "moves"), (C, "y", "moves")]
    assert (sources.claims_elsewhere(MOVED), sources.claims_elsewhere(X)) == (2, 0)


def test_rules_that_go_and_caches_that_close_leave_no_claim() -> None:
    sources = index()
    opened(sources, B, rule("plain"), rule("moves", to="moved"), objects=(obj("x"),))
    cache = sources.cache_of(B, MAP)
    assert cache is not None
    cache.set_rules((rule("plain"),))
    assert (claiming(sources, X), claiming(sources, MOVED)) == ([(B, "x", "plain")], [])
    sources.close(B, MAP)
    assert not list(sources.claiming(X))
    assert list(sources.caches_of(B)) == list(sources.caches_of_kind(B, MAP)) == []


def test_an_owner_offers_its_own_living_object_by_a_rule_that_may() -> None:
    sources = index()
    objects = (obj("x"), obj("goes", deleting=True), obj("copy", owner="somebody"), obj("own", owner="b"))
    opened(sources, B, rule("plain"), objects=objects)

    def offered(name: str, *, at: str = "", owner: ClusterUID = B, by: str = "") -> bool:
        target = Target("", "ConfigMap", "ns", at or name)
        kind = MAP._replace(version="v9")
        return sources.is_offered(target, owner=owner, kind=kind, key=ObjectKey("ns", name), rule=by)

    assert [offered(name) for name in ("x", "goes", "copy", "own", "none")] == [True, False, False, True, False]
    assert not offered("x", at="y")
    assert not offered("x", owner=C)
    assert offered("x", by="plain")
    assert not offered("x", by="another")
