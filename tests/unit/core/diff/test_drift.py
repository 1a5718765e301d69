"""A1: what is drift, and what is written when there is some."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry_controller.api import meta, provenance
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import CLUSTER, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.core.diff.drift import Comparison, Drift, Left, compare, merge
from registry_controller.core.mutation.left_fields import LeftPath, Named

US = meta.FIELD_MANAGER


def entry(fields: dict[str, Any], *, manager: str = US, operation: str = "Update") -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}


def obj(kind: str = "ConfigMap", *, managed: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    info = {"name": "one", "namespace": "apps", **parts.pop("metadata", {})}
    if managed is not None:
        info["managedFields"] = managed
    return {"apiVersion": "v1", "kind": kind, "metadata": info, **parts}


def judge(desired: dict[str, Any], current: dict[str, Any]) -> Comparison:
    """Compare, and hold compare and merge against each other."""
    before = copy.deepcopy((desired, current))
    found = compare(desired, current, manager=US)
    body = dict(merge(desired, current, manager=US))
    assert (desired, current) == before
    assert compare(desired, body, manager=US).drift is not Drift.DIFFERS
    return found


def origin(**changes: Any) -> str:
    parts = {
        "owner": ClusterUID("o"), "rule": "r", "rule_owner": ClusterUID("o"),
        "policy": "Orphan", "source": CLUSTER, "key": ObjectKey("apps", "one"),
        "uid": "u", "created": "", "revision": 1, "copy": Target("", "ConfigMap", "apps", "one"), **changes,
    }  # fmt: skip
    return provenance.encode(Provenance(**parts))


def test_status_and_what_the_server_sets_are_no_drift() -> None:
    current = obj(
        data={"a": "1"},
        status={"x": 1},
        metadata={"uid": "u", "resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{}], "generation": 3},
    )
    assert judge(obj(data={"a": "1"}), current) == Comparison(Drift.IN_SYNC)


@pytest.mark.parametrize(
    ("desired", "current", "path"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        ({"data": {"a": "1"}}, {"data": {}}, "data.a"),
        ({"data": {"a": "1"}}, {}, "data"),
        ({"data": {"a.b": "1"}}, {"data": {"a.b": "2"}}, "data[a.b]"),
        ({"spec": {"a": {}}}, {"spec": {}}, "spec.a"),
        ({"spec": {"a": True}}, {"spec": {"a": 1}}, "spec.a"),
        ({"spec": {"a": "1"}}, {"spec": {"a": 1}}, "spec.a"),
        ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, "spec.a[1]"),
        ({"spec": {"a": [1]}}, {"spec": {"a": {"b": 1}}}, "spec.a"),
        ({"spec": {"a": [{"b": {"c": 1}}]}}, {"spec": {"a": [{"b": {"c": 2}}]}}, "spec.a[0].b.c"),
    ],
)
def test_what_is_missing_or_other_than_desired_differs_at_its_path(
    desired: dict[str, Any], current: dict[str, Any], path: str
) -> None:
    assert judge(obj(**desired), obj(**current)) == Comparison(Drift.DIFFERS, (path,))


@pytest.mark.parametrize(
    ("desired", "current"),
    [({"a": None}, {}), ({"a": 1}, {"a": 1.0}), ({"a": [{"b": None}]}, {"a": [{}]}), ({"a": None}, {"a": None})],
)
def test_null_is_nothing_and_numbers_are_numbers(desired: dict[str, Any], current: dict[str, Any]) -> None:
    assert judge(obj(spec=desired), obj(spec=current)).drift is Drift.IN_SYNC


EXTRA = {"f:data": {"f:b": {}}}


@pytest.mark.parametrize(
    ("managed", "drift", "managers"),
    [
        (None, Drift.AMBIGUOUS, ()),
        ([], Drift.AMBIGUOUS, ()),
        ([entry({"f:data": {".": {}, "f:a": {}}})], Drift.IN_SYNC, ()),
        ([entry(EXTRA)], Drift.AMBIGUOUS, ()),
        ([entry(EXTRA, manager="kubectl")], Drift.DIFFERS, ("kubectl",)),
        ([entry(EXTRA, operation="Apply")], Drift.DIFFERS, (US,)),
        ([entry(EXTRA), entry(EXTRA, manager="kubectl")], Drift.AMBIGUOUS, ()),
        ([entry({"f:data": {}}, manager="kubectl")], Drift.DIFFERS, ("kubectl",)),
        ([entry({"f:data": {}})], Drift.AMBIGUOUS, ()),
    ],
    ids=["unknown", "none", "nobody", "ours", "theirs", "applied", "both", "atomic-theirs", "atomic-ours"],
)
def test_an_extra_field_is_judged_by_who_set_it(
    managed: list[dict[str, Any]] | None, drift: Drift, managers: tuple[str, ...]
) -> None:
    desired, current = obj(data={"a": "1"}), obj(data={"a": "1", "b": "2"}, managed=managed)
    found = judge(desired, current)
    assert found == Comparison(drift, ("data.b",) if drift is Drift.DIFFERS else (), managers)
    assert ("b" in merge(desired, current, manager=US)["data"]) is (drift is Drift.IN_SYNC)


def test_an_extra_part_is_judged_down_to_its_fields() -> None:
    managed = [entry({"f:spec": {"f:x": {"f:ours": {}}}}), entry({"f:spec": {"f:x": {"f:theirs": {}}}}, manager="them")]
    current = obj(spec={"x": {"ours": 1, "theirs": {"deep": 1}, "nobodys": 1}}, managed=managed)
    found = judge(obj(spec={}), current)
    assert found == Comparison(Drift.DIFFERS, ("spec.x.theirs",), ("them",))
    assert merge(obj(spec={}), current, manager=US)["spec"] == {}


PORTS = 'k:{"containerPort":80,"protocol":"TCP"}'


def test_elements_of_a_keyed_list_are_told_apart_by_their_keys() -> None:
    fields = {"f:ports": {PORTS: {"f:containerPort": {}, "f:protocol": {}, "f:name": {}}}}
    theirs = {"f:ports": {'k:{"containerPort":81,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}}
    one, two = {"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}
    managed = [entry(fields), entry(theirs, manager="them")]
    current = obj("X", ports=[two, {**one, "name": "web", "allocated": 1}], managed=managed)
    assert judge(obj("X", ports=[one]), current) == Comparison(Drift.DIFFERS, ("ports[0].containerPort",), ("them",))
    merged = merge(obj("X", ports=[one]), current, manager=US)
    assert merged["ports"] == [{**one, "allocated": 1}]


def test_the_order_of_desired_elements_counts() -> None:
    steps = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}} for name in "ab"}
    current = obj("X", items=[{"name": "b"}, {"name": "a"}], managed=[entry({"f:items": steps})])
    assert judge(obj("X", items=[{"name": "a"}, {"name": "b"}]), current).drift is Drift.DIFFERS


def test_an_extra_member_of_a_set_is_judged_by_who_set_it() -> None:
    steps = {"f:members": {'v:"a"': {}}}
    for manager, drift in ((US, Drift.AMBIGUOUS), ("them", Drift.DIFFERS)):
        managed = [entry(steps), entry({"f:members": {'v:"b"': {}}}, manager=manager)]
        current = obj("X", members=["b", "a"], managed=managed)
        assert judge(obj("X", members=["a"]), current).drift is drift


def test_an_element_that_another_manager_appended_to_a_plain_list_differs() -> None:
    current = obj("X", items=[1, 2], managed=[entry({"f:items": {}}, manager="them")])
    assert judge(obj("X", items=[1]), current) == Comparison(Drift.DIFFERS, ("items[1]",), ("them",))


THEIRS = entry({"f:spec": {"f:x": {}, "f:map": {"f:theirs": {}}}}, manager="them")
OURS = entry({"f:spec": {"f:y": {}, "f:map": {".": {}, "f:ours": {}}}})


@pytest.mark.clause("A9")
@pytest.mark.parametrize(
    ("paths", "spec", "left"),
    [
        ([], {}, ()),
        ([("spec", "x")], {"x": 1}, ("spec.x",)),
        ([("spec", "y")], {}, ()),
        ([("spec", "map")], {"map": {"theirs": 1}}, ("spec.map.theirs",)),
        ([("spec", "map", "theirs")], {"map": {"theirs": 1}}, ("spec.map.theirs",)),
        ([("spec", "map", "ours")], {}, ()),
        ([("spec",)], {"x": 1, "map": {"theirs": 1}}, ("spec.map.theirs", "spec.x")),
    ],
)
def test_what_another_manager_set_at_a_left_place_stays(
    paths: list[tuple[str, ...]], spec: dict[str, Any], left: tuple[str, ...]
) -> None:
    current = obj("X", spec={"x": 1, "y": 1, "map": {"theirs": 1, "ours": 1}}, managed=[THEIRS, OURS])
    desired, places = obj("X", spec={}), Left(tuple(paths))
    assert merge(desired, current, manager=US, left=places)["spec"] == spec
    assert compare(desired, current, manager=US, left=places).left == left


HTTP, SIDE = Named("name", "http"), Named("name", "side")
BY_PORT: dict[str, Any] = {
    'k:{"port":80}': {"f:weight": {}},
    'k:{"port":81}': {".": {}, "f:port": {}, "f:name": {}},
    'k:{"port":82}': {".": {}, "f:port": {}, "f:name": {}},
}


@pytest.mark.clause("A9")
@pytest.mark.parametrize(
    ("path", "keyed", "items"),
    [
        (("items", HTTP, "weight"), True, [{"port": 70}, {"port": 80, "name": "http", "weight": 1}]),
        (("items", HTTP, "weight"), False, [{"port": 70}, {"port": 80, "name": "http", "weight": 1}]),
        (("items", 1, "weight"), True, [{"port": 70}, {"port": 80, "name": "http", "weight": 1}]),
        (("items", 1, "weight"), False, [{"port": 70}, {"port": 80, "name": "http"}]),
        (("items", SIDE), True, [{"port": 70}, {"port": 80, "name": "http"}, {"port": 81, "name": "side"}]),
        (("items", SIDE), False, [{"port": 70}, {"port": 80, "name": "http"}, {"port": 81, "name": "side"}]),
    ],
)
def test_elements_are_paired_by_the_keys_of_the_schema_or_of_the_path(
    path: LeftPath, keyed: bool, items: list[dict[str, Any]]
) -> None:
    theirs = entry({"f:items": BY_PORT if keyed else {}}, manager="them")
    found = [{"port": 80, "name": "http", "weight": 1}, {"port": 81, "name": "side"}, {"port": 82, "name": "other"}]
    current = obj("X", items=found, managed=[theirs])
    desired = obj("X", items=[{"port": 70}, {"port": 80, "name": "http"}])
    left = Left((path,))
    assert merge(desired, current, manager=US, left=left)["items"] == items
    is_unpaired = path[1] == 1 and not keyed
    assert compare(desired, current, manager=US, left=left).unpaired == (("items",) if is_unpaired else ())


@pytest.mark.clause("A9")
def test_an_element_is_left_as_a_whole_or_not_at_all() -> None:
    """One that the daemon made goes with the edit, whoever set a field in it; one that others made stays whole."""
    step = 'k:{"name":"side"}'
    ours = entry({"f:items": {step: {".": {}, "f:name": {}, "f:image": {}}}})
    tuned = entry({"f:items": {step: {"f:weight": {}}}}, manager="them")
    theirs = entry({"f:items": {step: {".": {}, "f:name": {}, "f:image": {}}}}, manager="them")
    side = {"name": "side", "image": "i", "weight": 1}
    for managed, expected in (([ours, tuned], None), ([theirs], [side]), ([ours, theirs], [side])):
        current = obj("X", items=[side], managed=managed)
        left = Left((("items", SIDE),))
        assert merge(obj("X"), current, manager=US, left=left).get("items") == expected


@pytest.mark.clause("A9")
@pytest.mark.parametrize("made_copy", [True, False])
def test_what_the_maker_of_the_copy_wrote_under_another_name_goes_with_the_edit(made_copy: bool) -> None:
    """As the Go original, or the restore of a backup: it wrote the owner's mark, too."""
    marks = {"f:metadata": {"f:annotations": {f"f:{meta.OWNER}": {}}}} if made_copy else {}
    current = obj(data={"a": "1", "b": "2"}, managed=[entry({"f:data": {"f:b": {}}, **marks}, manager="manager")])
    body = merge(obj(data={"a": "1"}), current, manager=US, left=Left((("data", "b"),)))
    assert ("b" in body["data"]) is not made_copy


