"""What is said of an object that may not be read: why, and all that can be told without it. S1, S3."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import OWNER
from registry_controller.planner.output import build_explanation_document, format_explanation
from registry_controller.planner.rule_fit import Fit
from tests.sim.cluster.dry_run import explained
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import SECRET, SimGroup, rule, simulate

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
REFUSED = "cannot get widgets.sim.example/v1 default/one: 403 Forbidden; grant it with a ClusterRole labelled"
NOTHING = "because: no rule that acts here asks for it; a copy that the daemon may not read stays as it is"


def _widget() -> Manifest:
    metadata = {"name": "one", "namespace": "default", "labels": {"sync": "yes"}}
    return {"kind": "Widget", "metadata": metadata, "spec": {"a": 1}}


async def _prepared(group: SimGroup) -> None:
    """A group with a rule of b's that may do nothing in a, and an object of b's that it asks for."""
    group["a"].options = {"SYNCED_RULES_ENABLED": "false"}
    await group.join()
    group["b"].create(rule("from-b", WIDGET, WANTED))
    group["b"].create(_widget())
    await group.settle()


def test_what_may_not_be_read_here_is_explained_by_what_peers_offer_and_rules_say() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group["a"].server.unreadable.add("Widget")
        found, names = await explained(group, "widget", "one")
        assert found.is_found
        head, _, *lines = format_explanation(found, names).splitlines()
        assert head == "Widget.sim.example default/one in cluster a: cannot be read here"
        assert lines[0] == "Widget.sim.example default/one in cluster b:"
        assert lines[1].startswith("  rule from-b does nothing here: SYNCED_RULES_ENABLED")
        assert lines[3:5] == ["decision on Widget.sim.example default/one: skip (NotWanted)", f"  {NOTHING}"]
        assert lines[5].startswith(f"not read: here: {REFUSED} cluster-registry.k8s.cisco.com/controller-aggregated")
        assert "rbac.narrowSecrets" not in lines[5]
        assert len(lines) == 6
        document = build_explanation_document(found, names)
        assert (document["here"], document["unread"][0]["cluster"]["name"]) == ("unread", "a")

    simulate(scenario, n=2)


def test_what_a_rule_asks_for_that_acts_here_waits_for_the_right_to_read_its_place() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        group["a"].create(rule("own", WIDGET, WANTED))
        group["a"].server.unreadable.add("Widget")
        found, names = await explained(group, "widget", "one")
        assert [(row.action.value, row.reason) for row in found.planned] == [("wait", "LocalNotHeard")]
        text = format_explanation(found, names)
        assert "  rule own matches" in text
        assert "\nunavailable: here: Widget: cannot watch widgets.sim.example/v1" in text

    simulate(scenario, n=2)


def test_what_may_be_read_nowhere_is_explained_by_the_rules_alone() -> None:
    async def scenario(group: SimGroup) -> None:
        await _prepared(group)
        for member in group.members:
            member.server.unreadable.add("Widget")
        found, names = await explained(group, "widget", "one")
        text = format_explanation(found, names)
        assert not found.is_found
        assert "cannot be read here, and is in no other cluster that could be read\n  rule from-b does nothing" in text
        assert NOTHING in text
        assert f"not read: here: {REFUSED}" in text
        assert f"not read: peer b: {REFUSED} cluster-registry.k8s.cisco.com/reader-aggregated" in text
        group["a"].create(rule("own", WIDGET, WANTED))
        found, names = await explained(group, "widget", "one")
        assert [(fit.rule, fit.fit) for fit in found.rules] == [
            ("own", Fit.UNREAD), ("from-b", Fit.IDLE),
        ]  # fmt: skip
        text = format_explanation(found, names)
        assert "  rule own acts here; it cannot be evaluated without reading the object" in text
        assert "wait (LocalNotHeard)" in text
        assert [one["fit"] for one in build_explanation_document(found, names)["rules"]] == ["Unread", "Idle"]

    simulate(scenario, n=2)


@pytest.mark.parametrize("acts", [False, True], ids=["no rule", "a rule that acts"])
def test_a_peer_that_may_not_be_read_is_not_taken_for_one_without_the_object(acts: bool) -> None:
    """Of a kind that no rule asks for, nothing else told that the peer does not let it be read."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        if acts:
            group["a"].create(rule("own", WIDGET, WANTED))
        group["b"].create(_widget())
        group["b"].server.unreadable.add("Widget")
        found, names = await explained(group, "widget", "one")
        text = format_explanation(found, names)
        assert "cluster a: not here, nor in any cluster that could be read\n" in text
        assert f"not read: peer b: {REFUSED} cluster-registry.k8s.cisco.com/reader-aggregated" in text
        assert ("no rule here reads its kind" in text) is not acts
        assert ("because: no rule that acts here asks for it" in text) is not acts
        assert ("rule own acts here" in text) is acts

    simulate(scenario, n=2)


def test_a_copy_that_is_listed_is_known_though_it_may_not_be_read_by_its_name() -> None:
    """Kubernetes may allow to list a kind and not to get it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["a"].create(rule("own", WIDGET, WANTED))
        group["b"].create(_widget())
        await group.settle()
        assert OWNER in group["a"].get("Widget", "one", namespace="default")["metadata"]["annotations"]
        group["a"].server.unreadable.add("Widget default/one")
        found, names = await explained(group, "widget", "one")
        text = format_explanation(found, names)
        assert "in cluster a: a copy; cluster b owns it; copied from Widget.sim.example default/one by rule own" in text
        assert "skip (InSync), by rule own, from cluster b" in text
        assert f"not read: here: {REFUSED}" in text

    simulate(scenario, n=2)


def test_without_any_secret_the_rules_are_told_and_what_narrows_secrets() -> None:
    """Not even who the peers are can be read then."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["a"].create(rule("resting", SECRET, WANTED, suspend=True))
        await group.settle()
        group["a"].server.unreadable.add("Secret")
        found, names = await explained(group, "secret", "hello")
        text = format_explanation(found, names)
        assert "  rule resting does nothing here: spec.suspend: it is suspended" in text
        assert NOTHING in text
        (said,) = [line for line in text.splitlines() if line.startswith("not read: here: cannot get secrets.v1")]
        assert "rbac.narrowSecrets is set here: then it is lacking on purpose" in said
        assert "\nunavailable: peer b: " in text

    simulate(scenario, n=2)
