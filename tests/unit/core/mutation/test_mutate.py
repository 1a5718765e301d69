"""W5, W6 and the order of mutations: what a copy should be."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.api.syncrule import RuleEntry, read_rule
from registry_controller.core.mutation.mutate import build_copy, get_copy_kind

OWNER = ClusterUID("2f0b7a0e-0000-4000-8000-000000000001")
CONFIG_MAP = GVK("", "v1", "ConfigMap")
SERVICE = GVK("", "v1", "Service")


def entries(*mutations: dict[str, Any]) -> tuple[RuleEntry, ...]:
    spec = {"groupVersionKind": {"version": "v1", "kind": "x"}, "rules": [{"mutations": m} for m in mutations]}
    return read_rule({"metadata": {}, "spec": spec}).entries


def source(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one", "namespace": "apps", **metadata}, "data": {"a": "1"}, "status": {"x": 1}}


def copy_of(found: dict[str, Any], *mutations: dict[str, Any], gvk: GVK = CONFIG_MAP) -> Any:
    return build_copy(found, gvk, entries(*mutations or ({},)), owner=OWNER).manifest


def test_a_copy_says_whose_it_is_and_keeps_the_content() -> None:
    result = build_copy(source(), CONFIG_MAP, entries({}), owner=OWNER)
    assert result.target == Target("", "ConfigMap", "apps", "one")
    assert result.gvk == CONFIG_MAP
    assert result.manifest == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "one",
            "namespace": "apps",
            "annotations": {meta.OWNER: OWNER},
            "labels": {meta.OWNER: OWNER},
        },
        "data": {"a": "1"},
    }


def test_an_owner_that_is_no_label_value_is_named_by_the_annotation_alone() -> None:
    result = build_copy(source(), CONFIG_MAP, entries({}), owner=ClusterUID("not a label value"))
    assert meta.labels_of(result.manifest) == {}
    assert meta.annotations_of(result.manifest) == {meta.OWNER: "not a label value"}


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_all_adds_come_before_all_removes_and_a_later_rule_wins(where: str) -> None:
    found = copy_of(
        source(**{where: {"stays": "1", "goes": "1", "changes": "1"}}),
        {where: {"add": {"changes": "2", "new": "2", "short-lived": "2"}, "remove": ["goes", "never-there"]}},
        {where: {"add": {"changes": "3", "goes": "3"}, "remove": ["short-lived"]}},
    )
    texts = {key: text for key, text in found["metadata"][where].items() if key != meta.OWNER}
    assert texts == {"stays": "1", "changes": "3", "new": "2"}


@pytest.mark.parametrize(
    ("gvk", "name", "is_good"),
    [
        (CONFIG_MAP, "a.b-1", True), (CONFIG_MAP, "a_b", False), (CONFIG_MAP, "A", False), (CONFIG_MAP, "", False),
        (CONFIG_MAP, "a" * 254, False), (SERVICE, "a-1", True), (SERVICE, "a.b", False), (SERVICE, "a" * 64, False),
        (GVK("apps", "v1", "Deployment"), "a:b", False), (GVK("example.com", "v1", "Tag"), "a:b", True),
        (GVK("rbac.authorization.k8s.io", "v1", "Role"), "system:A", True),
        (GVK("example.com", "v1", "Tag"), "a/b", False),
    ],
)  # fmt: skip
def test_an_override_gives_no_name_that_the_kind_cannot_have(gvk: GVK, name: str, *, is_good: bool) -> None:
    """S1: a plan says so, because the daemon does not even ask the API server."""
    renamed = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": name}]}
    if is_good:
        assert copy_of(source(), renamed, gvk=gvk)["metadata"]["name"] == name
    else:
        with pytest.raises(InvalidObject, match=f"metadata.name is not a valid name of a {gvk.kind}"):
            copy_of(source(), renamed, gvk=gvk)


AS_SECRET = {"version": "v1", "kind": "Secret"}


def test_a_secrets_string_data_is_what_its_server_makes_of_it() -> None:
    """A1: it is merged into data, over what is there, and is never stored."""
    texts = {
        "type": "replace",
        "path": "/stringData?",
        "value": '{"a": "two", "b": "ü", "c": null}',
        "parseValue": True,
    }
    data = {"type": "replace", "path": "/data", "value": '{"a": "MQ==", "d": "MQ=="}', "parseValue": True}
    found = copy_of(source(), {"groupVersionKind": AS_SECRET, "overrides": [texts, data]})
    assert "stringData" not in found
    assert found["data"] == {"a": "dHdv", "b": "w7w=", "c": "", "d": "MQ=="}
    assert "stringData" in copy_of(source(), {"overrides": [texts]})


@pytest.mark.parametrize(("value", "path"), [("[]", "stringData"), ('{"a": 1}', "stringData[a]")])
def test_string_data_that_is_no_map_of_texts_is_an_error(value: str, path: str) -> None:
    texts = {"type": "replace", "path": "/stringData?", "value": value, "parseValue": True}
    with pytest.raises(InvalidObject) as found:
        copy_of(source(), {"groupVersionKind": AS_SECRET, "overrides": [texts]})
    assert found.value.path == path


def test_the_owner_cannot_be_mutated_away() -> None:
    mutation = {where: {"add": {meta.OWNER: "x"}, "remove": [meta.OWNER]} for where in ("labels", "annotations")}
    found = copy_of(source(), mutation)
    assert found["metadata"]["annotations"][meta.OWNER] == found["metadata"]["labels"][meta.OWNER] == OWNER


@pytest.mark.parametrize(
    ("mutations", "gvk"),
    [
        ([{"kind": "Peer"}], GVK("", "v1", "Peer")),
        ([{"group": "g", "version": "v2"}], GVK("g", "v2", "ConfigMap")),
        ([{"group": "g", "kind": "A"}, {"kind": "B"}], GVK("g", "v1", "B")),
    ],
)
def test_the_given_parts_of_the_kind_replace_those_of_the_copy(mutations: list[dict[str, str]], gvk: GVK) -> None:
    wanted = [{"groupVersionKind": mutation} for mutation in mutations]
    found = build_copy(source(), CONFIG_MAP, entries(*wanted), owner=OWNER)
    assert found.gvk == gvk
    assert found.target == Target(gvk.group, gvk.kind, "apps", "one")
    assert (found.manifest["apiVersion"], found.manifest["kind"]) == (gvk.api_version, gvk.kind)
    assert meta.annotations_of(found.manifest)[meta.ORIGINAL_GVK] == "ConfigMap./v1"
    assert get_copy_kind(CONFIG_MAP, entries(*wanted)) == gvk


def test_an_empty_kind_mutation_leaves_no_mark() -> None:
    assert meta.ORIGINAL_GVK not in copy_of(source(), {"groupVersionKind": {}})["metadata"]["annotations"]


@pytest.mark.clause("W6")
def test_what_belongs_to_one_object_in_one_cluster_stays_behind() -> None:
    found = copy_of(
        source(
            uid="u",
            resourceVersion="7",
            generation=2,
            creationTimestamp="2026-01-01T00:00:00Z",
            selfLink="/x",
            managedFields=[{}],
            finalizers=["f"],
            ownerReferences=[{}],
            deletionTimestamp="x",
            deletionGracePeriodSeconds=1,
        )
    )
    assert set(found["metadata"]) == {"name", "namespace", "annotations", "labels"}
    assert "status" not in found


@pytest.mark.clause("W5", "W6")
@pytest.mark.parametrize(
    "name",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "banzaicloud.com/last-applied",
        "banzaicloud.io/managed-component",
        "banzaicloud.io/related-to",
        "deployment.kubernetes.io/revision",
        meta.PROVENANCE,
        meta.ORIGINAL_GVK,
        meta.CLUSTER_DISABLED,
        meta.ALLOW_DELETIONS,
    ],
)
def test_marks_of_the_sources_cluster_are_not_copied(name: str) -> None:
    found = copy_of(source(annotations={name: "x"}, labels={name: "x"}), {"annotations": {"add": {name: "y"}}})
    assert set(found["metadata"]["annotations"]) == set(found["metadata"]["labels"]) == {meta.OWNER}


TRACKING = [
    ("meta.helm.sh/release-name", "x"),
    ("argocd.argoproj.io/tracking-id", "x"),
    ("argocd.argoproj.io/instance", "x"),
    ("kustomize.toolkit.fluxcd.io/name", "x"),
    ("helm.toolkit.fluxcd.io/namespace", "x"),
    ("objectset.rio.cattle.io/hash", "x"),
    ("kapp.k14s.io/app", "x"),
    ("applyset.kubernetes.io/part-of", "x"),
    ("config.k8s.io/owning-inventory", "x"),
    ("olm.owner", "x"),
    ("olm.operatorGroup", "x"),
    ("operators.coreos.com/etcd.default", "x"),
    ("configsync.gke.io/resource-id", "x"),
    ("configmanagement.gke.io/managed", "x"),
]
TRACKING_LABELS = [
    ("app.kubernetes.io/managed-by", "Helm"),
    ("app.kubernetes.io/managed-by", "configmanagement.gke.io"),
    ("app.kubernetes.io/instance", "x"),
]


@pytest.mark.clause("W6")
@pytest.mark.parametrize(("name", "text"), [*TRACKING, *TRACKING_LABELS])
@pytest.mark.parametrize("added", [False, True])
def test_tracking_marks_stay_with_the_source_and_may_be_set_again(name: str, text: str, added: bool) -> None:
    """Also as the source has them."""
    wanted = {name: text} if added else {}
    marked = source(labels={name: text, "kept": "1"}, annotations={name: text} if (name, text) in TRACKING else {})
    found = copy_of(marked, {"labels": {"add": wanted}, "annotations": {"add": wanted}})["metadata"]
    assert {key: value for key, value in found["labels"].items() if key != meta.OWNER} == {"kept": "1"} | wanted
    assert {key: value for key, value in found["annotations"].items() if key != meta.OWNER} == wanted


@pytest.mark.clause("W6")
def test_the_instance_of_an_application_stays_on_pods_in_templates_and_in_what_templates_see() -> None:
    labels = {"app.kubernetes.io/instance": "x"}
    inside = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
    value = '{{ index .Object.metadata.labels "app.kubernetes.io/instance" }}'
    told = {"overrides": [{"type": "replace", "path": "/spec/told?", "value": value}]}
    found = copy_of({**source(labels=labels), **inside}, told)
    assert found["spec"] == {**inside["spec"], "told": "x"}
    assert set(found["metadata"]["labels"]) == {meta.OWNER}
    pod = build_copy(source(labels=labels), GVK("", "v1", "Pod"), [], owner=ClusterUID("o"))
    assert pod.manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == "x"


@pytest.mark.clause("W6")
@pytest.mark.parametrize(("value", "found"), [("here", "here"), ("x", None)])
def test_an_override_that_changes_a_tracking_mark_is_obeyed(value: str, found: str | None) -> None:
    change = {"type": "replace", "path": "/metadata/labels/app.kubernetes.io~1instance", "value": value}
    copied = copy_of(source(labels={"app.kubernetes.io/instance": "x"}), {"overrides": [change]})
    assert copied["metadata"]["labels"].get("app.kubernetes.io/instance") == found


@pytest.mark.clause("W5", "W6")
@pytest.mark.parametrize(
    "name",
    ["app.kubernetes.io/managed-by", "xtoolkit.fluxcd.io/a", meta.SYNC_DISABLED, "a", "olmo", "kapp.k14s.io.example/a"],
)
def test_other_labels_and_annotations_are(name: str) -> None:
    assert copy_of(source(annotations={name: "x"}))["metadata"]["annotations"][name] == "x"


def test_the_input_is_never_changed() -> None:
    found = source(labels={"a": "1"}, annotations={"a": "1"}, uid="u")
    before = copy.deepcopy(found)
    copy_of(found, {"labels": {"add": {"b": "1"}, "remove": ["a"]}, "groupVersionKind": {"kind": "X"}})
    assert found == before


def test_a_service_leaves_its_addresses_behind() -> None:
    port = {"port": 80, "protocol": "TCP", "targetPort": 8080}
    spec = {
        "type": "LoadBalancer",
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "healthCheckNodePort": 30001,
        "ports": [{**port, "nodePort": 30000}],
        "selector": {"a": "1"},
    }
    found = copy_of({**source(), "spec": spec}, gvk=SERVICE)["spec"]
    assert found == {"type": "LoadBalancer", "ipFamilyPolicy": "SingleStack", "ports": [port], "selector": {"a": "1"}}


def test_a_headless_service_stays_headless() -> None:
    spec = {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"]}
    assert copy_of({**source(), "spec": spec}, gvk=SERVICE)["spec"] == {"clusterIP": "None", "clusterIPs": ["None"]}


@pytest.mark.parametrize(
    ("gvk", "given", "kept"),
    [
        (GVK("", "v1", "PersistentVolumeClaim"), {"spec": {"volumeName": "v", "a": 1}}, {"spec": {"a": 1}}),
        (GVK("", "v1", "Namespace"), {"spec": {"finalizers": ["kubernetes"]}}, {}),
        (
            GVK("", "v1", "ServiceAccount"),
            {"secrets": [{"name": "t"}], "imagePullSecrets": []},
            {"imagePullSecrets": []},
        ),
        (
            GVK("batch", "v1", "Job"),
            {"spec": {"selector": {}, "template": {"metadata": {"labels": {"controller-uid": "u", "a": "1"}}}}},
            {"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}},
        ),
        (
            GVK("batch", "v1", "Job"),
            {"spec": {"manualSelector": True, "selector": {"a": "1"}}},
            {"spec": {"manualSelector": True, "selector": {"a": "1"}}},
        ),
        (
            GVK("", "v1", "Pod"),
            {
                "spec": {
                    "nodeName": "n",
                    "volumes": [{"name": "kube-api-access-x"}, {"name": "v"}],
                    "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-x"}, {"name": "v"}]}],
                }
            },
            {"spec": {"volumes": [{"name": "v"}], "containers": [{"name": "c", "volumeMounts": [{"name": "v"}]}]}},
        ),
        (GVK("other", "v1", "Service"), {"spec": {"clusterIP": "10.0.0.1"}}, {"spec": {"clusterIP": "10.0.0.1"}}),
    ],
    ids=["claim", "namespace", "account", "job", "job-with-selector", "pod", "other-group"],
)
def test_what_each_cluster_decides_for_itself_is_left_out(
    gvk: GVK, given: dict[str, Any], kept: dict[str, Any]
) -> None:
    given = {"metadata": {"name": "one"}, **given}
    before = copy.deepcopy(given)
    found = copy_of(given, gvk=gvk)
    assert {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")} == kept
    assert given == before


@pytest.mark.parametrize("metadata", [{"labels": ["x"]}, {"annotations": {"a": 1}}, {"name": 3}])
def test_metadata_that_no_server_would_serve_is_an_error(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidObject, match="metadata"):
        copy_of(source(**metadata))


@pytest.mark.parametrize("spec", [None, [], {"ports": 3}, {"ports": [3]}, {"ports": None, "volumes": 1}, "x"])
@pytest.mark.parametrize("kind", ["Service", "Pod", "Namespace"])
def test_a_body_of_an_odd_shape_is_no_failure(kind: str, spec: object) -> None:
    assert copy_of({**source(), "spec": spec}, gvk=GVK("", "v1", kind))