@pytest.mark.clause("A9")
def test_a_map_that_a_removal_emptied_is_like_none() -> None:
    desired, left = obj(data={}), Left((("data", "a"),))
    assert compare(desired, obj(), manager=US, left=left).drift is Drift.IN_SYNC
    assert compare(desired, obj(), manager=US).drift is Drift.DIFFERS


def texts(**found: str) -> dict[str, Any]:
    return {"labels": dict(found), "annotations": dict(found)}


def test_labels_and_annotations_of_others_stay() -> None:
    theirs = {"f:metadata": {f"f:{which}": {"f:b": {}} for which in ("labels", "annotations")}}
    for managed in (None, [entry({"f:data": {}})], [entry(theirs, manager="them")]):
        current = obj(metadata=texts(a="1", b="2"), managed=managed)
        assert judge(obj(metadata=texts(a="1")), current).drift is Drift.IN_SYNC
        merged = merge(obj(metadata=texts(a="1")), current, manager=US)
        assert merged["metadata"]["labels"] == merged["metadata"]["annotations"] == {"a": "1", "b": "2"}


def test_labels_and_annotations_that_we_wrote_go_with_the_source() -> None:
    ours = {"f:metadata": {f"f:{which}": {"f:b": {}} for which in ("labels", "annotations")}}
    current = obj(metadata=texts(a="1", b="2"), managed=[entry(ours)])
    found = judge(obj(metadata=texts(a="1")), current)
    assert found == Comparison(Drift.DIFFERS, ("metadata.annotations.b", "metadata.labels.b"))
    assert merge(obj(), current, manager=US)["metadata"]["labels"] == {"a": "1"}


