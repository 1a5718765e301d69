"""`rbac` and `crds` on the command line, where no cluster is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from registry_controller.api import meta
from registry_controller.cli import program
from registry_controller.cli.rbac import guess_resource

RULES = """
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: NAME}
spec:
  groupVersionKind: {group: GROUP, version: v1, kind: KIND}
  rules: [{match: [{objectKey: {name: a}}]}]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mice.example.com}
spec: {group: example.com, names: {kind: Mouse, plural: mice}}
"""
GOLDEN = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: cluster-registry-rule-a-reader
  labels:
    cluster-registry.k8s.cisco.com/reader-aggregated: 'true'
rules:
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - get
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: cluster-registry-rule-a-controller
  labels:
    cluster-registry.k8s.cisco.com/controller-aggregated: 'true'
rules:
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - get
  - list
  - watch
  - create
  - update
  - delete
"""


def made(name: str, kind: str, group: str = "") -> str:
    return RULES.replace("NAME", name).replace("KIND", kind).replace("GROUP", group or '""')


def ask(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(program, args, input=stdin, env={"KUBECONFIG": "/nowhere"})


def ask_for(file: Path, *objects: str, args: Sequence[str] = ()) -> Result:
    """Ask for the roles of the objects, which are written to a file."""
    file.write_text("---".join(objects), encoding="utf-8")
    return ask("rbac", "-f", str(file.parent), *args)


def test_a_rule_needs_no_cluster_and_two_roles() -> None:
    found = ask("rbac", "-f", "-", stdin=made("a", "Deployment", "apps"))
    assert (found.exit_code, found.stdout, found.stderr) == (0, GOLDEN, "")


def test_several_rules_share_two_roles(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(made("a", "ConfigMap"))
    others = made("b", "Ingress", "networking.k8s.io"), made("c", "Service")
    found = ask_for(tmp_path / "b.yaml", *others, args=("--name", "team", "-o", "json"))
    items = json.loads(found.stdout)["items"]
    assert [item["metadata"]["name"] for item in items] == ["team-reader", "team-controller"]
    for item in items:
        assert [(one["apiGroups"], one["resources"]) for one in item["rules"]] == [
            ([""], ["configmaps", "services"]),
            (["networking.k8s.io"], ["ingresses"]),
        ]


def test_a_custom_kind_is_guessed_with_a_warning_or_read_from_its_definition(tmp_path: Path) -> None:
    guessed = ask("rbac", "-f", "-", stdin=made("a", "Mouse", "example.com"))
    assert "the resource of Mouse.example.com is guessed: mouses" in guessed.stderr
    read = ask_for(tmp_path / "all.yaml", made("a", "Mouse", "example.com"), DEFINITION)
    assert (read.exit_code, read.stderr) == (0, "")
    assert {name for role in yaml.safe_load_all(read.stdout) for one in role["rules"] for name in one["resources"]} == {
        "mice"
    }


def test_a_definition_may_be_in_a_list_beside_values_that_only_yaml_1_1_types(tmp_path: Path) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(DEFINITION)]})
    other = "kind: CustomResourceDefinition\nspec: {enum: [=, '!='], default: 2001-02-30}\n"
    found = ask_for(tmp_path / "all.yaml", made("a", "Mouse", "example.com"), f"\n{listed}\n", f"\n{other}")
    assert (found.exit_code, found.stderr) == (0, "")
    assert [role["rules"][0]["resources"] for role in yaml.safe_load_all(found.stdout)] == [["mice"], ["mice"]]


@pytest.mark.parametrize(
    ("kind", "group", "said"),
    [("Secret", "", "rbac.narrowSecrets"), ("Role", "rbac.authorization.k8s.io", "the verb escalate on roles")],
)
def test_rights_that_depend_on_more_than_the_rules_are_noted(kind: str, group: str, said: str) -> None:
    assert said in ask("rbac", "-f", "-", stdin=made("a", kind, group)).stderr


def with_spec(rule: str, **spec: object) -> str:
    found = yaml.safe_load(rule)
    found["spec"].update(spec)
    return yaml.safe_dump(found)


