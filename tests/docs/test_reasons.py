"""docs/reasons.md has every reason of the code, and no other one."""

from __future__ import annotations

import re

import pytest

from registry_controller.api import errors
from registry_controller.core.decision.decision import Reason
from registry_controller.core.status.cluster import CONDITIONS
from registry_controller.report.reasons import REFUSALS
from tests.docs.documents import ROOT, table, tables

PAGE, MONITORING, PACKAGE = ROOT / "docs" / "reasons.md", ROOT / "docs" / "monitoring.md", ROOT / "registry_controller"
TABLES = {
    "reason of an object": "object", "reason of a failure": "failure", "reason of a rule's condition": "rule",
    "reason of a Cluster's condition": "cluster", "reason of an Event": "event",
}  # fmt: skip
"""The tables of the page, with the first word of their anchors."""
NO_REASON = {"RegistryError", "BadInput", "InvalidOption", "InvalidKubeconfig", "Gone"}
"""Errors that no write or evaluation of an object ends with; the reason of Gone is `Expired`."""


def listed(header: str) -> list[str]:
    """Return the first column of a table of the page."""
    return [row[0].split("`")[1] for row in table(PAGE, header=header)]


def words_of(*paths: str) -> set[str]:
    """Return the texts in the code that are one word with a capital."""
    return {
        word for path in paths for word in re.findall(r'"([A-Z][A-Za-z]+)"', (PACKAGE / path).read_text("utf-8"))
    }  # fmt: skip


def error_classes() -> set[str]:
    """Return the names of all errors of the daemon."""
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    return {kind.__name__ for kind in kinds if issubclass(kind, errors.RegistryError)}


@pytest.mark.parametrize("header", TABLES)
def test_each_reason_has_an_anchor_a_meaning_and_an_action(header: str) -> None:
    for row, reason in zip(table(PAGE, header=header), listed(header), strict=True):
        assert row[0] == f'<a id="{TABLES[header]}-{reason.lower()}"></a>`{reason}`'
        assert all(row)
    assert [cells[0][-1] for cells in tables(PAGE) if cells[0][0] == header] == ["action"]


def test_the_reasons_of_objects_are_those_of_the_decisions() -> None:
    assert listed("reason of an object") == [reason.value for reason in Reason]


def test_the_reasons_of_failures_are_those_of_the_errors() -> None:
    own = error_classes() - NO_REASON
    expected = own | set(REFUSALS) | {"FieldsLost", "Expired"}
    found = listed("reason of a failure")
    assert len(found) == len(set(found))
    assert set(found) | {Reason.CONFLICT.value} == expected


def test_the_reasons_of_a_rules_conditions_are_those_of_the_code() -> None:
    code = words_of(
        "core/status/rule.py", "core/status/ready.py", "core/rules/validation.py", "core/decision/stored_spec.py"
    )
    reasons = code - {"True", "False", "Unknown", "Stalled", "HistoryRestored", "Ready", "Reconciling"}
    others = {"FieldsPruned", "LocalClusterUnclear"}
    assert others <= words_of("status/rules.py")
    barred = {Reason.NOT_ALLOWED.value, Reason.CLOSED.value}
    assert set(listed("reason of a rule's condition")) == reasons | others | barred


def test_the_reasons_of_a_clusters_conditions_are_those_of_the_code() -> None:
    types = {"LocalCluster", "LocalConflict", "Ready", "ClustersSynced", "OwnClusterMissing", "AuthInfoNotUsed"}
    types |= {"LaterFormat", "DeletionHalted"}
    code = words_of("core/status/cluster.py") - types - {"True", "False", "Unknown", "Cluster"}
    conflicts = {"LocalClusterIsConflicting", "LocalClusterIsNotConflicting", "ClusterIsConflicting"}
    assert set(listed("reason of a Cluster's condition")) == code | conflicts


def test_the_table_of_a_clusters_conditions_is_that_of_the_code() -> None:
    rows = table(MONITORING, header="condition of a Cluster")
    assert sorted(row[0].split("`")[1] for row in rows) == sorted(CONDITIONS)


def test_the_reasons_of_events_are_those_of_the_code() -> None:
    text = (PACKAGE / "app.py").read_text("utf-8")
    assert listed("reason of an Event") == re.findall(r'reason="([A-Z]\w+)"', text)
