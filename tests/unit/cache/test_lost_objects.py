"""W4: which absence may be no deletion by the owner."""

from __future__ import annotations

import pytest

from registry_controller.api.feature import Feature
from registry_controller.api.meta import ObjectKey
from registry_controller.cache.lost_objects import LostObjects, is_another_history

pytestmark = pytest.mark.clause("W4")

GOLD, SILVER = Feature("x", "gold", {}), Feature("y", "silver", {})
KEY, OTHER = ObjectKey("default", "x"), ObjectKey("default", "y")


@pytest.mark.parametrize(
    ("revision", "reached", "expected"),
    [
        pytest.param(10, 0, False, id="the first list"),
        pytest.param(10, 10, False, id="nothing has changed"),
        pytest.param(1_000_000, 10, False, id="much has changed"),
        pytest.param(9, 10, True, id="it goes back"),
        pytest.param(1_000_000_010, 10, True, id="a backup with bumped revisions"),
    ],
)
def test_another_history_goes_back_or_leaps(revision: int, reached: int, expected: bool) -> None:
    assert is_another_history(revision, reached=reached) is expected


def test_nothing_is_lost_while_lists_continue() -> None:
    lost = LostObjects()
    lost.note_listed(10, reached=0)
    lost.note_listed(20, reached=10)
    assert not lost.is_lost(KEY, revision=5)
    lost.note_former(KEY, GOLD)
    assert not list(lost.list_lost_features())


def test_objects_from_before_a_new_definition_are_lost_and_later_ones_are_not() -> None:
    lost = LostObjects()
    lost.note_unserved()
    assert lost.is_lost(KEY, revision=5)
    lost.note_listed(20, reached=10)
    assert (lost.is_lost(KEY, revision=20), lost.is_lost(KEY, revision=21)) == (True, False)
    lost.note_listed(30, reached=20)
    assert lost.is_lost(KEY, revision=20)


def test_deletions_that_were_events_went_with_the_definition_if_it_goes_after_them() -> None:
    lost = LostObjects()
    lost.note_deleted(KEY)
    lost.note_former(KEY, GOLD)
    lost.note_former(OTHER, SILVER)
    assert not list(lost.list_lost_features())
    lost.note_unserved()
    assert list(lost.list_lost_features()) == [GOLD, SILVER]
    assert lost.is_lost(KEY, revision=5)
    lost.note_listed(20, reached=10)
    lost.note_deleted(KEY)
    assert list(lost.list_lost_features()) == [SILVER]
    assert (lost.is_lost(KEY, revision=5), lost.is_lost(OTHER, revision=5)) == (False, True)
    lost.note_there(KEY)
    assert lost.is_lost(KEY, revision=5)


def test_a_history_that_went_back_loses_what_is_newer_than_it() -> None:
    lost = LostObjects()
    lost.note_listed(10, reached=30)
    assert (lost.is_lost(KEY, revision=30), lost.is_lost(KEY, revision=31)) == (True, False)
