"""A source, or a feature, that its rule does not match for a moment, in a group: what decides is what lasts. W3, W4."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api.meta import ALLOW_DELETIONS
from registry_controller.planner.plan import PlanAction
from tests.sim.cluster.dry_run import explained, plan
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault

pytestmark = pytest.mark.clause("W3")

YES = {"sync": "yes"}
LABELLED = {"match": [{"labels": [{"matchLabels": YES}]}]}
MATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "label": (LABELLED, config_map("x", {"n": "1"}, labels=YES), config_map("x", {"n": "1"}, labels={"sync": "no"})),
    "annotation": (
        {"match": [{"annotations": [{"matchAnnotations": YES}]}]},
        config_map("x", {"n": "1"}, annotations=YES),
        config_map("x", {"n": "1"}, annotations={"sync": "no"}),
    ),
    "content": (
        {"match": [{"content": [{"key": "data.tier", "value": "gold"}]}]},
        config_map("x", {"n": "1", "tier": "gold"}),
        config_map("x", {"n": "1", "tier": "tin"}),
    ),
}
"""What a rule reads, the source as the rule matches it, and as it does not."""


async def copied(
    group: SimGroup,
    entry: dict[str, Any],
    *sources: dict[str, Any],
    policy: str = "Delete",
    window_s: int = 30,
    **spec: Any,
) -> tuple[Member, Member]:
    """Let b have copies of a's objects."""
    a, b = group.members[:2]
    b.options["STABILIZATION_WINDOW_SECONDS"] = str(window_s)
    await group.join()
    b.create(rule("many", CONFIG_MAP, entry, deletionPolicy=policy, **spec))
    for source in sources:
        a.create(source)
    await group.settle()
    return a, b


def find(member: Member, name: str = "x") -> dict[str, Any] | None:
    return member.find("ConfigMap", name, namespace="default")


def uid(member: Member, name: str = "x") -> str:
    return str(member.get("ConfigMap", name, namespace="default")["metadata"]["uid"])


def deletions(member: Member) -> int:
    return sum(write.verb == "delete" and write.kind == "ConfigMap" for write in member.writes)


def waiting(member: Member) -> int:
    assert member.daemon is not None
    return len(member.daemon.engine.lost_matches.held)


async def gone_after(member: Member, name: str = "x", *, at_most_s: float = 120.0) -> float:
    """Wait until a copy is gone; return how many seconds that took."""
    for tenths in range(round(at_most_s * 10)):
        if find(member, name) is None:
            return tenths / 10
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is still there after {at_most_s} s")


@pytest.mark.parametrize("pause_s", [0.3, 3.0, 25.0])
@pytest.mark.parametrize("what", MATCHES)
def test_what_matches_again_within_the_window_keeps_its_copy(what: str, pause_s: float) -> None:
    """The copy has its uid still, and follows its source again."""

    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES[what]
        a, b = await copied(group, entry, shown)
        before = uid(b)
        a.apply(hidden)
        await asyncio.sleep(pause_s)
        assert find(b) is not None
        a.apply({**shown, "data": {**shown["data"], "n": "2"}})
        await group.settle()
        found = b.get("ConfigMap", "x", namespace="default")
        assert (found["metadata"]["uid"], found["data"]["n"], deletions(b)) == (before, "2", 0)
        assert waiting(b) == 0

    simulate(scenario, n=2)


@pytest.mark.parametrize("what", MATCHES)
def test_what_does_not_match_for_the_whole_window_goes_then(what: str) -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES[what]
        a, b = await copied(group, entry, shown)
        a.apply(hidden)
        assert 29.0 < await gone_after(b) < 40.0
        await group.settle()
        assert (deletions(b), waiting(b)) == (1, 0)

    simulate(scenario, n=2)


FEATURE = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}
TIERED = {**FEATURE, "metadata": {"name": "gold", "labels": {"tier": "one"}}}


