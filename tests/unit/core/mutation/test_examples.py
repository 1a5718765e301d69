"""W1, W2, W3, W5, W6, W9: what the page of examples shows is what the rules make, computed without any cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import read_feature
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.state import Claim, TargetState
from registry_controller.core.diff.drift import Left, merge
from registry_controller.core.mutation.mutate import TemplateContext, build_copy
from registry_controller.core.rules.active import Hit, activate, have_features
from registry_controller.core.rules.validation import read_and_validate
from tests.docs.examples import LOCAL_NAME, OWNER_NAME, Example, key_of, read_examples, shown
from tests.sim.cluster.fields import managed, merged

OWNER = ClusterUID("5f0b7a0e-0000-4000-8000-000000000001")
LOCAL = ClusterUID("5f0b7a0e-0000-4000-8000-000000000002")
CLUSTERS = frozenset((OWNER, LOCAL))
EXAMPLES = read_examples()


def _cluster(name: str, uid: str) -> dict[str, Any]:
    return {"kind": "Cluster", "metadata": {"name": name}, "spec": {"clusterID": uid}}


CONTEXT = TemplateContext(_cluster(OWNER_NAME, OWNER), _cluster(LOCAL_NAME, LOCAL))

OWN = ClusterIdentity(LOCAL_NAME, {})


@dataclass(frozen=True)
class _Facts:
    key: ObjectKey
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    kind_type: str


def _acting(example: Example) -> Iterator[SyncRule]:
    """Read the rules, and leave out those that do not act here on what the owner has."""
    features = [read_feature(manifest) for manifest in example.features]
    for manifest in example.rules:
        rule, verdict = read_and_validate(manifest)
        assert rule is not None
        assert (verdict.accepted, verdict.warnings) == (True, ()), verdict.message
        is_for_us = rule.targets is None or rule.targets.select(LOCAL_NAME, {})
        if not rule.suspend and is_for_us and have_features(rule.features, features):
            yield rule


def _copy_of(source: dict[str, Any], rule: SyncRule, writers: list[dict[str, Any]]) -> dict[str, Any] | None:
    info = source["metadata"]
    key = ObjectKey(info.get("namespace", ""), info["name"])
    group, _, version = source["apiVersion"].rpartition("/")
    if (group, version, source["kind"]) != rule.kind:
        return None
    facts = _Facts(key, info.get("labels", {}), info.get("annotations", {}), source.get("type", ""))
    active = activate(rule, created_at="", owner=LOCAL).with_context(CONTEXT).with_own(OWN)
    hit = active.evaluate(facts, lambda: source, owner=OWNER)
    if hit is None or not _may_be_made(hit, key, source):
        return None
    wanted = build_copy(source, rule.kind, hit.entries, owner=OWNER, context=CONTEXT)
    status = {"status": wanted.status} if wanted.status is not None else {}
    found = dict(wanted.manifest)
    for writer in writers:
        if key_of(writer) == key_of(found):
            current = merged(found, writer)
            by = {"manager": "another", "subresource": "", "api_version": writer["apiVersion"], "now": ""}
            current["metadata"]["managedFields"] = managed(found, current, **by)
            found = dict(merge(found, current, manager=meta.FIELD_MANAGER, left=Left(wanted.left)))
    return {**shown(found), **status}


def _may_be_made(hit: Hit, key: ObjectKey, source: dict[str, Any]) -> bool:
    is_kept_at_home = meta.SYNC_DISABLED in meta.annotations_of(source)
    claim = Claim(OWNER, OWNER, Voice.OWNER, hit.kind, key, "u", "", 1, hit.rule, is_kept_at_home)
    return isinstance(decide(TargetState(hit.target(key), (claim,), None, LOCAL, CLUSTERS, CLUSTERS)), Apply)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_what_the_page_shows_is_what_the_rules_make(example: Example) -> None:
    rules = list(_acting(example))
    pairs = [(source, rule) for source in example.sources for rule in rules]
    made = [copy for pair in pairs if (copy := _copy_of(*pair, example.writers)) is not None]
    assert sorted(made, key=key_of) == sorted(example.copies, key=key_of)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.left is not None], ids=lambda example: example.title)
def test_what_the_page_says_is_left_is_what_the_policy_says(example: Example) -> None:
    """W3."""
    policies = {rule.deletion_policy for rule in _acting(example)}
    assert policies == ({"Orphan"} if example.left else {"Delete"})


def test_nothing_on_the_page_meets_anything_of_another_example() -> None:
    """All of it lives in one group of clusters when it is tried there."""
    for part in ("features", "rules", "sources"):
        keys = [key_of(manifest) for example in EXAMPLES for manifest in getattr(example, part)]
        assert len(keys) == len(set(keys)), part
    rules = [(example.title, rule) for example in EXAMPLES for rule in _acting(example)]
    for example in EXAMPLES:
        for source, (title, rule) in itertools.product(example.sources, rules):
            assert title == example.title or _copy_of(source, rule, []) is None, (title, key_of(source))
