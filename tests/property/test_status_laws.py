"""Laws of the status merge."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.status.merge import find_transitions, merge_status

_TEXT = st.sampled_from(["", "a", "b"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
_TYPES = ["Ready", "Synced", "Theirs"]


@st.composite
def _conditions(draw: st.DrawFn, *, times: bool) -> list[dict[str, Any]]:
    found = []
    for kind in draw(st.lists(st.sampled_from(_TYPES if times else _TYPES[:2]), unique=not times, max_size=3)):
        condition: dict[str, Any] = {
            "type": kind,
            "status": draw(st.sampled_from(["True", "False"] if times else ["True", "False", None])),
            "reason": "R",
        }
        if draw(st.booleans()):
            condition["observedGeneration"] = draw(st.integers(1, 2))
        if times:
            condition["lastTransitionTime"] = draw(_TEXT)
        found.append(condition)
    return found


def _statuses(*, times: bool) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3)
    return st.builds(lambda plain, conditions: {**plain, "conditions": conditions}, fields, _conditions(times=times))


def apply(target: Any, patch: Any) -> Any:
    """RFC 7386, as an API server does it."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


@given(_statuses(times=True), _statuses(times=False))
def test_merging_twice_is_merging_once(stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    patch = merge_status(stored, wanted, now="1")
    after = apply(stored, patch or {})
    assert merge_status(after, wanted, now="2") is None


@given(_statuses(times=True), _statuses(times=False))
def test_the_inputs_are_never_changed(stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = copy.deepcopy((stored, wanted))
    merge_status(stored, wanted, now="1")
    assert (stored, wanted) == before


@given(_statuses(times=True), _statuses(times=False))
def test_what_we_do_not_know_stays(stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    after = apply(stored, merge_status(stored, wanted, now="1") or {})
    theirs = [found for found in stored["conditions"] if found["type"] == "Theirs"]
    assert [found for found in after["conditions"] if found["type"] == "Theirs"] == theirs
    for field in stored.keys() - wanted.keys():
        assert after[field] == stored[field]


@given(_statuses(times=True), _statuses(times=False))
def test_after_a_write_there_is_no_transition_left(stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    after = apply(stored, merge_status(stored, wanted, now="1") or {})
    assert find_transitions(after, wanted) == []
