"""O6: which deletions of tombstones withdraw them."""

from __future__ import annotations

import pytest

from registry_controller.core.decision.withdrawal import DeletionFacts, Withdrawal, evaluate_withdrawal

pytestmark = pytest.mark.clause("O6")

THERE = DeletionFacts(revision=7, read_later=True, read_uid="d", watched_uid="d", defined_since=3)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (THERE, Withdrawal.BY_CLIENT),
        (THERE._replace(read_later=False), Withdrawal.UNKNOWN),
        (THERE._replace(read_later=False, read_uid="", watched_uid=""), Withdrawal.UNKNOWN),
        (THERE._replace(watched_uid=""), Withdrawal.UNKNOWN),
        (THERE._replace(watched_uid="before"), Withdrawal.UNKNOWN),
        (THERE._replace(defined_since=7), Withdrawal.BY_DEFINITION),
        (THERE._replace(defined_since=9), Withdrawal.BY_DEFINITION),
        (THERE._replace(read_uid=""), Withdrawal.BY_DEFINITION),
        (THERE._replace(read_uid="", watched_uid=""), Withdrawal.BY_DEFINITION),
    ],
)
def test_a_deletion_counts_while_the_definition_that_was_there_before_stays(
    facts: DeletionFacts, expected: Withdrawal
) -> None:
    assert evaluate_withdrawal(facts) is expected
