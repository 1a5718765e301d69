"""Which rules read from which peer, the context of their templates, and the kinds that are watched here. R2, T3."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.registry import Registry
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.clusters.watch_plan import RuleChanges, TemplateContexts, WatchPlanner, differing, stable_part
from registry_controller.core.mutation.mutate import NO_CONTEXT
from registry_controller.core.rules.active import ActiveRule
from tests.unit.clusters.builders import LOCAL, cluster_manifest, record, registry, rule_manifest

B, C = ClusterUID("id-b"), ClusterUID("id-c")
MAP, SECRET = GVK("", "v1", "ConfigMap"), GVK("", "v1", "Secret")
OWN = cluster_manifest("own", cluster_id=LOCAL)
Kinds = Mapping[GVK, frozenset[Selection]]


class Peer:
    """A peer that records the rules it is given."""

    def __init__(self, cluster_id: ClusterUID, *features: str) -> None:
        self.cluster_id, self.name = cluster_id, cluster_id.removeprefix("id-")
        held: Any = tuple(Feature(name, name, {}) for name in features)
        self.features = SimpleNamespace(held=held, is_current=True, deleted_rules={})
        self.clusters = SimpleNamespace(held=None)
        self.given: list[Mapping[GVK, list[str]]] = []
        self.chosen: list[ActiveRule] = []
        self.watches = self

    def set_rules(self, rules: Mapping[GVK, Iterable[ActiveRule]]) -> None:
        self.chosen = [active for found in rules.values() for active in found]
        self.given.append({kind: [active.rule.name for active in found] for kind, found in rules.items()})


class Local:
    """The local cluster's watches, and the orphans that add to them."""

    def __init__(self) -> None:
        self.kinds: Collection[GVK] = ()
        self.served: frozenset[GVK] | None = None
        self.watched: Kinds = {}
        self.orphans: Kinds = {}
        self.namespaces: list[str] = []
        self.reads_since_s = -math.inf

    def with_kinds(self, wanted: Kinds) -> Kinds:
        return {**wanted, **self.orphans}

    def set_kinds(self, kinds: Kinds) -> None:
        self.watched = kinds

    def read_definitions(self, *, rules_since_s: float, features_since_s: float) -> None:
        self.reads_since_s = rules_since_s

    def set_secret_namespaces(self, namespaces: Iterable[str], *, cluster_api: Iterable[str]) -> None:
        self.namespaces = list(namespaces)


def planner(held: Registry, local: Any) -> WatchPlanner:
    selection = RuleSelection(registry=held, local=LOCAL)
    parts: Any = {"deletions": no_deletions(held), "local_cluster": local, "orphans": local}
    return WatchPlanner(local=LOCAL, registry=held, selection=selection, **parts)


def no_deletions(held: Registry) -> RuleDeletions:
    nothing: Any = SimpleNamespace(all_caches=list, cache_of=lambda peer, kind: None)
    return RuleDeletions(registry=held, sources=nothing, copies=nothing, local=LOCAL)


async def assign(made: WatchPlanner, *peers: Peer) -> Mapping[ClusterUID, Any]:
    """Give peers their rules."""
    found: Any = {peer.cluster_id: peer for peer in peers}
    await made.set_rules(found)
    return found


async def test_a_peer_gets_the_rules_whose_features_it_has() -> None:
    held = registry(
        OWN,
        rules=(rule_manifest("all"), rule_manifest("some", features=("x",)), rule_manifest("secrets", kind="Secret")),
    )
    b, c, local = Peer(B, "x"), Peer(C), Local()
    made = planner(held, local)
    await assign(made, b, c)
    assert b.given == [{MAP: ["all", "some"], SECRET: ["secrets"]}]
    assert c.given == [{MAP: ["all"], SECRET: ["secrets"]}]
    assert set(made.active) == {"all", "some", "secrets"}
    assert local.watched == {MAP: frozenset({EVERYTHING}), SECRET: frozenset({EVERYTHING})}


async def test_features_that_are_not_listed_yet_choose_no_rule_that_asks_for_them() -> None:
    b = Peer(B)
    b.features.held = None
    await assign(
        planner(registry(OWN, rules=(rule_manifest("all"), rule_manifest("some", features=("x",)))), Local()), b
    )
    assert b.given == [{MAP: ["all"]}]


