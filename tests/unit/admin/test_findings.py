"""Findings: each cause has a remedy, and findings survive the way from a Pod."""

from __future__ import annotations

import msgspec
import pytest

from registry_controller.admin.findings import (
    CheckResult,
    FirstRemedies,
    FlagRemedies,
    Level,
    Problem,
    ValueRemedies,
    remedy,
)
from registry_controller.admin.probe import ProbeAnswer
from registry_controller.kube.handshake import ServerFault


@pytest.mark.parametrize("problem", Problem)
def test_each_problem_has_a_remedy_for_flags_and_for_values(problem: Problem) -> None:
    finding = CheckResult("b", "step", Level.FAIL, "message", problem)
    for remedies in (FlagRemedies(), ValueRemedies(), FirstRemedies()):
        text = remedy(finding, remedies)
        assert text
        assert "{" not in text


def test_no_problem_needs_no_remedy() -> None:
    assert remedy(CheckResult("b", "step", Level.OK, "message"), FlagRemedies()) == ""


def test_the_flags_of_join_name_the_cluster() -> None:
    wrong = CheckResult("b", "certificate", Level.FAIL, "message", Problem.WRONG_NAME)
    assert "--endpoint b=URL" in remedy(wrong, FlagRemedies())
    assert "controller.apiServerEndpointAddress in b" in remedy(wrong, ValueRemedies())
    unknown = CheckResult("b", "certificate", Level.FAIL, "message", Problem.UNTRUSTED)
    assert "--ca-file b=FILE" in remedy(unknown, FlagRemedies())


def test_an_unknown_authority_may_be_that_of_another_server() -> None:
    unknown = CheckResult("b", "certificate", Level.FAIL, "message", Problem.UNTRUSTED)
    assert "set --endpoint b=URL; else" in remedy(unknown, FlagRemedies())


def test_before_the_installation_no_remedy_names_a_cluster() -> None:
    for problem in (Problem.UNTRUSTED, Problem.WRONG_NAME):
        text = remedy(CheckResult("b", "certificate", Level.FAIL, "message", problem), FirstRemedies())
        assert "(--address here)" in text
        assert "Cluster b" not in text


def test_a_token_that_a_peer_refuses_may_be_an_old_one() -> None:
    refused = CheckResult("b", "token", Level.FAIL, "message", Problem.UNAUTHORIZED)
    assert remedy(refused, ValueRemedies()).startswith("`registry-controller join`")
    assert remedy(refused, FlagRemedies()).startswith("delete the token Secret")


def test_each_cause_of_a_handshake_is_a_problem() -> None:
    assert {cause.name for cause in ServerFault} <= {problem.name for problem in Problem}


def test_an_answer_is_read_with_fields_of_a_later_version() -> None:
    answer = ProbeAnswer("0.1.0", (CheckResult("b", "token", Level.FAIL, "refused", Problem.UNAUTHORIZED),))
    document = msgspec.json.decode(msgspec.json.encode(answer))
    document["more"] = document["findings"][0]["more"] = 1
    assert msgspec.json.decode(msgspec.json.encode(document), type=ProbeAnswer) == answer
