"""Which missing rules may let their copies go (W3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from registry_controller.core.decision.missing_rules import MissingRules

NOW = datetime(2026, 7, 29, 10, tzinfo=UTC)
FIRST, SECOND = "2026-07-29T10:00:00Z", "2026-07-29T10:00:01Z"
NONE = MissingRules({})


def test_w3_a_rule_that_goes_missing_later_has_a_later_moment_whatever_the_clock_shows() -> None:
    first = NONE.with_rules(["r"], now=NOW)
    assert (first.waiting, first.moment) == ({"r": FIRST}, FIRST)
    for now in (NOW, NOW - timedelta(days=100)):
        both = first.with_rules(["r", "s"], now=now)
        assert (both.since, both.moment) == ({"r": FIRST, "s": SECOND}, SECOND)
    assert first.with_rules(["r"], now=NOW + timedelta(days=1)) == first


def test_w3_an_allowance_counts_for_the_rules_that_were_missing_at_its_moment() -> None:
    both = NONE.with_rules(["r"], now=NOW).with_rules(["r", "s"], now=NOW)
    found = both.with_allowance([FIRST])
    assert (found.going, set(found.waiting), found.moment) == ({"r"}, {"s"}, SECOND)
    found = both.with_allowance([SECOND])
    assert (found.going, found.waiting, found.moment) == ({"r", "s"}, {}, "")
    alone = found.with_rules(["r"], now=NOW).with_allowance([SECOND])
    assert alone.going == {"r"}, "it was allowed, although the later rule is there again"
    assert not both.with_allowance([]).going
    assert not both.with_allowance(["2099-01-01T00:00:00Z", ""]).going, "no rule was missing then"


def test_w3_an_allowance_ends_with_its_annotation_and_with_the_absence() -> None:
    found = NONE.with_rules(["r"], now=NOW).with_allowance([FIRST])
    assert not found.with_allowance([]).going
    there = found.with_rules([], now=NOW)
    assert there.with_rules(["r"], now=NOW).with_allowance([FIRST]).waiting == {"r": SECOND}
