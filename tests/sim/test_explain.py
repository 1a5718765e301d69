"""What is said of one object, on simulated groups. S1: from the same Decision, with the clause that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from registry_controller.api.meta import CLUSTER_DISABLED, OWNER, ObjectKey
from registry_controller.planner.explain import Explanation
from registry_controller.planner.output import build_explanation_document, format_explanation
from registry_controller.planner.rule_fit import Fit
from tests.sim.cluster.dry_run import explained
from tests.sim.cluster.group import SECRET, SimGroup, rule, simulate
from tests.sim.cluster.transport import Fault

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}


def _widget(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {"a": 1}}


def _decisions(found: Explanation) -> Sequence[tuple[str, str, str]]:
    return [(row.target.name, row.action.value, row.reason) for row in found.planned]


async def _prepared(group: SimGroup) -> None:
    await group.join()
    here, owner = group["a"], group["b"]
    override = {"type": "replace", "path": "/metadata/name", "value": "{{ .Object.GetName }}-of-b"}
    renamed = {"match": [{"labels": [{"matchLabels": {"sync": "renamed"}}]}], "mutations": {"overrides": [override]}}
    here.create(rule("plain", WIDGET, WANTED))
    here.create(rule("renaming", WIDGET, renamed))
    here.create(rule("resting", WIDGET, {"match": [{}]}, suspend=True))
    here.create(rule("unreadable", WIDGET, {"match": [{"objectKey": {"name": "two"}, "name": "one"}]}))
    here.create(rule("asking", WIDGET, {"match": [{}]}, clusterFeatureMatch=[{"featureName": "none"}]))
    owner.create(_widget("one", sync="yes"))
    owner.create(_widget("other", sync="no"))
    owner.create(_widget("moved", sync="renamed"))
    owner.create(_widget("taken", sync="yes"))
    here.create(_widget("taken"))
    await group.settle()


def test_an_owner_that_is_read_in_another_way_is_named_with_its_objects() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here, owner = group["a"], group["b"]
        here.create(_widget("own"))
        owner.options["MANAGE_LOCAL_CLUSTER_SECRET"] = "false"
        await owner.restart()
        held = owner.get("Cluster", "b")
        spec = {**held["spec"], "kubernetesApiEndpoints": [{"serverAddress": "https://nowhere.sim:6443"}]}
        owner.replace({**held, "spec": spec})
        await asyncio.sleep(200.0)
        words = "peer b: it is read with other credentials or at its earlier endpoint, because: "
        for name in ("one", "none"):
            found, names = await explained(group, "widget", name)
            (note,) = build_explanation_document(found, names)["notes"]
            assert note.startswith(words)
            assert f"note: {note}" in format_explanation(found, names).splitlines()
        found, names = await explained(group, "widget", "own")
        assert build_explanation_document(found, names)["notes"] == []

    simulate(scenario, n=2)


def test_a_copy_is_explained_by_its_owner_and_its_rule() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found, names = await explained(group, "widget", "one")
        assert found.owner == group["b"].id
        assert _decisions(found) == [("one", "skip", "InSync")]
        (source,) = found.sources
        assert [(fit.rule, fit.fit) for fit in source.fits] == [
            ("plain", Fit.MATCHES), ("asking", Fit.MISSES), ("renaming", Fit.MISSES), ("resting", Fit.IDLE),
            ("unreadable", Fit.IDLE),
        ]  # fmt: skip
        assert format_explanation(found, names).splitlines() == [
            "Widget.sim.example default/one in cluster a: a copy; cluster b owns it; "
            "copied from Widget.sim.example default/one by rule plain, deletionPolicy Orphan",
            "",
            "Widget.sim.example default/one in cluster b:",
            "  rule plain matches",
            "  rule asking does not match: spec.clusterFeatureMatch[0]: "
            "that cluster has no ClusterFeature with featureName none",
            '  rule renaming does not match: spec.rules[0].match[0].labels[0]: label sync is "yes", '
            'the rule asks for "renamed"',
            "  rule resting does nothing here: spec.suspend: it is suspended",
            "  rule unreadable does nothing here: spec: it is not accepted: spec.rules[0].match[0].name: "
            "belongs under objectKey, and differs from objectKey.name: remove one of them",
            "  is copied to Widget.sim.example default/one here",
            "",
            "decision on Widget.sim.example default/one: skip (InSync), by rule plain, from cluster b",
            "  because: it is as it should be",
        ]
        document = build_explanation_document(found, names)
        assert (document["here"], document["madeBy"], document["owner"]["name"]) == ("copy", "plain", "b")
        assert document["sources"][0]["rules"][2]["path"] == "spec.rules[0].match[0].labels[0]"

    simulate(scenario, n=2)


def test_a_renamed_copy_and_its_source_are_explained_alike() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        for name in ("moved", "moved-of-b"):
            found, _ = await explained(group, "widgets.sim.example", name)
            assert ("moved-of-b", "skip", "InSync") in _decisions(found)
            (source,) = found.sources
            assert source.ref.key == ObjectKey("default", "moved")
            assert [target.name for target in source.targets] == ["moved-of-b"]

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        ("other", ("other", "skip", "NotWanted")),
        ("taken", ("taken", "conflict", "LocalObjectExists")),
        ("nobody", ("nobody", "skip", "NotWanted")),
    ],
)
def test_what_is_no_copy_says_why(name: str, decision: tuple[str, str, str]) -> None:
    """O1: a native object is said to be in the way."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found, _ = await explained(group, "Widget", name)
        assert _decisions(found) == [decision]
        assert found.is_found is (name != "nobody")

    simulate(scenario, n=2)


