"""The text and the JSON documents of plans and explanations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from registry_controller.api.meta import ClusterUID
from registry_controller.api.provenance import Provenance
from registry_controller.cli.output import align_columns
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.state import SourceRef
from registry_controller.planner.explain import ExplainedSource, Explanation, UnreadObject
from registry_controller.planner.output import (
    PLAN_HEADINGS,
    ClusterNames,
    build_explanation_document,
    build_plan_document,
    format_explanation,
    format_plan_end,
    list_plan_lines,
)
from registry_controller.planner.plan import Plan, PlanAction, PlanRow
from registry_controller.planner.rule_fit import Fit, RuleFit
from tests.unit.planner.planned_results import KEY, LOCAL, OTHER, PEER, TARGET, WIDGET, engine
from tests.unit.status.engine_parts import FakeClusters, FakePeer, registry, resolved

NAMES = ClusterNames(
    engine(
        registry(), clusters=FakeClusters(resolved("a", LOCAL), resolved(), peers=[FakePeer(), FakePeer(LOCAL, "a")])
    )
)
REF = SourceRef(PEER, WIDGET, KEY)
CREATE = PlanRow(PlanAction.CREATE, TARGET, "rule", PEER, "Create", "it is wanted", REF)
IN_SYNC = PlanRow(PlanAction.SKIP, TARGET._replace(name="y"), "rule", PEER, "InSync", "it is as it should be", REF)
NOT_WANTED = PlanRow(PlanAction.SKIP, TARGET, "", ClusterUID(""), "NotWanted", "no rule asks for it")
NATIVE, COPY = Marks(None, None, False, False), Marks(PEER, None, False, False)


def explanation(**fields: Any) -> Explanation:
    values: dict[str, Any] = {
        "target": TARGET, "local": LOCAL, "marks": None, "owner": None, "copied_from": None, "sources": (),
        "planned": (), "problems": (), **fields,
    }  # fmt: skip
    return Explanation(**values)


def format_plan(plan: Plan, names: ClusterNames) -> str:
    """Format a plan as the command does without a terminal."""
    lines = [cells for _, cells in list_plan_lines(plan, names)]
    table = [align_columns([PLAN_HEADINGS, *lines]), ""] if lines else []
    return "\n".join([*table, format_plan_end(plan)])


def test_in_the_wide_form_objects_in_sync_are_lines() -> None:
    lines = list_plan_lines(Plan([CREATE, IN_SYNC], [], []), NAMES, is_wide=True)
    assert [action for action, _ in lines] == [PlanAction.CREATE, PlanAction.SKIP]


def test_a_plan_is_a_table_with_a_summary_in_which_objects_in_sync_are_only_counted() -> None:
    text = format_plan(Plan([CREATE, IN_SYNC], ["a note"], ["peer b: refused"]), NAMES)
    heading, row, _, summary, note, problem = text.splitlines()
    assert heading.split() == ["ACTION", "OBJECT", "FROM", "RULE", "REASON"]
    assert row.split(maxsplit=5) == ["create", "Widget.example.com", "default/x", "b", "rule", "Create: it is wanted"]
    assert heading.index("FROM") == row.index("b   ")
    assert heading.index("REASON") == row.index("Create: ")
    assert summary == "1 to create, 0 to update, 0 to delete, 1 in sync"
    assert (note, problem) == ("note: a note", "unavailable: peer b: refused")


def test_a_copy_that_was_made_in_another_cluster_is_explained() -> None:
    """O11."""
    made = Provenance(PEER, "rule", PEER, "Delete", WIDGET, KEY, "u", "", 1, TARGET, cluster=OTHER)
    for cluster, is_said in ((OTHER, True), (LOCAL, False)):
        marks = Marks(PEER, replace(made, cluster=cluster), sync_disabled=False, go_written=False)
        text = format_explanation(explanation(marks=marks, owner=PEER), NAMES)
        assert "deletionPolicy Delete" in text
        assert ("was made in another cluster" in text) is is_said


def test_a_plan_without_changes_is_its_summary_alone() -> None:
    assert format_plan(Plan([], [], []), NAMES) == "0 to create, 0 to update, 0 to delete"


def test_a_source_of_another_name_is_shown_behind_its_cluster() -> None:
    renamed = PlanRow(PlanAction.CREATE, TARGET._replace(name="z"), "rule", PEER, "Create", "m", REF)
    assert "   b (Widget.example.com default/x)   " in format_plan(Plan([renamed], [], []), NAMES)


def test_the_document_of_a_plan_has_every_row_and_a_count_for_every_action() -> None:
    document = build_plan_document(Plan([CREATE, IN_SYNC], [], ["peer b: refused"]), NAMES)
    assert document["cluster"] == {"name": "a", "clusterID": LOCAL}
    assert [row["action"] for row in document["objects"]] == ["create", "skip"]
    assert document["summary"] == {
        "create": 1, "update": 0, "delete": 0, "skip": 1, "conflict": 0, "wait": 0, "fail": 0,
    }  # fmt: skip
    assert document["troubles"] == ["peer b: refused"]
    assert document["objects"][0]["source"] == {
        "group": "example.com", "kind": "Widget", "namespace": "default", "name": "x",
        "cluster": {"name": "b", "clusterID": PEER},
    }  # fmt: skip


def test_only_a_row_that_waits_says_for_what() -> None:
    waiting = PlanRow(PlanAction.WAIT, TARGET, "rule", PEER, "OwnerSilent", "the owner does not answer")
    rows = build_plan_document(Plan([waiting, CREATE], [], []), NAMES)["objects"]
    assert [row["waitsFor"] for row in rows] == ["the owner does not answer", None]


@pytest.mark.parametrize(
    ("fields", "state", "text"),
    [
        ({"marks": NATIVE, "owner": LOCAL}, "native", "created here; this cluster owns it"),
        ({"marks": NATIVE, "owner": PEER}, "native", "applied here by hand; it belongs to cluster b"),
        ({"marks": COPY, "owner": PEER}, "copy", "a copy; cluster b owns it; created by a version"),
        ({}, "absent", "not here, nor in any cluster that is read"),
        ({"problems": ["peer b: refused"]}, "absent", "not here, nor in any cluster that could be read"),
        ({"unread": [UnreadObject(LOCAL, "403")]}, "unread", "cannot be read here, and is in no other cluster"),
        ({"unread": [UnreadObject(PEER, "403")]}, "absent", "not here, nor in any cluster that could be read"),
    ],
)
def test_the_first_line_of_an_explanation_is_about_the_local_object(
    fields: dict[str, Any], state: str, text: str
) -> None:
    found = explanation(**fields)
    first = format_explanation(found, NAMES).splitlines()[0]
    assert first.startswith(f"Widget.example.com default/x in cluster a: {text}")
    assert build_explanation_document(found, NAMES)["here"] == state


def test_a_source_is_shown_with_its_rules_its_targets_and_the_decisions() -> None:
    fits = [RuleFit("one", Fit.MATCHES), RuleFit("two", Fit.MISSES, "spec.rules", "is empty")]
    source = ExplainedSource(REF, NATIVE, fits, [TARGET])
    text = format_explanation(explanation(sources=[source], planned=[CREATE]), NAMES)
    assert text.splitlines()[1:] == [
        "",
        "Widget.example.com default/x in cluster b:",
        "  rule one matches",
        "  rule two does not match: spec.rules: is empty",
        "  is copied to Widget.example.com default/x here",
        "",
        "decision on Widget.example.com default/x: create (Create), by rule rule, from cluster b",
        "  because: it is wanted",
    ]


def test_a_failed_write_is_shown_below_its_decision() -> None:
    failed = PlanRow(PlanAction.CREATE, TARGET, "rule", PEER, "Create", "m", failed=("Forbidden", "403"))
    assert "Create: m; failed so far: Forbidden: 403" in format_plan(Plan([failed], [], []), NAMES)
    found = explanation(planned=[failed])
    assert format_explanation(found, NAMES).endswith("\n  because: m\n  failed so far: Forbidden: 403")
    (decision,) = build_explanation_document(found, NAMES)["decisions"]
    assert decision["failed"] == {"reason": "Forbidden", "message": "403"}


def test_a_right_that_is_missing_for_a_dry_run_is_shown_below_its_decision() -> None:
    """A10."""
    row = PlanRow(PlanAction.UPDATE, TARGET, "rule", PEER, "Update", "m", not_asked=("update a", "create a"))
    words = "not asked: you may not update a nor create a, so no dry run shows whether the API server would change it"
    assert f"Update: m; {words}" in format_plan(Plan([row], [], []), NAMES)
    found = explanation(planned=[row])
    assert format_explanation(found, NAMES).endswith(f"\n  because: m\n  {words}")
    (decision,) = build_explanation_document(found, NAMES)["decisions"]
    assert decision["notAsked"] == ("update a", "create a")


def test_a_copy_at_another_cluster_names_its_owner() -> None:
    source = ExplainedSource(SourceRef(OTHER, WIDGET, KEY), COPY, ())
    found = explanation(sources=[source])
    assert f"in cluster {OTHER}, where it is a copy of the object in cluster b:" in format_explanation(found, NAMES)
    assert build_explanation_document(found, NAMES)["sources"][0]["copyOf"] == {"name": "b", "clusterID": PEER}


@pytest.mark.parametrize(
    ("fields", "is_shown"),
    [
        ({"marks": NATIVE}, True),
        ({}, False),
        ({"unread": [UnreadObject(PEER, "403")], "rules": [RuleFit("rule", Fit.IDLE)]}, True),
        ({"unread": [UnreadObject(PEER, "403")], "rules": [RuleFit("rule", Fit.UNREAD)]}, False),
    ],
    ids=["found", "not found anywhere", "no rule acts", "a rule may match"],
)
def test_that_no_rule_wants_an_object_is_shown_only_when_it_is_certain(fields: dict[str, Any], is_shown: bool) -> None:
    text = format_explanation(explanation(planned=[NOT_WANTED], **fields), NAMES)
    assert ("skip (NotWanted)" in text) is is_shown


def test_a_cluster_without_a_name_here_is_shown_by_its_id() -> None:
    assert NAMES.get_name(OTHER) == OTHER
    assert NAMES.build_document(OTHER) == {"name": "", "clusterID": OTHER}
    assert NAMES.build_document(None) is None
