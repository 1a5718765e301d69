"""What is known of the rule that made a copy. W3, S5."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from registry_controller.api import meta
from registry_controller.api.errors import NotServed
from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.cache.crds import Definition, DefinitionRead
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.registry import Registry
from registry_controller.cache.rule_events import RuleEvents
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.state import RuleState
from registry_controller.core.rules.policy import RulePolicy
from tests.unit.clusters.builders import LOCAL, cluster_manifest, rule_manifest

B, C = ClusterUID("id-b"), ClusterUID("id-c")
MAP = GVK("", "v1", "ConfigMap")
COPY = Target("", "ConfigMap", "default", "one")


def provenance(*, rule: str = "r", rule_owner: ClusterUID = LOCAL, policy: str = "Delete") -> Provenance:
    """Build the provenance of a copy that a rule made from b's object."""
    return Provenance(B, rule, rule_owner, policy, MAP, ObjectKey("default", "one"), "u", "", 1, COPY)


def synced(rule: dict[str, Any], owner: ClusterUID = C) -> dict[str, Any]:
    """Mark a rule as the copy of another cluster's."""
    target = Target(meta.GROUP, meta.RULE.kind, "", rule["metadata"]["name"])
    made = Provenance(owner, "sink", LOCAL, "Delete", meta.RULE, ObjectKey("", target.name), "u", "", 1, target)
    annotations = {meta.OWNER: owner, meta.PROVENANCE: encode(made)}
    return {**rule, "metadata": {**rule["metadata"], "annotations": annotations}}


def peer(
    *features: str,
    is_alive: bool = True,
    is_listed: bool = True,
    is_current: bool = True,
    is_unserved: bool = False,
    lost: tuple[str, ...] = (),
) -> Any:
    held = tuple(Feature(name, name, {}) for name in features) if is_listed else None
    features = SimpleNamespace(
        held=held,
        is_current=is_current,
        is_unserved=is_unserved,
        list_lost=lambda: [Feature(name, name, {}) for name in lost],
        deleted_rules={},
    )
    return SimpleNamespace(cluster_id=B, is_alive=is_alive, features=features)


def states(
    *rules: dict[str, Any],
    own: bool = True,
    b: Any = None,
    c: Any = None,
    cache: Any = None,
    policy: RulePolicy | None = None,
) -> RuleStates:
    """Make the states of rules here; `cache` is that of the rules that c holds."""
    registry = Registry(local=LOCAL, on_change=lambda plural, name: None, allowance=policy)
    if own:
        manifest = cluster_manifest("own", cluster_id=LOCAL, metadata={"resourceVersion": "1"})
        registry.apply("clusters", "ADDED", manifest)
    for rule in rules:
        registry.apply("resourcesyncrules", "ADDED", rule)
    sources: Any = SimpleNamespace(cache_of=lambda owner, kind: cache if (owner, kind) == (C, meta.RULE) else None)
    peers = {uid: found for uid, found in ((B, b), (C, c)) if found is not None}
    selection = RuleSelection(registry=registry, local=LOCAL)
    copies: Any = SimpleNamespace(all_caches=list)
    deletions = RuleDeletions(registry=registry, sources=sources, copies=copies, local=LOCAL)
    definition = Definition("uid", deleting=False, revision=1)
    deletions.traces.definitions = SimpleNamespace(of_rules=definition, read=DefinitionRead("uid", math.inf))
    deletions.update(peers)
    return RuleStates(registry=registry, selection=selection, deletions=deletions, local=LOCAL, peers=peers)


RULE = rule_manifest("r")


@pytest.mark.parametrize(
    ("rules", "b", "state"),
    [
        ([RULE], peer(), RuleState.READS),
        ([RULE], None, RuleState.SILENT),
        ([RULE], peer(is_alive=False), RuleState.SILENT),
        ([RULE], peer(is_listed=False), RuleState.SILENT),
        ([rule_manifest("r", features=("x",))], peer("x"), RuleState.READS),
        ([rule_manifest("r", features=("x",))], peer(), RuleState.UNSELECTED),
        ([rule_manifest("r", features=("x",))], peer(is_current=False), RuleState.SILENT),
        ([rule_manifest("r", suspend=True)], peer(), RuleState.SILENT),
        ([rule_manifest("r", kind="")], peer(), RuleState.SILENT),
        ([rule_manifest("r", targetClusters={"names": ["own"]})], peer(), RuleState.READS),
        ([rule_manifest("r", targetClusters={"names": ["other"]})], peer(), RuleState.NOT_HERE),
        ([], peer(), RuleState.GONE),
    ],
    ids=[
        "it reads from the owner",
        "the owner is not known",
        "the owner is silent",
        "the owner's features are not listed",
        "the owner has its feature",
        "the owner has not its feature",
        "the owner's features are listed again",
        "suspended",
        "invalid",
        "for this cluster",
        "for another cluster",
        "deleted here",
    ],
)
def test_w3_the_state_of_a_rule_of_this_cluster(rules: list[dict[str, Any]], b: Any, state: RuleState) -> None:
    assert states(*rules, b=b).state(provenance()) is state


