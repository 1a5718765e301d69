"""What the API server here stores of a copy: spelled otherwise, without a field, with a label more. A10, A2, S1."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from registry_controller.api import meta
from registry_controller.planner.output import build_explanation_document
from registry_controller.planner.plan import PlanAction
from tests.sim.checks.expected_copies import marks_of
from tests.sim.checks.observer import Observer
from tests.sim.cluster.dry_run import explained, plan
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.habits import STAMP, Habit
from tests.sim.cluster.member import Member
from tests.sim.schedule.tally import Tally

pytestmark = pytest.mark.clause("A10")

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
HEALS_S = 120.0
"""The longest time between the upgrade of a definition and the copy's next write."""


def widget(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found = {"kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": spec}
    return found if status is None else {**found, "status": status}


def spec_of(here: Member) -> dict[str, Any]:
    found: dict[str, Any] = here.get("Widget", "one", namespace="default")["spec"]
    return found


def writes_of(here: Member, kind: str = "Widget") -> int:
    """Count the writes of the daemon, also those that change nothing."""
    return sum(write.kind == kind and write.status < 300 for write in here.writes)


def annotate(here: Member, number: int) -> None:
    info = {"name": "one", "namespace": "default", "annotations": {"note": str(number)}}
    here.write_as("somebody", {"kind": "Widget", "metadata": info})


async def a_copy(group: SimGroup, source: dict[str, Any], *entries: dict[str, Any]) -> tuple[Member, Member]:
    here, owner = group["a"], group["b"]
    await group.join()
    owner.create(source)
    here.create(rule("widgets", WIDGET, *entries))
    await group.settle()
    return here, owner


async def check_in_step(group: SimGroup, here: Member) -> None:
    """Hold that nothing is written, and that every report calls the copy in step."""
    assert here.condition("ResourceSyncRule", "widgets", "Synced")["status"] == "True"
    found, names = await explained(group, "widget", "one")
    document = build_explanation_document(found, names)
    assert [row["action"] for row in document["decisions"]] == ["skip"], document
    made = await plan(group, "a", here.get("ResourceSyncRule", "widgets"))
    assert {row.action for row in made.rows} == {PlanAction.SKIP}


@pytest.mark.parametrize(
    ("habit", "path"),
    [
        (Habit.NORMALISES, ("spec", "value")),
        (Habit.STAMPS, ()),
    ],
)
def test_a_copy_that_is_stored_otherwise_is_in_step_before_and_after_a_restart(
    habit: Habit, path: tuple[str, ...]
) -> None:
    """S1: and whoever annotates it is no opponent."""

    async def scenario(group: SimGroup) -> None:
        group["a"].server.habits.add("Widget", habit, *path)
        here, owner = await a_copy(group, widget(value="small", size=1))
        count = writes_of(here)
        assert count == 1
        for _ in range(2):
            for number in range(9):
                annotate(here, number)
                await asyncio.sleep(2.0)
            await group.settle()
            assert writes_of(here) == count
            await check_in_step(group, here)
            await here.restart()
            await group.settle()
            assert writes_of(here) == count
        here.write_as("somebody", widget(size=7))
        owner.apply(widget(value="large", size=2))
        await group.settle()
        assert spec_of(here) == {"value": "LARGE" if habit is Habit.NORMALISES else "large", "size": 2}
        here.write_as("somebody", widget(value="OTHER"))
        await group.settle()
        assert spec_of(here)["value"].lower() == "large"

    simulate(scenario, n=2)


@pytest.mark.parametrize("path", [("metadata", "annotations", "written-at"), ("spec", "stamp")])
def test_a_value_that_admission_writes_anew_each_time_costs_no_write_at_a_restart(path: tuple[str, ...]) -> None:
    """A10: what changed at the source, or by another writer, meanwhile is written."""

    async def scenario(group: SimGroup) -> None:
        group["a"].server.habits.add("Widget", Habit.RENEWS, *path)
        here, owner = await a_copy(group, widget(value="small", size=1))
        for _ in range(2):
            await here.restart()
            await group.settle()
            assert writes_of(here) == 1
            await check_in_step(group, here)
        count = 1
        for changer, change in ((owner, widget(size=2)), (here, widget(size=7)), (here, widget(value=None))):
            await here.stop()
            changer.write_as("somebody", change)
            here.start()
            await group.settle()
            count += 1
            assert writes_of(here) == count
            found = spec_of(here)
            assert (found["value"], found["size"]) == ("small", 2)

    simulate(scenario, n=2)


def test_what_was_changed_while_no_daemon_ran_is_put_back() -> None:
    async def scenario(group: SimGroup) -> None:
        group["a"].server.habits.add("Widget", Habit.NORMALISES, "spec", "value")
        here, _ = await a_copy(group, widget(value="small", size=1))
        await here.stop()
        here.write_as("somebody", widget(value="OTHER"))
        here.start()
        await group.settle()
        assert spec_of(here) == {"value": "SMALL", "size": 1}

    simulate(scenario, n=2)


def test_a_write_whose_answer_was_lost_is_not_sent_again_where_the_copy_is_stored_otherwise() -> None:
    """The event brings the stored copy, whose provenance names the present state: the difference is a question."""

    async def scenario(group: SimGroup) -> None:
        group["a"].server.habits.add("Widget", Habit.NORMALISES, "spec", "value")
        here, owner = await a_copy(group, widget(value="small"))
        count = writes_of(here)
        here.home.lost = 1
        owner.apply(widget(value="large"))
        await group.settle()
        assert (here.home.lost, spec_of(here)) == (0, {"value": "LARGE"})
        assert writes_of(here) == count + 1
        await check_in_step(group, here)
        owner.apply(widget(value="small"))
        await group.settle()
        assert (writes_of(here), spec_of(here)) == (count + 2, {"value": "SMALL"})

    simulate(scenario, n=2)


def test_a_repair_whose_answer_was_lost_is_not_sent_again_where_the_server_stores_nothing_of_it() -> None:
    """The provenance is the same before and after a repair, so only a dry run shows whether it came."""

    async def scenario(group: SimGroup) -> None:
        here, _ = await a_copy(group, widget(tier="gold", value="one"))
        here.server.habits.add("Widget", Habit.PRUNES, "spec", "tier")
        before = writes_of(here)
        here.home.lost = 2
        annotate(here, 1)
        await group.settle()
        assert (here.home.lost, spec_of(here)) == (0, {"value": "one"})
        assert writes_of(here) == before + 1

    simulate(scenario, n=2)


@pytest.mark.parametrize("how", [Habit.REFUSES_DRY_RUNS, Habit.DENIES_DRY_RUNS])
def test_a_server_that_refuses_dry_runs_costs_one_write_a_restart(how: Habit) -> None:
    async def scenario(group: SimGroup) -> None:
        habits = group["a"].server.habits
        habits.add("Widget", Habit.NORMALISES, "spec", "value")
        habits.add("Widget", how)
        here, _ = await a_copy(group, widget(value="small"))
        revision = here.get("Widget", "one", namespace="default")["metadata"]["resourceVersion"]
        await here.restart()
        await group.settle()
        count = writes_of(here)
        assert count == 2
        assert here.get("Widget", "one", namespace="default")["metadata"]["resourceVersion"] == revision
        for number in range(9):
            annotate(here, number)
            await asyncio.sleep(2.0)
        await group.settle()
        assert writes_of(here) == count
        assert here.condition("ResourceSyncRule", "widgets", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.parametrize("value", ["red", False, {"deep": [0]}])
def test_a_lost_field_is_named_and_comes_with_the_upgrade_of_the_definition(value: object) -> None:
    """Also one that is empty: the API server warns of it."""

    async def scenario(group: SimGroup) -> None:
        habits = group["a"].server.habits
        habits.add("Widget", Habit.PRUNES, "spec", "colour")
        here, owner = await a_copy(group, widget(value="small", colour=value))
        owner.create({**widget(value="other"), "metadata": {"name": "two", "namespace": "default"}})
        await group.settle()
        for _ in range(2):
            said = here.condition("ResourceSyncRule", "widgets", "Synced")
            assert said["status"] == "False"
            assert "Widget default/one" in said["message"] or "Widget.sim.example" in said["message"], said
            assert "spec.colour" in said["message"]
            (entry,) = here.get("ResourceSyncRule", "widgets")["status"]["clusters"]
            assert (entry["synced"], entry["failing"]) == (1, 1)
            found, names = await explained(group, "widget", "one")
            (row,) = build_explanation_document(found, names)["decisions"]
            assert (row["action"], row["reason"]) == ("skip", "FieldsLost")
            await here.restart()
            await group.settle()
        count = writes_of(here)
        assert count == 2
        await asyncio.sleep(200.0)
        habits.drop("Widget", Habit.PRUNES)
        await asyncio.sleep(HEALS_S)
        assert spec_of(here) == {"value": "small", "colour": value}
        await group.settle()
        assert writes_of(here) == count + 1
        assert here.condition("ResourceSyncRule", "widgets", "Synced")["status"] == "True"
        reads = [path for path in group.wire("a", "a").reads if path.startswith("/openapi")]
        group.wire("a", "a").reads.clear()
        await asyncio.sleep(300.0)
        assert reads
        assert not [path for path in group.wire("a", "a").reads if path.startswith("/openapi")]

    simulate(scenario, n=2)


@pytest.mark.clause("A2")
def test_what_an_edit_takes_away_and_the_server_does_not_store_any_more_costs_one_write() -> None:
    """It changes nothing but the revision of the source in the provenance; the observer breaks A1 at a second one."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await a_copy(group, widget(tier="gold", value="one"))
        observer = Observer(group, Tally())
        here.server.habits.add("Widget", Habit.PRUNES, "spec", "tier")
        source = owner.get("Widget", "one", namespace="default")
        owner.replace({**source, "status": {"ready": 1}}, subresource="status")
        await group.settle()
        before = writes_of(here)
        annotate(here, 1)
        await group.settle()
        assert (spec_of(here), writes_of(here) - before) == ({"value": "one"}, 1)
        assert not observer.broken
        copy = here.get("Widget", "one", namespace="default")
        said = marks_of(copy).provenance
        earlier = {**said["source"], "resourceVersion": source["metadata"]["resourceVersion"]}
        text = orjson.dumps({**said, "source": earlier}).decode()
        copy["metadata"]["annotations"] |= {meta.PROVENANCE: text}
        here.server.acting = here.name
        here.replace(copy)
        assert "A1" in {wrong.clause for wrong in observer.broken}

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_down", [False, True])
def test_a_field_of_the_last_wish_that_the_server_keeps_has_the_copy_made_anew(is_down: bool) -> None:
    """As a headless Service keeps its `clusterIP: None`."""

    async def scenario(group: SimGroup) -> None:
        group["a"].server.habits.add("Widget", Habit.KEEPS, "spec", "address")
        here, owner = await a_copy(group, widget(value="small", address="None"))
        before = here.get("Widget", "one", namespace="default")["metadata"]["uid"]
        if is_down:
            await here.stop()
        owner.replace_by_force(widget(value="small"))
        if is_down:
            here.start()
        await group.settle()
        found = here.get("Widget", "one", namespace="default")
        assert found["spec"] == {"value": "small"}
        assert found["metadata"]["uid"] != before
        events = [one for one in here.list("Event") if one["reason"] == "Recreated"]
        assert "spec.address" in events[0]["message"]
        count = writes_of(here)
        await here.restart()
        await group.settle()
        assert writes_of(here) == count

    simulate(scenario, n=2)


@pytest.mark.clause("A2")
def test_a_default_of_the_server_has_nothing_made_anew() -> None:
    async def scenario(group: SimGroup) -> None:
        deployment = {
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "paused": True},
        }
        here, owner = group["a"], group["b"]
        await group.join()
        owner.create(deployment)
        kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
        here.create(rule("web", kind, {"mutations": {"overrides": [{"type": "remove", "path": "/spec/paused?"}]}}))
        await group.settle()
        before = here.get("Deployment", "web", namespace="default")["metadata"]["uid"]
        await here.stop()
        owner.replace({**owner.get("Deployment", "web", namespace="default"), "status": {"replicas": 1}})
        owner.apply({**deployment, "spec": {**deployment["spec"], "minReadySeconds": 3}})  # type: ignore[dict-item]
        here.start()
        await group.settle()
        found = here.get("Deployment", "web", namespace="default")
        assert found["metadata"]["uid"] == before
        assert found["spec"]["minReadySeconds"] == 3

    simulate(scenario, n=2)


SYNCED_STATUS = {"mutations": {"syncStatus": True}}


@pytest.mark.clause("W6")
def test_the_status_of_a_copy_that_is_edited_here_is_put_back() -> None:
    """A5: and a controller that keeps editing it is slowed and named."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await a_copy(group, widget(value="small"), SYNCED_STATUS)
        owner.write_as("them", widget({"phase": "Ready"}), subresource="status")
        await group.settle()
        for _ in range(2):
            here.write_as("somebody", widget({"phase": "Wrong"}), subresource="status")
            await group.settle()
            assert here.get("Widget", "one", namespace="default")["status"] == {"phase": "Ready"}
            assert here.condition("ResourceSyncRule", "widgets", "Synced")["status"] == "True"
            await here.restart()
            await group.settle()
        count = writes_of(here)
        for number in range(40):
            here.write_as("somebody", widget({"phase": f"Wrong {number}"}), subresource="status")
            await asyncio.sleep(1.0)
        assert writes_of(here) - count <= 6
        said = here.condition("ResourceSyncRule", "widgets", "Synced")
        assert said["status"] == "False"
        assert "somebody keeps changing it here" in said["message"]
        owner.write_as("them", widget({"phase": "Gone"}), subresource="status")
        await asyncio.sleep(5.0)
        assert here.get("Widget", "one", namespace="default")["status"] == {"phase": "Gone"}

    simulate(scenario, n=2)


@pytest.mark.clause("W6", "A1")
def test_admission_that_adds_a_label_adds_none_to_a_status() -> None:
    """A status strategy takes nothing but the status, so an edit of the status leads to no write of the copy."""

    async def scenario(group: SimGroup) -> None:
        observer = Observer(group, Tally())
        here, owner = await a_copy(group, widget(value="small"), SYNCED_STATUS)
        here.server.habits.add("Widget", Habit.STAMPS)
        owner.write_as("them", widget({"phase": "Ready"}), subresource="status")
        await group.settle()
        assert STAMP[0] not in here.get("Widget", "one", namespace="default")["metadata"]["labels"]
        here.write_as("somebody", widget({"phase": "Wrong"}), subresource="status")
        await group.settle()
        assert here.get("Widget", "one", namespace="default")["status"] == {"phase": "Ready"}
        assert not observer.broken

    simulate(scenario, n=2)


@pytest.mark.clause("W6")
def test_a_status_that_is_edited_together_with_what_may_stay_is_put_back() -> None:
    """The daemon hears of both edits at once: the label of another writer needs no write, the status does."""

    async def scenario(group: SimGroup) -> None:
        here, owner = await a_copy(group, widget(value="small"), SYNCED_STATUS)
        owner.write_as("them", widget({"phase": "Ready"}), subresource="status")
        await group.settle()
        here.write_as("somebody", widget({"phase": "Wrong"}), subresource="status")
        annotate(here, 1)
        await group.settle()
        assert here.get("Widget", "one", namespace="default")["status"] == {"phase": "Ready"}

    simulate(scenario, n=2)


@pytest.mark.clause("W6")
def test_a_status_that_is_stored_otherwise_is_in_step_and_what_it_lacks_is_said() -> None:
    async def scenario(group: SimGroup) -> None:
        habits = group["a"].server.habits
        habits.add("Widget", Habit.NORMALISES, "status", "phase")
        here, owner = await a_copy(group, widget(value="small"), SYNCED_STATUS)
        owner.write_as("them", widget({"phase": "ready"}), subresource="status")
        await group.settle()
        count = writes_of(here)
        await here.restart()
        annotate(here, 1)
        await group.settle()
        assert writes_of(here) == count
        await check_in_step(group, here)
        habits.add("Widget", Habit.PRUNES, "status", "colour")
        owner.write_as("them", widget({"phase": "ready", "colour": "red"}), subresource="status")
        await group.settle()
        assert "status.colour" in here.condition("ResourceSyncRule", "widgets", "Synced")["message"]
        habits.drop("Widget", Habit.PRUNES)
        await asyncio.sleep(HEALS_S)
        assert here.get("Widget", "one", namespace="default")["status"] == {"phase": "READY", "colour": "red"}
        await group.settle()
        assert here.condition("ResourceSyncRule", "widgets", "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_a_renamed_namespace_is_in_step_after_a_restart() -> None:
    """The API server sets the label `kubernetes.io/metadata.name` by itself."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        owner.create({"kind": "Namespace", "metadata": {"name": "team", "labels": {"sync": "yes"}}})
        renamed = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "team-b"}]}
        match = {"objectKey": {"name": "team"}}
        here.create(rule("teams", {"version": "v1", "kind": "Namespace"}, {"match": [match], "mutations": renamed}))
        await group.settle()
        assert here.get("Namespace", "team-b")["metadata"]["labels"]["kubernetes.io/metadata.name"] == "team-b"
        count = writes_of(here, "Namespace")
        await here.restart()
        await group.settle()
        assert writes_of(here, "Namespace") == count
        assert here.condition("ResourceSyncRule", "teams", "Synced")["status"] == "True"
        found, names = await explained(group, "namespace", "team-b", namespace="")
        assert [row["action"] for row in build_explanation_document(found, names)["decisions"]] == ["skip"]

    simulate(scenario, n=2)


def test_a_secret_with_texts_that_an_override_adds_is_in_step_after_a_restart() -> None:
    """The server stores `stringData` in `data`."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        info = {"name": "keys", "namespace": "default"}
        owner.create({"kind": "Secret", "metadata": info, "data": {"a": "YQ=="}})
        added = {"overrides": [{"type": "replace", "path": "/stringData?/b", "value": "text"}]}
        match = {"objectKey": {"name": "keys"}}
        here.create(rule("keys", {"version": "v1", "kind": "Secret"}, {"match": [match], "mutations": added}))
        await group.settle()
        assert here.get("Secret", "keys", namespace="default")["data"] == {"a": "YQ==", "b": "dGV4dA=="}
        count = writes_of(here, "Secret")
        await here.restart()
        await group.settle()
        assert writes_of(here, "Secret") == count
        assert here.condition("ResourceSyncRule", "keys", "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_a_plain_change_of_a_source_costs_one_write_and_no_question() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        owner.create(config_map("one", {"a": "1", "b": "2"}))
        here.create(rule("maps", CONFIG_MAP, {"match": [{"objectKey": {"name": "one"}}]}))
        await group.settle()
        here.server.habits.add("ConfigMap", Habit.REFUSES_DRY_RUNS)
        count = writes_of(here, "ConfigMap")
        owner.replace({**owner.get("ConfigMap", "one", namespace="default"), "data": {"a": "2"}})
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"a": "2"}
        assert writes_of(here, "ConfigMap") == count + 1

    simulate(scenario, n=2)


@pytest.mark.clause("A8")
def test_a_rule_that_lost_a_field_here_says_so_after_a_restart_and_acts_once_it_is_whole() -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, owner = group["a"], group["b"], group["c"]
        here.server.habits.add("ResourceSyncRule", Habit.PRUNES, "spec", "targetClusters")
        await group.join()
        owner.create(widget(value="small"))
        home.create(rule("widgets", WIDGET, targetClusters={"names": ["a"]}))
        await group.settle()
        assert here.find("Widget", "one", namespace="default") is None
        for _ in range(2):
            said = here.condition("ResourceSyncRule", "widgets", "Accepted")
            assert (said["status"], said["reason"]) == ("False", "FieldsPruned")
            await here.restart()
            await group.settle()
        here.server.habits.drop("ResourceSyncRule", Habit.PRUNES)
        await asyncio.sleep(HEALS_S)
        await group.settle()
        assert here.get("ResourceSyncRule", "widgets")["spec"]["targetClusters"] == {"names": ["a"]}
        assert here.condition("ResourceSyncRule", "widgets", "Accepted")["status"] == "True"

    simulate(scenario, n=3)