async def test_a_peer_is_given_rules_again_only_after_a_change() -> None:
    held = registry(OWN, rules=(rule_manifest("one"),))
    made, b = planner(held, Local()), Peer(B)
    await assign(made, b)
    await assign(made, b)
    assert len(b.given) == 1
    b.features.held = (Feature("x", "x", {}),)
    await assign(made, b)
    assert len(b.given) == 2
    changed = rule_manifest("one", kind="Secret")
    held.apply(
        "resourcesyncrules", "MODIFIED", {**changed, "metadata": {**changed["metadata"], "resourceVersion": "2"}}
    )
    await assign(made, b)
    assert b.given[2:] == [{SECRET: ["one"]}]
    await assign(made, other := Peer(B))
    assert other.given == [{SECRET: ["one"]}]


async def test_w3_orphans_are_watched_beside_the_kinds_of_rules() -> None:
    local = Local()
    made = planner(registry(OWN, rules=(rule_manifest("one"),)), local)
    await assign(made)
    assert not made.has_orphans
    local.orphans = {SECRET: frozenset({EVERYTHING})}
    await assign(made)
    assert made.has_orphans
    assert set(local.watched) == {MAP, SECRET}
    made.watch_secrets(["a", "b"], cluster_api=[])
    assert local.namespaces == ["a", "b"]


async def test_changes_name_the_rules_the_kinds_they_read_and_did_read_and_the_members() -> None:
    held = registry(OWN, rules=(rule_manifest("one"), rule_manifest("two")))
    made, b = planner(held, Local()), Peer(B)
    peers = await assign(made, b)
    assert made.take_changes(peers) == RuleChanges({"one", "two"}, {("", "ConfigMap")}, {B})
    assert made.take_changes(peers) is None
    changed = rule_manifest("one", kind="Secret")
    held.apply(
        "resourcesyncrules", "MODIFIED", {**changed, "metadata": {**changed["metadata"], "resourceVersion": "2"}}
    )
    assert made.take_changes(await assign(made, b)) == RuleChanges({"one"}, {("", "ConfigMap"), ("", "Secret")}, set())
    b.features.held = (Feature("x", "x", {}),)
    assert made.take_changes(await assign(made, b)) == RuleChanges(set(), set(), {B})
    assert made.take_changes(await assign(made)) == RuleChanges(set(), set(), {B})


async def test_w9_a_label_of_our_own_cluster_changes_the_rules_that_ask_what_objects_name() -> None:
    held = registry(OWN, rules=(rule_manifest("asking", objectTargets="Required"), rule_manifest("one")))
    made, b = planner(held, Local()), Peer(B)
    made.take_changes(await assign(made, b))
    before = {active.rule.name: active for active in b.chosen}
    info = {**OWN["metadata"], "labels": {"env": "prod"}, "resourceVersion": "77"}
    held.apply("clusters", "MODIFIED", {**OWN, "metadata": info})
    assert made.take_changes(await assign(made, b)) == RuleChanges({"asking"}, {("", "ConfigMap")}, set())
    after = {active.rule.name: active for active in b.chosen}
    assert {name for name in after if after[name].identity != before[name].identity} == {"asking"}
    assert after["asking"].own == ClusterIdentity("own", {"env": "prod"})


def _copied_rule(uid: str, revision: int) -> dict[str, Any]:
    target = Target(meta.GROUP, meta.RULE.kind, "", "one")
    made_from = Provenance(
        owner=C, rule="r", rule_owner=C, policy="", source=meta.RULE, key=ObjectKey("", "one"), uid=uid, created="",
        revision=1, copy=target, inherited=False, adopted=False, overrides="",
    )  # fmt: skip
    notes = {meta.OWNER: str(C), meta.PROVENANCE: encode(made_from)}
    made = rule_manifest("one")
    return {**made, "metadata": {**made["metadata"], "annotations": notes, "resourceVersion": str(revision)}}


async def test_w3_a_rule_that_differs_only_in_who_made_it_is_a_change() -> None:
    """Its copies are those of another rule now, whose policy counts no more."""
    held = registry(OWN, rules=(_copied_rule("first", 1),))
    made, b = planner(held, Local()), Peer(B)
    made.take_changes(await assign(made, b))
    held.apply("resourcesyncrules", "MODIFIED", _copied_rule("second", 2))
    assert made.take_changes(await assign(made, b)) == RuleChanges({"one"}, {("", "ConfigMap")}, set())


SELECTING = rule_manifest("one", targetClusters={"names": ["own"]})