@pytest.mark.parametrize(
    ("features", "b", "is_lost"),
    [
        (("x",), peer("x"), False),
        (("x",), peer("x", is_unserved=True), True),
        ((), peer("x", is_unserved=True), False),
        (("x",), peer("y", lost=("x",)), True),
        (("x",), peer("y", is_unserved=True, lost=("y",)), False),
        (("x",), None, False),
    ],
    ids=[
        "the owner has its feature",
        "the owner's features are not served",
        "it asks for no feature",
        "its feature is lost",
        "another feature is lost",
        "the owner is not known",
    ],
)
def test_w4_a_feature_may_be_lost_from_the_moment_when_features_are_not_served(
    features: tuple[str, ...], b: Any, is_lost: bool
) -> None:
    assert states(rule_manifest("r", features=features), b=b).has_lost_feature("r", B) is is_lost


def test_w3_without_provenance_nothing_is_known_of_the_rule() -> None:
    assert states(RULE, b=peer()).state(None) is RuleState.SILENT
    assert states(RULE, b=peer()).state(provenance(rule="")) is RuleState.SILENT


def test_w3_without_our_own_cluster_a_selector_proves_nothing() -> None:
    rule = rule_manifest("r", targetClusters={"names": ["other"]})
    assert states(rule, own=False, b=peer()).state(provenance()) is RuleState.SILENT


def test_w3_a_rule_whose_fields_our_crd_does_not_know_does_nothing() -> None:
    made = states(RULE, b=peer())
    made._registry.set_pruned("r", ("spec.new",))
    assert made.state(provenance()) is RuleState.SILENT
    assert not made.deletes_unwanted(provenance())


def cache(*, is_synced: bool = True, held: Marks | None = None, deleted: bool = False, error: object = None) -> Any:
    """Build the cache of the rules that c holds."""
    key, events = ObjectKey("", "r"), RuleEvents(now_s=lambda: 0.0)
    if deleted:
        events.on_delete("r", "uid-r", 5)
        events.on_definition(DefinitionState.THERE, 0.0)
    return SimpleNamespace(
        is_synced=is_synced,
        records={} if held is None else {key: SimpleNamespace(marks=held)},
        rule_events=events,
        streams={"all": SimpleNamespace(error=error)},
    )


NATIVE = Marks(None, None, sync_disabled=False, go_written=False)
KEPT = Marks(None, None, sync_disabled=True, go_written=False)
OF_B = Marks(B, None, sync_disabled=False, go_written=False)


@pytest.mark.parametrize(
    ("c", "found", "state"),
    [
        (peer(), cache(), RuleState.MISSING),
        (peer(), cache(deleted=True), RuleState.GONE),
        (peer(), cache(deleted=True, error=NotServed("rules")), RuleState.SILENT),
        (peer(), cache(held=NATIVE), RuleState.SILENT),
        (peer(), cache(held=KEPT), RuleState.MISSING),
        (peer(), cache(held=KEPT, deleted=True), RuleState.GONE),
        (peer(), cache(held=OF_B), RuleState.MISSING),
        (peer(), cache(held=OF_B, deleted=True), RuleState.GONE),
        (peer(), cache(is_synced=False), RuleState.SILENT),
        (peer(), None, RuleState.SILENT),
        (peer(is_alive=False), cache(), RuleState.SILENT),
        (None, cache(), RuleState.SILENT),
    ],
    ids=[
        "its complete list lacks the rule, and nothing shows that it was deleted",
        "its deletion was an event of the watch",
        "its rules are not served any more",
        "the rule is still there",
        "the rule is not copied any more, and its copy here is missing",
        "its deletion was an event, and the next rule of that name is not copied",
        "another member's rule has its name, and nothing shows that it was deleted",
        "its deletion was an event, and another member's rule has its name",
        "its list is not complete, or no rule reads its rules",
        "its rules are not watched",
        "it is silent",
        "it is not known",
    ],
)
def test_w3_a_synced_rule_is_gone_only_when_its_live_owner_has_shown_that(c: Any, found: Any, state: RuleState) -> None:
    assert states(b=peer(), c=c, cache=found).state(provenance(rule_owner=C)) is state


