"""What a plan says is what the daemon does when the rule is applied. S1: both read the same Decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from registry_controller.api.errors import Unreachable
from registry_controller.api.meta import CLUSTER_DISABLED
from registry_controller.planner.plan import PlanAction
from tests.sim.cluster.dry_run import changed, plan, planned
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Fault
from tests.sim.cluster.watch import Watch

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}
DISABLED = "cluster-registry.k8s.cisco.com/resource-sync-disabled"
Edit = Callable[[dict[str, Any]], None]


def _widget(name: str, *, namespace: str = "default", sync: str = "yes", **info: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"sync": sync}, **info}
    return {"kind": "Widget", "metadata": metadata, "spec": {"a": 1}}


def _rule(name: str = "planned", **spec: Any) -> dict[str, Any]:
    override = {"type": "replace", "path": "/metadata/name", "value": "{{ .Object.GetName }}-of-b"}
    entry = {
        "match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}],
        "mutations": {
            "labels": {"add": {"made": "here"}},
            "overrides": [override, {"type": "replace", "path": "/spec/b?", "value": "extra"}],
        },
    }
    made = rule(name, WIDGET, entry, **spec)
    made["metadata"]["annotations"] = STAYS
    return made


async def _prepared(group: SimGroup) -> None:
    """Two clusters; in b there are objects of all sorts."""
    await group.join()
    here, owner = group["a"], group["b"]
    owner.create({"kind": "Namespace", "metadata": {"name": "elsewhere"}})
    for name in ("one", "two", "taken"):
        owner.create(_widget(name))
    owner.create(_widget("left-out", sync="no"))
    owner.create(_widget("stays", annotations={DISABLED: ""}))
    owner.create(_widget("far", namespace="elsewhere"))
    here.create(_widget("taken-of-b"))
    await group.settle()


def test_a_new_rules_plan_is_what_applying_it_does() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        before = len(here.server.journal)
        found = await plan(group, "a", _rule())
        assert not [write for write in here.server.journal[before:] if write.who == "planner"]
        rows = {(row.action, row.target.name, row.reason) for row in found.rows}
        assert rows == {
            (PlanAction.CREATE, "one-of-b", "Create"), (PlanAction.CREATE, "two-of-b", "Create"),
            (PlanAction.CONFLICT, "taken-of-b", "LocalObjectExists"), (PlanAction.SKIP, "stays-of-b", "SyncDisabled"),
            (PlanAction.WAIT, "far-of-b", "NamespaceMissing"),
        }  # fmt: skip
        assert (found.problems, found.notes) == ([], [])
        mark = len(here.server.journal)
        here.create(_rule())
        await group.settle()
        assert changed(here.server.journal[mark:], who="a") == planned(found)

    simulate(scenario, n=2)


def test_namespaces_that_are_made_for_copies_are_in_the_plan() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found = await plan(group, "a", _rule(createNamespaces=True))
        assert ("create", "Namespace", "", "elsewhere") in planned(found)
        mark = len(group["a"].server.journal)
        group["a"].create(_rule(createNamespaces=True))
        await group.settle()
        assert changed(group["a"].server.journal[mark:], who="a") == planned(found)

    simulate(scenario, n=2)


def _edit_match(spec: dict[str, Any]) -> None:
    spec["rules"][0]["match"] = [{"objectKey": {"name": "one"}}]


def _edit_name(spec: dict[str, Any]) -> None:
    spec["rules"][0]["mutations"]["overrides"][0]["value"] = "{{ .Object.GetName }}-again"


def _edit_to_one_name(spec: dict[str, Any]) -> None:
    """Two sources get one name: one of them has its copy there, and the other one's stays."""
    spec["rules"][0]["mutations"]["overrides"][0]["value"] = "all"


def _edit_label(spec: dict[str, Any]) -> None:
    spec["rules"][0]["mutations"]["labels"] = {"add": {"other": "label"}}


def _edit_field_away(spec: dict[str, Any]) -> None:
    spec["rules"][0]["mutations"]["overrides"].pop()


