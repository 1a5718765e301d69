"""`plan`, `explain` and `get` on the command line, where no cluster is needed: refusals, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from registry_controller.cli import program
from tests.unit.cli.rule_texts import GOOD, STRAY


def ask(*args: str, stdin: str = "") -> tuple[int, str, str]:
    found = CliRunner().invoke(program, args, input=stdin, env={"KUBECONFIG": "/nowhere"})
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STRAY, "<stdin>:10:7: error: spec.rules[1].match: is missing"),
        (GOOD.replace("{name: a}", "{nam: a}"), "error: spec.rules[0].match[0].objectKey.nam: is not a field"),
        ("a: [", "<stdin>:1:5: error: yaml: "),
        ("a: b", "holds no ResourceSyncRule"),
        (GOOD.replace("name: good", "labels: {}"), "<stdin>:3:1: error: metadata.name: is missing"),
        (GOOD.replace("name: good", "generateName: good-"), "<stdin>:3:1: error: metadata.name: is missing"),
        (GOOD + "---\n" + GOOD, "<stdin>:14:3: error: metadata.name: is that of the ResourceSyncRule in line 4, too"),
        (GOOD + GOOD, "<stdin>:10:1: error: apiVersion: is there twice, first in line 1: is a line `---` missing"),
        (GOOD + "  rules: []\n", "<stdin>:10:3: error: spec.rules: is there twice, first in line 7"),
    ],
    ids=[
        "not accepted", "an unknown field", "no YAML", "no rule", "no name", "a made name", "a name twice",
        "two in one document", "a field twice",
    ],
)  # fmt: skip
def test_a_rule_that_would_not_be_accepted_is_refused_in_the_words_of_lint(text: str, said: str) -> None:
    code, out, err = ask("plan", "-f", "-", stdin=text)
    assert (code, out) == (1, "")
    assert said in err


def test_a_file_that_is_not_there_is_trouble(tmp_path: Path) -> None:
    code, _, err = ask("plan", "-f", str(tmp_path / "none.yaml"))
    assert code == 1
    assert "none.yaml:1:1: error: file: cannot be read: No such file or directory" in err


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: hush}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: broken, context: {cluster: none, user: u}}]
current-context: CURRENT
"""


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        (KUBECONFIG.replace("CURRENT", "one"), "two", "has no context two; it has broken, one"),
        (KUBECONFIG.replace("CURRENT", "one"), "broken", "its context broken cannot be used"),
        (KUBECONFIG.replace("CURRENT", "broken"), None, "its current-context is missing or cannot be used"),
        (KUBECONFIG.replace("CURRENT", "two"), None, "its current-context is missing or cannot be used"),
        ("{}", None, "its current-context is missing"),
        ("a: [", None, "is no kubeconfig: it is not valid YAML (line "),
        ("\0", None, "is no kubeconfig: it is not valid YAML"),
        ("[hush]", "one", "is no kubeconfig: its contexts cannot be read"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, text: str, context: str | None, said: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    chosen = ("--context", context) if context else ()
    code, _, err = ask("explain", "cm", "default/x", "--kubeconfig", str(file), *chosen)
    assert code == 2
    assert f"kubeconfig {file}" in err
    assert said in err
    assert "hush" not in err


@pytest.mark.parametrize("command", ["get", "watch"])
def test_a_group_is_not_read_with_a_kubeconfig_that_cannot_be_used(tmp_path: Path, command: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("CURRENT", "one"))
    code, out, err = ask(command, "secrets", "--kubeconfig", str(file), "--context", "two")
    assert (code, out) == (2, "")
    assert f"kubeconfig {file}: has no context two; it has broken, one" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("plan",), "Missing option '-f'"),
        (("plan", "-f", "-", "-o", "xml"), "'xml' is not one of"),
        (("plan", "--context", "a", "--context", "b", "-f", "-"), "plan works on one cluster: give --context once"),
        (("plan", "-f", "-", "--wait-for-peers", "soon"), "'soon' is not a time such as 20s or 2m"),
        (("plan", "-f", "-", "--namespace", "Not A Name"), "NAMESPACE (--namespace): must be the name"),
        (("explain", "secret"), "Missing argument"),
        (("explain", "secret", "a/b/c"), "a/b/c: is no NAMESPACE/NAME"),
        (("explain", "secret", "/b"), "/b: is no NAMESPACE/NAME"),
        (("explain", "secret", "a/"), "a/: is no NAMESPACE/NAME"),
        (("explain", "secret", "a/b", "-n", "c"), "-n c: is no namespace, or not the one of a/b"),
        (("explain", "secret", "b", "-n", "a"), "kubeconfig /nowhere: there is no such file"),
        (("explain", "secret", "a/b"), "kubeconfig /nowhere: there is no such file"),
        (("explain", "secret/b", "-n", "a"), "kubeconfig /nowhere: there is no such file"),
        (("explain", "secret/a/b", "-n", "c"), "-n c: is no namespace, or not the one of a/b"),
        (("explain", "/b"), "Missing argument"),
    ],
)
def test_a_wrong_command_line_ends_with_2(args: tuple[str, ...], said: str) -> None:
    code, out, err = ask(*args, stdin=GOOD)
    assert (code, out) == (2, "")
    assert said in err


def test_a_kubeconfig_that_is_missing_shows_no_usage() -> None:
    assert "Usage" not in ask("explain", "secret/b", "-n", "a")[2]
