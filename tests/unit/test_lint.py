"""`registry-controller lint`: places and words."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from registry_controller.cli import program

ROOT = Path(__file__).parents[2]
GOOD = """\
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata:
  name: good
spec:
  groupVersionKind: {version: v1, kind: ConfigMap}
  rules:
    - match:
        - objectKey: {name: a}
"""
MISPLACED = GOOD.replace("        - objectKey: {name: a}", "        - objectKey:\n          name: a")
UNKNOWN = GOOD + "  deletionpolicy: Delete\n"
STRAY = GOOD + "    - mutations:\n        labels: {add: {a: b}}\n"
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
        pytest.param(UNKNOWN, "/rule.yaml:10:3: error: spec.deletionpolicy: is no field", id="a field misspelled"),
        pytest.param(STRAY, "/rule.yaml:10:7: error: spec.rules[1].match: is missing", id="a stray dash"),
        pytest.param(CONTENT, "/rule.yaml:10:15: error: spec.rules[0].match[0].content[0].key", id="a path in gjson"),
        pytest.param(OVERRIDE, "/rule.yaml:13:13: error: spec.rules[0].mutations.overrides[0].path", id="an override"),
        pytest.param("a: b\n" + "---\nx: [", "/rule.yaml:3:5: error: yaml: ", id="no YAML"),
        pytest.param(
            GOOD.replace("ResourceSyncRule", "SyncRule"), "/rule.yaml:2:1: error: kind: the registry has no such kind",
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
        pytest.param(
            GOOD.replace("cisco.com", "cisco.io"), "/rule.yaml:1:1: warning: apiVersion: ", id="another group"
        ),
        pytest.param(GOOD.split("\n", 1)[1], "/rule.yaml:1:1: warning: apiVersion: ", id="no group"),
    ],
)
def test_it_is_said_when_nothing_was_checked(text: str, said: str, tmp_path: Path) -> None:
    code, lines = lint(text, tmp_path)
    assert code == 0
    assert [line.startswith(said) for line in lines] == [True], lines


def test_a_name_may_be_left_to_the_api_server(tmp_path: Path) -> None:
    assert lint(GOOD.replace("name: good", "generateName: good-"), tmp_path) == (0, [])


def test_a_warning_is_no_error(tmp_path: Path) -> None:
    code, lines = lint(HISTORIC, tmp_path)
    assert code == 0
    assert lines == [
        "/rule.yaml:10:11: warning: spec.rules[0].match[0].syncStatus: has no effect here; it belongs under mutations"
    ]


def test_other_kinds_and_several_documents_and_lists_are_read(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in MISPLACED.splitlines())
    listed = "kind: List\napiVersion: v1\nitems:\n  -\n" + indented
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
