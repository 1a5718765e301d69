"""The command line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from registry_controller import __version__
from registry_controller.api.errors import Forbidden, Unreachable
from registry_controller.api.optiontext import Address
from registry_controller.cli import COMMANDS, program
from registry_controller.cli.command_group import name_program
from registry_controller.cli.failures import explain_error
from registry_controller.cli.options import seconds
from registry_controller.settings import Settings

Call = tuple[Settings, Path | None, str | None]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Stand in for the daemon; it returns 7."""
    found: list[Call] = []

    def run(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
        found.append((settings, kubeconfig, context))
        return 7

    stub: Any = types.ModuleType("registry_controller.process")
    stub.run = run
    monkeypatch.setitem(sys.modules, "registry_controller.process", stub)
    monkeypatch.setattr("registry_controller.process", stub, raising=False)
    return found


def invoke(*args: str, **env: str) -> Result:
    return CliRunner().invoke(program, args, env=env)


@pytest.mark.parametrize("args", [(), ("run",)])
def test_no_command_is_run_in_a_pod_and_its_result_is_the_exit_code(calls: list[Call], args: tuple[str, ...]) -> None:
    assert invoke(*args, KUBERNETES_SERVICE_HOST="10.0.0.1").exit_code == 7
    assert len(calls) == 1


def test_nothing_at_all_starts_no_daemon_on_whatever_cluster_is_the_current_one(calls: list[Call]) -> None:
    found = invoke()
    assert (found.exit_code, calls) == (0, [])
    assert found.output.startswith("Usage: ")


def test_flags_without_a_command_are_runs(calls: list[Call]) -> None:
    invoke("--metrics-addr", ":1", "--kubeconfig", "/k", "--context", "c", HEALTH_ADDR=":2", METRICS_ADDR=":3")
    ((settings, kubeconfig, context),) = calls
    assert (settings.metrics_addr, settings.health_addr) == (Address("", 1), Address("", 2))
    assert (kubeconfig, context) == (Path("/k"), "c")


def test_a_boolean_flag_may_stand_alone_or_have_a_value(calls: list[Call]) -> None:
    invoke("--manage-local-cluster-secret", "--core-resources-source-enabled=false", MANAGE_LOCAL_CLUSTER_SECRET="0")
    ((settings, _, _),) = calls
    assert settings.manage_local_cluster_secret
    assert not settings.core_resources_source_enabled


def test_the_originals_flags_without_effect_are_accepted(calls: list[Call]) -> None:
    flags = ["--enable-leader-election", "--devel-mode=true", "--synccontroller-worker-count=2"]
    assert invoke(*flags, "--leader-election-name=x").exit_code == 7
    ((settings, _, _),) = calls
    assert set(settings.ignored) == {
        "--enable-leader-election",
        "--devel-mode",
        "--leader-election-name",
        "--synccontroller-worker-count",
    }


def test_the_flags_of_the_webhook_that_was_are_accepted(calls: list[Call]) -> None:
    name = "--cluster-validator-webhook-{}".format
    flags = (name("enabled"), name("name=x"), name("port"), "9443", name("certificate-directory=/tmp/x"))
    assert invoke(*flags, "--workers", "3", CLUSTER_VALIDATOR_WEBHOOK_HOST="").exit_code == 7
    ((settings, _, _),) = calls
    assert settings.workers == 3
    assert set(settings.ignored) == {
        "CLUSTER_VALIDATOR_WEBHOOK_HOST", name("enabled"), name("name"), name("port"), name("certificate-directory"),
    }  # fmt: skip


def test_an_ignored_flag_may_have_its_value_in_the_next_word(calls: list[Call]) -> None:
    assert invoke("--clustercontroller-worker-count", "2", "--workers", "3").exit_code == 7
    assert calls[0][0].workers == 3


def test_a_wrong_option_ends_with_2_and_its_name_on_stderr(calls: list[Call]) -> None:
    result = invoke("run", LOG_FORMAT="xml")
    assert result.exit_code == 2
    assert "LOG_FORMAT (--log-format): must be json or console" in result.stderr
    assert result.stdout == ""
    assert calls == []


def test_an_unknown_flag_ends_with_2(calls: list[Call]) -> None:
    result = invoke("--no-such-flag")
    assert result.exit_code == 2
    assert "--no-such-flag" in result.stderr


def test_dump_config_prints_what_is_understood_and_starts_nothing(calls: list[Call]) -> None:
    result = invoke("--dump-config", WORKERS="5")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["WORKERS"] == 5
    assert calls == []


@pytest.mark.parametrize("args", [("--context", "c"), ("--kubeconfig=/k", "-n", "x"), ("-nx", "--color", "never")])
def test_global_flags_alone_run_the_daemon_in_a_pod_only(calls: list[Call], args: tuple[str, ...]) -> None:
    found = invoke(*args)
    assert (found.exit_code, calls) == (2, [])
    assert "there is no command" in found.stderr
    assert invoke(*args, KUBERNETES_SERVICE_HOST="10.0.0.1").exit_code == 7
    assert len(calls) == 1


@pytest.mark.parametrize(
    "args",
    [
        ("--context", "c", "-n", "x", "run", "--workers", "3"),
        ("run", "--context", "c", "-n", "x", "--workers", "3"),
        ("--context=c", "run", "--namespace=x", "--workers", "3"),
        ("--namespace", "x", "--workers", "3", "--context", "c"),
    ],
)
def test_global_flags_are_before_or_after_the_command(calls: list[Call], args: tuple[str, ...]) -> None:
    assert invoke(*args).exit_code == 7
    ((settings, _, context),) = calls
    assert (settings.namespace, settings.workers, context) == ("x", 3, "c")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_has_the_summary_of_each_in_one_line(command: str) -> None:
    listed = re.search(rf"^  {command} +(\S.*)$", invoke("--help").output, re.MULTILINE)
    assert listed is not None
    assert listed[1] == COMMANDS[command].summary
    assert not invoke(command, "--help").exit_code


def test_the_help_of_kubectls_plugin_has_its_name() -> None:
    runner = CliRunner()
    for args in (["--help"], ["lint", "--help"]):
        text = runner.invoke(program, args, prog_name=name_program("/usr/bin/kubectl-cluster_registry")).output
        assert "Usage: kubectl cluster-registry " in text
        assert "  kubectl cluster-registry lint rule.yaml\n" in text
        assert "registry-controller" not in text
    assert "  registry-controller lint rule.yaml\n" in invoke("lint", "--help").output


def test_help_imports_no_command() -> None:
    """The help of the program takes the time of click alone."""
    code = (
        "import sys; from registry_controller.cli import program; program(['--help'], standalone_mode=False); "
        "print(sorted(n for n in sys.modules if n.startswith(('yaml', 'rich', 'asyncio', 'msgspec', 'kubernetes'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("args", [("--version",), ("run", "--version")])
def test_the_version_is_told(args: tuple[str, ...]) -> None:
    result = invoke(*args)
    assert result.exit_code == 0
    assert __version__ in result.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_has_examples_that_are_commands(command: str) -> None:
    """Each line of the examples names this program, this command and options that it has."""
    text = invoke(command, "--help").output
    examples = re.findall(r"registry-controller (.+)", text.partition("Examples:")[2].partition("Options:")[0])
    assert examples
    for example in examples:
        assert example.split()[0] == command
        for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", re.split(r"[<|]", example)[0]):
            assert re.search(rf"^\s.*{option}\b", text.partition("Options:")[2], re.MULTILINE), option


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_form_that_a_command_lacks_is_refused_with_those_that_it_has(command: str) -> None:
    """A command without forms has no such option."""
    found = program.get_command(click.Context(program), command)
    assert found is not None
    choices = [one.type.choices for one in found.params if one.name == "form" and isinstance(one.type, click.Choice)]
    result = invoke(command, "-o", "no-such-form")
    assert (result.exit_code, result.stdout) == (2, "")
    if choices:
        assert all(f"'{form}'" in result.stderr for form in choices[0])
    else:
        assert "-o" in result.stderr


def test_a_missing_right_of_the_user_is_named_and_who_needs_it() -> None:
    error = Forbidden("list secrets.v1 (all): 403 Forbidden", lacks_right=True)
    words = "cannot list secrets.v1 (all): 403 Forbidden; grant it to the user of the kubeconfig"
    assert explain_error(error).startswith(words)
    assert explain_error(Unreachable("no answer")) == "no answer"


def test_the_module_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "registry_controller", "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"registry-controller, version {__version__}\n"


@pytest.mark.parametrize("more", [(), ("--yes",), ("--context", "a", "--context", "b")])
def test_an_empty_name_does_not_make_this_cluster_leave(more: tuple[str, ...]) -> None:
    found = invoke("leave", "", *more, KUBECONFIG="/nowhere")
    assert (found.exit_code, "CLUSTER is empty" in found.output) == (2, True)


@pytest.mark.parametrize("command", ["status", "events", "version", "completion"])
def test_an_empty_context_is_refused(command: str) -> None:
    found = invoke(command, "--context", "")
    assert (found.exit_code, "--context is empty" in found.output) == (2, True)


@pytest.mark.skipif(shutil.which("sh") is None, reason="the image has no shell")
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("crds > /dev/full", 1, "Error: the answer cannot be written: No space left on device\n"),
        ("--help > /dev/full", 1, "Error: the answer cannot be written: No space left on device\n"),
        ("lint --color always /nowhere.yaml >&-", 1, ""),
        ("plan -f - <&-", 1, "Error: -: holds no ResourceSyncRule\n"),
        ("lint /nowhere.yaml > /dev/null 2>&-", 1, ""),
    ],
)
def test_streams_that_are_closed_or_full_end_without_a_traceback(line: str, code: int, words: str) -> None:
    shell = f'"{sys.executable}" -m registry_controller {line}'
    done = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, words)


