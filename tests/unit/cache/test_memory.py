"""What is remembered of one peer is bounded, whatever it offers, and for how long: R6, P5, P6."""

from __future__ import annotations

import gc
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, encode
from registry_controller.cache import interner, registry, source_index
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import MemberDeletions, SourceIndex
from registry_controller.core.decision.marks import Voice, is_at_home, read_marks, voice_of
from registry_controller.core.rules.active import activate
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.sync import results
from registry_controller.sync.results import Results
from registry_controller.watch.body_cache import BodyCache, BodyKey
from tests.original_marks import last_applied
from tests.unit.cache.observers import Observer

PEER = ClusterUID("peer")
MAP = GVK("", "v1", "ConfigMap")
MIB = 1024 * 1024


def obj(name: str, revision: int = 5, *, kind: GVK = MAP, **more: Any) -> PartialObject:
    info = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(revision)} | more.pop("info", {})
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": info, **more}
    return decode_object(json.dumps(body).encode(), kind=kind)


def a_feed(entry: dict[str, Any], *, kind: GVK = MAP) -> tuple[SourceCache, SourceIndex]:
    manifest = {
        "metadata": {"name": "r", "uid": "r", "generation": 1},
        "spec": {"groupVersionKind": {"version": kind.version, "kind": kind.kind}, "rules": [entry]},
    }
    rule, verdict = read_and_validate(manifest)
    assert rule is not None
    assert verdict.accepted, verdict
    sources = SourceIndex(
        bodies=BodyCache(limit_bytes=MIB),
        observer=Observer(),
    )
    cache = SourceCache(
        peer=PEER, kind=kind, rules=(activate(rule, created_at="", owner=ClusterUID("home")),), sources=sources
    )
    sources.open(cache)
    return cache, sources


def renamed(value: str) -> dict[str, Any]:
    override = {"type": "replace", "path": "/metadata/name", "value": value}
    return {"match": [{}], "mutations": {"overrides": [override]}}


def test_what_cannot_be_evaluated_is_remembered_without_its_body() -> None:
    """The error's frames would keep it, as bytes and decoded."""
    cache, _ = a_feed(renamed('{{ fail "x" }}'))
    (stream,) = cache.streams.values()
    tracemalloc.start()
    try:
        for number in range(20):
            stream.on_object(obj(f"n{number}", data={"k": "x" * MIB}))
        assert len(cache.unclear["r"]) == 20
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2 * MIB
    finally:
        tracemalloc.stop()
    assert len({id(error) for error in cache.unclear["r"].values()}) == 1


def test_what_is_said_of_a_stream_keeps_no_body() -> None:
    cache, _ = a_feed({"match": [{}]})
    (stream,) = cache.streams.values()
    for keep in (stream.refused, stream.on_error):
        try:
            json.loads("[" * 10)
        except ValueError as cause:
            try:
                raise InvalidObject("a", "b") from cause
            except InvalidObject as error:
                keep(error)
        assert stream.error is not None
        assert (stream.error.__traceback__, stream.error.__cause__, stream.error.__context__) == (None, None, None)


def test_bodies_are_weighed_with_what_was_decoded_of_them() -> None:
    """Short labels take twenty times as much memory as they are long."""
    bodies = BodyCache(limit_bytes=4 * MIB)
    tracemalloc.start()
    try:
        for number in range(40):
            labels = {f"{number}-{each:x}": "" for each in range(5_000)}
            bodies.put(BodyKey(PEER, MAP, ObjectKey("ns", f"n{number}")), obj(f"n{number}", info={"labels": labels}))
        assert tracemalloc.get_traced_memory()[0] < 5 * MIB
    finally:
        tracemalloc.stop()
    for number in range(40):
        bodies.drop(BodyKey(PEER, MAP, ObjectKey("ns", f"n{number}")))
    assert bodies.size_bytes == 0


