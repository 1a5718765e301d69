"""The state of an object in one member, from its explanation."""

from __future__ import annotations

from typing import Any, cast

import pytest

from registry_controller.core.decision.marks import Marks
from registry_controller.engine import Engine
from registry_controller.planner.explain import Explanation, UnreadObject
from registry_controller.planner.member_view import ObjectState, find_last_change, find_state, view_object
from registry_controller.planner.plan import PlanAction, PlanRow
from tests.unit.planner.planned_results import LOCAL, PEER, TARGET
from tests.unit.planner.test_output import NAMES

NATIVE, COPY = Marks(None, None, False, False), Marks(PEER, None, False, False)


def explanation(**fields: Any) -> Explanation:
    values: dict[str, Any] = {
        "target": TARGET, "local": LOCAL, "marks": None, "owner": None, "copied_from": None, "sources": (),
        "planned": (), "problems": (), **fields,
    }  # fmt: skip
    return Explanation(**values)


def row(action: PlanAction, reason: str = "Any", **fields: Any) -> PlanRow:
    return PlanRow(action, TARGET, "rule", PEER, reason, "a message", **fields)


@pytest.mark.parametrize(
    ("marks", "decided", "state"),
    [
        (NATIVE, None, ObjectState.OWNED),
        (NATIVE, row(PlanAction.SKIP, "NotWanted"), ObjectState.OWNED),
        (NATIVE, row(PlanAction.CONFLICT, "LocalObjectExists"), ObjectState.CONFLICT),
        (COPY, row(PlanAction.SKIP, "InSync"), ObjectState.IN_STEP),
        (COPY, row(PlanAction.SKIP, "CopyFrozen"), ObjectState.LEFT),
        (COPY, row(PlanAction.UPDATE), ObjectState.BEHIND),
        (COPY, row(PlanAction.UPDATE, failed=("Forbidden", "403")), ObjectState.FAILING),
        (COPY, row(PlanAction.DELETE), ObjectState.GOING),
        (COPY, row(PlanAction.WAIT), ObjectState.WAITING),
        (None, row(PlanAction.CREATE), ObjectState.MISSING),
        (None, row(PlanAction.SKIP, "NotWanted"), ObjectState.MISSING),
        (None, row(PlanAction.FAIL), ObjectState.FAILING),
        (None, None, ObjectState.MISSING),
    ],
)
def test_the_state_follows_the_decision(marks: Marks | None, decided: PlanRow | None, state: ObjectState) -> None:
    assert find_state(explanation(marks=marks), decided) is state


def test_an_object_that_cannot_be_read_is_unknown() -> None:
    found = explanation(unread=(UnreadObject(LOCAL, "refused"),))
    assert find_state(found, row(PlanAction.SKIP, "NotWanted")) is ObjectState.UNKNOWN


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"unread": (UnreadObject(PEER, "refused"),), "problems": ("peer b: refused, too",)},
            "not read: peer b: refused",
        ),
        ({"problems": ("peer b: no answer",)}, "unavailable: peer b: no answer"),
    ],
)
async def test_an_object_that_a_peer_may_have_is_unknown_and_the_peer_is_named(
    fields: dict[str, Any], why: str
) -> None:
    """That no rule wants what was not found is no answer then."""
    found = explanation(planned=(row(PlanAction.SKIP, "NotWanted"),), **fields)
    view = await view_object(found, cast("Engine", None), NAMES)
    assert (view.state, view.why) == (ObjectState.UNKNOWN, why)


async def test_an_owner_that_is_read_in_another_way_is_a_cause_of_what_is_not_in_step() -> None:
    notes = ("peer b: it is read with other credentials",)
    behind = await view_object(
        explanation(marks=COPY, planned=(row(PlanAction.UPDATE),), notes=notes), cast("Engine", None), NAMES
    )
    assert behind.why == "Any: a message; peer b: it is read with other credentials"
    in_step = explanation(marks=COPY, planned=(row(PlanAction.SKIP, "InSync"),), notes=notes)
    assert (await view_object(in_step, cast("Engine", None), NAMES)).why == ""


async def test_an_owner_that_is_not_listed_names_the_missing_right() -> None:
    unread = (UnreadObject(PEER, "refused"),)
    found = explanation(planned=(row(PlanAction.WAIT, "OwnerNotHeard"),), unread=unread)
    view = await view_object(found, cast("Engine", None), NAMES)
    assert (view.state, view.why) == (ObjectState.WAITING, "not read: peer b: refused")


def test_the_last_change_is_the_last_write_but_for_the_status() -> None:
    fields = [
        {"time": "2026-01-02T00:00:00Z"},
        {"time": "2026-01-03T00:00:00Z"},
        {"time": "2026-01-04T00:00:00Z", "subresource": "status"},
        {},
    ]
    info = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert find_last_change({"metadata": {**info, "managedFields": fields}}) == "2026-01-03T00:00:00Z"
    assert find_last_change({"metadata": info}) == "2026-01-01T00:00:00Z"
    assert find_last_change({"metadata": {"managedFields": "odd"}}) == ""
