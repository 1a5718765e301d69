"""What the rules that came from other clusters may take here: of time for one object, and of memory for all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import TooMuch
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.cache import rule_evaluator
from registry_controller.cache.rule_evaluator import EvaluationUsage
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import Offer, SourceIndex
from registry_controller.core.mutation.mutate import build_copy
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.policy import TargetPolicy
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.sync.rule_conflicts import losers_of
from registry_controller.watch import limits
from registry_controller.watch.body_cache import BodyCache
from registry_controller.watch.stream import SelectionStream
from tests.unit.cache.observers import Observer

PEER, HOME = ClusterUID("peer"), ClusterUID("home")
MAP = GVK("", "v1", "ConfigMap")
DEAR = "{{ range until 30000 }}{{ end }}{{ .Object.GetName }}"
"""It takes two fifths of what one rule may take of an object."""


def obj(name: str, *, kind: GVK = MAP, **more: Any) -> PartialObject:
    info = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": info, **more}
    return decode_object(json.dumps(body).encode(), kind=kind)


def renaming(name: str, value: str, *, owner: ClusterUID = HOME, content: str = "") -> ActiveRule:
    """Make a rule that gives another name; one of another owner than this cluster came from there."""
    return changing(name, value, owner=owner, content=content, path="/metadata/name")


def two_overrides(name: str, first: str, second: str, *, owner: ClusterUID) -> ActiveRule:
    """Make a rule that gives another name, and a label beside."""
    overrides = [
        {"type": "replace", "path": "/metadata/name", "value": first},
        {"type": "replace", "path": "/metadata/labels/x?", "value": second},
    ]
    return _rule(name, {"match": [{}], "mutations": {"overrides": overrides}}, owner=owner)


def changing(name: str, value: str, *, owner: ClusterUID = HOME, content: str = "", path: str) -> ActiveRule:
    """Make a rule that gives a field another value."""
    override = {"type": "replace", "path": path, "value": value}
    match = {"content": [{"key": content, "value": "v"}]} if content else {}
    return _rule(name, {"match": [match], "mutations": {"overrides": [override] if value else []}}, owner=owner)


def _rule(name: str, entry: dict[str, Any], *, owner: ClusterUID) -> ActiveRule:
    spec = {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [entry]}
    rule, verdict = read_and_validate({"metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec})
    assert rule is not None
    assert verdict.accepted, verdict
    return activate(rule, created_at="", owner=owner, target_policy=TargetPolicy(is_synced=owner != HOME))


def a_feed(*rules: ActiveRule, kind: GVK = MAP) -> tuple[SourceCache, SelectionStream, EvaluationUsage]:
    sources = SourceIndex(
        bodies=BodyCache(),
        observer=Observer(),
    )
    cache = SourceCache(peer=PEER, kind=kind, rules=rules, sources=sources)
    sources.open(cache)
    return cache, next(iter(cache.streams.values())), sources.usage


def test_the_rules_of_one_other_cluster_share_what_one_rule_may_take_of_an_object() -> None:
    """W1: a thousand dear rules take no more time than one; those of others, and of this cluster, have theirs."""
    dear = [renaming(f"b-{number}", DEAR, owner=ClusterUID("b")) for number in range(5)]
    other = renaming("c", DEAR, owner=ClusterUID("c"))
    ours = [renaming(f"home-{number}", DEAR) for number in range(5)]
    cache, stream, _ = a_feed(*dear, other, *ours)
    stream.on_object(obj("one"))
    (record,) = cache.records.values()
    assert [hit.rule for hit in record.hits] == ["b-0", "b-1", "c", *(active.rule.name for active in ours)]
    assert record.unclear == {"b-2", "b-3", "b-4"}
    assert "together with the other rules of its cluster on this object" in str(
        cache.unclear["b-2"][ObjectKey("ns", "one")]
    )
    stream.on_object(obj("two"))
    assert cache.records[ObjectKey("ns", "two")].hits == record.hits


def test_the_rules_of_many_other_clusters_share_what_four_may_take() -> None:
    """Who introduces a hundred clusters has no more time for their rules than four have; cheap rules do not mind."""
    dear = [renaming(f"d-{number:03}", DEAR, owner=ClusterUID(f"{number}")) for number in range(100)]
    cheap = renaming("cheap", "b-{{ .Object.GetName }}", owner=ClusterUID("7"))
    ours = renaming("home", DEAR)
    cache, stream, _ = a_feed(cheap, *dear, ours)
    stream.on_object(obj("one"))
    (record,) = cache.records.values()
    assert [hit.rule for hit in record.hits] == ["cheap", "home"]
    assert record.unclear == {active.rule.name for active in dear}
    assert "takes more than 4000 steps, together" in str(cache.unclear["d-000"][ObjectKey("ns", "one")])


def test_so_many_rules_of_one_other_cluster_may_match_an_object() -> None:
    """Those of this cluster, and of others, are not counted with them; where there are many clusters, each has less."""
    plain = [renaming(f"b-{number:02}", "", owner=ClusterUID("b")) for number in range(20)]
    others = [renaming(f"c-{number:02}", "", owner=ClusterUID(f"{number}")) for number in range(7)]
    ours = [renaming(f"home-{number:02}", "") for number in range(20)]
    cache, stream, _ = a_feed(*plain, *ours)
    stream.on_object(obj("one"))
    (record,) = cache.records.values()
    assert len(record.hits) == rule_evaluator.MOST_HITS + len(ours)
    assert record.unclear == {"b-16", "b-17", "b-18", "b-19"}
    assert "more than the 16 rules of their cluster that may" in str(cache.unclear["b-16"][ObjectKey("ns", "one")])
    cache, stream, _ = a_feed(*plain, *others)
    stream.on_object(obj("one"))
    (record,) = cache.records.values()
    assert len(record.hits) == rule_evaluator.MOST_HITS // 2 + len(others)


def test_so_many_objects_may_be_given_one_name_by_rules_of_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who had it keeps it, and what goes makes room; a rule of this cluster has no limit."""
    monkeypatch.setattr(rule_evaluator, "MOST_AT_ONE_PLACE", 2)
    stranger = renaming("b", "same", owner=ClusterUID("b"))
    cache, stream, _ = a_feed(stranger)
    for name in ("n0", "n1", "n2", "n0"):
        stream.on_object(obj(name))
    assert [len(record.hits) for record in cache.records.values()] == [1, 1, 0]
    assert "give one name to more than 2 objects" in str(cache.unclear["b"][ObjectKey("ns", "n2")])
    stream.on_delete(ObjectKey("ns", "n1"), None)
    stream.on_object(obj("n2"))
    assert [len(record.hits) for record in cache.records.values()] == [1, 1]
    cache, stream, _ = a_feed(renaming("a", "same"))
    for name in ("n0", "n1", "n2"):
        stream.on_object(obj(name))
    assert [len(record.hits) for record in cache.records.values()] == [1, 1, 1]