@pytest.mark.parametrize("away_s", [0.3, 25.0, 40.0])
def test_a_label_of_a_feature_that_is_lost_within_the_window_costs_no_copy(away_s: float) -> None:
    """The feature itself is there all the time; lost for longer, its label is missing, and the copies go."""

    async def scenario(group: SimGroup) -> None:
        group["a"].create(TIERED)
        asked = {"clusterFeatureMatch": [{"featureName": "gold", "matchLabels": {"tier": "one"}}]}
        a, b = await copied(group, LABELLED, *many("yes", 5), **asked)
        names = [f"m-{number:03}" for number in range(5)]
        before = {name: uid(b, name) for name in names}
        a.replace(FEATURE)
        await asyncio.sleep(away_s)
        is_short = away_s < 30
        assert deletions(b) == (0 if is_short else 5)
        a.create(config_map("m-new", {"n": "1"}, labels=YES))
        await asyncio.sleep(2.0)
        assert (find(b, "m-new") is not None) is is_short
        a.replace(TIERED)
        await group.settle()
        assert deletions(b) == (0 if is_short else 5)
        assert {name: uid(b, name) == before[name] for name in names} == dict.fromkeys(names, is_short)
        assert find(b, "m-new") is not None

    simulate(scenario, n=2)


def test_each_loss_has_a_window_of_its_own() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown)
        for _ in range(4):
            a.apply(hidden)
            await asyncio.sleep(20.0)
            a.apply(shown)
            await asyncio.sleep(2.0)
        assert deletions(b) == 0
        a.apply(hidden)
        assert 29.0 < await gone_after(b) < 40.0

    simulate(scenario, n=2)


def test_without_a_window_it_goes_at_once() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown, window_s=0)
        a.apply(hidden)
        assert await gone_after(b) < 5.0

    simulate(scenario, n=2)


def test_under_orphan_nothing_waits() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown, policy="Orphan")
        a.apply(hidden)
        await asyncio.sleep(3.0)
        assert waiting(b) == 0
        await group.settle()
        assert (find(b) is not None, deletions(b)) == (True, 0)

    simulate(scenario, n=2)


@pytest.mark.clause("O5")
def test_a_source_that_is_deleted_goes_at_once_and_one_that_hid_before_at_the_latest_with_the_window() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        other = config_map("other", {"n": "1"}, labels=YES)
        a, b = await copied(group, entry, shown, other)
        a.delete("ConfigMap", "other", namespace="default")
        assert await gone_after(b, "other") < 5.0
        a.apply(hidden)
        await asyncio.sleep(2.0)
        a.delete("ConfigMap", "x", namespace="default")
        assert await gone_after(b) < 35.0

    simulate(scenario, n=2)


def _narrow(a: Member, b: Member) -> None:
    b.apply(rule("many", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "no"}}]}]}))


def _drop_rule_entry(a: Member, b: Member) -> None:
    b.apply(rule("many", CONFIG_MAP, {"match": [{"objectKey": {"name": "nothing"}}]}))


@pytest.mark.parametrize("edit", [_narrow, _drop_rule_entry])
def test_an_edit_of_the_rule_is_obeyed_at_once(edit: Callable[[Member, Member], None]) -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, _ = MATCHES["label"]
        a, b = await copied(group, entry, shown)
        edit(a, b)
        assert await gone_after(b) < 5.0

    simulate(scenario, n=2)


def test_a_copy_that_moves_waits_for_nothing_but_its_new_copy() -> None:
    async def scenario(group: SimGroup) -> None:
        template = "x-{{ .Object.metadata.labels.suffix }}"
        override = {"type": "replace", "path": "/metadata/name", "value": template}
        entry = {**LABELLED, "mutations": {"overrides": [override]}}
        a, b = await copied(group, entry, config_map("x", {"n": "1"}, labels=YES | {"suffix": "one"}))
        a.apply(config_map("x", {"n": "1"}, labels=YES | {"suffix": "two"}))
        assert await gone_after(b, "x-one") < 5.0
        assert find(b, "x-two") is not None

    simulate(scenario, n=2)


def test_a_restart_begins_the_window_anew() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown)
        before = uid(b)
        a.apply(hidden)
        await asyncio.sleep(20.0)
        await b.restart()
        await asyncio.sleep(20.0)
        assert uid(b) == before
        a.apply(shown)
        await group.settle()
        assert (uid(b), deletions(b)) == (before, 0)

    simulate(scenario, n=2)


