"""`registry-controller lint`: places and words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from registry_controller.api import meta
from registry_controller.cli import program
from tests.docs.documents import table
from tests.unit.cli.rule_texts import GOOD, STRAY

ROOT = Path(__file__).parents[3]
MISPLACED = GOOD.replace("        - objectKey: {name: a}", "        - objectKey:\n          name: a")
UNKNOWN = GOOD + "  deletionpolicy: Delete\n"
CONTENT = GOOD.replace("objectKey: {name: a}", "content:\n            - key: 'a.#('\n              value: 1")
OVERRIDE = GOOD + "      mutations:\n        overrides:\n          - type: replace\n            path: nowhere\n"
HISTORIC = GOOD.replace("{name: a}", "{name: a}\n          syncStatus: true")


def lint(text: str, tmp_path: Path) -> tuple[int, list[str]]:
    file = tmp_path / "rule.yaml"
    file.write_text(text, encoding="utf-8")
    found = CliRunner().invoke(program, ["lint", str(file)])
    return found.exit_code, [line.replace(str(tmp_path), "") for line in found.output.splitlines()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(MISPLACED, "/rule.yaml:10:11: error: spec.rules[0].match[0].name: ", id="a name misplaced"),
        pytest.param(UNKNOWN, "/rule.yaml:10:3: error: spec.deletionpolicy: is not a field", id="a field misspelled"),
        pytest.param(STRAY, "/rule.yaml:10:7: error: spec.rules[1].match: is missing", id="a stray dash"),
        pytest.param(CONTENT, "/rule.yaml:10:15: error: spec.rules[0].match[0].content[0].key", id="a path in gjson"),
        pytest.param(OVERRIDE, "/rule.yaml:13:13: error: spec.rules[0].mutations.overrides[0].path", id="an override"),
        pytest.param(
            GOOD[: GOOD.index("  rules:")], "/rule.yaml:5:1: error: spec.rules: is required", id="no rules at all"
        ),
        pytest.param(
            GOOD + "          namespaces: [a]\n          namespaces: [b]\n",
            "/rule.yaml:11:11: error: spec.rules[0].match[0].namespaces: is there twice, first in line 10",
            id="a field twice",
        ),
        pytest.param(
            GOOD + "kind: ConfigMap\napiVersion: v1\n",
            "/rule.yaml:10:1: error: kind: is there twice, first in line 2: is a line `---` missing",
            id="an object of ours and another one in one document",
        ),
        pytest.param(
            GOOD + "---\n" + GOOD,
            "/rule.yaml:14:3: error: metadata.name: is that of the ResourceSyncRule in line 4, too",
            id="a name twice",
        ),
        pytest.param(
            GOOD.replace("k8s.cisco.com", "cisco.com"),
            "/rule.yaml:1:1: error: apiVersion: ResourceSyncRule of clusterregistry.cisco.com is not the registry's: "
            "write clusterregistry.k8s.cisco.com/v1alpha1",
            id="another group",
        ),
        pytest.param(GOOD.split("\n", 1)[1], "/rule.yaml:1:1: error: apiVersion: ", id="no group"),
        pytest.param(
            GOOD.replace("v1alpha1", "v1alpha"),
            "/rule.yaml:1:1: error: apiVersion: the registry has no version v1alpha: write "
            "clusterregistry.k8s.cisco.com/v1alpha1",
            id="another version",
        ),
        pytest.param(
            GOOD + "      mutations: {labels: {add: {1: y}}}\n",
            "/rule.yaml:10:34: error: spec.rules[0].mutations.labels.add[1]: must be a string, not a boolean",
            id="a word that kubectl takes for a flag",
        ),
        pytest.param("a: b\n" + "---\nx: [", "/rule.yaml:3:5: error: yaml: ", id="no YAML"),
        pytest.param(
            GOOD.replace("ResourceSyncRule", "ResourceSyncRules"),
            "/rule.yaml:2:1: error: kind: the registry has no such kind as ResourceSyncRules; did you mean "
            "`ResourceSyncRule`?",
            id="no such kind",
        ),
        pytest.param(GOOD.replace("name: good", "labels: {}"), "/rule.yaml:3:1: error: metadata.name: ", id="no name"),
        pytest.param(GOOD.replace("good", "Bad_Name"), "/rule.yaml:4:3: error: metadata.name: ", id="no good name"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_file_line_and_column(text: str, said: str, tmp_path: Path) -> None:
    code, lines = lint(text, tmp_path)
    assert code == 1
    assert any(line.startswith(said) for line in lines), lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "/rule.yaml:1:1: warning: file: holds no object of ", id="nothing"),
        pytest.param("apiVersion: v1\nkind: Secret\n", "/rule.yaml:1:1: warning: file: ", id="another kind"),
    ],
)
def test_it_is_said_when_nothing_was_checked(text: str, said: str, tmp_path: Path) -> None:
    code, lines = lint(text, tmp_path)
    assert code == 0
    assert [line.startswith(said) for line in lines] == [True], lines


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            "{matchLables: {a: b}}",
            ["/rule.yaml:9:21: error: spec.rules[0].match[0].labels[0].matchLables: is not a field"],
        ),
        (
            "{matchLabels: {a: 'b c'}}",
            ["/rule.yaml:9:35: error: spec.rules[0].match[0].labels[0].matchLabels[a]: the value `b c` is not a valid"],
        ),
    ],
    ids=["a field misspelled, whose selector would match everything", "a value that is none"],
)
def test_an_error_is_said_with_its_cause_and_without_warnings_that_it_causes(
    labels: str, said: list[str], tmp_path: Path
) -> None:
    code, lines = lint(GOOD.replace("objectKey: {name: a}", f"labels: [{labels}]"), tmp_path)
    assert code == 1
    assert len(lines) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(lines, said, strict=True)), lines


def test_an_index_in_brackets_is_warned_of(tmp_path: Path) -> None:
    override = "{type: remove, path: '/spec/containers[0]?'}"
    code, lines = lint(f"{GOOD}      mutations: {{overrides: [{override}]}}\n", tmp_path)
    assert code == 0
    assert len(lines) == 1
    assert "`containers[0]?` is read as a key: an element of a list is `/containers/0`" in lines[0]


def test_a_name_may_be_left_to_the_api_server(tmp_path: Path) -> None:
    assert lint(GOOD.replace("name: good", "generateName: good-"), tmp_path) == (0, [])


def test_a_warning_is_no_error(tmp_path: Path) -> None:
    code, lines = lint(HISTORIC, tmp_path)
    assert code == 0
    assert lines == [
        "/rule.yaml:10:11: warning: spec.rules[0].match[0].syncStatus: has no effect here; move it to mutations"
    ]


def test_other_kinds_and_several_documents_and_lists_are_read(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in MISPLACED.splitlines())
    listed = "kind: List\napiVersion: v1\nitems:\n  -\n" + indented.replace("good", "other")
    code, lines = lint(f"apiVersion: v1\nkind: ConfigMap\nx: 1\n---\n{GOOD}---\n{listed}", tmp_path)
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("/rule.yaml:28:15: error: spec.rules[0].match[0].name")


def test_the_projects_own_examples_are_right() -> None:
    files = [str(path) for path in sorted((ROOT / "docs" / "examples").glob("*.yaml"))]
    found = CliRunner().invoke(program, ["lint", *files])
    assert found.exit_code == 0, found.output


def test_a_file_that_is_not_there_is_an_error() -> None:
    found = CliRunner().invoke(program, ["lint", "/nowhere/rule.yaml"])
    assert found.exit_code == 1
    assert "/nowhere/rule.yaml:1:1: error: file: cannot be read" in found.output


@pytest.mark.parametrize(
    "value",
    ["80.0", "1e3", "2024-01-01", "1:30", "'true'"],
    ids=["a whole one", "an exponent", "a day", "a time", "text"],
)
def test_a_value_is_read_as_kubectl_reads_it(value: str, tmp_path: Path) -> None:
    text = GOOD.replace("objectKey: {name: a}", f"content: [{{key: a, value: {value}}}]")
    assert lint(text, tmp_path) == (0, [])


def test_the_same_name_of_another_kind_is_another_object(tmp_path: Path) -> None:
    feature = GOOD[: GOOD.index("spec:")].replace("ResourceSyncRule", "ClusterFeature") + "spec: {featureName: a}\n"
    assert lint(f"{GOOD}---\n{feature}", tmp_path) == (0, [])


def test_a_key_twice_in_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    assert lint(f"{GOOD}---\nkind: ConfigMap\ndata: {{a: b, a: c}}\n", tmp_path) == (0, [])


def test_all_types_that_are_wrong_are_said_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = GOOD + (
        "      mutations: {syncStatus: 'yes'}\n  deletionPolicy: delete\n  targetClusters: [demo-1]\n"
        "  createNamespace: true\n"
    )
    assert lint(text, tmp_path)[1] == [
        "/rule.yaml:10:19: error: spec.rules[0].mutations.syncStatus: must be true or false, not a string",
        "/rule.yaml:11:3: error: spec.deletionPolicy: must be Orphan or Delete",
        "/rule.yaml:12:3: error: spec.targetClusters: must be an object, not a list",
        "/rule.yaml:13:3: error: spec.createNamespace: is not a field of this kind; did you mean `createNamespaces`?",
    ]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("objectkey: {name: a}", "objectKey"),
        ("objectKey: {Name: a}", "name"),
        ("objectKey: {name: a}\n      mutation: {}", "mutations"),
        ("objectKey: {name: a}\n  deletionpolicy: Delete", "deletionPolicy"),
    ],
)
def test_a_misspelled_field_is_told_what_may_be_meant(wrong: str, meant: str, tmp_path: Path) -> None:
    lines = lint(GOOD.replace("objectKey: {name: a}", wrong), tmp_path)[1]
    assert [line.partition("; ")[2] for line in lines if "is not a field of this kind" in line] == [
        f"did you mean `{meant}`?"
    ]


def test_an_entry_that_says_matches_is_told_of_match(tmp_path: Path) -> None:
    assert "did you mean `match`?" in lint(GOOD.replace("match:", "matches:"), tmp_path)[1][0]


def test_findings_are_data_for_programs(tmp_path: Path) -> None:
    file, broken = tmp_path / "rule.yaml", tmp_path / "broken.yaml"
    file.write_text("a: b\n---\n" + MISPLACED.replace("name: good", "generateName: good-"), encoding="utf-8")
    broken.write_bytes(b"\xff")
    args = ["lint", str(file), str(broken), str(tmp_path / "none.yaml"), "-o", "json"]
    found = CliRunner().invoke(program, args)
    assert found.exit_code == 1
    first, *rest = json.loads(found.stdout)
    assert first.pop("message").startswith("belongs under objectKey: write objectKey: ")
    assert list(first.items()) == [
        ("file", str(file)), ("document", 2), ("line", 12), ("column", 11),
        ("object", {"kind": "ResourceSyncRule", "name": None}), ("field", "spec.rules[0].match[0].name"),
        ("severity", "error"),
    ]  # fmt: skip
    whole = dict.fromkeys(("document", "line", "column", "object", "field"))
    assert rest[-2:] == [
        {"file": str(broken), **whole, "severity": "error", "message": "is no YAML in UTF-8"},
        {
            "file": str(tmp_path / "none.yaml"), **whole, "severity": "error",
            "message": "cannot be read: No such file or directory",
        },
    ]  # fmt: skip


def test_a_finding_has_the_name_of_its_object_and_warnings_are_told_from_errors() -> None:
    found = CliRunner().invoke(program, ["lint", "-", "-o", "json"], input=HISTORIC + "---\n" + UNKNOWN)
    findings = json.loads(found.stdout)
    assert {one["file"] for one in findings} == {"<stdin>"}
    assert {(one["document"], one["severity"]) for one in findings} == {(1, "warning"), (2, "error")}
    assert {one["object"]["name"] for one in findings} == {"good"}
    assert json.loads(CliRunner().invoke(program, ["lint", "-", "-o", "json"], input=GOOD).stdout) == []


def test_text_that_is_no_yaml_has_a_line_and_no_field() -> None:
    (finding,) = json.loads(CliRunner().invoke(program, ["lint", "-", "-o", "json"], input="x: [").stdout)
    assert (finding["line"], finding["object"], finding["field"]) == (1, None, None)


def test_the_fields_of_a_finding_are_those_of_the_documentation() -> None:
    rows = table(ROOT / "docs" / "command-line.md", header="field of a finding")
    documented = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    (finding,) = json.loads(CliRunner().invoke(program, ["lint", "-", "-o", "json"], input="").stdout)
    assert list(finding) == documented


ASKING = GOOD + "  objectTargets: Required\n"
"""A rule that copies what names the clusters that copy it."""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  annotations:
    cluster-registry.k8s.cisco.com/target-clusters: NAMES
"""
MEMBER = """\
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata:
  name: old
  annotations: {}
spec: {clusterID: u, authInfo: {secretRef: {name: old, namespace: cluster-registry}}}
status: {state: Ready}
"""
HAS_DAEMON = MEMBER.replace(
    "annotations: {}", 'annotations: {cluster-registry.k8s.cisco.com/daemon: \'{"version": "1"}\'}'
)