@pytest.mark.parametrize("length", [65, 253, 254, 1_000_000])
def test_an_owner_that_is_too_long_is_somebody_else(length: int) -> None:
    """O1, O2: it marks a copy as before, of nobody that is known, and is neither ours nor that peer's."""
    text, named = "x" * length, last_applied({"metadata": {"namespace": "ns", "name": "a"}})
    marks = read_marks({meta.OWNER: text, meta.GO_LAST_APPLIED: named}, of=Target("", "ConfigMap", "ns", "a"))
    assert marks.is_copy
    assert marks.owner is not None
    assert meta.UID_LENGTH < len(marks.owner) < 100
    assert voice_of(marks, peer=PEER, local=ClusterUID("home")) is Voice.SILENT
    assert not is_at_home(marks, peer=PEER, membership=False)
    other = read_marks({meta.OWNER: text + "y"}, of=Target("", "ConfigMap", "ns", "a"))
    assert other.owner != marks.owner


def test_an_owner_that_can_be_one_is_taken_by_its_word() -> None:
    text = "x" * meta.UID_LENGTH
    assert read_marks({meta.OWNER: text}, of=Target("", "ConfigMap", "ns", "a")).owner == text


@pytest.mark.parametrize("field", ["uid", "created", "rule", "overrides"])
def test_a_provenance_of_texts_that_are_too_long_is_none(field: str) -> None:
    of = Target("", "ConfigMap", "ns", "a")
    real = Provenance(PEER, "r", PEER, "Delete", MAP, ObjectKey("ns", "a"), "u", "2026", 5, of)
    assert decode(encode(real), of=of) == real
    assert decode(encode(replace(real, **{field: "x" * 4097})), of=of) is None  # type: ignore[arg-type]


def test_the_longest_provenance_that_there_is_is_read() -> None:
    """Of a rule and an object whose names are as long as Kubernetes allows."""
    name, label = "x" * 253, "x" * 63
    of = Target(name, label, label, name)
    uid = ClusterUID("u" * 36)
    kind, created = GVK(name, label, label), "2026-01-01T00:00:00.000000+00:00"
    longest = Provenance(
        uid, name, uid, "Delete", kind, ObjectKey(label, name), uid, created, 2**63 - 1, of, True, True, "x" * 12,
        rule_uid=uid, rule_created=created, rule_definition=uid,
    )  # fmt: skip
    assert decode(encode(longest), of=of) == longest


def test_of_what_a_peer_holds_marks_take_little() -> None:
    cache, sources = a_feed({"match": [{}]})
    (stream,) = cache.streams.values()
    name = "x" * 253
    tracemalloc.start()
    try:
        for number in range(100):
            of = Target("", "ConfigMap", "ns", f"n{number}")
            source = GVK(name, "v1", name)
            marks = Provenance(ClusterUID("o"), name, PEER, name, source, ObjectKey("ns", name), "u", "2026", 5, of)
            stream.on_object(
                obj(f"n{number}", info={"annotations": {meta.OWNER: name, meta.PROVENANCE: encode(marks)}})
            )
            sources.bodies.drop(BodyKey(PEER, MAP, of.key))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100 * 1400
    finally:
        tracemalloc.stop()
    assert {record.marks.owner for record in cache.records.values()} == {"o"}


