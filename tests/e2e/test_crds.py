"""The custom resource definitions, as a real API server and kubectl see them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Cluster, CommandError, Group

Manifest = dict[str, Any]

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
ORIGINAL = ROOT / "tests" / "fixtures" / "original"
GROUP = "clusterregistry.k8s.cisco.com"
KINDS = {"Cluster": "clusters", "ResourceSyncRule": "resourcesyncrules", "ClusterFeature": "clusterfeatures"}

APPLIES = {"apply": (), "server-side": ("--server-side",), "unvalidated": ("--validate=false",)}
"""The ways of `kubectl apply`."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """A cluster with our definitions."""
    with Group(1, prefix="crds") as group:
        install(group[0], CRDS)
        yield group[0]


@pytest.fixture
def upgraded() -> Iterator[Cluster]:
    """A cluster with the original's definitions and objects, and then with our definitions."""
    with Group(1, prefix="upgraded") as group:
        cluster = group[0]
        install(cluster, ORIGINAL / "crds")
        for stored in originals():
            create_as_go(cluster, stored)
        install(cluster, CRDS)
        # A server takes over a new schema a moment after it has accepted it.
        eventually(lambda: is_served(cluster, "resourcesyncrule", "deletionPolicy"))
        eventually(lambda: is_served(cluster, "cluster", "observedGeneration"))
        yield cluster


def eventually(is_so: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        time.sleep(0.2)


def is_served(cluster: Cluster, kind: str, field: str) -> bool:
    explained = cluster.kubectl("explain", kind, "--recursive", "--api-version", f"{GROUP}/v1alpha1", check=False)
    return re.search(rf"\b{field}\t", explained) is not None


def install(cluster: Cluster, directory: Path) -> None:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(directory))
    names = [f"crd/{plural}.{GROUP}" for plural in KINDS.values()]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=180s", *names)