CONTAINERS = [("Namespace", ""), ("CustomResourceDefinition", "apiextensions.k8s.io")]
LIST_ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}


@pytest.mark.parametrize(("kind", "group"), CONTAINERS)
def test_a_rule_that_deletes_containers_lets_the_daemon_list_all_objects_with_a_warning(kind: str, group: str) -> None:
    found = ask("rbac", "-f", "-", stdin=with_spec(made("a", kind, group), deletionPolicy="Delete"))
    reader, controller = yaml.safe_load_all(found.stdout)
    assert controller["rules"][1:] == [LIST_ALL]
    assert LIST_ALL not in reader["rules"]
    assert "warning: ClusterRole cluster-registry-rule-a-controller lets the daemon list all objects" in found.stderr
    assert "Secrets included" in found.stderr
    assert "such copies stay (ContentRemains)" in found.stderr


@pytest.mark.parametrize(("kind", "group"), CONTAINERS)
def test_a_rule_that_leaves_containers_is_noted_and_lists_nothing_more(kind: str, group: str) -> None:
    found = ask("rbac", "-f", "-", stdin=made("a", kind, group))
    assert all(LIST_ALL not in role["rules"] for role in yaml.safe_load_all(found.stdout))
    assert "stays (ContentRemains) after the deletion of its source" in found.stderr
    assert "warning: " not in found.stderr


def test_objects_that_become_namespaces_need_the_list_and_a_rule_that_only_creates_namespaces_does_not() -> None:
    rule = with_spec(made("a", "ConfigMap"), deletionPolicy="Delete", createNamespaces=True)
    found = ask("rbac", "-f", "-", stdin=rule)
    assert (found.exit_code, found.stderr) == (0, "")
    assert all(LIST_ALL not in role["rules"] for role in yaml.safe_load_all(found.stdout))
    entry = {"match": [{}], "mutations": {"groupVersionKind": {"kind": "Namespace"}}}
    found = ask("rbac", "-f", "-", stdin=with_spec(rule, rules=[entry]))
    assert LIST_ALL in list(yaml.safe_load_all(found.stdout))[1]["rules"]


def test_one_of_several_rules_that_deletes_namespaces_is_enough(tmp_path: Path) -> None:
    others = made("a", "Namespace"), with_spec(made("b", "Namespace"), deletionPolicy="Delete")
    for objects in (others, others[::-1]):
        found = ask_for(tmp_path / "all.yaml", *(f"\n{one}\n" for one in objects))
        assert list(yaml.safe_load_all(found.stdout))[1]["rules"].count(LIST_ALL) == 1
        assert "note: " not in found.stderr


def test_a_rule_that_would_not_be_accepted_is_refused() -> None:
    found = ask("rbac", "-f", "-", stdin=made("a", "Secret").replace("match:", "matches:"))
    assert (found.exit_code, found.stdout) == (1, "")
    assert "error: spec.rules[0].matches: is not a field" in found.stderr
    assert "there is no ResourceSyncRule" in ask("rbac", "-f", "-", stdin=DEFINITION).stderr


def test_without_files_a_cluster_is_needed() -> None:
    found = ask("rbac")
    assert found.exit_code == 2
    assert "kubeconfig /nowhere: there is no such file" in found.stderr


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("Secret", "secrets"), ("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies"), ("Gateway", "gateways"),
        ("Endpoints", "endpoints"), ("StorageClass", "storageclasses"), ("EndpointSlice", "endpointslices"),
    ],
)  # fmt: skip
def test_the_resource_of_a_built_in_kind_is_known(kind: str, resource: str) -> None:
    assert guess_resource(kind) == resource


def test_crds_prints_the_definitions_of_this_release() -> None:
    found = list(yaml.safe_load_all(ask("crds").stdout))
    ours = sorted(Path(__file__).parents[3].glob("crds/*.yaml"))
    assert found == [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ours]
    assert json.loads(ask("crds", "-o", "json").stdout)["items"] == found
    names = ask("crds", "-o", "name").stdout.split()
    assert names == [f"customresourcedefinition.apiextensions.k8s.io/{one['metadata']['name']}" for one in found]
    assert all(name.endswith(f".{meta.GROUP}") for name in names)