@pytest.mark.parametrize("which", ["labels", "annotations"])
@pytest.mark.parametrize("found", [{}, {"a": "2"}])
def test_a_desired_label_or_annotation_must_be_there(which: str, found: dict[str, str]) -> None:
    found_drift = judge(obj(metadata={which: {"a": "1"}}), obj(metadata={which: found}))
    assert found_drift == Comparison(Drift.DIFFERS, (f"metadata.{which}.a",))


@pytest.mark.clause("O10")
@pytest.mark.parametrize("name", [meta.GO_LAST_APPLIED, meta.KUBECTL_LAST_APPLIED, meta.ORIGINAL_GVK])
def test_adoption_removes_what_the_original_and_kubectl_left(name: str) -> None:
    theirs = [entry({"f:metadata": {"f:annotations": {f"f:{name}": {}}}}, manager="manager")]
    current = obj(metadata={"annotations": {name: "x"}}, managed=theirs)
    assert judge(obj(), current) == Comparison(Drift.DIFFERS, (f"metadata.annotations[{name}]",), ("manager",))
    assert "annotations" not in merge(obj(), current, manager=US)["metadata"]


@pytest.mark.clause("W5")
@pytest.mark.parametrize("name", [meta.CLUSTER_DISABLED, meta.ALLOW_DELETIONS])
def test_what_speaks_for_this_cluster_is_never_undone(name: str) -> None:
    ours = [entry({"f:metadata": {"f:annotations": {f"f:{name}": {}}}})]
    current = obj(metadata={"annotations": {name: "x"}}, managed=ours)
    assert judge(obj(), current).drift is Drift.IN_SYNC
    assert merge(obj(), current, manager=US)["metadata"]["annotations"] == {name: "x"}