def test_what_a_rule_reads_is_paid_for_before_it_is_read() -> None:
    """A template that fails spares nobody the reading of those behind it; nor do labels of which there are many."""
    long = "{{ if false }}" + "{{ print 1 }}" * 4_000 + "{{ end }}"
    rules = [two_overrides(f"b-{number:02}", "{{ fail `x` }}", long, owner=ClusterUID("b")) for number in range(20)]
    cache, stream, _ = a_feed(*rules)
    stream.on_object(obj("one"))
    assert ["fail" in str(cache.unclear[rule][ObjectKey("ns", "one")]) for rule in ("b-00", "b-19")] == [True, False]


def losers(*rules: ActiveRule) -> tuple[str, ...]:
    """Name those that make something else of an object than the first rule does."""
    cache, stream, _ = a_feed(*rules)
    source = obj("one", data={"x": "old"})
    stream.on_object(source)
    (record,) = cache.records.values()
    first, *_ = record.hits
    manifest = json.loads(source.raw)
    ours = build_copy(manifest, MAP, first.entries, owner=PEER, context=first.context)
    return losers_of(Offer(cache, source.key, record, first), ours, manifest, owner=PEER)


def test_who_makes_the_same_otherwise_is_no_loser() -> None:
    first, same = changing("a", "new", path="/data/x"), changing("b", "{{ `new` }}", path="/data/x")
    assert losers(first, same, changing("c", "newer", path="/data/x")) == ("c",)


def test_a_rival_that_cannot_be_evaluated_is_its_own_problem() -> None:
    """W1, W2: the oldest rule has its copy, and nothing fails; the other says that it wants it otherwise."""
    broken = changing("b", "{{ fail `x` }}", path="/data/x", owner=ClusterUID("b"))
    assert losers(changing("a", "new", path="/data/x"), broken) == ("b",)


