"""Merging the wanted status into the stored one: a table."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.core.status.merge import find_transitions, is_same_value, merge_status

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(kind: str = "Ready", status: str = "True", at: str | None = None, **more: Any) -> dict[str, Any]:
    times = {"lastTransitionTime": at, "lastHeartbeatTime": at} if at else {}
    return {"type": kind, "status": status, "reason": f"Is{status}", "message": "words", **times, **more}


TABLE: dict[str, tuple[Any, Any, Any]] = {
    "nothing is stored": (None, {"state": "Ready"}, {"state": "Ready"}),
    "it is stored": ({"state": "Ready"}, {"state": "Ready"}, None),
    "a field that we do not name stays": ({"leader": True, "state": "A"}, {"state": "B"}, {"state": "B"}),
    "None removes": ({"message": "x"}, {"message": None}, {"message": None}),
    "None of what is not there": ({}, {"message": None}, None),
    "empty and absent are one": ({}, {"message": "", "zones": [], "locality": {}}, None),
    "false is not absent": ({}, {"leader": False}, {"leader": False}),
    "0 is not false": ({"n": 0}, {"n": False}, {"n": False}),
    "an object is replaced whole": (
        {"locality": {"region": "a", "zones": ["1"], "deep": {"x": 1, "y": 2}}},
        {"locality": {"region": "b", "deep": {"x": 1}}},
        {"locality": {"region": "b", "zones": None, "deep": {"x": 1, "y": None}}},
    ),
    "a list is replaced whole": ({"v": ["1", "2"]}, {"v": ["2"]}, {"v": ["2"]}),
    "a new condition begins now": (
        {},
        {"conditions": [condition()]},
        {"conditions": [condition(at=T1)]},
    ),
    "a moment alone is no reason": (
        {"conditions": [condition(at=T0)]},
        {"conditions": [condition(at=T1)]},
        None,
    ),
    "a new message keeps the transition time": (
        {"conditions": [condition(at=T0)]},
        {"conditions": [condition(message="other")]},
        {"conditions": [condition(message="other") | {"lastTransitionTime": T0, "lastHeartbeatTime": T1}]},
    ),
    "a new status is a transition": (
        {"conditions": [condition(at=T0)]},
        {"conditions": [condition(status="False")]},
        {"conditions": [condition(status="False", at=T1)]},
    ),
    "types that we do not know stay, in their place": (
        {"conditions": [condition("Theirs", at=T0), condition(at=T0)]},
        {"conditions": [condition(status="False")]},
        {"conditions": [condition("Theirs", at=T0), condition(status="False", at=T1)]},
    ),
    "a status of None takes a condition away": (
        {"conditions": [condition("Theirs", at=T0), condition(at=T0)]},
        {"conditions": [{"type": "Ready", "status": None}]},
        {"conditions": [condition("Theirs", at=T0)]},
    ),
    "a status of None of what is not there": ({}, {"conditions": [{"type": "Ready", "status": None}]}, None),
    "a second one of its type goes": (
        {"conditions": [condition(at=T0), condition(status="False", at=T0)]},
        {"conditions": [condition()]},
        {"conditions": [condition(at=T0)]},
    ),
    "an observedGeneration that changes counts": (
        {"conditions": [condition(at=T0, observedGeneration=1)]},
        {"conditions": [condition(observedGeneration=2)]},
        {
            "conditions": [
                condition(observedGeneration=2) | {"lastTransitionTime": T0, "lastHeartbeatTime": T1},
            ]
        },
    ),
    "an observedGeneration that Go never wrote, or an old CRD pruned, does not": (
        {"conditions": [condition(at=T0)]},
        {"conditions": [condition(observedGeneration=2)]},
        None,
    ),
    "what is stored may be nonsense": ({"conditions": ["x", None]}, {"conditions": []}, None),
}


@pytest.mark.parametrize(("stored", "wanted", "patch"), TABLE.values(), ids=TABLE)
def test_only_what_differs_is_written(stored: Any, wanted: Any, patch: Any) -> None:
    assert merge_status(stored, wanted, now=T1) == patch


def test_a_transition_is_a_change_of_status_or_reason() -> None:
    stored = {"conditions": [condition("A"), condition("B"), condition("C")]}
    wanted = [
        condition("A", message="other"),
        condition("B", status="False"),
        condition("C", reason="R"),
        condition("D"),
    ]
    assert [found["type"] for found in find_transitions(stored, {"conditions": wanted})] == ["B", "C", "D"]
    assert find_transitions(None, {"conditions": [{"type": "A", "status": None}]}) == []


def test_true_is_not_one() -> None:
    assert not is_same_value(True, 1)
