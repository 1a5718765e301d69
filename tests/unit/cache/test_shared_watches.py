"""Which watch shows which selection. R1."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.shared_watches import find_wider, plan_covers
from registry_controller.core.rules.list_options import list_wider

X, Y, XA = Selection("x"), Selection("y"), Selection("x", "a=1")


def plan(*asked: Selection, usable: set[Selection], before: Mapping[Selection, Selection] | None = None) -> object:
    return plan_covers(find_wider(asked), before=before or {}, is_usable=lambda one, _: one in usable)


def test_each_selection_has_its_own_watch_before_a_wider_one_can_stand_for_it() -> None:
    assert plan(EVERYTHING, X, Y, usable=set()) == {EVERYTHING: EVERYTHING, X: X, Y: Y}
    assert plan(EVERYTHING, X, Y, usable={EVERYTHING}) == dict.fromkeys((EVERYTHING, X, Y), EVERYTHING)


def test_the_widest_watch_that_can_stands_for_all_within_it() -> None:
    assert plan(EVERYTHING, X, XA, usable={X}) == {EVERYTHING: EVERYTHING, X: X, XA: X}
    assert plan(EVERYTHING, X, XA, usable={EVERYTHING, X}) == dict.fromkeys((EVERYTHING, X, XA), EVERYTHING)


def test_a_watch_that_stands_for_another_is_kept_while_it_can() -> None:
    asked = (Selection("", "a=1,b=2"), Selection("", "a=1"), Selection("", "b=2"))
    both, a, b = asked
    for before in (a, b):
        assert plan(*asked, usable={a, b}, before={both: before}) == {both: before, a: a, b: b}
    assert plan(*asked, usable={a}, before={both: b}) == {both: a, a: a, b: b}


def test_a_selection_is_within_one_that_leaves_parts_or_requirements_out() -> None:
    narrow = Selection("x", "a=1,b in (1,2),c", "metadata.name=n,type=t")
    wider = set(list_wider(narrow))
    assert {
        EVERYTHING, X, Selection("", "b in (1,2)"), Selection("x", "a=1,c", "type=t"), Selection("", "", "type=t"),
    } <= wider  # fmt: skip
    assert wider.isdisjoint({narrow, Selection("y"), Selection("x", "b in (1"), Selection("", "c,a=1")})
    many = Selection("", ",".join(f"l{number}=1" for number in range(40)))
    assert set(list_wider(many)) == {EVERYTHING}


_selections = st.builds(
    Selection, st.sampled_from(["", "x"]), st.sampled_from(["", "a=1", "a=1,b=2"]), st.sampled_from(["", "type=t"])
)


@given(st.sets(_selections), st.sets(_selections))
def test_every_selection_is_shown_by_its_own_watch_or_by_a_usable_wider_one(
    asked: set[Selection], usable: set[Selection]
) -> None:
    covers = plan_covers(find_wider(asked), before={}, is_usable=lambda one, _: one in usable)
    assert covers.keys() == asked
    for one, cover in covers.items():
        assert covers[cover] == cover
        assert cover == one or (cover in usable and cover in set(list_wider(one)))
        if cover == one:
            assert not any(wider in usable and covers.get(wider) == wider for wider in list_wider(one))