def _edit_kind(spec: dict[str, Any]) -> None:
    spec["rules"][0]["mutations"]["groupVersionKind"] = {"kind": "Gadget"}


def _edit_policy(spec: dict[str, Any]) -> None:
    spec["deletionPolicy"] = "Delete" if spec["deletionPolicy"] == "Orphan" else "Orphan"


def _edit_targets(spec: dict[str, Any]) -> None:
    spec["targetClusters"] = {"names": ["somebody-else"]}


def _edit_features(spec: dict[str, Any]) -> None:
    spec["clusterFeatureMatch"] = [{"featureName": "nobody-has-it"}]


def _edit_nothing(spec: dict[str, Any]) -> None:
    pass


def _suspend(spec: dict[str, Any]) -> None:
    spec["suspend"] = True


EDITS = (
    _edit_match, _edit_name, _edit_to_one_name, _edit_label, _edit_field_away, _edit_kind, _edit_policy, _edit_targets,
    _edit_features, _edit_nothing, _suspend,
)  # fmt: skip


CASES = [  # each policy, and each with and without a restart
    pytest.param(
        edit, policy, restarted,
        id=f"{edit.__name__.strip('_')}-{policy}-{'restarted' if restarted else 'up'}",
    )
    for edit in EDITS for policy, restarted in (("Orphan", True), ("Delete", False))
]  # fmt: skip


@pytest.mark.parametrize(("edit", "policy", "restarted"), CASES)
def test_an_edited_rules_plan_is_what_applying_it_does(edit: Edit, policy: str, restarted: bool) -> None:
    """W3: what leaves, leaves as its policy says."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        here.create(_rule(deletionPolicy=policy))
        await group.settle()
        edited = _rule(deletionPolicy=policy)
        edit(edited["spec"])
        found = await plan(group, "a", edited)
        mark = len(here.server.journal)
        if restarted:
            await here.stop()
        here.apply({**here.get("ResourceSyncRule", "planned"), "spec": edited["spec"]})
        here.start_again()
        await group.settle()
        assert changed(here.server.journal[mark:], who="a") == planned(found)
        if edit is _edit_nothing:
            assert planned(found) == []

    simulate(scenario, n=2)


@pytest.mark.parametrize("count", [49, 51, 60, 120])
@pytest.mark.parametrize("edit", [_edit_name, _edit_match], ids=["renamed", "left out"])
def test_what_the_brake_would_halt_is_not_said_to_go(edit: Edit, count: int) -> None:
    """W4: the plan counts as the brake does."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        for number in range(count):
            owner.create(_widget(f"w-{number:03}"))
        here.create(_rule(deletionPolicy="Delete"))
        await group.settle()
        edited = _rule(deletionPolicy="Delete")
        edit(edited["spec"])
        found = await plan(group, "a", edited)
        mark = len(here.server.journal)
        here.apply({**here.get("ResourceSyncRule", "planned"), "spec": edited["spec"]})
        await group.settle()
        assert changed(here.server.journal[mark:], who="a") == planned(found)
        halted = [row for row in found.rows if row.reason == "DeletionHalted"]
        assert len(halted) == (count if edit is _edit_match and count > 50 else 0)

    simulate(scenario, n=2)


