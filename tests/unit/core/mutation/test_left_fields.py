"""A9: which places of a copy a rule leaves to its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.syncrule import read_rule
from registry_controller.core.mutation.left_fields import LeftPath, Named, build_left_fields, digest_paths, format_path
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy

pytestmark = pytest.mark.clause("A9")

WIDGET = GVK("example.com", "v1", "Widget")
SPEC: dict[str, Any] = {
    "replicas": 3,
    "ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}],
    "plain": [{"a": 1, "b": 2}, {"a": 3}],
    "map": {"x": {"y": 1}},
}


def remove(path: str) -> dict[str, str]:
    return {"type": "remove", "path": path}


def replace(path: str, value: str = "1") -> dict[str, Any]:
    return {"type": "replace", "path": path, "value": value, "parseValue": True}


def build(
    *overrides: dict[str, Any], kind: GVK = WIDGET, more: dict[str, Any] | None = None, **mutations: Any
) -> MutatedCopy:
    spec = {"groupVersionKind": kind._asdict(), "rules": [{"mutations": {"overrides": list(overrides), **mutations}}]}
    rule = read_rule({"metadata": {"name": "r"}, "spec": spec})
    info = {"name": "one", "namespace": "apps", "labels": {"l": "1"}, "annotations": {"a": "1"}}
    source = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": info, "spec": SPEC, **(more or {})}
    return build_copy(source, kind, rule.entries, owner=ClusterUID("o"))


def left(*overrides: dict[str, Any], **more: Any) -> tuple[LeftPath, ...]:
    return build(*overrides, **more).left


HTTP, NEW = Named("name", "http"), Named("name", "new")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], ()),
        ([replace("/spec/replicas")], ()),
        ([remove("/spec/replicas")], (("spec", "replicas"),)),
        ([remove("/spec/none?")], (("spec", "none"),)),
        ([remove("/spec/none?/below/it")], (("spec", "none", "below", "it"),)),
        ([remove("/spec/map")], (("spec", "map"),)),
        ([remove("/spec/ports/name=http/port")], (("spec", "ports", HTTP, "port"),)),
        ([remove("/spec/ports/name=http")], (("spec", "ports", HTTP),)),
        ([remove("/spec/ports/name=new?")], (("spec", "ports", NEW),)),
        ([remove("/spec/none?/name=new/port")], (("spec", "none", NEW, "port"),)),
        ([remove("/spec/ports/0")], ()),
        ([remove("/spec/ports/name=http:next")], ()),
        ([remove("/spec/plain/0/b")], (("spec", "plain", 0, "b"),)),
        ([remove("/spec/plain/-1/a")], (("spec", "plain", 1, "a"),)),
        ([remove("/spec/replicas"), remove("/spec/map")], (("spec", "map"), ("spec", "replicas"))),
    ],
)
def test_what_a_removal_takes_out_is_left(overrides: list[dict[str, Any]], expected: tuple[LeftPath, ...]) -> None:
    assert left(*overrides) == expected


@pytest.mark.parametrize(
    ("removal", "later", "expected"),
    [
        ("/spec/replicas", "/spec/replicas?", ()),
        ("/spec/map/x/y", "/spec/map", ()),
        ("/spec/map", "/spec/map?/x", (("spec", "map"),)),
        ("/spec/map/x/y", "/spec/map/z?", (("spec", "map", "x", "y"),)),
        ("/spec/none?/a", "/spec/none?/b", (("spec", "none", "a"),)),
        ("/spec/ports/name=http/port", "/spec/ports/0/port?", ()),
        ("/spec/plain/0/b", "/spec/plain/0:before", (("spec", "plain", 1, "b"),)),
        ("/spec/plain/0/b", "/spec/plain/-", (("spec", "plain", 0, "b"),)),
        ("/spec/plain/1/a", "/spec/plain/0:after", (("spec", "plain", 2, "a"),)),
        ("/spec/ports/name=http", "/spec/ports/name=http?/port", ()),
        ("/spec/ports/name=http/port", "/spec/ports/1:before", (("spec", "ports", HTTP, "port"),)),
    ],
)
def test_what_a_later_override_sets_is_wanted(removal: str, later: str, expected: tuple[LeftPath, ...]) -> None:
    assert left(remove(removal), replace(later)) == expected


def test_an_index_follows_its_element_when_another_one_is_removed() -> None:
    assert left(remove("/spec/plain/1/a"), remove("/spec/plain/0")) == (("spec", "plain", 0, "a"),)
    assert left(remove("/spec/plain/0/a"), remove("/spec/plain/0")) == ()


def test_what_is_written_as_string_data_of_a_secret_is_its_data() -> None:
    secret, more = GVK("", "v1", "Secret"), {"data": {"a": "YQ=="}}
    assert left(remove("/data"), kind=secret, more=more) == (("data",),)
    assert left(remove("/data"), replace("/stringData?", "{a: b}"), kind=secret, more=more) == ()
    assert left(remove("/stringData?/a"), kind=secret, more=more) == (("data", "a"),)


def test_removed_labels_and_annotations_are_left_and_our_marks_are_not() -> None:
    names = ["l", "none", meta.OWNER, meta.PROVENANCE, meta.ORIGINAL_NAME, meta.SYNC_DISABLED]
    copy = build(remove("/spec/map"), labels={"remove": names}, annotations={"remove": names})
    texts = [("metadata", field, name) for field in ("annotations", "labels") for name in ("l", "none")]
    assert copy.left == (("spec", "map"), *texts)
    assert left(remove("/metadata/labels?")) == (("metadata", "labels"),)
    assert left(replace("/metadata/labels/l?", "x"), labels={"remove": ["l"]}) == ()


def test_a_label_that_is_added_and_removed_is_removed_whatever_comes_first() -> None:
    copy = build(labels={"add": {"l": "x"}, "remove": ["l"]})
    assert copy.left == (("metadata", "labels", "l"),)
    assert "l" not in copy.manifest["metadata"]["labels"]


@pytest.mark.parametrize(
    "path", ["/metadata/generateName?", "/metadata/annotations/cluster-registry.k8s.cisco.com~1x?"]
)
def test_other_metadata_is_left_only_as_labels_and_annotations(path: str) -> None:
    assert left(remove(path)) == (
        (("metadata", "annotations", "cluster-registry.k8s.cisco.com/x"),) if "~" in path else ()
    )


@pytest.mark.parametrize("path", ["/metadata/name", "/metadata/namespace", "/metadata", "/apiVersion"])
def test_the_name_and_the_kind_are_never_left(path: str) -> None:
    with pytest.raises(InvalidObject):
        left(remove(path))


JOB, ROLE = GVK("batch", "v1", "Job"), GVK("rbac.authorization.k8s.io", "v1", "ClusterRole")
AGGREGATED: dict[str, Any] = {"aggregationRule": {}, "rules": [{"verbs": ["get"]}]}


@pytest.mark.parametrize(
    ("kind", "more", "overrides", "expected"),
    [
        (JOB, {"spec": {"ttlSecondsAfterFinished": 1}}, [], (("spec", "ttlSecondsAfterFinished"),)),
        (JOB, {"spec": {"manualSelector": True}}, [], (("spec", "ttlSecondsAfterFinished"),)),
        (JOB, {"spec": {}}, [replace("/spec/ttlSecondsAfterFinished?")], ()),
        (ROLE, AGGREGATED, [], (("rules",),)),
        (ROLE, AGGREGATED, [remove("/aggregationRule")], (("aggregationRule",),)),
        (ROLE, AGGREGATED, [replace("/rules/0/verbs", "[list]")], ()),
        (ROLE, {"rules": []}, [], ()),
        (GVK("batch", "v1", "CronJob"), {"spec": {"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 1}}}}, [], ()),
    ],
)
def test_some_fields_are_left_by_their_kind(
    kind: GVK, more: dict[str, Any], overrides: list[dict[str, Any]], expected: tuple[LeftPath, ...]
) -> None:
    copy = build(*overrides, kind=kind, more=more)
    assert copy.left == expected
    assert ("rules" in copy.manifest) is ("rules" in more and ("rules",) not in expected)
    has_ttl = "ttlSecondsAfterFinished" in copy.manifest.get("spec", {})
    assert has_ttl is (kind == JOB and expected == ())


def test_the_tree_knows_what_is_left_below_what() -> None:
    paths: tuple[LeftPath, ...] = (("spec", "a"), ("spec", "a", "b"), ("spec", "l", HTTP), ("spec", "l", 1, "x"))
    settled = frozenset(digest_paths(paths)[1:2])
    tree = build_left_fields(paths, settled=settled)
    spec = tree.field("spec") if tree is not None else None
    assert spec is not None
    assert (spec.is_left, spec.field("other")) == (False, None)
    a, items = spec.field("a"), spec.field("l")
    assert a is not None
    assert items is not None
    assert (a.is_left, a.is_settled) == (True, False)
    b, c = a.field("b"), a.field("c")
    assert b is not None
    assert c is not None
    assert (b.is_left, b.is_settled, c.is_left, c.is_settled) == (True, True, True, False)
    named, second = items.element(0, {"name": "http"}), items.element(1, {"name": "tls"})
    assert named is not None
    assert second is not None
    assert (named.is_left, second.is_left, items.element(0, {}), items.extra_element({"name": "tls"})) == (
        True, False, None, None,
    )  # fmt: skip
    assert build_left_fields((), settled=settled) is None


@pytest.mark.parametrize("count", [64, 65, 5000])
def test_any_number_of_places_is_recorded_in_a_few_digests(count: int) -> None:
    """Of more than 64 they are settled together: a copy that was written with others has none of them settled."""
    paths: tuple[LeftPath, ...] = tuple(("spec", f"k{number}") for number in range(count))
    digests = digest_paths(paths)
    assert len(digests) == (count if count <= 64 else 1)

    def settled_of(recorded: tuple[str, ...]) -> set[bool]:
        tree = build_left_fields(paths, settled=frozenset(recorded))
        spec = tree.field("spec") if tree is not None else None
        assert spec is not None
        found = [spec.field(f"k{number}") for number in range(count)]
        assert all(one is not None and one.is_left for one in found)
        return {one.is_settled for one in found if one is not None}

    assert settled_of(digests) == {True}
    assert settled_of(()) == {False}
    assert settled_of(digest_paths(paths[:-1])) == ({True, False} if count <= 64 else {False})


def test_a_place_is_spelled_as_users_read_it() -> None:
    assert format_path(("spec", "ports", HTTP, "a.b", 0, "c")) == "spec.ports[name=http][a.b][0].c"


def test_the_places_cost_the_rule_no_more_steps_than_its_overrides() -> None:
    """A long list is compared with many places only as far as the budget goes; a rule of the largest size fits."""
    items = [{"name": f"n{index}", "port": index} for index in range(1000)]
    many = [remove(f"/spec/none?/k{index}") for index in range(256)]
    assert len(left(*many)) == 256
    mixed = [remove(f"/spec/items/name=n0/inner?/{index}/a") for index in range(60)]
    mixed += [remove(f"/spec/items/name=n0/inner?/name=x{index}/a") for index in range(30)]
    with pytest.raises(InvalidObject, match="steps"):
        left(*mixed, *(replace(f"/spec/items/name=n0/inner?/name=y{index}/b") for index in range(60)),
             more={"spec": {"items": items}})  # fmt: skip
