"""Findings: each cause has a remedy, and findings survive the way from a Pod."""

from __future__ import annotations

import re

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
from registry_controller.admin.sites import DEFAULT_READER
from registry_controller.kube.handshake import ServerFault
from registry_controller.local.manifests import token_secret_keys


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
    assert "set --endpoint b=URL to the right address; else" in remedy(unknown, FlagRemedies())


def test_an_address_is_corrected_in_one_sentence_and_brought_by_a_join() -> None:
    """No member takes a new address of a member from another one."""
    refused = CheckResult("b", "connection", Level.FAIL, "message", Problem.REFUSED)
    assert remedy(refused, ValueRemedies()) == (
        "set controller.apiServerEndpointAddress in b to the host and port at which the other clusters reach its API "
        "server; serverAddress in its Cluster, if set, goes before it; then run `registry-controller join` with the "
        "contexts of b and of each member that does not read it"
    )
    assert remedy(refused, FlagRemedies()).endswith(
        "; give a --context for each member that does not read b: none takes an address from another one"
    )
    assert "join" not in remedy(refused, FirstRemedies())


def test_before_the_installation_no_remedy_names_a_cluster() -> None:
    for problem in (Problem.UNTRUSTED, Problem.WRONG_NAME):
        text = remedy(CheckResult("b", "certificate", Level.FAIL, "message", problem), FirstRemedies())
        assert "(--address here)" in text
        assert "Cluster b" not in text


def test_a_token_that_a_peer_refuses_may_be_an_old_one() -> None:
    refused = CheckResult("b", "token", Level.FAIL, "message", Problem.UNAUTHORIZED)
    assert remedy(refused, ValueRemedies()).startswith("`registry-controller join`")
    assert remedy(refused, FlagRemedies()).startswith("see first that the daemon of b runs")


def test_a_token_is_revoked_only_while_a_daemon_publishes_another_one() -> None:
    """The other members use the token that the deletion of its Secret revokes."""
    refused = CheckResult("b", "token", Level.FAIL, "message", Problem.UNAUTHORIZED)
    for remedies in (FlagRemedies(), ValueRemedies()):
        first, _, last = remedy(refused, remedies).partition("only while that daemon runs")
        assert re.search("daemon (of b )?runs", first)
        assert "delete" not in first
        for secret in token_secret_keys("", DEFAULT_READER):
            assert f" {secret.name}" in last


def test_each_cause_of_a_handshake_is_a_problem() -> None:
    assert {cause.name for cause in ServerFault} <= {problem.name for problem in Problem}


def test_an_answer_is_read_with_fields_of_a_later_version() -> None:
    answer = ProbeAnswer("0.1.0", (CheckResult("b", "token", Level.FAIL, "refused", Problem.UNAUTHORIZED),))
    document = msgspec.json.decode(msgspec.json.encode(answer))
    document["more"] = document["findings"][0]["more"] = 1
    assert msgspec.json.decode(msgspec.json.encode(document), type=ProbeAnswer) == answer