def test_an_older_rule_keeps_what_it_has_and_the_plan_says_so() -> None:
    """W2, O8: who loses is a conflict in the plan."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        older = _rule("older")
        here.create(older)
        await group.settle()
        younger = _rule("younger")
        _edit_label(younger["spec"])
        found = await plan(group, "a", younger)
        assert planned(found) == []
        lost = [row for row in found.rows if row.action is PlanAction.CONFLICT and row.rule == "younger"]
        assert {(row.target.name, row.message) for row in lost} == {
            ("one-of-b", "rule older, which is older, wants it otherwise"),
            ("two-of-b", "rule older, which is older, wants it otherwise"),
            ("taken-of-b", "an object of that name was made here; it is never overwritten: delete or rename one"),
        }

    simulate(scenario, n=2)


def test_a_field_that_an_edit_takes_away_goes_from_copies_that_others_added_to() -> None:
    """A1, W3: finalizers of others stay, and hide no change of ours."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        here.create(_rule())
        await group.settle()
        held = here.get("Widget", "one-of-b", namespace="default")
        held["metadata"]["finalizers"] = ["example.com/here"]
        here.apply(held)
        await group.settle()
        edited = _rule()
        _edit_field_away(edited["spec"])
        found = await plan(group, "a", edited)
        mark = len(here.server.journal)
        here.apply({**here.get("ResourceSyncRule", "planned"), "spec": edited["spec"]})
        await group.settle()
        assert changed(here.server.journal[mark:], who="a") == planned(found)
        assert here.get("Widget", "one-of-b", namespace="default")["spec"] == {"a": 1}

    simulate(scenario, n=2)


def test_what_an_override_says_as_string_data_is_compared_as_it_is_stored() -> None:
    """A1: the copy is in step, for a plan, too, and what somebody changes in it is put back."""
    overrides = [
        {"type": "remove", "path": "/data"},
        {"type": "replace", "path": "/stringData?", "value": "{{ toJson .Object.data }}", "parseValue": True},
    ]
    mutations = {"groupVersionKind": {"kind": "Secret"}, "overrides": overrides}
    made = rule("as-secret", CONFIG_MAP, {"match": [{"objectKey": {"name": "one"}}], "mutations": mutations})
    made["metadata"]["annotations"] = STAYS

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here = group["a"]
        group["b"].create(config_map("one", {"a": "1"}))
        here.create(made)
        await group.settle()
        copy = here.get("Secret", "one", namespace="default")
        assert copy["data"] == {"a": "MQ=="}
        mark = len(here.server.journal)
        (row,) = (await plan(group, "a", made)).rows
        assert (row.action, row.reason) == (PlanAction.SKIP, "InSync")
        here.replace({**copy, "data": {"a": "Mg==", "b": "Mg=="}})
        await group.settle()
        assert here.get("Secret", "one", namespace="default")["data"] == {"a": "MQ=="}
        assert changed(here.server.journal[mark:], who="a", kinds={"Secret"}) == [
            ("update", "Secret", "default", "one")
        ]

    simulate(scenario, n=2)


