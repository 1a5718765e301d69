"""How rules fit an object, for `explain`."""

from __future__ import annotations

from typing import Any

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import read_feature
from registry_controller.api.meta import GVK
from registry_controller.api.names import CORE_RULES
from registry_controller.core.decision.state import SourceRef
from registry_controller.kube.watch import PartialObject, decode_object
from registry_controller.planner.rule_fit import (
    Fit,
    evaluate_rules,
    evaluate_rules_without_object,
    list_local_features,
    list_rules_for,
)
from tests.original_marks import last_applied
from tests.unit.planner.planned_results import KEY, PEER, WIDGET, engine
from tests.unit.status.engine_parts import FakeCache, registry, rule

REF = SourceRef(PEER, WIDGET, KEY)


def widget(**metadata: Any) -> PartialObject:
    manifest = {
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": "1", "uid": "u", **metadata},
        "spec": {"size": "1"},
    }  # fmt: skip
    return decode_object(orjson.dumps(manifest))


def other(name: str, **match: Any) -> dict[str, Any]:
    return rule(name, rules=[{"match": [match]}])


def fits(*rules: dict[str, Any], found: dict[GVK, PartialObject] | None = None, **parts: Any) -> list[tuple[str, Fit]]:
    read = {WIDGET: widget()} if found is None else found
    fits = evaluate_rules(engine(registry(rules=rules), **parts), REF, read, features=())
    return [(fit.rule, fit.fit) for fit in fits]


def test_rules_that_match_come_first_and_then_those_that_do_not() -> None:
    misses = other("a-misses", objectKey={"name": "y"})
    assert fits(misses, rule("b-idle", suspend=True), rule("c-matches")) == [
        ("c-matches", Fit.MATCHES), ("a-misses", Fit.MISSES), ("b-idle", Fit.IDLE),
    ]  # fmt: skip


def test_a_clause_that_fails_is_named_by_its_path() -> None:
    held = registry(rules=[other("rule", objectKey={"name": "y"})])
    (fit,) = evaluate_rules(engine(held), REF, {WIDGET: widget()}, features=())
    assert (fit.path, fit.message) == (
        "spec.rules[0].match[0].objectKey.name", 'the name is "x", the rule asks for "y"'
    )  # fmt: skip


def test_features_of_the_objects_cluster_decide_first() -> None:
    held = registry(rules=[rule(clusterFeatureMatch=[{"featureName": "mesh"}])])
    (fit,) = evaluate_rules(engine(held), REF, {WIDGET: widget()}, features=())
    assert (fit.fit, fit.path) == (Fit.MISSES, "spec.clusterFeatureMatch[0]")
    feature = read_feature({"metadata": {"name": "f"}, "spec": {"featureName": "mesh"}})
    (fit,) = evaluate_rules(engine(held), REF, {WIDGET: widget()}, features=(feature,))
    assert fit.fit is Fit.MATCHES


def test_a_version_in_which_the_object_could_not_be_read_does_not_match() -> None:
    assert fits(rule(), found={}) == [("rule", Fit.MISSES)]


def test_a_rule_that_cannot_be_evaluated_is_unclear_by_its_path_and_by_the_cache() -> None:
    key = "data|@this"
    assert fits(other("rule", content=[{"key": key, "value": "1"}])) == [("rule", Fit.IDLE)]  # it is not accepted
    error = InvalidObject("spec.rules[0]", "cannot be evaluated")
    cache = FakeCache(unclear={"rule": {KEY: error}})
    assert fits(rule(), sources=[cache]) == [("rule", Fit.UNCLEAR)]


def test_what_a_controller_made_from_a_copy_fits_no_rule() -> None:
    """O11, W7: and what a person made from one fits as any object does."""
    marks = {
        meta.OWNER: "somebody",
        meta.GO_LAST_APPLIED: last_applied({"metadata": {"name": "base", "namespace": KEY.namespace}}),
    }
    owners = [{"kind": "Widget", "name": "base", "controller": True}]
    held = registry(rules=[rule()])
    found = {WIDGET: widget(annotations=marks, ownerReferences=owners)}
    (fit,) = evaluate_rules(engine(held), REF, found, features=())
    assert (fit.fit, fit.path) == (Fit.MISSES, "metadata.ownerReferences")
    assert fits(rule(), found={WIDGET: widget(annotations=marks)}) == [("rule", Fit.MATCHES)]


def test_core_rules_are_shown_only_when_they_match() -> None:
    core = next(iter(CORE_RULES))
    assert fits(other(core, objectKey={"name": "y"})) == []
    assert fits(other(core, objectKey={"name": "x"})) == [(core, Fit.MATCHES)]


def test_rules_of_other_kinds_are_left_out_and_those_that_are_invalid_are_not() -> None:
    gadget = rule("gadget", groupVersionKind={"group": "example.com", "version": "v1", "kind": "Gadget"})
    version = rule("version", groupVersionKind={"group": "example.com", "version": "v2", "kind": "Widget"})
    broken = rule("broken", rules="none")
    held = registry(rules=[gadget, version, broken, rule()])
    names = [str(meta.metadata_of(stored.manifest)["name"]) for stored in list_rules_for(engine(held), WIDGET)]
    assert names == ["broken", "rule", "version"]


def test_without_the_object_only_rules_that_act_may_match() -> None:
    held = registry(rules=[rule("acts"), rule("rests", suspend=True)])
    fits = evaluate_rules_without_object(engine(held), WIDGET)
    assert [(fit.rule, fit.fit) for fit in fits] == [("acts", Fit.UNREAD), ("rests", Fit.IDLE)]


def test_features_that_cannot_be_read_are_left_out() -> None:
    held = registry()
    good = {"metadata": {"name": "good"}, "spec": {"featureName": "mesh"}}
    held.apply(meta.FEATURES.resource, None, good)
    held.apply(meta.FEATURES.resource, None, {"metadata": {"name": "bad"}, "spec": {"featureName": 7}})
    assert [feature.feature_name for feature in list_local_features(engine(held))] == ["mesh"]
