"""Which clusters a rule selects, while features, labels and our own Cluster come and go. W3."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import Feature
from registry_controller.api.meta import ClusterUID
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.registry import Registry
from registry_controller.clusters.rule_selection import RuleSelection
from tests.unit.clusters.builders import LOCAL, cluster_manifest, registry, rule_manifest

B = ClusterUID("id-b")
WINDOW_S = 30.0


class Stage:
    """A registry, one peer and a clock that the test sets."""

    def __init__(self, held: Registry, *features: str, labels: dict[str, str] | None = None) -> None:
        self.held, self.now_s, self.revision = held, 1000.0, 1
        self.peer: Any = SimpleNamespace(cluster_id=B, features=SimpleNamespace(held=(), is_current=True))
        self.selection = RuleSelection(registry=held, local=LOCAL, window_s=WINDOW_S, now_s=lambda: self.now_s)
        self.set_features(*features, labels=labels)

    def set_features(self, *features: str, labels: dict[str, str] | None = None) -> None:
        self.peer.features.held = tuple(Feature(name, name, labels or {}) for name in features)

    def set_own(self, *names: str, **labels: str) -> None:
        """Replace the Clusters of this cluster."""
        revision = self.revision = self.revision + 2
        for name in list(self.held.clusters):
            self.held.apply("clusters", "DELETED", self._own(name, revision, {}))
        for name in names:
            self.held.apply("clusters", "ADDED", self._own(name, revision + 1, labels))

    def _own(self, name: str, revision: int, labels: dict[str, str]) -> dict[str, Any]:
        metadata = {"resourceVersion": str(revision), "labels": labels}
        return cluster_manifest(name, cluster_id=LOCAL, metadata=metadata)

    async def after(self, seconds: float) -> None:
        """Plan again after a time."""
        self.now_s += seconds
        await self.selection.update({B: self.peer})

    def rule(self) -> SyncRule:
        rule = self.held.acting["r"].rule
        assert rule is not None
        return rule

    def selects(self) -> bool | None:
        return self.selection.selects(self.rule(), self.peer)

    def selects_us(self) -> bool | None:
        return self.selection.selects_us(self.rule())


def for_feature(*features: str) -> Stage:
    return Stage(registry(rules=(rule_manifest("r", features=("x",)),)), *features)


def for_us(**targets: Any) -> Stage:
    return Stage(registry(rules=(rule_manifest("r", targetClusters=targets),)))


async def test_w3_a_feature_that_is_replaced_was_not_deleted() -> None:
    stage = for_feature("x")
    await stage.after(0)
    assert stage.selects() is True
    for _ in range(20):  # again and again
        stage.set_features()
        assert stage.selects() is True  # before the plan, too
        await stage.after(0.3)
        assert stage.selects() is True
        stage.set_features("x")
        await stage.after(WINDOW_S - 1)
        assert stage.selects() is True


async def test_w3_a_feature_that_is_missing_for_the_window_is_gone() -> None:
    stage = for_feature("x")
    await stage.after(0)
    stage.set_features("y")
    await stage.after(1)
    assert stage.selection.due_s == stage.now_s + WINDOW_S
    await stage.after(WINDOW_S - 0.1)
    assert stage.selects() is True
    await stage.after(0.1)
    assert stage.selects() is False
    assert stage.selection.due_s is None
    assert stage.selection.known_values(B) == {stage.rule().features: False}


async def test_w3_a_label_of_a_feature_that_is_lost_for_a_moment_was_not_lost() -> None:
    wanted = {"featureName": "x", "matchLabels": {"tier": "gold"}}
    stage = Stage(registry(rules=(rule_manifest("r", clusterFeatureMatch=[wanted]),)))
    stage.set_features("x", labels={"tier": "gold"})
    await stage.after(0)
    stage.set_features("x", labels={"tier": "silver"})
    await stage.after(1)
    assert stage.selects() is True
    await stage.after(WINDOW_S)
    assert stage.selects() is False


async def test_w3_a_start_proves_nothing_for_the_window() -> None:
    stage = for_feature()
    await stage.after(0)
    assert stage.selects() is None
    await stage.after(WINDOW_S - 0.1)
    assert stage.selects() is None
    await stage.after(0.1)
    assert stage.selects() is False


async def test_w3_features_that_are_listed_again_prove_nothing() -> None:
    stage = for_feature()
    await stage.after(0)
    await stage.after(WINDOW_S)
    assert stage.selects() is False
    stage.peer.features.is_current = False
    assert stage.selects() is None
    await stage.after(WINDOW_S)
    assert stage.selects() is None
    stage.set_features("x")
    assert stage.selects() is True  # what is there counts at once


async def test_w3_a_feature_for_which_an_edited_rule_asks_is_missing_after_the_window() -> None:
    """A connection that hangs does not show a new feature."""
    stage = for_feature("x", "y")
    await stage.after(0)
    await stage.after(WINDOW_S)
    edited = rule_manifest("r", features=("z",))
    stage.held.apply(
        "resourcesyncrules", "MODIFIED", {**edited, "metadata": {**edited["metadata"], "resourceVersion": "9"}}
    )
    assert stage.selects() is None
    await stage.after(0)
    assert stage.selects() is None
    await stage.after(WINDOW_S)
    assert stage.selects() is False


async def test_w3_an_edited_rule_is_compared_at_once_with_our_own_cluster_as_it_is_for_long() -> None:
    stage = for_us(matchLabels={"tier": "gold"})
    stage.set_own("own", tier="gold")
    await stage.after(0)
    await stage.after(WINDOW_S)
    edited = rule_manifest("r", targetClusters={"matchLabels": {"tier": "iron"}})
    stage.held.apply(
        "resourcesyncrules", "MODIFIED", {**edited, "metadata": {**edited["metadata"], "resourceVersion": "9"}}
    )
    assert stage.selects_us() is False


async def test_w3_our_own_cluster_that_is_made_again_was_not_deleted() -> None:
    stage = for_us(matchLabels={"tier": "gold"})
    stage.set_own("own", tier="gold")
    await stage.after(0)
    assert stage.selects_us() is True
    stage.set_own()
    await stage.after(1)
    assert stage.selects_us() is True
    stage.set_own("own")  # made again without its labels: somebody sets them in a moment
    await stage.after(1)
    assert stage.selects_us() is True
    stage.set_own("own", tier="gold")
    await stage.after(WINDOW_S)
    assert stage.selects_us() is True


async def test_w3_while_our_own_cluster_is_missing_selectors_say_nothing() -> None:
    stage = for_us(names=["own"])
    stage.set_own("own")
    await stage.after(0)
    stage.set_own()
    await stage.after(1)
    await stage.after(10 * WINDOW_S)
    assert stage.selects_us() is None


async def test_w9_a_rule_that_asks_what_objects_name_needs_our_own_cluster() -> None:
    """While that is missing, the rule proves nothing, and what objects name is compared with the last one."""
    stage = Stage(registry(rules=(rule_manifest("r", objectTargets="Required"),)))
    await stage.after(0)
    assert (stage.selects_us(), stage.selection.own) == (None, None)
    stage.set_own("own", tier="gold")
    await stage.after(0)
    assert (stage.selects_us(), stage.selection.own) == (True, ClusterIdentity("own", {"tier": "gold"}))
    stage.set_own()
    await stage.after(1)
    assert (stage.selects_us(), stage.selection.own) == (True, ClusterIdentity("own", {"tier": "gold"}))
    await stage.after(10 * WINDOW_S)
    assert (stage.selects_us(), stage.selection.own) == (None, ClusterIdentity("own", {"tier": "gold"}))
    stage.set_own("own")  # with other labels: these count at once, and what they lose counts after the window
    await stage.after(0)
    assert (stage.selects_us(), stage.selection.own) == (True, ClusterIdentity("own", {}))


async def test_w9_an_own_cluster_of_another_name_counts_once_it_was_the_only_one_for_the_window() -> None:
    stage = Stage(registry(rules=(rule_manifest("r", objectTargets="Required"),)))
    stage.set_own("own")
    await stage.after(0)
    stage.set_own("own", "other")
    await stage.after(1)
    stage.set_own("other")
    await stage.after(1)
    assert stage.selection.own == ClusterIdentity("own", {})
    assert stage.selection.due_s == stage.now_s + WINDOW_S
    await stage.after(WINDOW_S)
    assert stage.selection.own == ClusterIdentity("other", {})


async def test_w9_a_rule_that_ignores_what_objects_name_needs_no_own_cluster() -> None:
    stage = Stage(registry(rules=(rule_manifest("r", objectTargets="Ignore"),)))
    await stage.after(0)
    assert stage.selects_us() is True


async def test_w3_the_last_one_of_several_own_clusters_says_nothing_before_the_window_is_over() -> None:
    stage = for_us(names=["own"])
    stage.set_own("own", "other")
    await stage.after(0)
    await stage.after(10 * WINDOW_S)
    stage.set_own("other")  # while a person deletes one after the other
    await stage.after(0.01)
    assert stage.selects_us() is None
    await stage.after(WINDOW_S)
    assert stage.selects_us() is False


@pytest.mark.parametrize("spec", [{}, {"features": ()}])
async def test_a_rule_without_selectors_selects_everyone(spec: dict[str, Any]) -> None:
    stage = Stage(registry(rules=(rule_manifest("r", **spec),)))
    assert stage.selects() is True
    assert stage.selects_us() is True
    assert stage.selection.is_known(stage.rule(), stage.peer)


async def test_to_compare_rules_with_a_thousand_features_leaves_the_loop_to_others() -> None:
    """Many rules that each ask for sixteen of them, of which only the last fits."""
    asked = [{"featureName": "it", "matchLabels": {"n": "1023"}}] * 15
    rules = tuple(
        rule_manifest(f"r{n}", clusterFeatureMatch=[*asked, {"featureName": "it", "matchLabels": {"n": str(1000 - n)}}])
        for n in range(64)
    )
    stage = Stage(registry(rules=rules))
    stage.peer.features.held = tuple(Feature(f"f{number}", "it", {"n": str(number)}) for number in range(1024))
    stage.selection = RuleSelection(registry=stage.held, local=LOCAL)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count(), name="count")
        await stage.selection.update({B: stage.peer})
        counting.cancel()
    assert set(stage.selection.known_values(B).values()) == {True}
    assert len(stage.selection.known_values(B)) == 64
    assert turns > 5
