"""The halts of rules in the status of the Cluster of the owner of their copies (W4)."""

from __future__ import annotations

import pytest

from registry_controller.core.decision.deletion_limit import window_of
from registry_controller.core.decision.rule_halts import form_for, halt_in, read_halts, stored_halts_form

AT = "2026-07-29T10:00:00Z"
ANEW = {"withoutMinimum": True}


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        (None, None),
        ({"windowStart": AT, "baseline": 9, "deleted": 3}, None),
        ({"windowStart": AT, "baseline": 9, "haltedAt": AT}, AT),
        (ANEW, ""),
    ],
)
def test_w4_a_halt_is_stored_and_that_a_feature_is_lost(stored: dict[str, object] | None, found: str | None) -> None:
    assert halt_in(stored) == found


def test_w4_what_is_stored_is_read() -> None:
    halts = {"many": AT, "lost.example": ""}
    form = stored_halts_form(halts)
    assert form == {"rules": f"lost.example@,many@{AT}"}
    assert read_halts(form) == halts
    assert (stored_halts_form({}), read_halts({}), read_halts({"rules": 7}), read_halts(None)) == ({}, {}, {}, {})


def test_w4_a_rule_without_a_status_is_halted_again() -> None:
    halts = {"many": AT, "lost": ""}
    window = window_of(form_for(halts, "many"))
    assert window is not None
    assert (window.halted_at, window.is_anew) == (AT, True)
    assert form_for(halts, "lost") == ANEW
    assert form_for(halts, "another") is None


def test_w4_the_halts_of_very_many_rules_are_one_entry_for_all() -> None:
    form = stored_halts_form({f"rule-{number}": AT for number in range(51)})
    assert form == {"rules": f"*@{AT}"}
    assert window_of(form_for(read_halts(form), "rule-50")) == window_of(form_for({"x": AT}, "x"))