@pytest.mark.clause("W5")
@pytest.mark.parametrize(("inherited", "drift"), [(True, Drift.DIFFERS), (False, Drift.IN_SYNC)])
def test_an_inherited_sync_disabled_goes_with_the_sources(inherited: bool, drift: Drift) -> None:
    current = obj(metadata={"annotations": {meta.SYNC_DISABLED: "", meta.PROVENANCE: origin(inherited=inherited)}})
    desired = obj(metadata={"annotations": {meta.PROVENANCE: origin(inherited=inherited)}})
    assert judge(desired, current).drift is drift


@pytest.mark.parametrize(
    ("changes", "drift"),
    [
        ({"revision": 9}, Drift.IN_SYNC),
        ({"rule": "s"}, Drift.DIFFERS),
        ({"uid": "v"}, Drift.DIFFERS),
        ({"policy": "Delete"}, Drift.DIFFERS),
        ({"owner": ClusterUID("p")}, Drift.DIFFERS),
        ({"copy": Target("", "ConfigMap", "apps", "other")}, Drift.DIFFERS),
    ],
)
def test_the_revision_in_the_provenance_alone_is_no_drift(changes: dict[str, Any], drift: Drift) -> None:
    desired = obj(metadata={"annotations": {meta.PROVENANCE: origin()}})
    current = obj(metadata={"annotations": {meta.PROVENANCE: origin(**changes)}})
    assert judge(desired, current).drift is drift
    assert merge(desired, current, manager=US)["metadata"]["annotations"] == {meta.PROVENANCE: origin()}


