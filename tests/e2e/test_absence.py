"""What is missing for a moment, or without a trace, deletes nothing: on real control planes. W3."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.e2e.group import CONFIG_MAP, CRDS, Member, config_map, eventually, joined_group, rule, steadily

pytestmark = pytest.mark.nightly

COUNT = 40
WINDOW = "controller.stabilizationWindowSeconds=5"
MATCH = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
DEFINITION = "resourcesyncrules.clusterregistry.k8s.cisco.com"
FEATURES = "clusterfeatures.clusterregistry.k8s.cisco.com"


def uids(member: Member) -> frozenset[str]:
    """Return the UIDs of the copies."""
    found = json.loads(member.kubectl("get", "cm", "-l", "sync=yes", "-o", "json"))["items"]
    return frozenset(item["metadata"]["uid"] for item in found)


def is_synced(member: Member, name: str) -> bool:
    condition = member.condition("rsr", name, "Synced")
    generation = member.get("rsr", name)["metadata"]["generation"]
    return condition.get("status") == "True" and condition.get("observedGeneration") == generation


def feature(name: str, **info: Any) -> dict[str, Any]:
    return {
        "apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1",
        "kind": "ClusterFeature",
        "metadata": {"name": name, **info},
        "spec": {"featureName": name},
    }


def test_a_rule_and_a_feature_that_are_replaced_make_no_copy_anew() -> None:
    with joined_group(2, prefix="moment", values=(WINDOW,)) as (first, second):
        made = rule("many", CONFIG_MAP, MATCH, deletionPolicy="Delete", clusterFeatureMatch=[{"featureName": "gold"}])
        first.create(
            feature("gold"), *(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT))
        )
        second.create(made)
        eventually(lambda: len(uids(second)) == COUNT)
        before = uids(second)
        second.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(made))
        first.kubectl("delete", "clusterfeature", "gold")
        time.sleep(0.3)
        first.create(feature("gold"))
        eventually(lambda: is_synced(second, "many"), what="the rule is synced again")
        steadily(lambda: uids(second) == before, for_s=12.0)
        first.kubectl("delete", "clusterfeature", "gold")
        eventually(lambda: not uids(second), what="a feature that is gone for good lets the copies go")


def test_rules_that_are_lost_with_their_definition_are_missing_and_their_copies_stay() -> None:
    with joined_group(3, prefix="lost", values=(WINDOW,)) as (first, second, third):
        made = rule("many", CONFIG_MAP, MATCH, deletionPolicy="Delete")
        third.create(*(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT)))
        first.create(made)
        eventually(lambda: len(uids(first)) == len(uids(second)) == COUNT)
        before = uids(first), uids(second)
        first.kubectl("delete", "crd", DEFINITION)
        first.kubectl("apply", "--server-side", "-f", str(CRDS))

        def missing() -> dict[str, Any]:
            return second.condition("cluster", first.name, "RulesMissing")

        eventually(lambda: missing().get("status") == "True", what="the rule is missing without a trace")
        assert "ResourceSyncRules many are missing" in missing()["message"]
        assert (uids(first), uids(second)) == before
        eventually(lambda: first.kubectl("get", "rsr", "-o", "name"), what="the daemon has made the core rules again")
        first.create(made)
        eventually(lambda: is_synced(first, "many") and is_synced(second, "many"), what="the rule is synced again")
        eventually(lambda: not missing(), what="no rule is missing")
        assert (uids(first), uids(second)) == before
        first.kubectl("delete", "rsr", "many")
        eventually(lambda: not uids(first) and not uids(second), what="a rule that is deleted lets its copies go")


HELD = {"finalizers": ["example.com/hold"]}
GOLD_RULE = rule("many", CONFIG_MAP, MATCH, deletionPolicy="Delete", clusterFeatureMatch=[{"featureName": "gold"}])


def test_rules_and_features_that_go_with_a_definition_that_a_finalizer_keeps_delete_no_copy() -> None:
    """Members hear their deletions over watches that go on, for longer than the window."""
    idle = rule("held", CONFIG_MAP, MATCH, suspend=True) | {"metadata": {"name": "held", **HELD}}
    with joined_group(2, prefix="kept", values=(WINDOW,)) as (first, second):
        first.create(*(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT)))
        first.create(
            feature("gold"), feature("held", **HELD), GOLD_RULE, {**idle, "metadata": {"name": "held", **HELD}}
        )
        eventually(lambda: len(uids(second)) == COUNT)
        for definition, kind, lost in ((FEATURES, "clusterfeature", feature("gold")), (DEFINITION, "rsr", GOLD_RULE)):
            keep_copies_while_it_goes(first, second, definition=definition, kind=kind, lost=lost)
        first.kubectl("delete", "rsr", "many")
        eventually(lambda: not uids(second), what="a rule that is deleted lets its copies go")


def keep_copies_while_it_goes(
    first: Member, second: Member, *, definition: str, kind: str, lost: dict[str, Any]
) -> None:
    """Delete a definition of `first`, which a finalizer keeps, and install it again with what was lost."""
    before, name = uids(second), lost["metadata"]["name"]
    first.kubectl("delete", "crd", definition, "--wait=false")
    eventually(lambda: first.find(kind, name) is None, what=f"{kind} {name} goes")
    if kind == "rsr":
        second.kubectl("delete", kind, name)
    steadily(lambda: uids(second) == before, for_s=15.0)
    assert first.find(kind, "held") is not None
    first.kubectl("patch", kind, "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: first.find("crd", definition) is None, what="the definition has gone")
    first.kubectl("apply", "--server-side", "-f", str(CRDS))
    first.create(lost)
    eventually(lambda: is_synced(second, "many"), what="the rule is synced again")
    assert uids(second) == before
