"""`plan` and `explain` on the command line, where no cluster is needed: what is refused, and with which exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from registry_controller.cli import program

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
WRONG = GOOD + "    - mutations:\n        labels: {add: {a: b}}\n"


def ask(*args: str, stdin: str = "") -> tuple[int, str, str]:
    found = CliRunner().invoke(program, args, input=stdin, env={"KUBECONFIG": "/nowhere"})
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WRONG, "<stdin>:10:7: error: spec.rules[1].match: is missing"),
        (GOOD.replace("{name: a}", "{nam: a}"), "error: spec.rules[0].match[0].objectKey.nam: is no field"),
        ("a: [", "<stdin>:1:5: error: yaml: "),
        ("a: b", "holds no ResourceSyncRule"),
        (GOOD.replace("name: good", "labels: {}"), "every rule needs a metadata.name of its own"),
        (GOOD + "---\n" + GOOD, "every rule needs a metadata.name of its own"),
    ],
    ids=["not accepted", "an unknown field", "no YAML", "no rule", "no name", "a name twice"],
)
def test_a_rule_that_would_not_be_accepted_is_refused_in_the_words_of_lint(text: str, said: str) -> None:
    code, out, err = ask("plan", "-f", "-", stdin=text)
    assert (code, out) == (1, "")
    assert said in err


def test_a_file_that_is_not_there_is_trouble(tmp_path: Path) -> None:
    code, _, err = ask("plan", "-f", str(tmp_path / "none.yaml"))
    assert code == 1
    assert "none.yaml:1:1: error: file: cannot be read (FileNotFoundError)" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("plan",), "Missing option '-f'"),
        (("plan", "-f", "-", "-o", "yaml"), "'yaml' is not one of"),
        (("plan", "-f", "-", "--wait-for-peers", "soon"), "'soon' is no time such as 20s or 2m"),
        (("plan", "-f", "-", "--namespace", "Not A Name"), "NAMESPACE (--namespace): must be the name"),
        (("explain", "secret"), "Missing argument"),
        (("explain", "secret", "a/b/c"), "a/b/c: is no NAMESPACE/NAME"),
        (("explain", "secret", "/b"), "/b: is no NAMESPACE/NAME"),
        (("explain", "secret", "a/"), "a/: is no NAMESPACE/NAME"),
        (("explain", "secret", "a/b"), "kubeconfig /nowhere: there is no such file"),
    ],
)
def test_a_wrong_command_line_ends_with_2(args: tuple[str, ...], said: str) -> None:
    code, out, err = ask(*args, stdin=GOOD)
    assert (code, out) == (2, "")
    assert said in err