@pytest.mark.parametrize("busy", ["a", "b"], ids=["here", "there"])
def test_a_server_that_asks_for_patience_is_waited_for(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does right after a definition was made: it answers 429 until it has a cache of the kind."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        server, loop = group[busy].server, asyncio.get_running_loop()
        until, watch = loop.time() + 5.0, server.watch
        said = {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}

        def answer(path: str, **options: Any) -> Watch | Answer:
            if "/widgets" in path and loop.time() < until:
                return Answer(429, orjson.dumps({**said, "details": {"retryAfterSeconds": 1}}))
            return watch(path, **options)

        monkeypatch.setattr(server, "watch", answer)
        found = await plan(group, "a", _rule())
        assert found.problems == []
        assert {row.action for row in found.rows} >= {PlanAction.CREATE, PlanAction.CONFLICT}
        until = loop.time() + 60.0
        (words,) = (await plan(group, "a", _rule())).problems
        assert "429 TooManyRequests" in words

    simulate(scenario, n=2)


def test_a_server_that_asks_for_patience_at_once_is_waited_for() -> None:
    """The very first requests of a plan are told to come later."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        said = {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}
        busy = Answer(429, orjson.dumps({**said, "details": {"retryAfterSeconds": 1}}))
        await group["a"].stop()
        group["a"].server.trouble.extend([busy] * 4)
        found = await plan(group, "a", _rule())
        assert found.problems == []
        assert {row.action for row in found.rows} >= {PlanAction.CREATE, PlanAction.CONFLICT}
        assert not group["a"].server.trouble
        group["a"].server.trouble.extend([busy] * 100)
        with pytest.raises(Unreachable, match="not listed within 20 s"):
            await plan(group, "a", _rule())

    simulate(scenario, n=2)


def test_a_peer_that_does_not_answer_is_named_and_its_copies_wait() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        here.create(_rule(deletionPolicy="Delete"))
        await group.settle()
        group.fail("b", Fault.REFUSED)
        edited = _rule(deletionPolicy="Delete")
        _edit_match(edited["spec"])
        found = await plan(group, "a", edited)
        assert [words.split(":")[0] for words in found.problems] == ["peer b"]
        assert {(row.action, row.reason) for row in found.rows} == {(PlanAction.WAIT, "OwnerSilent")}

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({"suspend": True}, "rule planned does nothing here: spec.suspend: it is suspended"),
        (
            {"targetClusters": {"names": ["nobody"]}},
            "rule planned does nothing here: spec.targetClusters: does not select this cluster",
        ),
        (
            {"clusterFeatureMatch": [{"featureName": "none"}]},
            "rule planned does not read from peer b: spec.clusterFeatureMatch[0]: that cluster has no "
            "ClusterFeature with featureName none",
        ),
    ],
    ids=["suspended", "for others", "without the feature"],
)
def test_a_rule_that_does_nothing_here_says_why(spec: dict[str, Any], note: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found = await plan(group, "a", _rule(**spec))
        assert (found.rows, found.notes) == ([], [note])

    simulate(scenario, n=2)


def test_a_peer_that_is_disabled_here_is_said_to_be() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group["a"].apply({"kind": "Cluster", "metadata": {"name": "b", "annotations": {CLUSTER_DISABLED: "true"}}})
        await group.settle()
        found = await plan(group, "a", _rule())
        assert (found.rows, found.notes) == ([], [f"peer b is disabled here ({CLUSTER_DISABLED}) and not read"])

    simulate(scenario, n=2)


def test_names_that_only_copies_elsewhere_would_get_are_left_out() -> None:
    """O3: what a peer holds of somebody else's is no source, and nothing has its name here."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        for member in group.members:
            if member.name != "b":
                member.create(_rule())
        await group.settle()
        assert group["c"].get("Widget", "one-of-b", namespace="default")["metadata"]["labels"]["sync"] == "yes"
        for at in ("a", "b"):
            found = await plan(group, at, _rule())
            names = {row.target.name for row in found.rows}
            assert "taken-of-b-of-b" in names or at == "a"  # that one was made at a, and is a source
            assert not names & {"one-of-b-of-b", "two-of-b-of-b"}, at

    simulate(scenario, n=3)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"version": "v1", "kind": "Widget"}, "the core group, version v1"),
        ({"group": "sim.example", "version": "v1", "kind": "widgets"}, "group sim.example, version v1"),
    ],
    ids=["without its group", "as a plural"],
)
def test_a_kind_that_is_not_served_is_named_whole_with_the_one_that_may_be_meant(
    asked: dict[str, str], named: str
) -> None:
    """R2: with its group and version."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        made = _rule()
        made["spec"]["groupVersionKind"] = asked
        found = await plan(group, "a", made)
        words = "correct the rule's groupVersionKind"
        if asked["kind"] == "widgets":
            words = f"{words}; did you mean `Widget`?"
        assert [*found.problems] == [
            f"here: {asked['kind']}: it is not served here in {named}; {words}",
            f"peer b: {asked['kind']}: it is not served there in {named}; {words}",
        ]
        meant = "{group: sim.example, version: v1, kind: Widget}"
        assert [*found.notes] == [f"this cluster serves a Widget of sim.example/v1: do you mean {meant}?"]

    simulate(scenario, n=2)


def test_nothing_is_guessed_of_a_kind_that_is_nowhere() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        made = _rule()
        made["spec"]["groupVersionKind"] = WIDGET | {"kind": "Nothing"}
        found = await plan(group, "a", made)
        assert len(found.problems) == 2
        assert found.notes == []

    simulate(scenario, n=2)
