"""What becomes of copies that a rule no longer wants: every shape, transition and policy, up and restarted. W1, W3."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from tests.sim.cluster.group import SimGroup, rule, simulate

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}
DISABLED = "cluster-registry.k8s.cisco.com/cluster-disabled"
LABELS = {"sync": "yes"}

SHAPES: dict[str, tuple[str, dict[str, Any], tuple[str, str, str]]] = {
    "plain": ("plain", {}, ("Widget", "default", "plain")),
    "renamed": (
        "renamed",
        {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "renamed-copied"}]},
        ("Widget", "default", "renamed-copied"),
    ),
    "renamed-by-template": (
        "templated",
        {"overrides": [{
            "type": "replace", "path": "/metadata/name",
            "value": '{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}',
        }]},
        ("Widget", "default", "templated-b"),
    ),
    "in-another-namespace": (
        "moved",
        {"overrides": [{"type": "replace", "path": "/metadata/namespace", "value": "elsewhere"}]},
        ("Widget", "elsewhere", "moved"),
    ),
    "of-another-kind": ("turned", {"groupVersionKind": {"kind": "Gadget"}}, ("Gadget", "default", "turned")),
    "with-a-long-name": ("n" * 253, {}, ("Widget", "default", "n" * 253)),
}  # fmt: skip
"""By the name of its rule: the name of a source, what the rule makes of it, and where the copy is."""

GOES_ALWAYS = ("source deleted",)
GOES_BY_POLICY = (
    "source no longer matches", "rule edited", "rule deleted", "feature removed", "target selection changed",
)  # fmt: skip
STAYS_ALWAYS = ("rule suspended", "cluster deleted", "peer disabled")
MOVES_ALWAYS = ("name template edited", "kind edited")

AGAIN = '{{ printf "%.200s-again" .Object.GetName }}'
"""A name by a template that no shape gives, of at most 253 characters."""


def _rule(shape: str, policy: str) -> dict[str, Any]:
    entry = {"match": [{"labels": [{"matchLabels": _labels(shape)}]}], "mutations": SHAPES[shape][1]}
    features = [{"featureName": "source"}]
    made = rule(shape, WIDGET, entry, deletionPolicy=policy, clusterFeatureMatch=features)
    made["metadata"]["annotations"] = STAYS
    return made


def _labels(shape: str) -> dict[str, str]:
    return {**LABELS, "shape": shape}


def _moved(shape: str, transition: str) -> tuple[str, str, str]:
    """Say where the copy is after its rule was edited."""
    kind, namespace, name = SHAPES[shape][2]
    if transition == "kind edited":
        return {"Widget": "Gadget", "Gadget": "Widget"}[kind], namespace, name
    return kind, namespace, f"{SHAPES[shape][0][:200]}-again"


def _edited(transition: str, shape: str) -> dict[str, Any]:
    """Give a shape another name or another kind."""
    mutations = SHAPES[shape][1]
    if transition == "kind edited":
        return {**mutations, "groupVersionKind": {"kind": _moved(shape, transition)[0]}}
    others = [one for one in mutations.get("overrides") or () if one["path"] != "/metadata/name"]
    return {**mutations, "overrides": [*others, {"type": "replace", "path": "/metadata/name", "value": AGAIN}]}


def _deed(group: SimGroup, transition: str) -> None:
    here, owner = group["a"], group["b"]
    match transition:
        case "feature removed":
            owner.delete("ClusterFeature", "source")
        case "cluster deleted":
            here.delete("Cluster", "b")
        case "peer disabled":
            here.apply({"kind": "Cluster", "metadata": {"name": "b", "annotations": {DISABLED: "true"}}})
        case _:
            for shape in SHAPES:
                _change(group, transition, shape)


def _change(group: SimGroup, transition: str, shape: str) -> None:
    here, owner, name = group["a"], group["b"], SHAPES[shape][0]
    held = here.get("ResourceSyncRule", shape)
    match transition:
        case "source deleted":
            owner.delete("Widget", name, namespace="default")
        case "source no longer matches":
            owner.apply(
                {"kind": "Widget", "metadata": {"name": name, "namespace": "default", "labels": {"sync": "no"}}}
            )
        case "rule edited":
            held["spec"]["rules"][0]["match"] = [{"labels": [{"matchLabels": {"other": "yes"}}]}]
            here.apply(held)
        case "name template edited" | "kind edited":
            (entry,) = held["spec"]["rules"]
            rules = [{**entry, "mutations": _edited(transition, shape)}]
            here.apply({**held, "spec": {**held["spec"], "rules": rules}})
        case "rule deleted":
            here.delete("ResourceSyncRule", shape)
        case "rule suspended" | "target selection changed":
            edit = {"suspend": True} if transition == "rule suspended" else {"targetClusters": {"names": ["nobody"]}}
            here.apply({**held, "spec": {**held["spec"], **edit}})
        case _:
            raise AssertionError(transition)


def _copies(group: SimGroup) -> set[tuple[str, str, str]]:
    found = (item for kind in ("Widget", "Gadget") for item in group["a"].list(kind))
    return {(item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]) for item in found}


async def _prepared(group: SimGroup, policy: str, shapes: Collection[str] = tuple(SHAPES)) -> None:
    for member in group.members:
        member.create({"kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await group.join()
    here, owner = group["a"], group["b"]
    owner.create({"kind": "ClusterFeature", "metadata": {"name": "source"}, "spec": {"featureName": "source"}})
    native = {"name": NATIVE[2], "namespace": "default", "labels": _labels("plain")}
    here.create({"kind": "Widget", "metadata": native, "spec": {}})
    owner.create({"kind": "Widget", "metadata": native, "spec": {"a": 1}})
    owner.delete("Widget", NATIVE[2], namespace="default")
    for shape in shapes:
        name = SHAPES[shape][0]
        info = {"name": name, "namespace": "default", "labels": _labels(shape)}
        owner.create({"kind": "Widget", "metadata": info, "spec": {"a": 1}})
        here.create(_rule(shape, policy))
    await group.settle()
    assert _copies(group) == {NATIVE, *(SHAPES[shape][2] for shape in shapes)}


NATIVE = ("Widget", "default", "native")
COPIES = {place for _, _, place in SHAPES.values()}


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
@pytest.mark.parametrize("transition", [*GOES_ALWAYS, *GOES_BY_POLICY, *STAYS_ALWAYS])
def test_a_copy_goes_only_as_its_policy_says(transition: str, policy: str, restarted: bool) -> None:
    """W3: nothing that nobody wants stays, nothing that should stay is lost, and nothing native is touched."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group, policy)
        native = group["a"].get("Widget", "native", namespace="default")
        if restarted:
            await group["a"].stop()
        _deed(group, transition)
        group["a"].start_again()
        await group.settle()
        goes = transition in GOES_ALWAYS or (policy == "Delete" and transition in GOES_BY_POLICY)
        assert _copies(group) == ({NATIVE} if goes else COPIES | {NATIVE})
        assert group["a"].get("Widget", "native", namespace="default") == native
        assert not await group.writes_within(60)

    simulate(scenario, n=2)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
