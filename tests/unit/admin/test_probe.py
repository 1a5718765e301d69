"""The program `probe`, as `join` calls it in a daemon's Pod: one line in, one line out."""

from __future__ import annotations

import msgspec
from click.testing import CliRunner

from registry_controller import __version__
from registry_controller.admin.findings import Level, Problem
from registry_controller.admin.probe import OtherCA, ProbeAnswer, ProbeRequest, ProbeTarget
from registry_controller.cli import program
from registry_controller.kube.kubeconfig import Credentials

TOKEN = "a-token-that-is-secret"


def target(server: str) -> ProbeTarget:
    credentials = Credentials(server, "", TOKEN, "", "", "")
    return ProbeTarget("b", "id-b", credentials, "cluster-registry", (OtherCA("the system's store"),))


def test_a_request_is_answered_in_one_line_and_no_token_is_shown() -> None:
    line = msgspec.json.encode(ProbeRequest((target("https://127.0.0.1:1"),))) + b"\n"
    result = CliRunner().invoke(program, ["probe"], input=line)
    assert result.exit_code == 0, result.output
    answer = msgspec.json.decode(result.stdout_bytes, type=ProbeAnswer)
    assert answer.version == __version__
    assert [(one.step, one.level) for one in answer.findings] == [("address", Level.OK), ("connection", Level.FAIL)]
    assert answer.findings[-1].problem is Problem.REFUSED
    assert TOKEN not in result.output
    assert TOKEN not in repr(target("https://127.0.0.1:1"))


def test_another_input_is_refused_without_its_content() -> None:
    result = CliRunner().invoke(program, ["probe"], input=b'{"targets": "a-token-that-is-secret"}\n')
    assert result.exit_code == 2
    assert TOKEN not in result.output


def test_no_help_lists_the_program() -> None:
    assert "probe" not in CliRunner().invoke(program, ["--help"]).output
