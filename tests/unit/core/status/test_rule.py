"""S1, S2: what a ResourceSyncRule's status says."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller.api.meta import ClusterUID
from registry_controller.core.status.merge import merge_status
from registry_controller.core.status.rule import PeerCounts, build_rule_status, read_causes

CRD = Path(__file__).parents[4] / "crds" / "clusterregistry.k8s.cisco.com_resourcesyncrules.yaml"


@dataclass(frozen=True)
class Verdict:
    accepted: bool = True
    reason: str = "Accepted"
    message: str = ""
    warnings: Sequence[str] = ()


def counts(letter: str = "b", **changes: Any) -> PeerCounts:
    return PeerCounts(ClusterUID(f"uid-{letter}"), letter, **changes)


def status(**facts: Any) -> Mapping[str, Any]:
    return build_rule_status(**{"generation": 2, "verdict": Verdict(), **facts})


def said(found: Mapping[str, Any], kind: str) -> tuple[Any, Any]:
    (condition,) = [each for each in found["conditions"] if each["type"] == kind]
    return condition["status"], condition.get("reason")


def message(found: Mapping[str, Any], kind: str) -> str:
    (condition,) = [each for each in found["conditions"] if each["type"] == kind]
    return str(condition["message"])


def test_a_rule_that_is_not_allowed_here_is_accepted_and_says_what_does_not_let_it() -> None:
    found = status(barred=("NotAllowedHere", "SYNCED_RULES_ENABLED: is false"))
    assert said(found, "Accepted") == ("True", "Accepted")
    assert said(found, "Synced") == ("Unknown", "NotAllowedHere")
    assert message(found, "Synced") == "SYNCED_RULES_ENABLED: is false"
    assert said(found, "Stalled") == ("False", "NotStalled")


def test_what_a_rule_may_not_write_is_said_where_everything_else_is_here() -> None:
    left_out = ("ConfigMap a/b", "NotAllowedHere", "an option does not let it")
    found = status(peers=[counts(matched=3, synced=2, skipped=1, failures=[left_out])])
    assert said(found, "Synced") == ("True", "Synced")
    assert message(found, "Synced") == "1 skipped; ConfigMap a/b: an option does not let it"


def test_a_rule_whose_objects_are_all_here_is_synced() -> None:
    found = status(peers=[counts(matched=3, synced=2, skipped=1, last_sync="2026-01-01T00:00:00Z")])
    assert said(found, "Accepted") == ("True", "Accepted")
    assert said(found, "Synced") == ("True", "Synced")
    assert said(found, "Stalled") == ("False", "NotStalled")
    assert found["observedGeneration"] == 2
    assert found["clusters"] == [
        {
            "clusterID": "uid-b",
            "name": "b",
            "matched": 3,
            "synced": 2,
            "failing": 0,
            "held": 0,
            "skipped": 1,
            "conflicting": 0,
            "lastSyncTime": "2026-01-01T00:00:00Z",
        }
    ]


def test_a_refused_rule_is_neither_accepted_nor_synced_and_stalls() -> None:
    found = status(verdict=Verdict(False, "Invalid", "spec.rules[0].match[0].name: belongs under objectKey"))
    assert said(found, "Accepted") == ("False", "Invalid")
    assert said(found, "Synced") == ("False", "NotAccepted")
    assert said(found, "Stalled") == ("True", "Invalid")


def test_warnings_stand_in_the_accepted_message() -> None:
    found = status(verdict=Verdict(message="fine", warnings=("b", "a", "a")))
    assert message(found, "Accepted") == "fine; warning: a; warning: b"


def test_a_suspended_rule_is_accepted_and_not_judged() -> None:
    found = status(suspended=True, peers=[counts(matched=1, failing=1)], problems=["x"])
    assert said(found, "Accepted") == ("True", "Suspended")
    assert said(found, "Synced") == ("Unknown", "Suspended")
    assert said(found, "Stalled") == ("False", "NotStalled")


def test_an_idle_rule_says_why() -> None:
    found = status(idle=["no cluster has feature x"])
    assert said(found, "Synced") == ("True", "Idle")
    assert message(found, "Synced") == "no cluster has feature x"


def test_what_fails_conflicts_or_waits_is_not_synced() -> None:
    failing = status(peers=[counts(matched=2, synced=1, failing=1), counts("c", matched=1, conflicting=1)])
    assert said(failing, "Synced") == ("False", "Failing")
    assert message(failing, "Synced") == "1 failing; 1 conflicting"
    assert said(status(peers=[counts(matched=1, conflicting=1)]), "Synced") == ("False", "Conflict")
    assert said(status(peers=[counts(matched=1)]), "Synced") == ("False", "Waiting")
    assert said(status(peers=[counts(last_error="unreachable")]), "Synced") == ("False", "Waiting")


def test_held_copies_are_counted_and_are_nobodys_failure() -> None:
    found = status(peers=[counts(matched=1, synced=1, held=4)])
    assert said(found, "Synced") == ("True", "Synced")
    assert message(found, "Synced") == "4 held"


def test_a_problem_that_somebody_must_solve_stalls() -> None:
    found = status(problems=["peer b: cannot watch secrets.v1: forbidden"])
    assert said(found, "Stalled") == ("True", "ActionNeeded")
    assert said(found, "Synced") == ("False", "Waiting")


def test_what_passes_by_itself_is_not_synced_and_nobody_has_to_act() -> None:
    found = status(peers=[counts(matched=1, synced=1)], pending=["peer b: Cannot connect"])
    assert said(found, "Synced") == ("False", "Waiting")
    assert message(found, "Synced") == "not everything can be read; peer b: Cannot connect"
    assert said(found, "Stalled") == ("False", "NotStalled")


def test_a_halt_of_deletions_is_a_condition_while_it_lasts() -> None:
    found = status(halted="more than half would go")
    assert said(found, "DeletionHalted") == ("True", "TooManyDeletions")
    before = merge_status({}, found, now="2026-01-01T00:00:00Z")
    after = merge_status(before, status(), now="2026-01-01T00:00:01Z")
    assert after is not None
    assert {condition["type"] for condition in after["conditions"]} == {"Accepted", "Synced", "Stalled", "Ready"}


def test_the_status_is_bounded_and_keeps_every_brake() -> None:
    failures = [(f"Secret x/{number:03}", "Failed", "m" * 5000) for number in range(60)]
    peers = [counts(f"{number:03}", failures=failures, last_error="e" * 5000) for number in range(150)]
    braked = counts("zzz", deletions={"baseline": 3, "deleted": 2})
    found = status(peers=[*peers, braked], problems=[f"problem {number}" * 9 for number in range(999)])
    assert len(found["clusters"]) == 100
    assert found["clusters"][-1]["deletions"] == {"baseline": 3, "deleted": 2}
    assert all(len(entry.get("failures", ())) <= 5 for entry in found["clusters"])
    assert len(str(found)) < 256 * 1024
    assert len(message(found, "Stalled")) <= 2048


def test_the_order_of_what_is_known_says_nothing() -> None:
    failures = [("b", "R", "m"), ("a", "R", "m"), ("a", "Q", "m")]
    peers = [counts(letter, matched=1, synced=1, failures=failures) for letter in "dcba"]
    shuffled = [counts(letter, matched=1, synced=1, failures=failures[::-1]) for letter in "abcd"]
    random.Random(1).shuffle(shuffled)
    assert status(peers=peers, problems=["x", "y"]) == status(peers=shuffled, problems=["y", "x", "x"])


def test_a_restart_keeps_the_time_of_the_last_write_and_writes_nothing() -> None:
    first = status(peers=[counts(matched=1, synced=1, last_sync="2026-01-01T00:00:00Z")])
    stored = merge_status({}, first, now="2026-01-01T00:00:00Z")
    again = status(peers=[counts(matched=1, synced=1)], current=stored)
    assert merge_status(stored, again, now="2026-01-01T09:00:00Z") is None


def test_every_field_is_one_of_the_schema() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    full = counts(
        matched=1,
        failing=1,
        last_sync="2026-01-01T00:00:00Z",
        last_error="e",
        failures=[("o", "R", "m")],
        deletions={"windowStart": "x", "baseline": 1, "deleted": 1, "haltedAt": "x"},
    )
    found = status(peers=[full])
    assert found.keys() <= schema["properties"].keys()
    entry = schema["properties"]["clusters"]["items"]["properties"]
    assert found["clusters"][0].keys() <= entry.keys()
    assert found["clusters"][0]["failures"][0].keys() <= entry["failures"]["items"]["properties"].keys()
    condition = schema["properties"]["conditions"]["items"]["properties"]
    assert all(each.keys() <= condition.keys() for each in found["conditions"])


READY_OF = [
    # (facts, Ready, reason, is Reconciling there)
    ({"peers": [counts(matched=1, synced=1)]}, "True", "Synced", False),
    ({"idle": ["no other cluster is read now"]}, "True", "Idle", False),
    ({"peers": [counts(matched=2, synced=1, skipped=1)]}, "True", "Synced", False),
    ({"peers": [counts(matched=1, synced=1, held=1)]}, "False", "Held", True),
    ({"idle": ["no other cluster is read now"], "peers": [counts(held=1)]}, "False", "Held", True),
    ({"peers": [counts(matched=2, synced=1, failing=1)]}, "False", "Failing", True),
    ({"peers": [counts(matched=2, synced=1, conflicting=1)]}, "False", "Conflict", False),
    ({"peers": [counts(matched=2, synced=1)]}, "False", "Waiting", True),
    ({"peers": [counts(last_error="Cannot connect")]}, "False", "Waiting", True),
    ({"pending": ["here: busy"]}, "False", "Waiting", True),
    ({"problems": ["here: Secret: forbidden"]}, "False", "Waiting", False),
    ({"halted": "too many"}, "False", "DeletionHalted", False),
    ({"halted_by_owner": "too many"}, "False", "DeletionHalted", False),
    ({"suspended": True}, "False", "Suspended", False),
    ({"barred": ("NotAllowedHere", "an option")}, "False", "NotAllowedHere", False),
    ({"barred": ("ClosedHere", "an option")}, "False", "ClosedHere", False),
    ({"barred": ("LocalClusterUnclear", "two Clusters")}, "False", "LocalClusterUnclear", False),
    ({"verdict": Verdict(False, "InvalidSpec", "spec.rules: is missing")}, "False", "InvalidSpec", False),
]


@pytest.mark.clause("S4")
@pytest.mark.parametrize(("facts", "ready", "reason", "goes_on"), READY_OF)
def test_ready_is_true_only_where_nothing_is_missing_held_or_refused(
    facts: dict[str, Any], ready: str, reason: str, goes_on: bool
) -> None:
    found = status(**facts)
    assert said(found, "Ready") == (ready, reason)
    assert said(found, "Reconciling") == (("True", reason) if goes_on else (None, None))
    (condition,) = [each for each in found["conditions"] if each["type"] == "Ready"]
    assert condition["observedGeneration"] == found["observedGeneration"] == 2


@pytest.mark.clause("S4")
def test_a_rule_that_becomes_ready_is_reconciling_no_more() -> None:
    before = merge_status({}, status(peers=[counts(matched=1)]), now="2026-01-01T00:00:00Z")
    after = merge_status(before, status(peers=[counts(matched=1, synced=1)]), now="2026-01-01T00:00:01Z")
    assert after is not None
    assert {one["type"]: one["status"] for one in after["conditions"]} == {
        "Accepted": "True", "Synced": "True", "Stalled": "False", "Ready": "True",
    }  # fmt: skip


PROBLEMS = ["here: Secret: cannot list secrets; grant it", "peer b: Secret: cannot watch secrets: forbidden; grant it"]


@pytest.mark.parametrize(
    ("facts", "causes"),
    [
        ({}, []),
        ({"problems": PROBLEMS}, PROBLEMS),
        ({"problems": PROBLEMS[:1], "suspended": True}, []),
        ({"problems": PROBLEMS[:1], "halted": "cluster b: 9 copies"}, [PROBLEMS[0], "cluster b: 9 copies"]),
        (
            {"peers": [counts(matched=2, failing=2, failures=[("x", "R", "m; n"), ("y", "R", "")])]},
            ["x: m; n", "y: R"],
        ),
        ({"peers": [counts(last_error="no answer")]}, ["peer b: no answer"]),
        (
            {"problems": ["here: x: refused"], "peers": [counts(failing=1, failures=[("x", "R", "refused")])]},
            ["here: x: refused"],
        ),
        (
            {
                "problems": [f"here: x: {'long ' * 200}"],
                "peers": [counts(failing=1, failures=[("x", "R", "long " * 200)])],
            },
            [f"here: x: {'long ' * 200}"],
        ),
    ],
)
def test_all_causes_are_read_from_a_stored_status(facts: dict[str, Any], causes: list[str]) -> None:
    assert read_causes(status(**facts)) == causes


@pytest.mark.parametrize("found", [None, {"conditions": 1, "clusters": [1, {"failures": [1], "lastError": ""}]}])
def test_a_status_that_another_program_wrote_has_no_causes(found: object) -> None:
    assert read_causes(found) == []
