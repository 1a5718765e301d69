"""Copies that the Go original left behind are taken over where they are. O10."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.meta import GO_LAST_APPLIED, ORIGINAL_GVK, ORIGINAL_NAME, OWNER, PROVENANCE, SYNC_DISABLED
from tests.original_marks import last_applied
from tests.sim.cluster.group import SimGroup, rule, simulate

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
LABELS = {"sync": "yes"}
SHAPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "plain": ({}, "Widget", "x"),
    "renamed": (
        {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "{{ .Object.GetName }}-of-b"}]},
        "Widget", "x-of-b",
    ),
    "of another kind": ({"groupVersionKind": {"kind": "Gadget"}}, "Gadget", "x"),
}  # fmt: skip


def _source(spec: Any, *, name: str = "x", kind: str = "Widget", **info: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "default", "labels": LABELS, **info}, "spec": spec}


def _left_by_go(group: SimGroup, shape: str) -> dict[str, Any]:
    """A copy as the original leaves it: its annotations, a zip of the whole object among them, and its labels."""
    _, kind, name = SHAPES[shape]
    annotations = {OWNER: group["b"].id}
    labels = {**LABELS, OWNER: group["b"].id}
    if shape == "renamed":
        labels[ORIGINAL_NAME] = "x"
    if kind != "Widget":
        annotations[ORIGINAL_GVK] = "Widget.sim.example/v1"
    place = {"name": name, "namespace": "default"}
    made = _source({"a": 1}, name=name, kind=kind)
    written = last_applied({**made, "metadata": {**place, "labels": labels, "annotations": annotations}})
    return {**made, "metadata": {**place, "labels": labels, "annotations": annotations | {GO_LAST_APPLIED: written}}}


def _rule(shape: str) -> dict[str, Any]:
    made = rule("old", WIDGET, {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": SHAPES[shape][0]})
    made["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_a_copy_of_the_original_is_taken_over_in_one_write_and_never_deleted(shape: str) -> None:
    """O10: it stays the same object; what held it whole is gone, and it follows its owner from then on."""
    _, kind, name = SHAPES[shape]

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        owner.create(_source({"a": 1}))
        before = here.create(_left_by_go(group, shape))
        here.create(_rule(shape))
        await group.join()
        copy = here.get(kind, name, namespace="default")
        assert copy["metadata"]["uid"] == before["metadata"]["uid"]
        assert GO_LAST_APPLIED not in copy["metadata"]["annotations"]
        assert PROVENANCE in copy["metadata"]["annotations"]
        assert copy["spec"] == {"a": 1}
        assert [write.verb for write in here.writes if write.kind == kind] == ["update"]
        owner.apply(_source({"a": 2}))
        await group.settle()
        assert here.get(kind, name, namespace="default")["spec"] == {"a": 2}
        owner.delete("Widget", "x", namespace="default")
        await group.settle()
        assert here.find(kind, name, namespace="default") is None

    simulate(scenario, n=2)


def test_a_copy_of_the_original_keeps_its_owner_while_that_one_offers_it() -> None:
    """O10, O8: an older rival does not take it; it does when the owner's source is gone."""

    async def scenario(group: SimGroup) -> None:
        here = group["a"]
        group["b"].create(_source({"from": "b"}), born="2025-01-02T00:00:00Z")
        group["c"].create(_source({"from": "c"}), born="2025-01-01T00:00:00Z")
        here.create(_left_by_go(group, "plain"))
        here.create(_rule("plain"))
        await group.join()
        assert here.get("Widget", "x", namespace="default")["metadata"]["annotations"][OWNER] == group["b"].id
        group["b"].delete("Widget", "x", namespace="default")
        await group.settle()
        assert here.get("Widget", "x", namespace="default")["spec"] == {"from": "c"}

    simulate(scenario, n=3)


@pytest.mark.parametrize("selects", [True, False], ids=["labels", "all"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_copy_of_the_original_that_no_rule_makes_any_more_goes_with_its_source(shape: str, *, selects: bool) -> None:
    """O10, O5: its labels and annotations say what it was made from, and of that its owner is asked."""
    _, kind, name = SHAPES[shape]

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        owner.create(_source({"a": 1}))
        here.create(_left_by_go(group, shape))
        match = {"labels": [{"matchLabels": {"another": "one"}}]} if selects else {"content": [_NEVER]}
        here.create(rule("another", WIDGET, {"match": [match]}))
        await group.join()
        await group.settle()
        assert here.find(kind, name, namespace="default")
        owner.delete("Widget", "x", namespace="default")
        await here.restart()
        await group.settle()
        is_gone = here.find(kind, name, namespace="default") is None
        assert is_gone or kind == "Gadget"  # of which nothing is heard here while no rule writes it

    simulate(scenario, n=2)


_NEVER = {"key": "spec.a", "value": "another"}