def test_the_rivals_of_one_cluster_share_what_one_rule_may_take_of_an_object() -> None:
    """Some are asked what they would make; the others count as losers. Those of another cluster have their share."""
    dear = "{{ range until 30000 }}{{ end }}new"
    strangers = [changing(f"b-{number}", dear, path="/data/x", owner=ClusterUID("b")) for number in range(5)]
    other = changing("c", dear, path="/data/x", owner=ClusterUID("c"))
    assert losers(changing("a", "new", path="/data/x"), *strangers, other) == ("b-2", "b-3", "b-4")


def test_what_a_rule_makes_and_copies_is_paid_for_too() -> None:
    long = "{{ repeat 1000000 `x` | trunc 3 }}-{{ .Object.GetName }}"
    rules = [renaming(f"b-{number:02}", long, owner=ClusterUID("b")) for number in range(20)]
    cache, stream, _ = a_feed(*rules)
    stream.on_object(obj("one"))
    (record,) = cache.records.values()
    assert 0 < len(record.hits) < 8


def test_objects_that_other_clusters_rules_move_are_limited_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What goes makes room; a rule of this cluster has no limit."""
    monkeypatch.setattr(rule_evaluator, "MOST_MOVED", 3)
    stranger = renaming("b", "b-{{ .Object.GetName }}", owner=ClusterUID("b"))
    ours = renaming("a", "a-{{ .Object.GetName }}")
    cache, stream, kept = a_feed(ours, stranger)
    for number in range(5):
        stream.on_object(obj(f"n{number}"))
    assert [len(record.hits) for record in cache.records.values()] == [2, 2, 2, 1, 1]
    assert [bool(record.unclear) for record in cache.records.values()] == [False, False, False, True, True]
    assert "more than 3 objects of other names or kinds" in str(cache.unclear["b"][ObjectKey("ns", "n3")])
    for _ in range(3):
        stream.on_object(obj("n0"))
    stream.on_delete(ObjectKey("ns", "n1"), None)
    stream.on_delete(ObjectKey("ns", "n4"), None)
    stream.on_object(obj("n3"))
    assert [len(record.hits) for record in cache.records.values()] == [2, 2, 2]
    assert (cache.unclear, kept.moved["b"], +kept.words) == ({}, 3, {})
    cache.close()
    assert not +kept.moved


def test_words_on_what_other_clusters_rules_cannot_tell_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule keeps some, and no object is taken for one that does not match."""
    monkeypatch.setattr(rule_evaluator, "MOST_WORDS", 4)
    rules = [renaming(f"b-{number}", '{{ fail "x" }}', owner=ClusterUID("b")) for number in range(3)]
    cache, stream, kept = a_feed(*rules)
    for number in range(10):
        stream.on_object(obj(f"n{number}"))
    assert all(record.unclear == {"b-0", "b-1", "b-2"} for record in cache.records.values())
    assert len({id(record.unclear) for record in cache.records.values()}) == 1
    assert {rule: len(held) for rule, held in cache.unclear.items()} == {"b-0": 2, "b-1": 1, "b-2": 1}
    cache.close()
    assert cache.unclear == {}
    assert not +kept.words


def test_rules_of_another_cluster_weigh_no_more_than_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is too much is left as it was, and the others come; what goes makes limits."""
    monkeypatch.setattr(limits, "MOST_BYTES", 10_000)
    every, _ = read_and_validate({
        "metadata": {"name": "core", "uid": "core", "generation": 1},
        "spec": {"groupVersionKind": meta.RULE._asdict(), "rules": [{"match": [{}]}]},
    })  # fmt: skip
    assert every is not None
    cache, stream, _ = a_feed(activate(every, created_at="", owner=HOME), kind=meta.RULE)

    def offer(name: str, size: int, **more: Any) -> None:
        stream.on_object(obj(name, kind=meta.RULE, spec={"text": "x" * size}, **more))

    offer("one", 4_000, status={"text": "x" * 20_000})
    offer("two", 4_000)
    assert stream.error is None
    with pytest.raises(TooMuch, match="it offers more than 0 MiB of the kind ResourceSyncRule: the rest is not read"):
        offer("three", 4_000)
    assert [key.name for key in cache.records] == ["one", "two"]
    stream.on_delete(ObjectKey("ns", "one"), None)
    offer("three", 4_000)
    assert [key.name for key in cache.records] == ["two", "three"]
    values = {"metadata": {"name": "x"}, "spec": {"rules": [{}] * 200}}
    assert limits.estimate_size(json.dumps(values).encode()) > 200 * 64