@pytest.mark.parametrize("transition", MOVES_ALWAYS)
def test_a_copy_that_its_rule_names_otherwise_leaves_nothing_behind(
    transition: str, policy: str, restarted: bool
) -> None:
    """W3: under both policies, though no rule may write the old kind any more; nothing native is touched."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group, policy)
        native = group["a"].get("Widget", "native", namespace="default")
        if restarted:
            await group["a"].stop()
        _deed(group, transition)
        group["a"].start_again()
        await group.settle()
        moved = {_moved(shape, transition) for shape in SHAPES}
        assert _copies(group) == moved | {NATIVE}
        for kind, namespace, name in moved:
            assert group["a"].get(kind, name, namespace=namespace)["spec"] == {"a": 1}
        assert group["a"].get("Widget", "native", namespace="default") == native
        assert not await group.writes_within(60)

    simulate(scenario, n=2)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rule_that_is_narrowed_and_told_to_delete_takes_its_copies_away(restarted: bool) -> None:
    """W3: its policy as it is now counts, and it reads another namespace now than the one where they are."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group, "Orphan", ["plain"])
        if restarted:
            await group["a"].stop()
        held = group["a"].get("ResourceSyncRule", "plain")
        held["spec"]["rules"][0]["match"][0]["namespaces"] = ["elsewhere"]
        held["spec"]["deletionPolicy"] = "Delete"
        group["a"].apply(held)
        group["a"].start_again()
        await group.settle()
        assert _copies(group) == {NATIVE}

    simulate(scenario, n=2)


