"""The chart and the definitions, held against what stands beside them: the table, the schema, the API's words."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import yaml

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.api.cluster import ClusterType, State
from registry_controller.cache.rule_evaluator import MOST_MOVED, MOST_WORDS
from registry_controller.core.rules.validation import find_problems
from registry_controller.kube.connect import PAGES
from registry_controller.kube.object import COMMAS, CONTAINERS, MANIFEST_BYTES
from registry_controller.kube.transport import ANSWER_BYTES
from registry_controller.kube.watch import ALL_LINES_BYTES
from registry_controller.settings import OPTIONS
from registry_controller.watch.body_cache import LIMIT_BYTES
from registry_controller.watch.limits import MOST_BYTES, MOST_OBJECTS

MIB = 1024 * 1024
ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "cluster-registry"
VALUES_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load(VALUES_TEXT)
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
CRD_FILES = sorted((ROOT / "crds").iterdir())
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in (yaml.safe_load(f.read_text(encoding="utf-8")) for f in CRD_FILES)}
GVRS = {"Cluster": meta.CLUSTERS, "ResourceSyncRule": meta.RULES, "ClusterFeature": meta.FEATURES}


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    target: Mapping[str, Any] = SCHEMA
    for part in node["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return {**target, **node}


def objects(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Walk every schema of an object, `$ref`s included."""
    node = resolved(node)
    if node.get("type") == "object":
        yield path, node
    for key, child in node.get("properties", {}).items():
        yield from objects(child, f"{path}.{key}")
    for child in node.get("anyOf", ()):
        yield from objects(child, path)
    if isinstance(node.get("items"), dict):
        yield from objects(node["items"], f"{path}[]")


def schemas_along(path: str) -> Iterator[Mapping[str, Any]]:
    """Walk down to a value, as far as the schema names what it holds."""
    node: Mapping[str, Any] = SCHEMA
    for key in path.split("."):
        if "properties" not in node:
            return
        node = resolved(node["properties"][key])
        yield node


