"""Objects that name the clusters that copy them, on simulated groups: what is named is there, and nothing else. W9."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.planner.output import format_explanation
from registry_controller.planner.plan import PlanAction
from tests.sim.cluster.dry_run import explained, plan
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member

pytestmark = pytest.mark.clause("W9")

NAMES, SELECTOR = meta.TARGET_CLUSTERS, meta.TARGET_CLUSTER_SELECTOR
YES = {"share": "yes"}
LABELLED = {"match": [{"labels": [{"matchLabels": YES}]}]}
WINDOW_S = 30.0


def named(name: str = "x", *, value: str = "1", names: str | None = None, selector: str | None = None) -> Any:
    """Write an object of a that names clusters."""
    said = {NAMES: names, SELECTOR: selector}
    annotations = {key: text for key, text in said.items() if text is not None}
    return config_map(name, {"n": value}, labels=YES, annotations=annotations)


def asking(*, policy: str = "Delete", **spec: Any) -> Any:
    """Write the rule."""
    return rule("shared", CONFIG_MAP, LABELLED, deletionPolicy=policy, objectTargets="Required", **spec)


def say(member: Member, name: str = "x", *, names: str | None = None, selector: str | None = None) -> None:
    """Change what an own object says of its destinations; None takes an annotation away."""
    found = member.get("ConfigMap", name, namespace="default")
    said = {NAMES: names, SELECTOR: selector}
    info = {**found["metadata"], "annotations": {key: text for key, text in said.items() if text is not None}}
    member.replace({**found, "metadata": info})


def label(member: Member, labels: Mapping[str, str]) -> None:
    """Set the labels of the own Cluster."""
    found = member.get("Cluster", member.name)
    member.replace({**found, "metadata": {**found["metadata"], "labels": dict(labels)}})


def holders(group: SimGroup, name: str = "x") -> str:
    """Name the clusters that have a copy of an object of a."""
    found = [member.name for member in group.members if member.find("ConfigMap", name, namespace="default")]
    return "".join(found[1:])


def deletions(member: Member) -> int:
    return sum(write.verb == "delete" and write.kind == "ConfigMap" for write in member.writes)


async def prepare(group: SimGroup, *sources: Any, **spec: Any) -> tuple[Member, Member, Member]:
    """Let a have objects, and all members the rule; c is in production."""
    a, b, c = group.members
    await group.join()
    label(c, {"env": "prod"})
    b.create(asking(**spec))
    for source in sources or (named(names="b"),):
        a.create(source)
    await group.settle()
    return a, b, c


@pytest.mark.parametrize(
    ("names", "selector", "copied"),
    [
        ("b", None, "b"),
        ("b,c", None, "bc"),
        (" b , c ", None, "bc"),
        ("a,nowhere,c", None, "c"),
        (None, "env=prod", "c"),
        (None, "env!=prod", "b"),
        (None, "env in (prod,test),!old", "c"),
        ("b,c", "env=prod", "c"),
        ("b", "env=prod", ""),
        (None, None, ""),
        ("", None, ""),
        ("", "env=prod", ""),
        (None, " ", ""),
        ("b,", None, ""),
        ("b c", None, ""),
        ("b", "env in (prod", ""),
        ("b", "env=not a value", ""),
    ],
)
def test_an_object_goes_to_the_clusters_that_it_names(names: str | None, selector: str | None, copied: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await prepare(group, named(names=names, selector=selector))
        assert holders(group) == copied
        for name in copied:
            found = group[name].get("ConfigMap", "x", namespace="default")
            assert not {NAMES, SELECTOR} & found["metadata"]["annotations"].keys()

    simulate(scenario, n=3)


def test_without_the_field_the_annotations_mean_nothing_and_are_not_copied() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["b"].create(rule("shared", CONFIG_MAP, LABELLED, objectTargets="Ignore"))
        group["a"].create(named(names="b"))
        await group.settle()
        assert holders(group) == "bc"
        assert NAMES not in group["c"].get("ConfigMap", "x", namespace="default")["metadata"]["annotations"]

    simulate(scenario, n=3)


def test_a_change_of_the_names_alone_writes_nothing_where_the_copy_stays() -> None:
    async def scenario(group: SimGroup) -> None:
        a, b, _ = await prepare(group)
        before = b.get("ConfigMap", "x", namespace="default")["metadata"]["resourceVersion"]
        say(a, names="b,c")
        await group.settle()
        assert holders(group) == "bc"
        assert b.get("ConfigMap", "x", namespace="default")["metadata"]["resourceVersion"] == before

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
@pytest.mark.parametrize("said", [{"names": "c"}, {}, {"names": ""}, {"selector": "env=prod"}])
@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
def test_what_is_named_no_more_goes_by_the_policy_and_after_the_window(policy: str, said: dict[str, str]) -> None:
    async def scenario(group: SimGroup) -> None:
        a, b, _ = await prepare(group, policy=policy)
        say(a, **said)
        await asyncio.sleep(WINDOW_S - 5.0)
        assert "b" in holders(group)
        await group.settle()
        assert ("b" in holders(group), deletions(b)) == ((True, 0) if policy == "Orphan" else (False, 1))
        say(a, names="b")
        await group.settle()
        assert "b" in holders(group)

    simulate(scenario, n=3)


def test_what_is_named_again_within_the_window_keeps_its_copy() -> None:
    async def scenario(group: SimGroup) -> None:
        a, b, _ = await prepare(group)
        before = b.get("ConfigMap", "x", namespace="default")["metadata"]["uid"]
        say(a)
        await asyncio.sleep(20.0)
        say(a, names="b")
        await group.settle()
        assert b.get("ConfigMap", "x", namespace="default")["metadata"]["uid"] == before

    simulate(scenario, n=3)


@pytest.mark.clause("W4")
def test_too_many_that_are_named_no_more_are_halted() -> None:
    """As objects that lose their label; fewer go, and are counted."""

    async def scenario(group: SimGroup) -> None:
        sources = [named(f"m-{number:03}", names="b") for number in range(120)]
        a, b, _ = await prepare(group, *sources)
        for number in range(40):
            say(a, f"m-{number:03}")
        await group.settle()
        assert (deletions(b), limit_of_a(b)["counted"]) == (40, 40)
        for number in range(40, 120):
            say(a, f"m-{number:03}", names="c")
        await group.settle()
        assert (deletions(b), bool(limit_of_a(b)["haltedAt"])) == (40, True)

    simulate(scenario, n=3)


def limit_of_a(member: Member) -> Mapping[str, Any]:
    """Read what the rule counts of a's copies that go."""
    entries = member.get("ResourceSyncRule", "shared")["status"]["clusters"]
    return next(entry["deletions"] for entry in entries if entry["name"] == "a")