def test_what_is_written_keeps_the_identity_and_what_others_hold_on_to() -> None:
    held = {"uid": "u", "resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{"uid": "o"}]}
    current = obj(metadata={**held, "generation": 3, "creationTimestamp": "x"}, managed=[entry({})], status={"x": 1})
    merged = merge(obj(data={"a": "1"}), current, manager=US)
    assert merged == obj(data={"a": "1"}, metadata=held)


def service(**spec: Any) -> dict[str, Any]:
    return obj("Service", spec=spec)


WEB = {"name": "web", "port": 80, "protocol": "TCP"}


def test_a_services_addresses_are_no_drift_whoever_set_them() -> None:
    addresses = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}
    current = service(type="NodePort", ports=[{**WEB, "nodePort": 30000}], **addresses)
    for managed in (None, [entry({"f:spec": {}}, manager="them")]):
        if managed:
            current["metadata"]["managedFields"] = managed
        desired = service(type="NodePort", ports=[WEB])
        assert judge(desired, current).drift is Drift.IN_SYNC
        assert merge(desired, current, manager=US)["spec"] == current["spec"]


def test_node_ports_follow_the_name_of_their_port() -> None:
    metrics = {"name": "metrics", "port": 90, "protocol": "TCP"}
    steps = {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}, 'k:{"port":90,"protocol":"TCP"}': {"f:port": {}}}
    current = service(type="NodePort", ports=[{**WEB, "nodePort": 30000}, {**metrics, "nodePort": 30001}])
    current["metadata"]["managedFields"] = [entry({"f:spec": {"f:ports": steps}})]
    desired = service(type="NodePort", ports=[{**metrics}, {**WEB, "port": 8080}])
    assert judge(desired, current).drift is Drift.DIFFERS
    assert merge(desired, current, manager=US)["spec"]["ports"] == [
        {**metrics, "nodePort": 30001},
        {**WEB, "port": 8080, "nodePort": 30000},
    ]


def test_a_port_that_goes_leaves_nothing_behind() -> None:
    steps = {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}, 'k:{"port":90,"protocol":"TCP"}': {"f:port": {}}}
    current = service(ports=[WEB, {"port": 90, "protocol": "TCP", "nodePort": 30001}])
    current["metadata"]["managedFields"] = [entry({"f:spec": {"f:ports": steps}})]
    assert judge(service(ports=[WEB]), current).drift is Drift.AMBIGUOUS
    assert merge(service(ports=[WEB]), current, manager=US)["spec"]["ports"] == [WEB]


@pytest.mark.parametrize(
    ("kind", "kept"),
    [("ClusterIP", {"clusterIP": "10.0.0.1"}), ("ExternalName", {}), ("LoadBalancer", {"clusterIP": "10.0.0.1"})],
)
def test_what_is_carried_over_fits_the_new_type(kind: str, kept: dict[str, str]) -> None:
    current = service(type="NodePort", clusterIP="10.0.0.1", healthCheckNodePort=1, ports=[{**WEB, "nodePort": 30000}])
    port = {**WEB, "nodePort": 30000} if kind == "LoadBalancer" else WEB
    found = merge(service(type=kind, ports=[WEB]), current, manager=US)["spec"]
    assert found == {"type": kind, "ports": [port], **kept}


def test_a_claim_keeps_its_volume() -> None:
    current = obj("PersistentVolumeClaim", spec={"volumeName": "v"}, managed=[entry({"f:spec": {}}, manager="them")])
    desired = obj("PersistentVolumeClaim", spec={})
    assert judge(desired, current).drift is Drift.IN_SYNC
    assert merge(desired, current, manager=US)["spec"] == {"volumeName": "v"}


def test_managed_fields_that_nobody_can_read_are_no_failure() -> None:
    fields: list[Any] = [{}, {"fieldsV1": 3}, 4, entry({"f:items": {"k:nonsense": {}, "v:": {}, 'k:["a"]': {}}})]
    assert judge(obj("X", items=[{"a": 1}]), obj("X", items=[{"a": 1}], managed=fields)).drift is Drift.IN_SYNC


def test_what_is_nested_too_deeply_is_an_error() -> None:
    def nested() -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(5000):
            value = {"a": value}
        return {**obj(), "spec": value}

    with pytest.raises(InvalidObject, match="nested too deeply"):
        compare(nested(), nested(), manager=US)