def test_an_object_made_here_says_what_the_rules_say_of_it_elsewhere() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found, names = await explained(group, "Widget", "one", at="b")
        assert "created here; this cluster owns it" in format_explanation(found, names)
        assert found.sources[0].ref.owner == group["b"].id
        assert found.sources[0].fits[0].fit is Fit.MATCHES

    simulate(scenario, n=2)


def test_a_copy_whose_owner_is_silent_says_that_it_is_waited_for() -> None:
    """O5: the copy stays until the owner answers."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group.fail("b", Fault.REFUSED)
        found, names = await explained(group, "Widget", "one")
        assert _decisions(found) == [("one", "wait", "OwnerSilent")]
        text = format_explanation(found, names)
        assert "waits for: the owner does not answer" in text
        assert [words.split(":")[0] for words in found.problems] == ["peer b"]

    simulate(scenario, n=2)


def test_what_could_not_be_looked_at_is_said_of_an_object_that_was_not_found() -> None:
    """S1, S3: that nobody has it is said only when all were looked at."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group["b"].server.change_served("Widget", served=False)
        group.cut("b")
        found, names = await explained(group, "Widget", "nobody")
        text = format_explanation(found, names)
        assert "not here, nor in any cluster that could be read" in text
        assert "unavailable: peer b: Widget: it is not served there" in text
        group["b"].server.change_served("Widget", served=True)
        found, names = await explained(group, "Widget", "nobody")
        assert format_explanation(found, names).endswith("not here, nor in any cluster that is read")

    simulate(scenario, n=2)


def test_a_copy_says_that_its_owner_is_disabled_or_its_rule_suspended() -> None:
    """P7, W3: that is why nothing becomes of it, and no rule is said to ask for it no more."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        here = group["a"]
        here.apply(rule("plain", WIDGET, WANTED, suspend=True))
        await group.settle()
        found, _ = await explained(group, "Widget", "one")
        (row,) = found.planned
        assert (row.reason, row.message) == (
            "NoLongerWanted", "its rule does nothing here: spec.suspend: it is suspended; the copy stays"
        )  # fmt: skip
        here.apply({"kind": "Cluster", "metadata": {"name": "b", "annotations": {CLUSTER_DISABLED: "true"}}})
        await group.settle()
        found, _ = await explained(group, "Widget", "one")
        (row,) = found.planned
        assert (row.reason, row.message.partition(" (")[0]) == ("NoLongerWanted", "its owner is disabled here")

    simulate(scenario, n=2)


def test_what_the_rules_status_says_of_a_write_that_fails_is_quoted() -> None:
    """S1: what refuses a write is in no decision."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group["a"].server.denied.add("Widget")
        group["b"].create(_widget("refused", sync="yes"))
        await asyncio.sleep(5.0)
        found, names = await explained(group, "Widget", "refused")
        (row,) = found.planned
        assert (row.action.value, row.reason) == ("create", "Create")
        words = "create widgets.sim.example/v1 in default: 403 Forbidden"
        assert row.failed == ("Forbidden", words)
        assert f"\n  failed so far: Forbidden: {words}" in format_explanation(found, names)
        (told,) = build_explanation_document(found, names)["decisions"]
        assert told["failed"] == {"reason": "Forbidden", "message": words}
        assert (await explained(group, "Widget", "one"))[0].planned[0].failed is None

    simulate(scenario, n=2)