def properties(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Walk every property of a definition, those of list items and map values included."""
    for name, node in schema.get("properties", {}).items():
        yield f"{path}.{name}", node
        yield from properties(node, f"{path}.{name}")
    for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if part in schema:
            yield f"{path}{mark}", schema[part]
            yield from properties(schema[part], f"{path}{mark}")


def schema_of(kind: str) -> Mapping[str, Any]:
    (version,) = CRDS[kind]["spec"]["versions"]
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


# --- The chart ---------------------------------------------------------------------------------------------------


def test_the_readme_lists_every_value_with_its_default() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]*)` \|", readme, flags=re.MULTILINE)
    assert [(path, json.loads(default)) for path, default in rows] == list(leaves(VALUES))


def test_every_value_is_commented() -> None:
    lines = VALUES_TEXT.splitlines()
    groups = {
        path.split(".")[0] for path, _ in leaves(VALUES) if path.startswith(("podSecurity", "security", "resources"))
    }
    bare = []
    parents: list[str] = []
    for number, line in enumerate(lines):
        if not (found := re.match(r"( *)([A-Za-z]+):(.*)", line)):
            continue
        depth = len(found[1]) // 2
        parents[depth:] = [found[2]]
        # Those three are Kubernetes' own words from the second level on.
        is_ours = depth == 0 or parents[0] not in groups
        is_leaf = bool(found[3].strip()) or found[2] in groups
        if is_ours and is_leaf and not lines[number - 1].strip().startswith("#"):
            bare.append(".".join(parents))
    assert bare == []


def test_the_schema_knows_every_value_and_describes_it() -> None:
    for path, _ in leaves(VALUES):
        assert any(node.get("description") for node in schemas_along(path)), path


def test_the_schema_refuses_unknown_keys_everywhere_but_in_free_maps() -> None:
    lax = {path for path, node in objects(SCHEMA) if node.get("additionalProperties") is not False}
    assert lax == {
        ".global", ".podAnnotations", ".podLabels", ".serviceAccount.annotations", ".nodeSelector",
        ".topologySpreadConstraints[]", ".extraEnv[].valueFrom", ".extraVolumes[]", ".extraVolumeMounts[]",
        ".networkPolicy.metricsFrom[]", ".serviceMonitor.labels", ".prometheusRule.labels", ".dashboard.labels",
        ".dashboard.annotations",
        ".resources.requests", ".resources.limits",
        ".affinity.nodeAffinity", ".affinity.podAffinity", ".affinity.podAntiAffinity",
        ".podSecurityContext.windowsOptions", ".securityContext.windowsOptions",
    }  # fmt: skip
    assert all("additionalProperties" in node for _, node in objects(SCHEMA))


def test_the_chart_sets_every_option_but_those_that_the_docs_name() -> None:
    template = (CHART / "templates" / "_env.tpl").read_text(encoding="utf-8")
    text = " ".join((ROOT / "docs" / "options.md").read_text(encoding="utf-8").split())
    sentence = re.search(r"it leaves ([^(]*) at (?:its default|their defaults) ", text)
    assert sentence is not None
    left = set(re.findall(r"`([A-Z_]+)`", sentence[1]))
    given = set(re.findall(r"- name: ([A-Z_]+)$", template, re.MULTILINE))
    assert given == {o.environment for o in OPTIONS} - left


def test_the_full_values_of_ci_set_every_value_to_another_than_its_default() -> None:
    full = dict(leaves(yaml.safe_load((CHART / "ci" / "full-values.yaml").read_text(encoding="utf-8"))))
    # Without the first two, other values would have no effect; the names are those of other tests.
    kept = {"rbac.create", "serviceAccount.create", "nameOverride", "fullnameOverride"}
    for path, default in leaves(VALUES):
        given = {name for name in full if name == path or name.startswith(f"{path}.")}
        if path.startswith(("podSecurityContext.", "securityContext.")):
            continue  # which name any field of Kubernetes
        assert given or path in kept, path
        assert path in kept or full.get(path, ...) != default, path


def test_the_chart_describes_its_definitions_for_artifact_hub() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    described = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    assert {(crd["kind"], crd["name"]) for crd in described} == {
        (kind, f"{crd['spec']['names']['plural']}.{crd['spec']['group']}") for kind, crd in CRDS.items()
    }
    for example in yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"]):
        rule, findings = find_problems(example)
        assert rule is not None
        assert findings == []


def test_the_chart_has_a_picture() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    kind, _, picture = chart["icon"].partition(";base64,")
    assert kind == "data:image/svg+xml"
    assert fromstring(base64.b64decode(picture)).tag.endswith("}svg")


@pytest.mark.parametrize(
    "value",
    [
        "controller.workers", "controller.leaderElection.enabled", "controller.leaderElection.name",
        "webhooks.clusterValidator.port", "webhooks.clusterValidator.certificateDirectory",
        "webhooks.clusterValidator.nameSuffix",
    ],
)  # fmt: skip
def test_what_has_no_effect_says_so(value: str) -> None:
    *_, schema = schemas_along(value)
    assert "without effect" in schema["description"]


def test_the_charts_definitions_are_the_projects() -> None:
    copies = sorted((CHART / "crds").iterdir())
    assert [copy.name for copy in copies] == [file.name for file in CRD_FILES]
    for copy, file in zip(copies, CRD_FILES, strict=True):
        assert not copy.is_symlink()
        assert copy.read_bytes() == file.read_bytes(), f"cp {file} {copy}"


def test_the_charts_version_is_the_programs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["apiVersion"], chart["name"]) == ("v2", "cluster-registry")
    assert str(chart["appVersion"]) == __version__


# --- The definitions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GVRS)
def test_a_definition_is_of_the_kind_that_the_program_speaks_of(kind: str) -> None:
    spec = CRDS[kind]["spec"]
    (version,) = spec["versions"]
    gvr = GVRS[kind]
    assert (spec["group"], version["name"], spec["names"]["plural"]) == (gvr.group, gvr.version, gvr.resource)
    assert spec["scope"] == ("Namespaced" if gvr.namespaced else "Cluster")
    assert version["subresources"] == {"status": {}}
    assert (version["served"], version["storage"]) == (True, True)


def test_the_files_are_named_as_the_definitions() -> None:
    assert [file.name for file in CRD_FILES] == sorted(f"{meta.GROUP}_{gvr.resource}.yaml" for gvr in GVRS.values())


@pytest.mark.parametrize("kind", GVRS)
def test_every_property_is_described(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["description"]
    assert [path for path, node in properties(schema, kind) if not node.get("description")] == []


@pytest.mark.parametrize("kind", GVRS)
def test_no_unknown_field_is_kept_and_no_field_has_a_default(kind: str) -> None:
    for path, node in properties(schema_of(kind), kind):
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert "default" not in node, path


@pytest.mark.parametrize("kind", ["Cluster", "ResourceSyncRule"])
def test_conditions_are_kept_by_their_type(kind: str) -> None:
    conditions = schema_of(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_the_states_are_those_of_the_program_or_none() -> None:
    status = schema_of("Cluster")["properties"]["status"]["properties"]
    assert set(status["state"]["enum"]) == {state.value for state in State} | {""}
    assert set(status["type"]["enum"]) == {kind.value for kind in ClusterType} | {""}


COLUMNS = [
    ("ID", ".spec.clusterID", True),
    ("Status", ".status.state", False),
    ("Type", ".status.type", False),
    ("Synced", '.status.conditions[?(@.type=="ClustersSynced")].status', False),
    ("Version", ".status.version", True),
    ("Provider", ".status.provider", True),
    ("Distribution", ".status.distribution", True),
    ("Region", ".status.locality.region", True),
    ("Status Message", ".status.message", True),
    ("Sync Message", '.status.conditions[?(@.type=="ClustersSynced")].message', True),
    ("Age", ".metadata.creationTimestamp", False),
]


def test_clusters_are_listed_with_these_columns() -> None:
    (version,) = CRDS["Cluster"]["spec"]["versions"]
    found = [(c["name"], c["jsonPath"], bool(c.get("priority"))) for c in version["additionalPrinterColumns"]]
    assert found == COLUMNS


def test_one_server_that_goes_to_every_limit_leaves_the_container_room() -> None:
    """P5: the sum in docs/security-limits.md is that of the limits, and the container may use a fifth more."""
    docs = (ROOT / "docs" / "security-limits.md").read_text(encoding="utf-8")
    table = docs.partition("| of memory | MiB | why |")[2].partition("\n\n")[0]
    told = {what: int(mib) for what, mib in re.findall(r"^\| ([^|]+) \| (\d+) \|", table, re.MULTILINE)}
    texts, parts = 4 * MANIFEST_BYTES, 200 * (COMMAS + CONTAINERS)
    assert told == {
        "the daemon itself": 80,
        "records of objects": round(MOST_OBJECTS * 1.4 / 1024, -2),
        "bodies that wait": LIMIT_BYTES // MIB,
        "lines of watches": ALL_LINES_BYTES // MIB,
        "pages": (PAGES + 1) * ANSWER_BYTES // MIB,
        "one object that is being decoded": round((MANIFEST_BYTES + texts + parts) / MIB, -1),
        "nodes": 20,
        "rules and Clusters of its own": round((4 + 2) * MOST_BYTES / MIB, -1),
        "objects that its rules move or cannot be evaluated on": round((MOST_MOVED + MOST_WORDS) * 500 / MIB, -1),
    }
    assert f"about {round(sum(told.values()), -1)} MiB" in docs
    limit = VALUES["resources"]["limits"]["memory"]
    assert f"{limit.removesuffix('Mi')} MiB" in docs
    assert int(limit.removesuffix("Mi")) >= 1.2 * sum(told.values())