@pytest.mark.clause("W1", "S3")
@pytest.mark.parametrize(
    ("said", "path"),
    [({"names": "b,,c"}, NAMES), ({"names": "B!"}, NAMES), ({"names": "c", "selector": "env in (prod"}, SELECTOR)],
)
def test_an_annotation_that_cannot_be_read_deletes_nothing_and_is_named(said: dict[str, str], path: str) -> None:
    """No cluster copies the object, the copies stay as they are, and every rule names the annotation."""

    async def scenario(group: SimGroup) -> None:
        a, b, c = await prepare(group)
        found = named(value="2", **said)
        a.replace({**a.get("ConfigMap", "x", namespace="default"), **found})
        await group.settle()
        assert holders(group) == "b"
        assert b.get("ConfigMap", "x", namespace="default")["data"] == {"n": "1"}
        for member in (b, c):
            status = member.get("ResourceSyncRule", "shared")["status"]
            message = next(one["message"] for one in status["conditions"] if one["type"] == "Synced")
            assert f"ConfigMap default/x: metadata.annotations[{path}]: " in message
        rows = (await plan(group, "b", member_rule(b))).rows
        assert {(row.action, row.reason) for row in rows} == {
            (PlanAction.FAIL, "TargetsUnreadable"), (PlanAction.WAIT, "TargetsUnreadable"),
        }  # fmt: skip
        say(a, names="c")
        await group.settle()
        assert holders(group) == "c"

    simulate(scenario, n=3)


def member_rule(member: Member) -> Any:
    found = member.get("ResourceSyncRule", "shared")
    return {**asking(), "metadata": {"name": "shared", "annotations": found["metadata"].get("annotations") or {}}}


@pytest.mark.clause("W3")
@pytest.mark.parametrize("away_s", [3.0, 20.0, 60.0])
def test_a_label_that_the_own_cluster_loses_counts_after_the_window(away_s: float) -> None:
    async def scenario(group: SimGroup) -> None:
        _, _, c = await prepare(group, named(selector="env=prod"))
        assert holders(group) == "c"
        label(c, {})
        await asyncio.sleep(away_s)
        assert holders(group) == ("c" if away_s < WINDOW_S else "")
        label(c, {"env": "prod"})
        await group.settle()
        assert (holders(group), deletions(c)) == ("c", away_s > WINDOW_S)

    simulate(scenario, n=3)


def test_a_label_that_the_own_cluster_gets_brings_what_selects_it() -> None:
    async def scenario(group: SimGroup) -> None:
        _, b, _ = await prepare(group, named(selector="env=prod"))
        label(b, {"env": "prod", "more": "yes"})
        await asyncio.sleep(5.0)
        assert holders(group) == "bc"

    simulate(scenario, n=3)