def originals() -> list[Manifest]:
    files = sorted((ORIGINAL / "objects").glob("*.yaml"))
    return [stored for file in files for stored in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def path_of(manifest: Manifest) -> str:
    return f"/apis/{GROUP}/v1alpha1/{KINDS[manifest['kind']]}"


def create_as_go(cluster: Cluster, manifest: Manifest) -> None:
    """Create an object and its status as typed Go clients do: no field validation, no apply."""
    path = path_of(manifest)
    created = cluster.api.request("POST", path, body=manifest)
    body = created | {"status": manifest["status"]}
    cluster.api.request("PUT", f"{path}/{manifest['metadata']['name']}/status", body=body)


def stored_as_go(manifest: Manifest) -> Manifest:
    """What is stored of it: a null of a field that is not nullable goes away."""

    def without_null(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_null(item) for key, item in value.items() if item is not None}
        return [without_null(item) for item in value] if isinstance(value, list) else value

    return {part: without_null(manifest[part]) for part in ("spec", "status") if manifest.get(part)}


def rule(name: str = "a", /, **spec: Any) -> Manifest:
    """Build a ResourceSyncRule of Secrets that matches nothing."""
    base: Manifest = {"groupVersionKind": {"version": "v1", "kind": "Secret"}, "rules": []}
    return {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "ResourceSyncRule", "metadata": {"name": name}, "spec": base | spec,
    }  # fmt: skip


def matching(match: Mapping[str, Any], /) -> Manifest:
    """Build a rule with one match."""
    return rule(rules=[{"match": [match]}])


def cluster_object(**spec: Any) -> Manifest:
    """Build a Cluster."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"},
        "spec": {"clusterID": "5f0c1c2e-0000-4000-8000-00000000000a"} | spec,
    }  # fmt: skip


def feature(**spec: Any) -> Manifest:
    """Build a ClusterFeature."""
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterFeature", "metadata": {"name": "a"}, "spec": spec}


def without(manifest: Manifest, part: str, /) -> Manifest:
    """Build the same without a part."""
    return {key: value for key, value in manifest.items() if key != part}


def dry_run(cluster: Cluster, manifest: Manifest, *flags: str) -> Manifest:
    """Apply without storing and return what would be stored."""
    argv = ("apply", "--dry-run=server", "-o", "json", *flags, "-f", "-")
    answer: Manifest = json.loads(cluster.kubectl(*argv, stdin=json.dumps(manifest)))
    return answer


def refusal(cluster: Cluster, manifest: Manifest, *flags: str) -> str:
    """Apply without storing and return what kubectl says when it is refused."""
    with pytest.raises(CommandError) as refused:
        dry_run(cluster, manifest, *flags)
    return refused.value.stderr


IN_THE_WILD = {
    "1 kind mutation, rename by template, status": rule(
        groupVersionKind={"group": "servicemesh.cisco.com", "version": "v1alpha1", "kind": "IstioControlPlane"},
        clusterFeatureMatch=[
            {
                "featureName": "servicemesh.cisco.com/istiocontrolplane",
                "matchLabels": {"mode": "ACTIVE"},
                "matchExpressions": [{"key": "revision", "operator": "In", "values": ["cp-v115x"]}],
            }
        ],
        rules=[
            {
                "match": [{"objectKey": {"name": "cp", "namespace": "istio-system"}}],
                "mutations": {
                    "groupVersionKind": {"kind": "PeerIstioControlPlane"},
                    "overrides": [
                        {
                            "type": "replace",
                            "path": "/metadata/name",
                            "value": '{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}',
                        }
                    ],
                    "syncStatus": True,
                },
            }
        ],
    ),
    "2 Secret by label and content": rule(
        rules=[
            {
                "match": [
                    {
                        "labels": [{"matchLabels": {"istio.io/rev": "cp"}}],
                        "content": [{"key": "type", "value": "k8s.cisco.com/istio-reader-secret"}],
                    }
                ],
                "mutations": {"labels": {"add": {"istio/multiCluster": "true"}}},
            }
        ]
    ),
    "3 two matches by label expressions": rule(
        rules=[
            {
                "match": [
                    {"labels": [{"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}]}
                    for key in ("istio.io/rev", "istio.banzaicloud.io/related-to")
                ]
            }
        ]
    ),
    "4 ConfigMap by name in any namespace": rule(
        groupVersionKind={"version": "v1", "kind": "ConfigMap"},
        rules=[
            {"match": [{"objectKey": {"name": "istio-ca-root-cert"}}], "mutations": {"annotations": {"remove": ["a"]}}}
        ],
    ),
    "5 overrides without parseValue": rule(
        rules=[
            {
                "match": [{"objectKey": {"name": "a"}}],
                "mutations": {
                    "overrides": [
                        {"type": "replace", "path": "/metadata/namespace", "value": "{{ .Object.GetNamespace }}"},
                        {"type": "replace", "path": "/spec/gateways/0", "value": "meshgateway"},
                        {"type": "remove", "path": "/spec/ports?"},
                        {"type": "replace", "path": "/spec/replicas?", "value": "3", "parseValue": True},
                    ]
                },
            }
        ]
    ),
    "6 one rule and no match": rule(rules=[{"mutations": {"syncStatus": False}}]),
}

ACCEPTED = IN_THE_WILD | {
    "no rules at all": rule(rules=[]),
    "a rule with nothing": rule(rules=[{}]),
    "the empties of the original": matching({"objectKey": {}}) | {"status": {}},
    "everything of several kinds of match": rule(
        rules=[{"match": [{}]}, {"match": [{"objectKey": {}}], "mutations": {}}]
    ),
    "a status switch inside a match": matching({"objectKey": {"name": "a"}, "syncStatus": True}),
    "a number in content": matching({"content": [{"key": "spec.replicas", "value": 80}]}),
    "the largest number": matching({"content": [{"key": "a", "value": 2**31 - 1}]}),
    "the smallest number": matching({"content": [{"key": "a", "value": -(2**31)}]}),
    "a larger number as a text": matching({"content": [{"key": "a", "value": str(2**31)}]}),
    "annotations with any text": matching(
        {
            "annotations": [
                {
                    "matchAnnotations": {"example.com/url": "https://example.com/?a=b c"},
                    "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["not a label value!", ""]}],
                }
            ]
        }
    ),
    "all that is new": rule(
        deletionPolicy="Delete",
        suspend=True,
        createNamespaces=True,
        targetClusters={
            "names": ["a"],
            "matchLabels": {"region": "eu"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        },
        objectTargets="Required",
    ),
    "targets with nothing": rule(targetClusters={}),
    "no kind": rule(groupVersionKind={}),
    "a Cluster": cluster_object(
        authInfo={"secretRef": {"name": "a", "namespace": "b"}},
        kubernetesApiEndpoints=[{"clientNetwork": "vpn", "serverAddress": "10.0.0.1:6443", "caBundle": "YQ=="}],
    ),
    "a Cluster with the empties of the original": cluster_object(
        authInfo={"secretRef": {}}, kubernetesApiEndpoints=[{}]
    ),
    "a ClusterFeature": feature(featureName="a"),
}


@pytest.mark.parametrize("flags", APPLIES.values(), ids=APPLIES)
@pytest.mark.parametrize("manifest", ACCEPTED.values(), ids=ACCEPTED)
def test_what_people_write_is_accepted_whole(plane: Cluster, manifest: Manifest, flags: tuple[str, ...]) -> None:
    assert dry_run(plane, manifest, *flags)["spec"] == manifest["spec"]


EXPRESSION = [{"key": "a", "operator": "in"}]

REFUSED = {
    "a name beside objectKey": (
        matching({"name": "a"}),
        ("spec.rules[0].match[0].name: Forbidden: belongs under objectKey",),
    ),
    "a namespace beside objectKey": (
        matching({"namespace": "a", "content": [{"key": "a", "value": "b"}]}),
        ("spec.rules[0].match[0].namespace: Forbidden: belongs under objectKey",),
    ),
    "both, in a later match": (
        rule(rules=[{"match": [{"objectKey": {}}]}, {"match": [{}, {"name": "a", "namespace": "b"}]}]),
        ("spec.rules[1].match[1].name: Forbidden", "spec.rules[1].match[1].namespace: Forbidden"),
    ),
    "both, which are spelled as they must be written": (
        matching({"name": "x", "namespace": "y"}),
        tuple(
            f"spec.rules[0].match[0].{part}: Forbidden: belongs under objectKey: "
            'write objectKey: {name: "x", namespace: "y"}'
            for part in ("name", "namespace")
        ),
    ),
    "a name beside the namespace in objectKey": (
        matching({"objectKey": {"namespace": "b"}, "name": "a"}), (
            "spec.rules[0].match[0].name: Forbidden: belongs under objectKey",
            'write objectKey: {name: "a", namespace: "b"}',
        ),
    ),
    "a namespace beside the name in objectKey": (
        matching({"objectKey": {"name": "a"}, "namespace": "b"}), (
            "spec.rules[0].match[0].namespace: Forbidden: belongs under objectKey",
            'write objectKey: {name: "a", namespace: "b"}',
        ),
    ),
    "a name that is empty": (matching({"name": ""}), ("spec.rules[0].match[0].name: Forbidden",)),
    "a stray dash before the mutations": (
        rule(rules=[{"match": [{"objectKey": {"name": "a"}}]}, {"mutations": {"labels": {"add": {"a": "b"}}}}]),
        ("spec.rules: Invalid value", "each needs a match", 'Write "match: [{}]" if everything is meant'),
    ),
    "a stray dash and an empty match": (
        rule(rules=[{"match": []}, {"match": [{"objectKey": {"name": "a"}}]}]),
        ("spec.rules: Invalid value", "each needs a match"),
    ),
    "a number beyond 32 bits": (
        matching({"content": [{"key": "a", "value": 2**31}]}),
        ("spec.rules[0].match[0].content[0].value: Invalid value", "less than or equal to 2147483647"),
    ),
    "a number below 32 bits": (
        matching({"content": [{"key": "a", "value": -(2**31) - 1}]}),
        ("spec.rules[0].match[0].content[0].value: Invalid value", "greater than or equal to -2147483648"),
    ),
    "a number with a fraction": (
        matching({"content": [{"key": "a", "value": 1.5}]}), ("spec.rules[0].match[0].content[0].value",),
    ),
    "content without a value": (
        matching({"content": [{"key": "a"}]}), ("spec.rules[0].match[0].content[0].value: Required value",),
    ),
    "content with an empty key": (
        matching({"content": [{"key": "", "value": "a"}]}), ("spec.rules[0].match[0].content[0].key",),
    ),
    "an operator of labels": (
        matching({"labels": [{"matchExpressions": EXPRESSION}]}),
        ("spec.rules[0].match[0].labels[0].matchExpressions[0].operator: Unsupported value", '"DoesNotExist"'),
    ),
    "an operator of annotations": (
        matching({"annotations": [{"matchExpressions": EXPRESSION}]}),
        ("spec.rules[0].match[0].annotations[0].matchExpressions[0].operator: Unsupported value",),
    ),
    "an operator of features": (
        rule(clusterFeatureMatch=[{"matchExpressions": EXPRESSION}]),
        ("spec.clusterFeatureMatch[0].matchExpressions[0].operator: Unsupported value",),
    ),
    "an operator of targets": (
        rule(targetClusters={"matchExpressions": EXPRESSION}),
        ("spec.targetClusters.matchExpressions[0].operator: Unsupported value",),
    ),
    "another type of override": (
        rule(rules=[{"mutations": {"overrides": [{"type": "add", "path": "/a"}]}}]),
        ("spec.rules[0].mutations.overrides[0].type: Unsupported value", '"replace", "remove"'),
    ),
    "another way to name targets": (
        rule(objectTargets="required"), ("spec.objectTargets: Unsupported value", '"Ignore", "Required"'),
    ),
    "another deletion policy": (
        rule(deletionPolicy="delete"), ("spec.deletionPolicy: Unsupported value", '"Orphan", "Delete"'),
    ),
    "a rule without rules": (
        rule() | {"spec": {"groupVersionKind": {"kind": "Secret"}}}, ("spec.rules: Required value",),
    ),
    "a rule without a kind": (rule() | {"spec": {"rules": []}}, ("spec.groupVersionKind: Required value",)),
    "a rule without a spec": (without(rule(), "spec"), ("spec: Required value",)),
    "a Cluster without an ID": (cluster_object() | {"spec": {}}, ("spec.clusterID: Required value",)),
    "a Cluster without a spec": (without(cluster_object(), "spec"), ("spec: Required value",)),
    "a Cluster with an empty ID": (cluster_object(clusterID=""), ("spec.clusterID: Invalid value",)),
    "a CA bundle that is no base64": (
        cluster_object(kubernetesApiEndpoints=[{"caBundle": "-----BEGIN"}]),
        ("spec.kubernetesApiEndpoints[0].caBundle: Invalid value",),
    ),
    "a ClusterFeature without a name": (feature(), ("spec.featureName: Required value",)),
}  # fmt: skip


@pytest.mark.parametrize("flags", APPLIES.values(), ids=APPLIES)
@pytest.mark.parametrize(("manifest", "words"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_refused_with_its_path(
    plane: Cluster, manifest: Manifest, words: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    said = refusal(plane, manifest, *flags)
    for word in words:
        assert word in said


@pytest.mark.parametrize("flags", [(), ("--validate=false",)], ids=["apply", "unvalidated"])
def test_the_rule_of_the_originals_first_readme_is_spelled_as_it_must_be(
    plane: Cluster, flags: tuple[str, ...]
) -> None:
    """Server-side apply refuses the null before it looks at the match."""
    said = refusal(plane, matching({"objectKey": None, "name": "x", "namespace": "y"}), *flags)
    for part in ("name", "namespace"):
        assert (
            f'match[0].{part}: Forbidden: belongs under objectKey: write objectKey: {{name: "x", namespace: "y"}}'
            in said
        )


WRONG_TYPES = {
    "selectors that are no list": (
        matching({"labels": {"matchLabels": {"a": "b"}}}), "spec.rules[0].match[0].labels",
    ),
    "an override's value that is no text": (
        rule(rules=[{"mutations": {"overrides": [{"type": "replace", "path": "/a", "value": 1}]}}]),
        "spec.rules[0].mutations.overrides[0].value",
    ),
    "a name beside objectKey that is no text": (matching({"name": True}), "spec.rules[0].match[0].name"),
    "a label's value that is no text": (
        rule(rules=[{"mutations": {"labels": {"add": {"a": True}}}}]), "spec.rules[0].mutations.labels.add.a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("flags", APPLIES.values(), ids=APPLIES)
@pytest.mark.parametrize(("manifest", "path"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_wrong_type_is_refused_with_its_path(
    plane: Cluster, manifest: Manifest, path: str, flags: tuple[str, ...]
) -> None:
    assert path in refusal(plane, manifest, *flags)


UNKNOWN = {
    "in the spec": (rule(deletePolicy="Delete"), "spec.deletePolicy"),
    "in a rule": (rule(rules=[{"matches": []}]), "spec.rules[0].matches"),
    "in a match": (matching({"matchLabels": {"a": "b"}}), "spec.rules[0].match[0].matchLabels"),
    "in an object key": (matching({"objectKey": {"kind": "a"}}), "spec.rules[0].match[0].objectKey.kind"),
    "in an annotation selector": (
        matching({"annotations": [{"matchLabels": {"a": "b"}}]}), "spec.rules[0].match[0].annotations[0].matchLabels",
    ),
    "in an override": (
        rule(rules=[{"mutations": {"overrides": [{"op": "remove"}]}}]), "spec.rules[0].mutations.overrides[0].op",
    ),
    "in the targets": (rule(targetClusters={"name": "a"}), "spec.targetClusters.name"),
    "in a Cluster": (cluster_object(clusterId="a"), "spec.clusterId"),
    "in a reference": (cluster_object(authInfo={"secretRef": {"key": "a"}}), "spec.authInfo.secretRef.key"),
    "in an endpoint": (
        cluster_object(kubernetesApiEndpoints=[{"address": "a"}]), "spec.kubernetesApiEndpoints[0].address",
    ),
    "in a ClusterFeature": (feature(featureName="a", labels={}), "spec.labels"),
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "path"), UNKNOWN.values(), ids=UNKNOWN)
def test_kubectl_names_an_unknown_field(plane: Cluster, manifest: Manifest, path: str) -> None:
    assert f'unknown field "{path}"' in refusal(plane, manifest)
    assert f"{path}: field not declared in schema" in refusal(plane, manifest, "--server-side")


def test_kubectl_names_all_unknown_fields_at_once(plane: Cluster) -> None:
    said = refusal(plane, rule(one=1, rules=[{"two": 2, "match": [{"three": 3}]}]))
    assert re.findall(r'unknown field "([^"]+)"', said) == [
        "spec.one",
        "spec.rules[0].match[0].three",
        "spec.rules[0].two",
    ]


def test_the_definitions_are_established_and_structural(plane: Cluster) -> None:
    for plural in KINDS.values():
        definition = plane.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{GROUP}")
        conditions = {item["type"]: item["status"] for item in definition["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_every_kind_has_its_short_names_and_a_status(plane: Cluster) -> None:
    served = plane.api.get(f"/apis/{GROUP}/v1alpha1")["resources"]
    assert {tuple(item["categories"]) for item in served if "/" not in item["name"]} == {("cluster-registry",)}
    found = {item["name"]: (item["namespaced"], item.get("shortNames")) for item in served}
    assert found == {
        "clusters": (False, None),
        "clusters/status": (False, None),
        "resourcesyncrules": (False, ["rsr"]),
        "resourcesyncrules/status": (False, None),
        "clusterfeatures": (False, ["cf"]),
        "clusterfeatures/status": (False, None),
    }


COLUMNS = {
    "clusters": ("clusters", (), "NAME STATUS TYPE SYNCED AGE"),
    "clusters, wide": (
        "clusters",
        ("-o", "wide"),
        "NAME ID STATUS TYPE SYNCED VERSION PROVIDER DISTRIBUTION REGION STATUS_MESSAGE SYNC_MESSAGE AGE",
    ),
    "rules": ("rsr", (), "NAME KIND ACCEPTED SYNCED READY AGE"),
    "rules, wide": (
        "rsr",
        ("-o", "wide"),
        "NAME KIND ACCEPTED SYNCED READY GROUP VERSION DELETION_POLICY MESSAGE AGE",
    ),
    "features": ("cf", (), "NAME FEATURE AGE"),
}


@pytest.mark.parametrize(("resource", "flags", "headers"), COLUMNS.values(), ids=COLUMNS)
def test_kubectl_get_prints_these_columns(plane: Cluster, resource: str, flags: tuple[str, ...], headers: str) -> None:
    for manifest in (cluster_object(), rule(), feature(featureName="a")):
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    printed = plane.kubectl("get", resource, *flags).splitlines()[0]
    found = [header.replace(" ", "_") for header in re.split(r"\s{2,}", printed.strip())]
    assert found == headers.split()


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_explains_every_property(plane: Cluster, kind: str) -> None:
    groups = plane.api.get(f"/openapi/v3/apis/{GROUP}/v1alpha1")["components"]["schemas"]
    schema = next(s for s in groups.values() if {"group": GROUP, "kind": kind, "version": "v1alpha1"}
                  in s.get("x-kubernetes-group-version-kind", []))  # fmt: skip
    bare = [path for path, node in properties(schema, kind) if not node.get("description") and "metadata" not in path]
    assert bare == []
    explained = plane.kubectl("explain", KINDS[kind], "--api-version", f"{GROUP}/v1alpha1")
    assert "DESCRIPTION:" in explained
    assert "<empty>" not in explained


def properties(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, node in schema.get("properties", {}).items():
        yield f"{path}.{name}", node
        yield from properties(node, f"{path}.{name}")
        if isinstance(node.get("items"), dict):
            yield f"{path}.{name}[]", node["items"]
            yield from properties(node["items"], f"{path}.{name}[]")


RULE_STATUS: Manifest = {
    "observedGeneration": 1,
    "conditions": [
        {"type": kind, "status": "True", "reason": "A", "message": "b", "observedGeneration": 1,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Accepted", "Synced", "Stalled", "Ready", "Reconciling", "DeletionHalted", "HistoryRestored")
    ],
    "clusters": [
        {
            "clusterID": cluster, "name": cluster,
            "matched": 6, "synced": 1, "failing": 1, "held": 1, "skipped": 1, "conflicting": 1,
            "lastSyncTime": "2026-01-01T00:00:00Z", "lastError": "",
            "failures": [{"object": "Secret a/b", "reason": "Immutable", "message": "c"}],
            "deletions": {
                "windowStart": "2026-01-01T00:00:00Z", "baseline": 100, "deleted": 50, "allowed": 50,
                "haltedAt": "2026-01-01T00:00:00Z",
            },
        }
        for cluster in ("one", "two")
    ],
}  # fmt: skip


def test_the_status_of_a_rule_is_stored_through_its_subresource_alone(plane: Cluster) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(rule("reported") | {"status": RULE_STATUS}))
    path = f"/apis/{GROUP}/v1alpha1/resourcesyncrules/reported"
    stored = plane.api.get(path)
    assert "status" not in stored
    plane.api.request("PUT", f"{path}/status?fieldValidation=Strict", body=stored | {"status": RULE_STATUS, "spec": {}})
    after = plane.api.get(path)
    assert after["status"] == RULE_STATUS
    assert after["spec"] == stored["spec"]
    assert after["metadata"]["generation"] == stored["metadata"]["generation"]


def test_two_writers_of_a_status_keep_to_their_own_entries(plane: Cluster) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(rule("shared")))
    for writer in ("one", "two"):
        part = {"clusters": [{"clusterID": writer, "matched": 1}], "conditions": [{"type": writer, "status": "True"}]}
        body = {key: rule("shared")[key] for key in ("apiVersion", "kind", "metadata")} | {"status": part}
        argv = ("apply", "--server-side", "--subresource=status", f"--field-manager={writer}", "-f", "-")
        plane.kubectl(*argv, stdin=json.dumps(body))
    status = plane.api.get(f"/apis/{GROUP}/v1alpha1/resourcesyncrules/shared")["status"]
    assert [entry["clusterID"] for entry in status["clusters"]] == ["one", "two"]
    assert [entry["type"] for entry in status["conditions"]] == ["one", "two"]


BAD_STATUS = {
    "a state": ({"state": "Happy"}, 'status.state: Unsupported value: "Happy"'),
    "a type": ({"type": "Remote"}, 'status.type: Unsupported value: "Remote"'),
    "a condition without a status": (
        {"conditions": [{"type": "Ready"}]},
        "status.conditions[0].status: Required value",
    ),
    "a condition twice": (
        {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}]},
        "status.conditions[1]: Duplicate value",
    ),
}


@pytest.mark.parametrize(("status", "words"), BAD_STATUS.values(), ids=BAD_STATUS)
def test_a_status_that_nobody_understands_is_refused(plane: Cluster, status: Manifest, words: str) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(cluster_object()))
    with pytest.raises(CommandError) as refused:
        plane.kubectl(
            "patch", "cluster", "a", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
        )
    assert words in refused.value.stderr


CLUSTER_STATUS = {
    "conditions that we do not know": {
        "conditions": [{"type": "SomebodyElses", "status": "Unknown", "reason": "", "message": ""}]
    },
    "a generation": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}]},
    "nothing known yet": {"state": "", "type": "", "message": ""},
    "a leader": {"leader": True},
}


@pytest.mark.parametrize("status", CLUSTER_STATUS.values(), ids=CLUSTER_STATUS)
def test_a_status_of_the_original_or_ours_is_stored(plane: Cluster, status: Manifest) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(cluster_object()))
    path = f"/apis/{GROUP}/v1alpha1/clusters/a"
    plane.api.request("PUT", f"{path}/status?fieldValidation=Strict", body=plane.api.get(path) | {"status": status})
    assert plane.api.get(path)["status"] == status


ROOM = {
    "rules": rule(rules=[{"match": [{}]}] * 512),
    "matches": rule(rules=[{"match": [{"objectKey": {"name": f"name-{number}"}} for number in range(1024)]}]),
    "contents": matching({"content": [{"key": f"a.{number}", "value": number} for number in range(2000)]}),
}


@pytest.mark.parametrize("manifest", ROOM.values(), ids=ROOM)
def test_there_is_room_for_large_rules(plane: Cluster, manifest: Manifest) -> None:
    assert dry_run(plane, manifest, "--server-side")["spec"] == manifest["spec"]


def test_what_the_original_stored_loads_updates_and_goes_back(upgraded: Cluster) -> None:
    for manifest in originals():
        path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
        stored = upgraded.api.get(path)
        assert {part: stored[part] for part in ("spec", "status") if stored.get(part)} == stored_as_go(manifest), path

        # A typed client writes all of it again, empties and all, for the sake of one annotation.
        stored["metadata"].setdefault("annotations", {})["touched"] = "true"
        upgraded.api.request("PUT", path, body=stored)
        again = upgraded.api.get(path)
        upgraded.api.request("PUT", f"{path}/status", body=again | {"status": manifest["status"]})
        assert upgraded.api.get(path)["spec"] == stored["spec"]

    install(upgraded, ORIGINAL / "crds")
    eventually(lambda: not is_served(upgraded, "resourcesyncrule", "deletionPolicy"))
    for manifest in originals():
        stored = upgraded.api.get(f"{path_of(manifest)}/{manifest['metadata']['name']}")
        assert {part: stored[part] for part in ("spec", "status") if stored.get(part)} == stored_as_go(manifest)


def test_what_the_original_stored_takes_new_fields_and_conditions(upgraded: Cluster) -> None:
    upgraded.kubectl(
        "patch", "rsr", "odd", "--type=merge", "-p", '{"spec": {"suspend": true, "deletionPolicy": "Delete"}}'
    )
    upgraded.kubectl(
        "patch", "rsr", "stray-dash", "--type=merge", "-p", '{"spec": {"groupVersionKind": {"kind": "ConfigMap"}}}'
    )
    for name in ("odd", "stray-dash", "pruned"):
        patch = json.dumps({"status": RULE_STATUS})
        upgraded.kubectl("patch", "rsr", name, "--subresource=status", "--type=merge", "-p", patch)
    ready = {"type": "Ready", "status": "False", "reason": "ClusterIsNotReady", "observedGeneration": 1}
    body = {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "Cluster", "metadata": {"name": "alpha"},
        "status": {"state": "Failed", "conditions": [ready]},
    }  # fmt: skip
    argv = (
        "apply",
        "--server-side",
        "--force-conflicts",
        "--subresource=status",
        "--field-manager=registry-controller",
    )
    upgraded.kubectl(*argv, "-f", "-", stdin=json.dumps(body))
    status = upgraded.api.get(f"/apis/{GROUP}/v1alpha1/clusters/alpha")["status"]
    assert status["state"] == "Failed"
    assert [item["type"] for item in status["conditions"]] == [
        "LocalCluster",
        "LocalConflict",
        "ClusterMetadataSet",
        "Ready",
    ]
    assert status["conditions"][-1]["observedGeneration"] == 1


def test_editing_the_rules_of_a_stored_mistake_makes_one_fix_it(upgraded: Cluster) -> None:
    stored = upgraded.api.get(f"/apis/{GROUP}/v1alpha1/resourcesyncrules/stray-dash")
    rules = stored["spec"]["rules"]
    rules[1]["mutations"] = {}
    with pytest.raises(CommandError) as refused:
        upgraded.kubectl("patch", "rsr", "stray-dash", "--type=merge", "-p", json.dumps({"spec": {"rules": rules}}))
    assert "each needs a match" in refused.value.stderr
    rules[1]["match"] = [{}]
    upgraded.kubectl("patch", "rsr", "stray-dash", "--type=merge", "-p", json.dumps({"spec": {"rules": rules}}))
