"""Laws of the record of deleted rules, over all records and days. W3."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.deleted_rules import LASTS, MOST, DeletedRule
from registry_controller.core.decision.deletion_record import KnownDeletions, choose_record, note_deletions

TODAY = date(2026, 1, 31)
DAYS = st.sampled_from([TODAY - LASTS - timedelta(1), TODAY - LASTS, TODAY, TODAY + timedelta(100)])
POLICIES = st.sampled_from(["", "Delete", "Orphan"])
RULES = st.lists(
    st.builds(DeletedRule, st.just("r"), st.sampled_from("uvw"), DAYS, POLICIES, st.booleans()),
    unique_by=lambda rule: rule.uid,
).map(frozenset)
NOTHING = KnownDeletions()

pytestmark = pytest.mark.clause("W3")


def noted(
    known: KnownDeletions = NOTHING,
    *,
    stored: frozenset[DeletedRule] = frozenset(),
    found: frozenset[DeletedRule] = frozenset(),
    today: date = TODAY,
    is_day_agreed: bool = True,
) -> KnownDeletions:
    return note_deletions(known, stored=stored, found=found, today=today, is_day_agreed=is_day_agreed)


def uids(rules: frozenset[DeletedRule]) -> set[str]:
    return {rule.uid for rule in rules}


@given(RULES, RULES, RULES)
def test_nothing_expires_while_no_live_member_agrees_about_the_day(
    known: frozenset[DeletedRule], stored: frozenset[DeletedRule], found: frozenset[DeletedRule]
) -> None:
    before = KnownDeletions(known, frozenset(uids(known)))
    after = noted(before, stored=stored, found=found, is_day_agreed=False)
    assert uids(after.rules) == uids(known) | uids(stored) | uids(found)
    assert all(not rule.is_day_agreed for rule in after.rules if rule.uid not in uids(known) | uids(stored))


@given(RULES)
def test_a_rule_expires_after_its_time_by_a_day_that_a_member_agreed_with(stored: frozenset[DeletedRule]) -> None:
    after = noted(stored=stored)
    assert uids(after.rules) == {rule.uid for rule in stored if not rule.is_day_agreed or TODAY - rule.day <= LASTS}
    assert all(rule.is_day_agreed for rule in after.rules)
    assert after == noted(after, stored=after.rules), "once"


@pytest.mark.parametrize("behind", [timedelta(-100), timedelta(100)])
def test_a_wrong_clock_makes_no_deletion_expire_early_or_late(behind: timedelta) -> None:
    found = frozenset({DeletedRule("r", "u", TODAY - behind)})
    wrong = noted(found=found, today=TODAY - behind, is_day_agreed=False)
    right = noted(stored=wrong.rules)
    assert right.rules == {DeletedRule("r", "u", TODAY)}


@given(RULES, RULES)
def test_what_is_known_is_recorded_again_where_the_record_is_lost(
    stored: frozenset[DeletedRule], found: frozenset[DeletedRule]
) -> None:
    known = noted(stored=stored, found=found)
    again = noted(known, found=found)
    assert again.rules == known.rules
    assert choose_record(again, stored=frozenset(), here=frozenset()) == known.rules


@given(RULES)
def test_an_expired_deletion_is_not_recorded_again(stored: frozenset[DeletedRule]) -> None:
    """Copies whose deletion is halted may outlast the record."""
    later = TODAY + LASTS + timedelta(101)
    known = noted(noted(stored=stored), today=later)
    assert not known.rules
    assert not noted(known, found=stored, today=later).rules


@given(RULES, st.frozensets(st.sampled_from("uvw")))
def test_a_rule_that_is_here_is_recorded_only_where_the_record_has_it(
    rules: frozenset[DeletedRule], here: frozenset[str]
) -> None:
    known = noted(found=rules)
    assert not uids(choose_record(known, stored=frozenset(), here=here)) & here
    assert choose_record(known, stored=known.rules, here=here) == known.rules


@given(RULES, RULES)
def test_a_policy_that_one_daemon_knows_is_not_lost(
    stored: frozenset[DeletedRule], known: frozenset[DeletedRule]
) -> None:
    after = noted(KnownDeletions(known, frozenset(uids(known))), stored=stored, is_day_agreed=False)
    policies = {rule.uid: rule.policy for rule in known} | {rule.uid: rule.policy for rule in stored if rule.policy}
    assert {rule.uid: rule.policy for rule in after.rules if rule.uid in uids(known)} == {
        uid: policy for uid, policy in policies.items() if uid in uids(known)
    }


def test_the_record_holds_the_latest_rules() -> None:
    stored = frozenset(
        DeletedRule(f"r{number}", f"u{number}", TODAY - timedelta(number % 80)) for number in range(MOST)
    )
    after = noted(stored=stored, found=frozenset({DeletedRule("new", "new", TODAY)}))
    assert len(after.rules) == MOST
    assert "new" in uids(after.rules)
    assert max(TODAY - rule.day for rule in stored - after.rules) == timedelta(79)