@pytest.mark.parametrize(
    ("rules", "policy", "deletes"),
    [
        ([], "Delete", True),
        ([], "Orphan", False),
        ([rule_manifest("r", deletionPolicy="Delete")], "Orphan", True),
        ([rule_manifest("r", deletionPolicy="Orphan")], "Delete", False),
        ([rule_manifest("r", deletionPolicy="Delete", suspend=True)], "Delete", False),
    ],
    ids=["its last policy", "its last policy keeps", "its policy now", "its policy now keeps", "suspended"],
)
def test_w3_whether_a_rule_deletes_unwanted_copies(rules: list[dict[str, Any]], policy: str, deletes: bool) -> None:
    made = states(*rules)
    assert made.deletes_unwanted(provenance(policy=policy)) == deletes
    assert not made.deletes_unwanted(None)


NARROW = RulePolicy(namespaces=frozenset({"other"}))


@pytest.mark.parametrize(
    ("rules", "rule_owner", "is_barred"),
    [
        ([RULE], LOCAL, False),
        ([synced(RULE)], LOCAL, True),
        ([], LOCAL, False),
        ([], C, True),
    ],
    ids=["a rule of ours", "a synced rule", "a deleted rule of ours", "a deleted rule of another cluster"],
)
def test_s5_a_synced_rule_touches_only_namespaces_that_are_allowed(
    rules: list[dict[str, Any]], rule_owner: ClusterUID, is_barred: bool
) -> None:
    made = states(*rules, policy=NARROW)
    barrier = made.barrier(COPY, provenance(rule_owner=rule_owner), secret_type="")
    assert (barrier is not None) == is_barred
    assert made.barrier(COPY, None, secret_type="") is None


def test_s5_a_rule_that_may_not_act_here_proves_nothing() -> None:
    made = states(synced(RULE), b=peer(), policy=RulePolicy(enabled=False))
    assert made.state(provenance(rule_owner=C)) is RuleState.SILENT


def made_by(
    *, rule_owner: ClusterUID = LOCAL, uid: str = "uid-r", kind: str = "ConfigMap", policy: str = "Delete"
) -> Provenance:
    """Build the provenance of a copy by a rule of that UID, which read that kind."""
    made = provenance(rule_owner=rule_owner, policy=policy)
    return replace(made, rule_uid=uid, source=MAP._replace(kind=kind))


def identified(**spec: Any) -> dict[str, Any]:
    """Build a rule of this cluster with a UID; it reads ConfigMaps, and its policy is Orphan."""
    made = rule_manifest("r", deletionPolicy="Orphan", **spec)
    return {**made, "metadata": {**made["metadata"], "uid": "uid-r"}}


@pytest.mark.parametrize(
    ("made", "state", "deletes"),
    [
        (made_by(), RuleState.READS, False),
        (made_by(uid=""), RuleState.READS, False),
        (made_by(rule_owner=ClusterUID("")), RuleState.READS, False),
        (made_by(uid="another"), RuleState.READS, True),
        (made_by(uid="another", policy="Orphan"), RuleState.READS, False),
        (made_by(kind="Secret"), RuleState.OTHER_KIND, True),
        (made_by(kind="Secret", policy="Orphan"), RuleState.OTHER_KIND, False),
    ],
)  # fmt: skip
def test_w3_a_namesake_decides_and_the_policy_in_the_copy_counts(
    made: Provenance, state: RuleState, deletes: bool
) -> None:
    found = states(identified(), b=peer())
    assert (found.state(made), found.deletes_unwanted(made)) == (state, deletes)


@pytest.mark.parametrize(
    ("c", "found", "state"),
    [
        (peer(), cache(deleted=True), RuleState.READS),
        (peer(), cache(deleted=True, held=OF_B), RuleState.READS),
        (peer(), cache(held=OF_B), RuleState.MISSING),
        (peer(), cache(), RuleState.MISSING),
        (peer(), cache(held=NATIVE), RuleState.SILENT),
        (peer(is_alive=False), cache(deleted=True), RuleState.SILENT),
        (None, None, RuleState.SILENT),
    ],
    ids=[
        "it was deleted",
        "it was deleted, and another cluster's rule has its name there",
        "another cluster's rule has its name there",
        "it is missing there",
        "it is there",
        "its home is silent",
        "its home is not known",
    ],
)
def test_w3_a_namesake_of_another_cluster_decides_once_the_rule_is_shown_to_be_deleted(
    c: Any, found: Any, state: RuleState
) -> None:
    made = states(identified(), b=peer(), c=c, cache=found)
    assert made.state(made_by(rule_owner=C)) is state
    assert made.deletes_unwanted(made_by(rule_owner=C))


@pytest.mark.parametrize("spec", [{"suspend": True}, {"kind": ""}])
def test_w3_a_namesake_that_does_not_act_cannot_be_asked(spec: dict[str, Any]) -> None:
    assert states(identified(**spec), b=peer()).state(made_by(kind="Secret")) is RuleState.SILENT


def test_w3_another_kind_is_not_read_whether_or_not_the_owner_answers() -> None:
    """The decision asks for the live owner."""
    assert states(identified(), b=peer(is_alive=False)).state(made_by(kind="Secret")) is RuleState.OTHER_KIND