def test_of_many_copies_elsewhere_only_the_owners_object_is_a_source() -> None:
    """O3."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found, _ = await explained(group, "Widget", "one", at="c")
        assert [source.ref.owner for source in found.sources] == [group["b"].id]

    simulate(scenario, n=3)


def test_a_membership_secret_is_explained_without_its_data() -> None:
    """A6, O7."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        found, names = await explained(group, "secret", "b", namespace="cluster-registry")
        assert found.owner == group["b"].id
        hidden = group["b"].get("Secret", "b", namespace="cluster-registry")["data"]["kubeconfig"]
        assert hidden[:40] not in format_explanation(found, names)
        assert _decisions(found) == [("b", "skip", "InSync")]

    simulate(scenario, n=2)


OFF = {"SYNCED_RULES_ENABLED": "false"}
LAST_LINES = {
    "nobody asks": (
        "decision on Secret default/hello: skip (NotWanted)\n  because: no rule that acts here asks for it"
    ),
    "made here": "skip (NotWanted)\n  because: it was created here; members whose rules match it copy it from here",
    "a copy of its": "because: the rule came from another cluster, and SYNCED_RULES_ENABLED, SYNCED_RULES_KINDS or "
    "SYNCED_RULES_NAMESPACES does not let it write this here",
    "a copy of another's": "because: no rule that acts here asks for it",
    "a copy of the original": (
        "skip (NoLongerWanted), from cluster b\n  because: no rule that acts here asks for it any more; the copy stays"
    ),
    "a copy of a rule that is gone": (
        "skip (NoLongerWanted), by rule gone, from cluster b\n"
        "  because: no rule that acts here asks for it any more; the copy stays"
    ),
}


@pytest.mark.parametrize("case", LAST_LINES)
def test_what_no_rule_asks_for_that_acts_here_is_not_said_to_be_waited_for(case: str) -> None:
    """S1: Secrets are heard of the daemon's own namespace always, and of others only where a rule writes them."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        await group.join()
        hello = {"kind": "Secret", "metadata": {"name": "hello", "namespace": "default"}}
        labelled = {"metadata": {"name": "hello", "namespace": "default", "labels": {"sync": "yes"}}}
        there = {"kind": "Secret", **labelled}
        if case == "a copy of another's":  # then Secrets are heard by the label of their owner
            there["metadata"] = {**there["metadata"], "name": "other"}
        owner.create(there)
        owner.create(rule("gone" if case == "a copy of a rule that is gone" else "greetings", SECRET, WANTED))
        if case.startswith("a copy of") and case != "a copy of the original":
            await group.settle()
            assert here.get("Secret", there["metadata"]["name"], namespace="default")
        if case == "a copy of another's":
            owner.create({"kind": "Secret", **labelled})
        here.options = OFF
        await here.restart()
        if case == "made here":
            here.create(hello)
        if case == "a copy of the original":
            here.create({**hello, "metadata": {**hello["metadata"], "annotations": {OWNER: owner.id}}})
        if case == "a copy of a rule that is gone":
            owner.delete("ResourceSyncRule", "gone")
        await group.settle()
        found, names = await explained(group, "secret", "hello")
        text = format_explanation(found, names)
        assert LAST_LINES[case] in text
        assert "LocalNotHeard" not in text
        if case != "a copy of a rule that is gone":
            assert "rule greetings does nothing here: SYNCED_RULES_ENABLED" in text
        before = len(here.server.journal)
        await asyncio.sleep(900.0)
        written = [write for write in here.server.journal[before:] if write.key == ObjectKey("default", "hello")]
        assert not written

    simulate(scenario, n=2)
