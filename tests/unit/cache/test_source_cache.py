"""Rules that come, change and go in the cache of a peer's kind. R1, R6, W1, W3, O3, O5."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, Unreachable
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.peer_objects import PeerFeatures
from registry_controller.cache.rule_events import RuleEvents
from registry_controller.cache.source_cache import RuleChange, SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.policy import TargetPolicy
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch.body_cache import BodyCache, BodyKey
from tests.unit.cache.observers import Observer

PEER, LOCAL, OTHER = ClusterUID("peer"), ClusterUID("local"), ClusterUID("other")
MAP = GVK("", "v1", "ConfigMap")
A, B = Selection(labels="a=1"), Selection(labels="b=1")


def obj(name: str, revision: int = 5, *, namespace: str = "ns", labels: str = "ab", **body: Any) -> PartialObject:
    info = {
        "name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(revision),
        "labels": dict.fromkeys(labels, "1"),
    }  # fmt: skip
    return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, **body}).encode())


def rule(
    name: str,
    *matches: dict[str, Any],
    adds: str = "",
    value: str = "",
    created: str = "",
    owner: ClusterUID = LOCAL,
    policy: str = "Orphan",
) -> ActiveRule:
    """Make a rule; `adds` is a label that its copies get, `value` a template for their name."""
    mutations: dict[str, Any] = {"labels": {"add": {adds: "1"}}} if adds else {}
    if value:
        mutations["overrides"] = [{"type": "replace", "path": "/metadata/name", "value": value}]
    spec = {
        "groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "deletionPolicy": policy,
        "rules": [{"match": list(matches), "mutations": mutations}],
    }  # fmt: skip
    read, verdict = read_and_validate({"metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec})
    assert read is not None
    assert verdict.accepted, verdict
    return activate(read, created_at=created, owner=owner, target_policy=TargetPolicy(is_synced=owner != LOCAL))


def labelled(label: str) -> dict[str, Any]:
    return {"labels": [{"matchLabels": {label: "1"}}]}


def within(namespace: str) -> dict[str, Any]:
    return {"namespaces": [namespace]}


def at(name: str, namespace: str = "ns") -> Target:
    return Target("", "ConfigMap", namespace, name)


class World:
    """A cache, and everything that it reports."""

    def __init__(
        self, *rules: ActiveRule, tap: PeerFeatures | None = None, rule_events: RuleEvents | None = None
    ) -> None:
        self.completed = 0
        self.changed: list[Target] = []
        self.dropped: list[Target] = []
        self.replanned = 0
        self.sources = SourceIndex(
            bodies=BodyCache(),
            observer=Observer(
                on_claims_changed=lambda targets, *_: self.changed.extend(targets), on_source_synced=self._complete
            ),
        )
        self.cache = SourceCache(
            peer=PEER,
            kind=MAP,
            rules=rules,
            sources=self.sources,
            tap=tap,
            rule_events=rule_events,
            watches_changed=self._replan,
        )
        self.sources.open(self.cache)

    def _complete(self, cache: SourceCache, dropped: Collection[Target]) -> None:
        assert cache is self.cache
        self.completed += 1
        self.dropped += dropped

    def _replan(self, cache: SourceCache) -> None:
        assert cache is self.cache
        self.replanned += 1

    def set_rules(self, *rules: ActiveRule) -> RuleChange:
        self.changed.clear()
        self.dropped.clear()
        return self.cache.set_rules(rules)

    def list(self, selection: Selection, *objects: PartialObject, revision: int = 10) -> None:
        """Let a watch list its selection."""
        stream = self.cache.streams[selection]
        stream.on_list()
        for each in objects:
            stream.on_object(each)
        stream.on_synced(revision)

    def list_beside(self, selection: Selection, *objects: PartialObject, revision: int = 10) -> bool:
        """Let a list beside a watch come to its end; return whether it counts."""
        listing = self.cache.lists[selection]
        for each in objects:
            listing.on_object(each)
        return listing.on_synced(revision)

    def hits(self, name: str, namespace: str = "ns") -> list[str]:
        record = self.cache.records.get(ObjectKey(namespace, name))
        return [hit.rule for hit in record.hits] if record is not None else []

    def synced(self) -> list[str]:
        return [active.rule.name for active in self.cache.rules if self.cache.synced_for(active.rule.name)]


def test_a_rule_that_comes_is_listed_by_its_own_watch_and_touches_no_other_record() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", labels="a"))
    record = world.cache.records[ObjectKey("ns", "one")]
    assert world.set_rules(rule("a", labelled("a")), rule("b", labelled("b"))) == RuleChange(opened=(B,))
    assert world.synced() == ["a"]
    world.list(B, obj("two", labels="b"))
    assert world.synced() == ["a", "b"]
    assert world.changed == [at("two")]
    assert world.cache.records[ObjectKey("ns", "one")] is record


def test_a_rule_that_goes_takes_its_watch_and_its_hits_along_and_nothing_else() -> None:
    world = World(rule("a", labelled("a")), rule("b", labelled("b")))
    world.list(A, obj("one", labels="a"), obj("both"))
    world.list(B, obj("two", labels="b"), obj("both"))
    record = world.cache.records[ObjectKey("ns", "one")]
    assert world.set_rules(rule("a", labelled("a"))) == RuleChange(closed=(B,))
    assert (world.hits("one"), world.hits("both"), world.hits("two")) == (["a"], ["a"], [])
    assert sorted(world.changed) == [at("both"), at("two")]
    assert world.cache.records[ObjectKey("ns", "one")] is record
    assert world.sources.bodies.peek(BodyKey(PEER, MAP, ObjectKey("ns", "two"))) is None
    assert world.synced() == ["a"]


def test_a_rule_that_changes_keeps_its_hits_until_its_selection_was_listed_again() -> None:
    world = World(rule("a", labelled("a")), rule("b", labelled("b")))
    world.list(A, obj("one", labels="a"), obj("gone", labels="a"))
    world.list(B, obj("two", labels="b"))
    edited = rule("a", labelled("a"), adds="new")
    assert world.set_rules(edited, rule("b", labelled("b"))) == RuleChange(listed=(A,))
    record = world.cache.records[ObjectKey("ns", "one")]
    (hit,) = record.hits
    assert world.cache.is_outdated(record, hit)
    assert not world.cache.was_evaluated(record, "a")
    assert world.cache.was_evaluated(record, "b")
    assert (world.synced(), world.changed) == (["b"], [])
    world.cache.streams[A].on_delete(ObjectKey("ns", "gone"), obj("gone", 9))
    assert world.list_beside(A, obj("one", labels="a"))
    assert world.synced() == ["a", "b"]
    record = world.cache.records[ObjectKey("ns", "one")]
    assert record.hits[0].entries == edited.rule.entries
    assert not world.cache.is_outdated(record, record.hits[0])
    assert world.changed == [at("gone"), at("one")]


def test_an_object_that_a_wider_watch_does_not_have_goes_with_the_hits_of_all_rules() -> None:
    """The edited rule did not see it again, and the other one, which shared its narrow watch, will not either."""
    world = World(rule("a", labelled("a")), rule("edited", labelled("a")))
    world.list(A, obj("one", labels="a"), obj("gone", labels="a"))
    world.set_rules(rule("a", labelled("a")), rule("edited", {}))
    assert world.hits("gone") == ["a", "edited"]
    world.list(EVERYTHING, obj("one", labels="a"), revision=12)
    assert list(world.cache.streams) == [EVERYTHING]
    assert list(world.cache.records) == [ObjectKey("ns", "one")]
    assert at("gone") in world.changed
    assert world.hits("one") == ["a", "edited"]


def test_what_an_edited_rule_no_longer_selects_goes_once_when_the_new_list_is_complete() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", labels="a"))
    assert world.set_rules(rule("a", labelled("b"))) == RuleChange(opened=(B,), closed=(A,))
    assert (world.hits("one"), world.changed, world.synced()) == (["a"], [], [])
    world.list(B, obj("two", labels="b"))
    assert (world.hits("one"), world.hits("two")) == ([], ["a"])
    assert (world.changed, world.dropped) == ([at("two")], [at("one")])
    assert world.synced() == ["a"]


def test_what_an_edited_rule_selected_in_another_namespace_goes_when_the_new_list_is_complete() -> None:
    world = World(rule("a", within("x")))
    world.list(Selection("x"), obj("one", namespace="x"))
    world.set_rules(rule("a", within("y")))
    assert world.hits("one", "x") == ["a"]
    world.list(Selection("y"))
    assert (world.hits("one", "x"), world.dropped, world.changed) == ([], [at("one", "x")], [])


def test_a_rule_that_is_edited_again_while_it_is_listed_waits_for_the_next_list() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", labels="a"))
    world.set_rules(rule("a", labelled("a"), adds="first"))
    first = world.cache.lists[A]
    assert world.set_rules(rule("a", labelled("a"), adds="second")) == RuleChange(listed=(A,))
    first.on_object(obj("one", labels="a"))
    first.on_synced(10)
    assert world.synced() == []
    assert world.list_beside(A, obj("one", labels="a"))
    assert world.synced() == ["a"]
    assert not world.cache.lists


def test_a_rule_that_changes_before_the_first_list_needs_no_list_beside_it() -> None:
    world = World(rule("a", labelled("a")))
    assert world.set_rules(rule("a", labelled("a"), adds="new")) == RuleChange()
    world.list(A, obj("one", labels="a"))
    assert world.synced() == ["a"]


def test_a_rule_that_changes_in_the_middle_of_the_first_list_is_listed_after_it() -> None:
    """What the list had named by then was not evaluated by the rule as it is now."""
    world = World(rule("a", labelled("a")))
    stream = world.cache.streams[A]
    world.cache.on_stream_listing(stream)
    stream.on_object(obj("one", labels="a"))
    assert world.set_rules(rule("a", labelled("a"), adds="new")) == RuleChange()
    stream.on_synced(10)
    assert world.synced() == []
    assert world.list_beside(A, obj("one", labels="a"))
    assert world.synced() == ["a"]


def test_a_list_of_the_watch_itself_makes_the_list_beside_it_needless() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", labels="a"))
    world.set_rules(rule("a", labelled("a"), adds="new"))
    beside = world.cache.lists[A]
    world.cache.on_stream_listing(world.cache.streams[A])
    assert not world.cache.lists
    beside.on_object(obj("ghost", labels="a"))
    assert world.hits("ghost") == []
    world.cache.streams[A].on_object(obj("one", labels="a"))
    assert world.synced() == []
    world.cache.streams[A].on_synced(12)
    assert world.synced() == ["a"]


def test_a_list_beside_a_watch_brings_nothing_back_that_the_watch_has_taken_away() -> None:
    """O3: neither an object that is gone since, nor an older state of one."""
    world = World(rule("a", {**labelled("a"), "content": [{"key": "data.x", "value": "1"}]}))
    world.list(A)
    stream = world.cache.streams[A]
    world.set_rules(rule("a", {**labelled("a"), "content": [{"key": "data.x", "value": "2"}]}))
    stream.on_delete(ObjectKey("ns", "gone"), obj("gone", 20, labels="a", data={"x": "2"}))
    stream.on_object(obj("changed", 21, labels="a", data={"x": "3"}))
    old = [obj(name, 12, labels="a", data={"x": "2"}) for name in ("gone", "changed", "there")]
    assert world.list_beside(A, *old, revision=15)
    assert (world.hits("gone"), world.hits("changed"), world.hits("there")) == ([], [], ["a"])


def test_what_a_list_shows_ahead_of_the_watch_stays_until_the_watch_names_it_or_lists_without_it() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A)
    stream = world.cache.streams[A]
    world.set_rules(rule("a", labelled("a"), adds="new"))
    ahead = [obj("named", 30, labels="a"), obj("gone", 31, labels="a")]
    assert world.list_beside(A, *ahead, revision=31)
    stream.on_object(obj("named", 20, labels="a"))  # what happened before
    assert world.cache.records[ObjectKey("ns", "named")].revision == 30
    stream.on_object(obj("named", 30, labels="a"))
    world.list(A, obj("named", 30, labels="a"), revision=30)
    assert world.hits("gone") == ["a"]  # that list is older
    world.list(A, obj("named", 30, labels="a"), revision=32)
    assert (world.hits("named"), world.hits("gone")) == (["a"], [])


def test_an_older_state_in_a_list_that_is_late_enough_for_the_known_one_is_the_present_one() -> None:
    """O3: as after the restore of an etcd with a raised revision."""
    world = World(rule("a", labelled("a")))
    world.list(A)
    world.set_rules(rule("a", labelled("a"), adds="new"))
    assert world.list_beside(A, obj("one", 30, labels="a"), revision=30)
    world.list(A, obj("one", 20, labels="a"), revision=29)
    assert world.cache.records[ObjectKey("ns", "one")].revision == 30  # that list is older
    world.list(A, obj("one", 20, labels="a"), revision=1000)
    assert (world.cache.records[ObjectKey("ns", "one")].revision, world.hits("one")) == (20, ["a"])


def test_a_list_from_before_what_the_watch_has_shown_does_not_count() -> None:
    """O5."""
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", 9, labels="a"), revision=20)
    world.set_rules(rule("a", labelled("a"), adds="new"))
    assert not world.list_beside(A, revision=19)
    assert world.synced() == []
    assert not world.list_beside(A, obj("one", 8, labels="a"), revision=21)
    assert world.synced() == []
    assert world.list_beside(A, obj("one", 9, labels="a"), revision=21)
    assert world.synced() == ["a"]


def test_a_rule_whose_selection_is_part_of_anothers_shares_its_watch_once_that_has_shown_everything() -> None:
    wide, narrow = rule("wide", {}), rule("narrow", within("x"))
    world = World(narrow)
    world.list(Selection("x"), obj("one", namespace="x"))
    assert world.set_rules(wide, narrow) == RuleChange(opened=(EVERYTHING,))
    assert world.synced() == ["narrow"]
    world.list(EVERYTHING, obj("one", namespace="x"), obj("two"))
    assert list(world.cache.streams) == [EVERYTHING]
    assert world.synced() == ["wide", "narrow"]
    assert world.replanned
    other = rule("other", within("ns"))
    assert world.set_rules(wide, narrow, other) == RuleChange(listed=(Selection("ns"),))
    assert world.synced() == ["wide", "narrow"]
    assert world.list_beside(Selection("ns"), obj("two"))
    assert world.synced() == ["wide", "narrow", "other"]
    assert (world.hits("one", "x"), world.hits("two")) == (["wide", "narrow"], ["wide", "other"])
    assert world.changed == [at("two")]


def test_a_list_of_all_that_a_watch_selects_stands_for_those_within_it() -> None:
    wide, narrow = rule("wide", {}), rule("narrow", within("x"))
    world = World(wide, narrow)
    world.list(EVERYTHING, obj("one", namespace="x"), obj("two"))
    edited, also = rule("wide", {}, adds="new"), rule("narrow", within("x"), adds="new")
    assert world.set_rules(edited, also) == RuleChange(listed=(EVERYTHING,))
    assert world.set_rules(edited, rule("narrow", within("x"), adds="newer")) == RuleChange(listed=(EVERYTHING,))
    assert world.list_beside(EVERYTHING, obj("one", namespace="x"), obj("two"))
    assert (world.synced(), dict(world.cache.lists)) == (["wide", "narrow"], {})
    assert world.set_rules(edited, also) == RuleChange(listed=(Selection("x"),))


def test_a_narrow_rule_has_its_watch_back_while_the_wide_one_may_not_be_read() -> None:
    """R2: a right that only the wide rule needs takes nothing from the others."""
    world = World(rule("wide", {}), rule("narrow", within("x")))
    world.list(EVERYTHING, obj("one", namespace="x"), obj("two"))
    world.list(Selection("x")) if Selection("x") in world.cache.streams else None
    assert list(world.cache.streams) == [EVERYTHING]
    wide = world.cache.streams[EVERYTHING]
    wide.on_error(Unreachable("gone for a moment"))
    assert list(world.cache.streams) == [EVERYTHING]
    wide.on_error(Forbidden("no"))
    assert set(world.cache.streams) == {EVERYTHING, Selection("x")}
    assert world.synced() == ["wide"]
    world.list(Selection("x"), obj("one", namespace="x"))
    assert world.synced() == ["wide", "narrow"]
    wide.on_recovered()
    assert list(world.cache.streams) == [EVERYTHING]


@pytest.mark.parametrize("are_rules", [False, True])
def test_copies_that_wait_for_a_rule_are_looked_at_once_the_watch_of_rules_is_current_again(are_rules: bool) -> None:
    """W3: a watch that resumes lists nothing."""
    world = World(rule("all", {}), rule_events=RuleEvents(now_s=lambda: 0.0) if are_rules else None)
    world.list(EVERYTHING)
    before = world.completed
    world.cache.streams[EVERYTHING].on_error(Unreachable("gone for a moment"))
    assert world.completed == before
    world.cache.streams[EVERYTHING].on_recovered()
    assert world.completed - before == are_rules


def test_when_a_wide_rule_goes_the_narrow_ones_keep_their_records_and_list_for_themselves() -> None:
    world = World(rule("wide", {}), rule("narrow", within("x")))
    world.list(EVERYTHING, *(obj(name, namespace="x") for name in ("one", "gone")), obj("two"))
    change = world.set_rules(rule("narrow", within("x")))
    assert change == RuleChange(opened=(Selection("x"),), closed=(EVERYTHING,))
    assert (world.hits("one", "x"), world.hits("two"), world.synced()) == (["narrow"], [], [])
    world.changed.clear()
    world.list(Selection("x"), obj("one", namespace="x"))
    assert (world.hits("one", "x"), world.hits("gone", "x"), world.synced()) == (["narrow"], [], ["narrow"])
    assert (world.changed, world.dropped) == ([], [at("gone", "x")])


def test_an_object_that_a_narrow_watch_knows_before_the_wide_one_stays_when_the_narrow_one_ends() -> None:
    world = World(rule("narrow", within("x")))
    world.list(Selection("x"), obj("new", 30, namespace="x"), obj("gone", 8, namespace="x"), revision=30)
    world.set_rules(rule("wide", {}), rule("narrow", within("x")))
    world.list(EVERYTHING, revision=20)
    assert list(world.cache.streams) == [EVERYTHING]
    assert (world.hits("new", "x"), world.hits("gone", "x")) == (["narrow"], [])
    world.cache.streams[EVERYTHING].on_object(obj("new", 30, namespace="x"))
    world.cache.streams[EVERYTHING].on_delete(ObjectKey("x", "new"), obj("new", 31, namespace="x"))
    assert world.hits("new", "x") == []


def test_bits_of_watches_that_ended_are_given_to_new_ones_only_when_no_record_has_them() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one"))
    for _ in range(3):
        world.set_rules(rule("a", labelled("a")), rule("b", labelled("b")))
        world.list(B, obj("one"))
        assert world.cache.streams[A].bit != world.cache.streams[B].bit
        world.set_rules(rule("a", labelled("a")))
    assert world.cache.records[ObjectKey("ns", "one")].streams == world.cache.streams[A].bit
    world.cache.streams[A].on_delete(ObjectKey("ns", "one"), None)
    assert not world.cache.records


def test_an_edit_that_makes_nothing_else_of_a_source_lists_nothing() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one", labels="a"))
    assert world.set_rules(rule("a", labelled("a"))) == RuleChange()
    assert world.synced() == ["a"]
    assert world.set_rules(rule("a", labelled("a"), policy="Delete")) == RuleChange(listed=(A,))


def test_the_rank_of_a_rule_changes_the_order_of_hits_once_it_was_listed() -> None:
    """W2."""
    old, young = rule("a", labelled("a"), created="2026-01-01"), rule("b", labelled("a"), created="2026-01-02")
    world = World(old, young)
    world.list(A, obj("one"))
    assert world.hits("one") == ["a", "b"]
    reborn = rule("a", labelled("a"), created="2026-01-03")
    world.set_rules(young, reborn)
    assert world.hits("one") == ["a", "b"]
    world.list_beside(A, obj("one"))
    assert world.hits("one") == ["b", "a"]
    assert set(world.changed) == {at("one")}


def test_a_rule_of_the_same_name_from_another_cluster_inherits_no_hits() -> None:
    world = World(rule("a", labelled("a"), value="same"))
    world.list(A, obj("one", labels="a"))
    assert world.hits("one") == ["a"]
    assert world.set_rules(rule("a", labelled("a"), value="same", owner=OTHER)) == RuleChange(listed=(A,))
    assert (world.hits("one"), world.changed) == ([], [at("same")])
    assert world.list_beside(A, obj("one", labels="a"))
    assert world.hits("one") == ["a"]
    assert world.sources.usage.moved[OTHER] == 1
    world.set_rules()
    assert (+world.sources.usage.moved, world.cache.records) == ({}, {})


def test_rules_of_one_cluster_that_wait_for_room_are_listed_when_another_one_of_it_goes() -> None:
    """W1: what could not be evaluated for a limit may be now."""
    dear = "{{ range until 30000 }}{{ end }}{{ .Object.GetName }}"
    rules = [rule(f"b-{number}", labelled("a"), value=dear, owner=OTHER) for number in range(3)]
    world = World(*rules)
    world.list(A, obj("one"))
    assert world.cache.records[ObjectKey("ns", "one")].unclear == {"b-2"}
    assert world.set_rules(*rules[1:]) == RuleChange(listed=(A,))
    assert world.synced() == ["b-1"]
    world.list_beside(A, obj("one"))
    assert (world.hits("one"), world.cache.unclear) == (["b-1", "b-2"], {})


def test_errors_of_a_rule_go_with_it() -> None:
    """W1."""
    broken = rule("broken", labelled("a"), value="{{ fail `x` }}")
    world = World(rule("a", labelled("a")), broken)
    world.list(A, obj("one"))
    assert world.cache.records[ObjectKey("ns", "one")].unclear == {"broken"}
    world.set_rules(rule("a", labelled("a")))
    assert (world.cache.unclear, world.hits("one")) == ({}, ["a"])
    assert not world.cache.records[ObjectKey("ns", "one")].unclear


def test_a_rule_that_selects_nothing_is_synced_and_loses_its_hits_at_once() -> None:
    world = World(rule("a", labelled("a")))
    world.list(A, obj("one"))
    nothing = rule("a", labelled("a"))
    nothing = ActiveRule(nothing.rule, nothing.created_at, nothing.owner, ())
    empty = ActiveRule(
        type(nothing.rule)(**{name: getattr(nothing.rule, name) for name in nothing.rule.__slots__} | {"entries": ()}),
        "", LOCAL, (),
    )  # fmt: skip
    assert world.set_rules(empty) == RuleChange(closed=(A,))
    assert (world.cache.records, world.synced(), world.changed) == ({}, ["a"], [at("one")])


def test_the_same_state_named_once_more_wants_no_look() -> None:
    world = World(rule("a", labelled("a")), rule("b", labelled("b")))
    world.list(A, obj("one"))
    assert world.changed == [at("one")]
    world.list(B, obj("one"))
    assert world.changed == [at("one")]
    record = world.cache.records[ObjectKey("ns", "one")]
    world.list(A, obj("one"))
    assert world.cache.records[ObjectKey("ns", "one")] is record
    world.cache.streams[A].on_object(obj("one", 6))
    assert world.changed == [at("one")] * 2


def test_a_record_that_a_label_rule_keeps_is_no_proof_of_a_deletion_when_the_rule_ends() -> None:
    """O4: only what a stream shows as deleted is."""
    secret = {"kind": "Secret", "type": meta.REGISTRY_SECRET_TYPE}
    world = World(rule("a", labelled("a")))
    world.cache.kind = meta.SECRET
    world.list(A, obj("one", **secret))
    world.set_rules(rule("a", within("elsewhere")))
    world.list(Selection("elsewhere"))
    assert not world.cache.records
    assert world.sources.deleted_at(PEER, Target("", "Secret", "ns", "one")) == 0


def test_everything_of_a_tapped_kind_is_watched_whatever_the_rules_select() -> None:
    tap = PeerFeatures(changed=lambda: None)
    world = World(tap=tap)
    assert list(world.cache.streams) == [EVERYTHING]
    world.list(EVERYTHING, obj("one", spec={"featureName": "f"}))
    assert [feature.name for feature in tap.held or ()] == ["one"]
    assert world.set_rules(rule("a", labelled("a"))) == RuleChange(listed=(A,))
    world.list_beside(A, obj("other", 30, spec={"featureName": "g"}))
    assert [feature.name for feature in tap.held or ()] == ["one"]  # only its own watch can take it away again
    assert world.set_rules() == RuleChange()
    world.cache.streams[EVERYTHING].on_reset()
    assert not tap.is_current
    world.list(EVERYTHING)
    assert tap.is_current


def test_a_server_whose_history_went_back_is_believed_about_what_it_was_to_name() -> None:
    """O3."""
    world = World(rule("narrow", within("x")))
    world.list(Selection("x"), obj("one", 30, namespace="x"), revision=30)
    world.set_rules(rule("wide", {}), rule("narrow", within("x")))
    world.list(EVERYTHING, revision=20)
    assert world.hits("one", "x") == ["narrow"]
    world.cache.streams[EVERYTHING].on_reset()
    assert world.synced() == []
    world.list(EVERYTHING, revision=5)
    assert (world.hits("one", "x"), world.synced()) == ([], ["wide", "narrow"])


def test_a_state_that_may_have_lacked_fields_counts_as_another_one() -> None:
    """R4: only what came after the doubt's revision, once for each list that shows it."""
    world = World(rule("a", labelled("a")))
    world.list(A, obj("old", 5), obj("late", 12), revision=12)
    stream = world.cache.streams[A]
    before = {key.name: record.rereads for key, record in world.cache.records.items()}
    world.changed.clear()
    stream.on_doubt(11)
    stream.on_doubt(13)
    world.list(A, obj("old", 5), obj("late", 12), revision=14)
    after = {key.name: record.rereads for key, record in world.cache.records.items()}
    assert (before, after) == ({"old": 0, "late": 0}, {"old": 0, "late": 1})
    assert world.changed == [at("late")]
    world.changed.clear()
    world.list(A, obj("old", 5), obj("late", 12), revision=15)
    assert not world.changed
    world.list(A, obj("late", 16), revision=16)
    assert world.cache.records[ObjectKey("ns", "late")].rereads == 0
