"""`registry-controller lint --fix`: names and namespaces that are one level too high. W1."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from registry_controller.cli import program
from registry_controller.cli.lint_fix import fix_text

HEAD = """\
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: a}
spec:
  groupVersionKind: {version: v1, kind: Secret}
  rules:
"""

CASES = {
    "as in the first README": (
        "    - match: [{objectKey: null, name: x, namespace: w}]\n",
        "    - match: [{objectKey: {name: x, namespace: w}}]\n",
    ),
    "lines with a comment each": (
        "    - match:\n        - objectKey:  # the source\n          name: x  # its name\n          namespace: w\n"
        "          labels: [{matchLabels: {a: b}}]\n      mutations: {syncStatus: true}\n",
        "    - match:\n        - objectKey:  # the source\n            name: x  # its name\n            namespace: w\n"
        "          labels: [{matchLabels: {a: b}}]\n      mutations: {syncStatus: true}\n",
    ),
    "a null in lines": (
        "    - match:\n        - name: x\n          objectKey: null\n",
        "    - match:\n        - objectKey:\n            name: x\n",
    ),
    "no objectKey": (
        "    - match:\n      - labels: []\n        namespace: \"w\"\n        name: 'x'\n\n# the end\n",
        "    - match:\n      - labels: []\n        objectKey:\n          name: 'x'\n          namespace: \"w\"\n\n"
        "# the end\n",
    ),
    "the other part in its place, in lines": (
        "    - match:\n        - objectKey:\n              namespace: w\n          name: x",
        "    - match:\n        - objectKey:\n              namespace: w\n              name: x",
    ),
    "the other part in its place, in braces": (
        "    - match:\n        - objectKey: {namespace: w}\n          name: x\n",
        "    - match:\n        - objectKey: {namespace: w, name: x}\n",
    ),
    "the same twice, in braces": (
        "    - match: [{objectKey: {name: x}, name: x}]\n", "    - match: [{objectKey: {name: x}}]\n",
    ),
    "the same twice, in lines": (
        "    - match:\n      - objectKey:\n          name: x\n        name: x\n",
        "    - match:\n      - objectKey:\n          name: x\n",
    ),
    "empty ones in its place, in lines": (
        "    - match:\n        - objectKey:\n            # the source\n            name:\n            namespace: ''\n"
        "          name: x\n          namespace: w\n",
        "    - match:\n        - objectKey:\n            # the source\n            name: x\n            namespace: w\n",
    ),
    "an empty one before another, in lines": (
        "    - match:\n        - objectKey:\n            name: null\n            namespace: w  # here\n"
        "          name: x\n",
        "    - match:\n        - objectKey:\n            namespace: w  # here\n            name: x\n",
    ),
    "an empty one with a comment, in lines": (
        "    - match:\n        - objectKey:\n            name:  # which?\n          name: x\n", None,
    ),
    "keys in quotes": (
        "    - match:\n        - \"objectKey\": null\n          'name': x\n          \"namespace\": w\n",
        "    - match:\n        - \"objectKey\":\n            'name': x\n            \"namespace\": w\n",
    ),
    "a null with a tag": (
        "    - match:\n        - objectKey: !!null null\n          name: x\n",
        "    - match:\n        - objectKey:\n            name: x\n",
    ),
    "another name in its place": ("    - match: [{objectKey: {name: z}, name: x}]\n", None),
    "a name of a wrong type": ("    - match: [{name: 1}]\n", "    - match: [{objectKey: {name: 1}}]\n"),
    "nothing misplaced": ("    - match: [{objectKey: {name: x}}]\n", None),
    "JSON": (
        '    - {"match": [{"objectKey": null, "name": "x", "labels": []}]}\n',
        '    - {"match": [{"objectKey": {"name": "x"}, "labels": []}]}\n',
    ),
    "a comment in braces, which would be lost": (
        "    - match: [{name: x,  # its name\n        objectKey: {namespace: w}}]\n", None,
    ),
    "a comment in the other part's braces": (
        "    - match: [{objectKey: {  # here\n        namespace: w}, name: x}]\n", None,
    ),
    "a comment in a value": (
        "    - match: [{name: x, labels: [  # all\n        ]}]\n",
        "    - match: [{objectKey: {name: x}, labels: [  # all\n        ]}]\n",
    ),
    "a comment beside braces": (
        "    - match:\n        - objectKey: {namespace: w}  # here\n          # all\n          name: x\n",
        "    - match:\n        - objectKey: {namespace: w, name: x}  # here\n          # all\n",
    ),
    "a comment that has no place in braces": (
        "    - match:\n        - objectKey: {namespace: w}\n          name: x  # its name\n", None,
    ),
    "a field twice, of which one would be lost": (
        "    - match:\n        - name: x\n          labels: [{matchLabels: {a: b}}]\n          labels: []\n", None,
    ),
    "several matches": (
        "    - match:\n        - {name: x}\n        - name: v\n    - match: [{namespace: z}]\n",
        "    - match:\n        - {objectKey: {name: x}}\n        - objectKey:\n            name: v\n"
        "    - match: [{objectKey: {namespace: z}}]\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_a_match_is_written_as_it_must_be_and_the_rest_stays(before: str, after: str | None) -> None:
    assert fix_text(HEAD + before) == HEAD + (after if after is not None else before)
    assert fix_text(HEAD + (after or before)) == HEAD + (after or before)


def test_other_documents_stay_as_they_are() -> None:
    other = "kind: Other\nspec: {rules: [{match: [{name: x}]}]}\n"
    text = f"{other}---\n{HEAD}{CASES['no objectKey'][0]}---\n{other}"
    assert fix_text(text) == f"{other}---\n{HEAD}{CASES['no objectKey'][1]}---\n{other}"
    assert fix_text("a: [") == "a: ["


def test_the_command_writes_the_files_and_then_checks_them(tmp_path: Path) -> None:
    fixed, wrong = tmp_path / "fixed.yaml", tmp_path / "wrong.yaml"
    fixed.write_text(HEAD + CASES["as in the first README"][0])
    wrong.write_text(HEAD.replace("name: a", "name: b") + CASES["another name in its place"][0])
    found = CliRunner().invoke(program, ["lint", str(fixed)])
    assert found.exit_code == 1
    for part in ("name", "namespace"):
        assert (
            f'match[0].{part}: belongs under objectKey: write objectKey: {{name: "x", namespace: "w"}}' in found.output
        )
    found = CliRunner().invoke(program, ["lint", "--fix", str(fixed)])
    assert (found.exit_code, found.output) == (0, f"{fixed}: moved the misplaced fields under objectKey\n")
    assert fixed.read_text() == HEAD + CASES["as in the first README"][1]
    found = CliRunner().invoke(program, ["lint", "--fix", str(wrong)])
    assert found.exit_code == 1
    assert "match[0].name: belongs under objectKey, and differs from objectKey.name: remove one of them" in found.output
    assert CliRunner().invoke(program, ["lint", "--fix", "-"]).exit_code == 2