@pytest.mark.parametrize("command", ["suspend", "resume"])
def test_an_object_of_another_kind_is_no_rule(command: str) -> None:
    for name in ("cluster/a", "secret/a", "a/b", "rules/a"):
        found = invoke(command, name, KUBECONFIG="/nowhere")
        assert (found.exit_code, "is not one of resourcesyncrule, rsr" in found.output) == (2, True)
    for name in ("a", "rsr/a", "ResourceSyncRules/a", "resourcesyncrule.clusterregistry.k8s.cisco.com/a"):
        assert "/nowhere: there is no such file" in invoke(command, name, KUBECONFIG="/nowhere").output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("secret/hello", "-A"), "-A goes with neither -n nor NAME"),
        (("secret/hello",), "/nowhere: there is no such file"),
        (("secret/hello", "other"), "resource: must be a word"),
        (("secret/",), "resource: must be a word"),
        (("",), "resource: must be a word"),
        (("secret", "-n", "a/b"), "namespace: must be the name of one namespace"),
    ],
)
@pytest.mark.parametrize("command", ["get", "watch"])
def test_get_takes_kind_and_name_in_one_word_and_refuses_what_is_neither(
    command: str, args: tuple[str, ...], words: str
) -> None:
    found = invoke(command, *args, KUBECONFIG="/nowhere")
    assert (found.exit_code, words in found.output) == (2, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("20", 20), ("0", 0), ("20s", 20), ("1.5m", 90), ("1m30s", 90), ("1h", 3600), ("1h0.5m1s", 3631)],
)
def test_times_are_those_that_kubectl_takes(text: str, expected: float) -> None:
    assert seconds(click.Context(program), click.Option(["--wait"]), text) == expected


@pytest.mark.parametrize("text", ["", "s", "-1s", "1m30", "30s1m", "1d", "soon", "1 m"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time such as 20s or 2m"):
        seconds(click.Context(program), click.Option(["--wait"]), text)


def test_the_example_of_crds_works_for_an_upgrade() -> None:
    """The chart's installation made helm the manager of the definitions' fields."""
    assert "kubectl apply --server-side --force-conflicts -f -" in invoke("crds", "--help").output
