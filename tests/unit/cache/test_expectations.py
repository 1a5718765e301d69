"""What a stream is expected to name, and what its lists prove. R1, O3."""

from __future__ import annotations

from typing import Any

from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.expectations import ExpectedObjects
from registry_controller.watch.stream import SelectionStream

KEY, OTHER = ObjectKey("ns", "x"), ObjectKey("ns", "y")
CACHE: Any = None


def stream(revision: int = 0) -> SelectionStream:
    made = SelectionStream(CACHE, EVERYTHING, 1)
    made.revision = revision
    return made


def test_events_from_before_the_known_state_do_not_count() -> None:
    expected, one = ExpectedObjects(), stream()
    expected.expect(one, KEY, 7)
    expected.expect(one, KEY, 5)
    assert not expected.reached(one, KEY, 6)
    assert expected.expects(one, KEY)
    assert expected.reached(one, KEY, 7)
    assert not expected.expects(one, KEY)
    assert expected.reached(one, KEY, 1)
    assert expected.reached(stream(), KEY, 1)


def test_a_list_proves_an_absence_when_it_is_late_enough() -> None:
    expected, one = ExpectedObjects(), stream(6)
    expected.expect(one, KEY, 7)
    expected.expect(one, OTHER, 6)
    assert expected.missed(one) == [OTHER]
    assert expected.missed(one) == []
    one.revision = 7
    assert expected.missed(one) == [KEY]


def test_after_a_history_went_back_any_list_proves_it() -> None:
    expected, one = ExpectedObjects(), stream(3)
    expected.expect(one, KEY, 7)
    expected.reset(one)
    assert expected.missed(one) == [KEY]


def test_what_is_gone_is_expected_of_nobody() -> None:
    expected, one, two = ExpectedObjects(), stream(9), stream(9)
    for each in (one, two):
        expected.expect(each, KEY, 7)
    expected.drop_stream(one)
    assert expected.missed(one) == []
    expected.drop_object(KEY)
    assert expected.missed(two) == []