@pytest.mark.clause("W3")
def test_while_the_own_cluster_is_missing_nothing_is_decided() -> None:
    """Its name and labels count until it is known what it is now; a new process knows nothing, and waits."""

    async def scenario(group: SimGroup) -> None:
        a, _, c = await prepare(group, named(selector="env=prod"))
        c.server.denied.add(f"Cluster {c.name}")
        c.delete("Cluster", c.name)
        await asyncio.sleep(120.0)
        say(a, selector="env=test")
        await asyncio.sleep(60.0)
        assert (holders(group), c.find("Cluster", "c")) == ("c", None)
        c.kill()
        c.start()
        await asyncio.sleep(120.0)
        assert (holders(group), deletions(c)) == ("c", 0)
        c.server.denied.clear()
        await group.settle()
        assert holders(group) == ""

    simulate(scenario, n=3)


@pytest.mark.clause("W4")
def test_many_copies_that_stay_are_not_halted_when_the_own_cluster_loses_its_label() -> None:
    """Their policy is Orphan; the owner is asked first whether the sources are gone."""

    async def scenario(group: SimGroup) -> None:
        sources = [named(f"m-{number:03}", selector="env=prod") for number in range(120)]
        _, _, c = await prepare(group, *sources, policy="Orphan")
        label(c, {})
        await group.settle()
        status = c.get("ResourceSyncRule", "shared")["status"]
        assert deletions(c) == 0
        assert "DeletionHalted" not in {one["type"] for one in status["conditions"] if one["status"] == "True"}

    simulate(scenario, n=3)


@pytest.mark.clause("W5")
def test_the_rules_targets_and_the_annotation_that_disables_hold_as_well() -> None:
    async def scenario(group: SimGroup) -> None:
        kept = named("kept", names="b,c")
        kept["metadata"]["annotations"][meta.SYNC_DISABLED] = "true"
        await prepare(group, named(names="b,c"), kept, targetClusters={"names": ["c"]})
        assert (holders(group), holders(group, "kept")) == ("c", "")

    simulate(scenario, n=3)


@pytest.mark.clause("S1")
def test_an_explanation_names_the_annotation_and_what_is_ignored_in_it() -> None:
    async def scenario(group: SimGroup) -> None:
        await prepare(group, named(names="a,c,nowhere"), named("silent"), named("empty", names=""))
        texts = [format_explanation(*await explained(group, "ConfigMap", "x", at=at)) for at in "bc"]
        assert f'rule shared does not match: metadata.annotations[{NAMES}]: does not name this cluster, "b"' in texts[0]
        assert "rule shared matches" in texts[1]
        for text in texts:
            assert f'ignored: metadata.annotations[{NAMES}]: no Cluster here has the name "nowhere"' in text
            assert f'ignored: metadata.annotations[{NAMES}]: "a" is the cluster of the object itself' in text
        own = format_explanation(*await explained(group, "ConfigMap", "x", at="a"))
        assert "rule shared matches" in own, "it names other clusters"
        silent = format_explanation(*await explained(group, "ConfigMap", "silent", at="b"))
        assert f"spec.objectTargets: the object names no cluster: it has no annotation {NAMES}" in silent
        empty = format_explanation(*await explained(group, "ConfigMap", "empty", at="b"))
        assert f"metadata.annotations[{NAMES}]: is empty: the object names no cluster" in empty

    simulate(scenario, n=3)


def test_an_edit_that_asks_for_names_takes_effect_at_once() -> None:
    """W3: a copy whose rule got other matches does not wait."""

    async def scenario(group: SimGroup) -> None:
        _, b, _ = await prepare(group, named(names="c"), named("y", names="b"))
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "shared"}, "spec": {"objectTargets": "Ignore"}})
        await group.settle()
        assert holders(group) == "bc"
        b.apply({"kind": "ResourceSyncRule", "metadata": {"name": "shared"}, "spec": {"objectTargets": "Required"}})
        await asyncio.sleep(5.0)
        assert (holders(group), holders(group, "y")) == ("c", "b")

    simulate(scenario, n=3)


@pytest.mark.clause("A8")
def test_a_member_that_shows_no_daemon_of_this_project_is_named() -> None:
    """It may run the original, whose definition drops the field; a rule that is applied by hand says nothing."""

    async def scenario(group: SimGroup) -> None:
        _, b, c = await prepare(group)
        accepted = {"type": "Accepted", "status": "True"}
        assert "original" not in message_of(b, **accepted)
        c.kill()
        found = c.get("Cluster", "c")
        notes = {name: text for name, text in found["metadata"]["annotations"].items() if name != meta.DAEMON}
        c.replace({**found, "metadata": {**found["metadata"], "annotations": notes}})
        await group.settle()
        assert "no daemon of this project is known in c" in message_of(b, **accepted)
        by_hand = {"name": "shared", "annotations": {meta.SYNC_DISABLED: "true"}}
        b.apply({"kind": "ResourceSyncRule", "metadata": by_hand})
        await group.settle()
        assert "original" not in message_of(b, **accepted)

    simulate(scenario, n=3)


def message_of(member: Member, **wanted: str) -> str:
    conditions = member.get("ResourceSyncRule", "shared")["status"]["conditions"]
    return next(str(one["message"]) for one in conditions if wanted.items() <= one.items())