def test_a_record_takes_as_much_after_its_rule_was_edited_as_before() -> None:
    """R6: 374 bytes with its place in a full mapping; what an edit needs beside is given back."""
    cache, sources = a_feed({"match": [{}]})
    (stream,) = cache.streams.values()
    count, sizes = 2000, []
    found = [obj(f"n{number}", 1000 + number) for number in range(count)]
    keys = [each.key for each in found]

    def measure() -> None:
        for key in keys:
            sources.bodies.drop(BodyKey(PEER, MAP, key))
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] / count)

    edited, _ = read_and_validate({
        "metadata": {"name": "r", "uid": "r", "generation": 2},
        "spec": {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"},
                 "rules": [{"match": [{}], "mutations": {"labels": {"add": {"a": "1"}}}}]},
    })  # fmt: skip
    assert edited is not None
    gc.collect()
    tracemalloc.start()
    try:
        for each in found:
            stream.on_object(each)
        stream.on_synced(9000)
        measure()
        cache.set_rules((activate(edited, created_at="", owner=ClusterUID("home")),))
        (listing,) = cache.lists.values()
        for each in found:
            listing.on_object(each)
        assert listing.on_synced(9000)
        assert not cache.lists
        del listing
        measure()
    finally:
        tracemalloc.stop()
    before, after = sizes
    assert before < 430
    assert after < before + 8
    assert all(record.hits[0].entries == edited.entries for record in cache.records.values())


def test_names_that_come_and_go_leave_nothing() -> None:
    cache, _ = a_feed(renamed("x-{{ .Object.metadata.name }}"))
    (stream,) = cache.streams.values()
    for number in range(2 * interner.MOST):
        found = obj(f"n{number}")
        stream.on_object(found)
        stream.on_delete(found.key, found)
    assert not cache.records
    assert len(cache._evaluator._hits) <= interner.MOST


def test_of_deletions_only_those_of_membership_are_remembered() -> None:
    """O4."""
    secret = GVK("", "v1", "Secret")
    cache, sources = a_feed(
        {"match": [{"content": [{"key": "type", "value": meta.REGISTRY_SECRET_TYPE}]}, {}]}, kind=secret
    )
    (stream,) = cache.streams.values()
    for name, kind_type in (("a", meta.REGISTRY_SECRET_TYPE), ("b", "Opaque")):
        found = obj(name, kind=secret, type=kind_type)
        stream.on_object(found)
        stream.on_delete(found.key, obj(name, 7, kind=secret, type=kind_type))
    assert [sources.deleted_at(PEER, Target("", "Secret", "ns", name)) for name in "ab"] == [7, 0]


def test_a_member_that_deletes_without_end_forgets_nothing_and_takes_nobodys_place() -> None:
    """O4: what is too much becomes one revision for all that it ever had; others keep what they have."""
    found = MemberDeletions()
    other = ClusterUID("other")
    targets = [Target("", "Secret", "ns", f"s{number}") for number in range(4 * source_index.MOST_DELETIONS)]
    found.record(other, targets[0], 3)
    for number, target in enumerate(targets):
        found.record(PEER, target, 10 + number)
    assert all(found.at(PEER, target) >= 10 + number for number, target in enumerate(targets))
    assert (found.at(other, targets[0]), found.at(other, targets[1])) == (3, 0)
    for number in range(source_index.MOST_MEMBERS):
        found.record(ClusterUID(f"m{number}"), targets[0], 1)
    assert found.at(PEER, targets[0]) == 0
    assert len(found._at) == len(found._floor | found._at) == source_index.MOST_MEMBERS


def test_moments_are_known_of_so_many_places(monkeypatch: Any) -> None:
    monkeypatch.setattr(results, "MOST_PLACES", 3)
    found = Results(on_change=lambda _: None)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for name in "abcab":
        found.record_write((name, PEER), at)
    found.record_write(("d", PEER), at)
    assert [name for name, _ in found.wrote_at] == ["a", "b", "d"]


def test_own_objects_that_come_and_go_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "_MOST_GONE", 10)
    found = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    for number in range(100):
        manifest = {"metadata": {"name": f"f{number}", "resourceVersion": str(number + 1)}}
        found.apply("clusterfeatures", "ADDED", manifest)
        found.apply("clusterfeatures", "DELETED", manifest)
        found.apply("clusterfeatures", "MODIFIED", {"metadata": {"name": f"f{number}", "resourceVersion": str(number)}})
    assert not found.features
    assert len(found._revisions) + len(found._gone) <= 10