@pytest.mark.parametrize(
    ("rule", "own", "is_current", "has_changed", "chosen"),
    [
        (rule_manifest("one"), True, True, False, True),
        (rule_manifest("one"), True, True, True, False),
        (rule_manifest("one"), True, False, False, True),
        (rule_manifest("one", features=("x",)), True, False, False, False),
        (rule_manifest("one"), False, True, False, True),
        (SELECTING, True, True, False, True),
        (SELECTING, False, True, False, False),
    ],
    ids=[
        "current",
        "its features have changed since",
        "its features are listed again, and no rule asks for any",
        "its features are listed again, and a rule asks for one",
        "without our own Cluster, and no rule selects clusters",
        "a rule selects clusters",
        "without our own Cluster, and a rule selects clusters",
    ],
)
async def test_w3_whether_a_peer_has_all_its_rules(
    rule: dict[str, Any], own: bool, is_current: bool, has_changed: bool, chosen: bool
) -> None:
    made, b = planner(registry(*([OWN] if own else []), rules=(rule,)), Local()), Peer(B)
    peers = await assign(made, b)
    b.features.is_current = is_current
    if has_changed:
        b.features.held = (Feature("x", "x", {}),)
    assert made.has_chosen_rules(peers[B], MAP) == chosen


async def test_w3_a_peer_that_was_not_given_rules_has_not_got_them() -> None:
    made: Any = planner(registry(OWN, rules=(rule_manifest("one"),)), Local())
    assert not made.has_chosen_rules(Peer(B), MAP)
    await assign(made, Peer(B))
    assert not made.has_chosen_rules(Peer(B), MAP)


def test_templates_see_the_owners_cluster_and_our_own() -> None:
    contexts = TemplateContexts(registry=registry(OWN, cluster_manifest("b")), local=LOCAL)
    context = contexts.of(B, name="b", shown={})
    assert context.cluster is not None
    assert context.local_cluster is not None
    assert [found["metadata"]["name"] for found in (context.cluster, context.local_cluster)] == ["b", "own"]
    assert contexts.of(B, name="b", shown={}) is context


def test_a_context_stays_while_the_cluster_is_missing() -> None:
    held = registry(OWN, cluster_manifest("b"))
    contexts = TemplateContexts(registry=held, local=LOCAL)
    assert contexts.of(C, name="c", shown={}) is NO_CONTEXT
    context = contexts.of(B, name="b", shown={})
    held.apply("clusters", "DELETED", {**cluster_manifest("b"), "metadata": {"name": "b", "resourceVersion": "9"}})
    assert contexts.of(B, name="b", shown={}) is context


@pytest.mark.clause("W3")
def test_a_context_has_another_own_cluster_once_it_was_the_only_one_for_the_window() -> None:
    """Of several that come or go, the events are in no order."""
    clock, held = SimpleNamespace(now_s=1000.0), registry(OWN, cluster_manifest("b"))
    contexts = TemplateContexts(registry=held, local=LOCAL, window_s=30.0, now_s=lambda: clock.now_s)
    first = contexts.of(B, name="b", shown={})

    def change(event: str, name: str, revision: str) -> None:
        found = cluster_manifest(name, cluster_id=LOCAL)
        held.apply("clusters", event, {**found, "metadata": {**found["metadata"], "resourceVersion": revision}})

    change("DELETED", "own", "11")
    change("ADDED", "own-1", "12")
    assert contexts.of(B, name="b", shown={}) is first
    assert contexts.due_s == clock.now_s + 30.0
    change("ADDED", "own-2", "13")
    clock.now_s += 40.0
    assert contexts.of(B, name="b", shown={}) is first, "there are two"
    change("DELETED", "own-1", "14")
    assert contexts.of(B, name="b", shown={}) is first
    clock.now_s += 30.0
    last = contexts.of(B, name="b", shown={}).local_cluster
    assert last is not None
    assert last["metadata"]["name"] == "own-2"
    assert contexts.due_s is None


@pytest.mark.clause("W3")
def test_a_context_stays_while_its_member_has_several_clusters_of_itself() -> None:
    """Of more than four, the one that the member had first may be missing here."""
    clock, held = SimpleNamespace(now_s=1000.0), registry(OWN, cluster_manifest("b"), cluster_manifest("b-1"))
    contexts = TemplateContexts(registry=held, local=LOCAL, window_s=30.0, now_s=lambda: clock.now_s)
    first = contexts.of(B, name="b", shown={})
    several = {name: record(name, cluster_id=B) for name in ("b", "b-1")}
    for _ in range(3):
        clock.now_s += 40.0
        assert contexts.of(B, name="b-1", shown=several) is first
        assert contexts.due_s is None
    only = {"b-1": several["b-1"], "c": record("c")}
    assert contexts.of(B, name="b-1", shown=only) is first
    clock.now_s += 40.0
    last = contexts.of(B, name="b-1", shown=only).cluster
    assert last is not None
    assert last["metadata"]["name"] == "b-1"


