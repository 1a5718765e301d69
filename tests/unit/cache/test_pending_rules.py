"""Which rules wait for a list. W3, O5."""

from __future__ import annotations

from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.shared_watches import PendingRules

X = Selection("x")


def test_a_rule_waits_until_all_its_selections_were_listed_since_it_changed() -> None:
    pending = PendingRules()
    pending.change(gone=(), fresh={"r": (EVERYTHING, X)})
    assert ("r" in pending, pending.generation) == (True, 1)
    assert sorted(pending.unlisted()) == [(EVERYTHING, 1), (X, 1)]
    assert pending.settle(lambda one, since: one == X and since <= 1) == {}
    assert pending.settle(lambda one, since: one == EVERYTHING and since <= 0) == {}
    assert pending.settle(lambda one, since: one == EVERYTHING) == {"r": 1}
    assert not pending


def test_a_rule_that_changes_again_waits_for_lists_since_then() -> None:
    pending = PendingRules()
    pending.change(gone=(), fresh={"r": (X,), "s": (X,)})
    pending.change(gone=(), fresh={"r": (X,)})
    assert pending.settle(lambda one, since: since <= 1) == {"s": 1}
    assert pending.settle(lambda one, since: since <= 2) == {"r": 2}


def test_a_rule_that_goes_or_selects_nothing_waits_for_nothing() -> None:
    pending = PendingRules()
    pending.change(gone=(), fresh={"r": (X,)})
    pending.change(gone=("r",), fresh={"none": ()})
    assert pending.settle(lambda one, since: False) == {"none": 2}
    assert not pending


def test_a_rule_has_seen_what_was_evaluated_since_it_changed() -> None:
    pending = PendingRules()
    assert pending.has_evaluated("r", evaluated=0)
    pending.change(gone=(), fresh={"r": (X,)})
    assert not pending.has_evaluated("r", evaluated=0)
    assert pending.has_evaluated("r", evaluated=1)
    assert pending.has_evaluated("s", evaluated=0)