def test_while_the_owner_is_silent_the_window_does_not_pass() -> None:
    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown)
        a.apply(hidden)
        await asyncio.sleep(5.0)
        group.wire("b", "a").set(Fault.HUNG)
        await asyncio.sleep(120.0)
        assert find(b) is not None
        a.apply(shown)
        group.wire("b", "a").set(Fault.NONE)
        await group.settle()
        assert (find(b) is not None, deletions(b)) == (True, 0)

    simulate(scenario, n=2)


@pytest.mark.clause("O8")
@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
def test_another_owner_s_source_waits_too(policy: str) -> None:
    """O8: the older source does not lose its place for a moment; under the other one it would be written twice."""

    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown, policy=policy, targetClusters={"names": ["b"]})
        c = group["c"]
        c.create(config_map("x", {"n": "of c"}, labels=YES))
        await group.settle()
        before = find(b)
        a.apply(hidden)
        await asyncio.sleep(10.0)
        assert find(b) == before
        await asyncio.sleep(40.0)
        assert b.get("ConfigMap", "x", namespace="default")["data"] == {"n": "of c"}

    simulate(scenario, n=3)


@pytest.mark.clause("S1")
def test_what_waits_is_said_with_the_moment() -> None:
    """The rule stays Synced: the copy is held. The status names it, and so do `explain` and `plan`."""

    async def scenario(group: SimGroup) -> None:
        entry, shown, hidden = MATCHES["label"]
        a, b = await copied(group, entry, shown)
        a.apply(hidden)
        await asyncio.sleep(5.0)
        (counts,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        (held,) = counts["failures"]
        assert (counts["held"], held["reason"]) == (1, "MayMatchAgain")
        synced = b.condition("ResourceSyncRule", "many", "Synced")
        assert synced["status"] == "True"
        assert held["message"] in synced["message"]
        assert held["message"].endswith("Z")
        found, _ = await explained(group, "configmap", "x", at="b")
        assert [(row.action, row.reason, row.message) for row in found.planned] == [
            (PlanAction.WAIT, "MayMatchAgain", held["message"])
        ]
        rows = (await plan(group, "b", b.get("ResourceSyncRule", "many"))).rows
        assert [(row.action, row.reason) for row in rows] == [(PlanAction.WAIT, "MayMatchAgain")]
        a.apply(shown)
        await group.settle()
        (counts,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        assert (counts["held"], counts["synced"], counts.get("failures")) == (0, 1, None)

    simulate(scenario, n=2)


def many(value: str, count: int) -> list[dict[str, Any]]:
    return [config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": value}) for number in range(count)]


@pytest.mark.clause("W4")
def test_what_waits_does_not_count_and_what_goes_then_does() -> None:
    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, LABELLED, *many("yes", 40))
        for _ in range(5):
            for hidden in many("no", 40):
                a.apply(hidden)
            await asyncio.sleep(10.0)
            for shown in many("yes", 40):
                a.apply(shown)
            await asyncio.sleep(10.0)
        assert deletions(b) == 0
        assert not any(entry.get("deletions") for entry in b.get("ResourceSyncRule", "many")["status"]["clusters"])
        for hidden in many("no", 40):
            a.apply(hidden)
        await group.settle()
        (entry,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        assert (deletions(b), entry["deletions"]["counted"], waiting(b)) == (40, 40, 0)

    simulate(scenario, n=2)


@pytest.mark.clause("W4")
@pytest.mark.parametrize("after_s", [3.0, 60.0], ids=["within the window", "later"])
def test_one_annotation_is_enough_for_what_waits(after_s: float) -> None:
    """Too many that go are halted at once; what is allowed before its time stays allowed, and goes with the window."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copied(group, LABELLED, *many("yes", 120))
        for hidden in many("no", 120):
            a.apply(hidden)
        await asyncio.sleep(after_s)
        (entry,) = b.get("ResourceSyncRule", "many")["status"]["clusters"]
        moment = entry["deletions"]["haltedAt"]
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "many", "annotations": {ALLOW_DELETIONS: moment}}})
        await asyncio.sleep(10.0)
        assert deletions(b) == (0 if after_s < 30 else 120)
        await group.settle()
        assert (deletions(b), waiting(b)) == (120, 0)

    simulate(scenario, n=2)
