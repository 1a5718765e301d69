"""docs/command-line.md has every command, form and exit code of the code."""

from __future__ import annotations

import re

import click
import pytest

from registry_controller.admin.findings import CheckResult, Level, Problem, ValueRemedies, remedy
from registry_controller.cli import COMMANDS, failures, program
from registry_controller.cli.global_options import VALUE_FLAGS
from registry_controller.cli.output import Form
from tests.docs.documents import ROOT, table

PAGE = ROOT / "docs" / "command-line.md"


def _words(header: str) -> set[str]:
    """List the words in backticks in the first column of a table."""
    return {name for row in table(PAGE, header=header) for name in re.findall(r"`([^`]+)`", row[0])}


def test_the_page_has_every_command() -> None:
    assert [name.split()[0] for row in table(PAGE, header="command") for name in re.findall(r"^`(.+?)`", row[0])] == [
        *COMMANDS
    ]


def test_the_page_has_every_global_flag() -> None:
    assert {name.split()[0] for name in _words("flag")} == set(VALUE_FLAGS)


def test_the_page_has_every_form_that_all_commands_share() -> None:
    assert _words("form") == {form.value for form in Form}


@pytest.mark.parametrize("form", [Form.WIDE, Form.NAME, Form.DIFF])
def test_the_page_has_every_command_that_has_a_form(form: Form) -> None:
    (row,) = (row for row in table(PAGE, header="form") if row[0] == f"`{form.value}`")
    named = {name for name in re.findall(r"`([^`]+)`", row[1]) if name in COMMANDS}
    context = click.Context(program)
    found = {name: program.get_command(context, name) for name in COMMANDS}
    forms = {
        name: parameter.type.choices
        for name, command in found.items()
        for parameter in (command.params if command is not None else ())
        if parameter.name == "form" and isinstance(parameter.type, click.Choice)
    }
    assert named == {name for name, choices in forms.items() if form.value in choices}


def test_the_page_has_every_exit_code() -> None:
    codes = {str(failures.OK), str(failures.FAILED), str(failures.WRONG_OPTION)}
    assert {row[0] for row in table(PAGE, header="code")} == codes


def test_check_names_the_command_of_the_readme_that_installs_the_chart() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^(helm --kube-context kind-a install (?:.+\\\n)+.+)$", text, re.MULTILINE)
    places = {"kind-a": "CONTEXT", "localCluster.name=a": "localCluster.name=NAME", '"$(address CONTEXT)"': "ADDRESS"}
    command = " ".join(shown.replace("\\\n", " ").split())
    for place, general in places.items():
        command = command.replace(place, general)
    found = CheckResult("a", "definitions", Level.FAIL, "message", Problem.NOT_INSTALLED)
    assert f"`{command}`" in remedy(found, ValueRemedies())