BY_HAND = ASKING.replace("  name: good", f"  name: good\n  annotations: {{{meta.SYNC_DISABLED}: 'true'}}")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("b,c", []),
        ('""', ["warning: metadata.annotations[TARGETS]: is empty: no cluster copies the object"]),
        ("B,c", ["error: metadata.annotations[TARGETS]: 'B' is no name of a Cluster: write names with commas, as b,c"]),
    ],
)
def test_the_clusters_that_an_object_names_are_checked(names: str, said: list[str], tmp_path: Path) -> None:
    """An object of any kind is checked for them alone."""
    code, lines = lint(GOOD + "---\n" + SETTINGS.replace("NAMES", names), tmp_path)
    places = [line.replace("cluster-registry.k8s.cisco.com/target-clusters", "TARGETS") for line in lines]
    assert (code, places) == ("error" in str(said), [f"/rule.yaml:16:5: {text}" for text in said])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_member_that_may_run_the_original_is_named(is_first: bool, tmp_path: Path) -> None:
    """Where the files have its Cluster, as a cluster has it: in any order."""
    code, lines = lint("---\n".join((MEMBER, ASKING) if is_first else (ASKING, MEMBER)), tmp_path)
    (line,) = lines
    assert (code, "spec.objectTargets: no daemon of this project is known in old: " in line) == (0, True)
    assert line.startswith(f"/rule.yaml:{18 if is_first else 10}:3: warning: ")


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "---\n" + MEMBER,
        ASKING + "---\n" + HAS_DAEMON,
        ASKING + "---\n" + MEMBER.partition("status:")[0],
        f"{BY_HAND}---\n{MEMBER}",
    ],
    ids=["another rule", "a daemon", "a Cluster that nobody read", "applied by hand"],
)  # fmt: skip
def test_what_the_original_does_not_meet_has_no_warning(text: str, tmp_path: Path) -> None:
    assert lint(text, tmp_path) == (0, [])


@pytest.mark.parametrize("kind", ["*", "Config*", "ConfigMap/x", "Config Map", "ConfigMap.v1"])
def test_a_kind_that_no_server_has_is_noted(kind: str) -> None:
    found = CliRunner().invoke(program, ["lint", "-"], input=GOOD.replace("ConfigMap", f'"{kind}"'))
    assert (found.exit_code, "warning: spec.groupVersionKind.kind: no API server" in found.stdout) == (0, True)


@pytest.mark.parametrize("kind", ["configmap", "configmaps"])
def test_a_kind_that_is_not_written_as_one_is_quoted(kind: str) -> None:
    found = CliRunner().invoke(program, ["lint", "-"], input=GOOD.replace("ConfigMap", kind))
    assert (found.exit_code, f"spec.groupVersionKind.kind: `{kind}` is not written as a kind" in found.stdout) == (
        0,
        True,
    )