@pytest.mark.parametrize("late_s", [0.1, 0.6, 1.1, 1.6])
def test_a_copy_that_is_being_made_when_its_rule_makes_another_kind_goes_too(late_s: float) -> None:
    """W3: nobody knew of it in the moment in which its kind was watched no longer."""

    async def scenario(group: SimGroup) -> None:
        await _prepared(group, "Orphan", ["plain"])
        here, owner = group["a"], group["b"]
        group.wire("a", "a").delay_s = (0.5, 0.5)
        owner.create(
            {
                "kind": "Widget",
                "metadata": {"name": "late", "namespace": "default", "labels": _labels("plain")},
                "spec": {},
            }
        )
        await asyncio.sleep(late_s)
        held = here.get("ResourceSyncRule", "plain")
        held["spec"]["rules"][0]["mutations"]["groupVersionKind"] = {"kind": "Gadget"}
        here.apply(held)
        await group.settle()
        assert _copies(group) == {("Gadget", "default", "plain"), ("Gadget", "default", "late"), NATIVE}

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_namespace_goes_with_its_rule_when_it_is_empty(is_empty: bool) -> None:
    """O1, W3: nobody need be asked about a rule that is gone, and still it is looked into."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.create({"kind": "Namespace", "metadata": {"name": "lent", "labels": {"sync": "yes"}}})
        entry = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
        made = rule("namespaces", {"version": "v1", "kind": "Namespace"}, entry, deletionPolicy="Delete")
        made["metadata"]["annotations"] = STAYS
        here.create(made)
        await group.settle()
        if not is_empty:
            here.create({"kind": "Widget", "metadata": {"name": "ours", "namespace": "lent"}, "spec": {}})
        here.delete("ResourceSyncRule", "namespaces")
        await group.settle()
        assert (here.find("Namespace", "lent") is None) == is_empty

    simulate(scenario, n=2)


def test_a_moved_copy_follows_at_once_when_its_namespace_appears() -> None:
    """A3: the namespace in which it is to be, not the one of its source."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": SHAPES["in-another-namespace"][1]}
        made = rule("moving", WIDGET, entry)
        made["metadata"]["annotations"] = STAYS
        here.create(made)
        owner.create({"kind": "Widget", "metadata": {"name": "x", "namespace": "default", "labels": LABELS}})
        await group.settle()
        here.create({"kind": "Namespace", "metadata": {"name": "elsewhere"}})
        await asyncio.sleep(1.0)
        assert here.find("Widget", "x", namespace="elsewhere") is not None

    simulate(scenario, n=2)


@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("then", ["deleted", "named otherwise", "unlabelled"])
def test_a_copy_of_what_no_rule_could_read_for_a_while_is_not_forgotten(then: str, restarted: bool) -> None:
    """W1, W3, O5: it stays while its rule fails on the source, and goes with it, or with its name."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        value = "{{ .Object.GetName }}-{{ .Object.metadata.labels.suffix }}"
        mutations = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": value}]}
        entry = {"match": [{"labels": [{"matchLabels": LABELS}]}], "mutations": mutations}
        made = rule("named", WIDGET, entry, deletionPolicy="Delete")
        made["metadata"]["annotations"] = STAYS
        here.create(made)

        def source(**labels: str) -> dict[str, Any]:
            return {"kind": "Widget", "metadata": {"name": "x", "namespace": "default", "labels": labels}}

        owner.create(source(**LABELS, suffix="s"))
        await group.settle()
        owner.replace_by_force(source(**LABELS))
        await group.settle()
        if restarted:
            await here.restart()
            await group.settle()
        assert here.find("Widget", "x-s", namespace="default") is not None
        if then == "deleted":
            owner.delete("Widget", "x", namespace="default")
        else:
            owner.replace_by_force(source(**LABELS, suffix="t") if then == "named otherwise" else source())
        await group.settle()
        assert here.find("Widget", "x-s", namespace="default") is None
        assert (here.find("Widget", "x-t", namespace="default") is not None) == (then == "named otherwise")

    simulate(scenario, n=2)


def test_a_copy_that_waited_for_what_another_rule_wants_goes_when_that_rule_is_suspended() -> None:
    """W3: the other rule's list may never come now, and nothing else changes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        owner.create({"kind": "Widget", "metadata": {"name": "x", "namespace": "default"}, "spec": {"size": 1}})
        here.create(rule("first", WIDGET, deletionPolicy="Delete"))
        here.create(rule("second", WIDGET))
        await asyncio.sleep(10.0)
        assert here.find("Widget", "x", namespace="default") is not None
        edited = here.get("ResourceSyncRule", "first")
        edited["spec"]["clusterFeatureMatch"] = [{"featureName": "none.example.com"}]
        here.replace(edited)
        ended = here.get("ResourceSyncRule", "second")
        ended["spec"]["suspend"] = True
        here.replace(ended)
        await asyncio.sleep(60.0)
        assert here.find("Widget", "x", namespace="default") is None

    simulate(scenario, n=2)