@pytest.mark.clause("P1")
def test_of_several_clusters_one_whose_name_the_member_does_not_use_takes_no_place_in_a_context() -> None:
    """After a start the names by which a member calls itself are unknown; they count as soon as they are known."""
    held = registry(OWN, cluster_manifest("b"), cluster_manifest("b-1", cluster_id=B))
    contexts = TemplateContexts(registry=held, local=LOCAL, window_s=30.0, now_s=lambda: 0.0)

    def show(name: str, *shown: str) -> str:
        found = contexts.of(B, name=name, shown={one: record(one, cluster_id=B) for one in shown}).cluster
        assert found is not None
        return str(found["metadata"]["name"])

    assert show("b-1") == "b-1"
    assert show("b", "b") == "b"
    assert show("b-1", "b") == "b"


def test_the_stable_part_of_a_cluster_leaves_out_what_changes_by_itself() -> None:
    annotations = {meta.PROVENANCE: "x", meta.KUBECTL_LAST_APPLIED: "y", meta.GO_LAST_APPLIED: "z", "mine": "stays"}
    manifest = cluster_manifest(
        "b",
        metadata={"annotations": annotations, "resourceVersion": "5", "managedFields": [], "labels": {"a": "b"}},
        status={"state": "Ready", "conditions": [{"type": "Ready"}], "message": "well"},
    )
    assert stable_part(manifest) == {
        "apiVersion": meta.API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": "b", "uid": "uid-b", "annotations": {"mine": "stays"}, "labels": {"a": "b"}},
        "spec": manifest["spec"],
        "status": {"state": "Ready"},
    }
    assert stable_part(None) is None


def test_mappings_differ_in_keys_that_only_one_has_and_in_values() -> None:
    assert differing({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}) == {"a", "c", "d"}


async def test_w3_what_is_missing_for_a_moment_keeps_its_rules_and_its_copies() -> None:
    clock = SimpleNamespace(now_s=1000.0)
    held = Registry(local=LOCAL, on_change=lambda plural, name: None, window_s=30.0, now_s=lambda: clock.now_s)
    held.replace("clusters", [OWN], revision=1)
    held.replace("resourcesyncrules", [rule_manifest("plain"), rule_manifest("some", features=("x",))], revision=1)
    selection = RuleSelection(registry=held, local=LOCAL, window_s=30.0, now_s=lambda: clock.now_s)
    local, b = Local(), Peer(B, "x")
    parts: Any = {"deletions": no_deletions(held), "local_cluster": local, "orphans": local}
    made = WatchPlanner(local=LOCAL, registry=held, selection=selection, **parts)
    peers = await assign(made, b)
    made.take_changes(peers)
    assert b.given == [{MAP: ["plain", "some"]}]
    clock.now_s += 30.0
    changes = made.take_changes(await assign(made, b))
    assert changes == RuleChanges(set(), set(), set(), remaining={"plain", "some"}), "a copy's rule may be missing"
    b.features.held = ()
    deleted = rule_manifest("plain")
    held.apply("resourcesyncrules", "DELETED", {**deleted, "metadata": {"name": "plain", "resourceVersion": "5"}})
    await assign(made, b)
    assert made.due_s == clock.now_s + 30.0
    assert set(made.active) == {"plain", "some"}
    assert "plain" not in held.rules
    assert len(b.given) == 2, "the features are others, and what they select is the same"
    assert b.given[-1] == b.given[0]
    clock.now_s += 30.0
    changes = made.take_changes(await assign(made, b))
    assert changes is not None
    assert (changes.rules, changes.members) == ({"plain"}, {B})
    assert b.given[-1] == {}
    assert made.due_s is None


async def test_w3_a_rule_that_is_made_again_in_the_window_acts_as_the_new_one() -> None:
    clock = SimpleNamespace(now_s=1000.0)
    held = Registry(local=LOCAL, on_change=lambda plural, name: None, window_s=30.0, now_s=lambda: clock.now_s)
    held.replace("resourcesyncrules", [rule_manifest("r")], revision=1)
    held.set_pruned("r", ("spec.new",))
    gone = {"metadata": {"name": "r", "resourceVersion": "5"}}
    held.apply("resourcesyncrules", "DELETED", gone)
    assert [active.rule.kind for active in held.active_rules(LOCAL)] == []
    again = rule_manifest("r", kind="Secret")
    held.apply("resourcesyncrules", "ADDED", {**again, "metadata": {**again["metadata"], "resourceVersion": "6"}})
    assert [active.rule.kind.kind for active in held.active_rules(LOCAL)] == ["Secret"], (
        "nothing is known of its fields"
    )
    clock.now_s += 60.0
    held.end_deleted_rules()
    assert set(held.acting) == {"r"}
    assert held.shows_missing_rules
