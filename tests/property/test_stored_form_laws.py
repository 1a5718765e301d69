"""Laws of what the API server stores of a wish: in step means that nothing wanted is gone, and is asked once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.core.diff.drift import NOTHING_LEFT, Drift, compare, compare_and_merge, is_repaired, merge
from registry_controller.core.diff.question import Known, NextStep, judge_difference, list_suspects
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder, list_kept, list_staying
from registry_controller.core.diff.schema_hashes import NOTHING_SEEN, look

pytestmark = pytest.mark.clause("A10")

US = meta.FIELD_MANAGER
NAMES = st.sampled_from("abcd")
TEXTS = st.sampled_from(["x", "y", "1000m"])
VALUES = st.recursive(
    TEXTS | st.integers(1, 3) | st.lists(TEXTS, min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)
KNOWN = st.builds(
    Known,
    is_remembered=st.booleans(),
    is_same_wish=st.booleans(),
    remainder=st.just(NOTHING_REMAINS) | st.builds(Remainder, st.just(b"other")),
    is_of_now=st.booleans(),
    is_same_origin=st.booleans(),
)


def owned(value: Any) -> dict[str, Any]:
    return {f"f:{name}": owned(child) for name, child in value.items()} if isinstance(value, dict) else {}


def widget(spec: Any, *, ours: Any = None, **info: Any) -> dict[str, Any]:
    """Write a Widget; `ours` is the part of the spec that the daemon wrote."""
    entry = {"manager": US, "operation": "Update", "fieldsV1": {"f:spec": owned(ours or {})}}
    managed = {"managedFields": [entry]} if ours is not None else {}
    return {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "one", **info, **managed}, "spec": spec}


def spell(value: Any) -> Any:
    """Store a value as a server does that has a spelling of its own."""
    if isinstance(value, dict):
        return {name: spell(child) for name, child in value.items()}
    if isinstance(value, list):
        return [spell(child) for child in value]
    return value.upper() if isinstance(value, str) else value


def answered(spec: Any, stored: dict[str, Any]) -> Known:
    """Remember what a comparison found after the server had stored the wish."""
    remainder = compare(widget(spec), stored, manager=US).remainder
    return Known(True, True, remainder, is_of_now=True, is_same_origin=True)


@given(SPECS, st.dictionaries(NAMES, TEXTS, max_size=3), st.dictionaries(NAMES, TEXTS, max_size=3))
def test_what_is_spelled_otherwise_loses_nothing_and_is_in_step_whatever_others_add(
    spec: Any, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    known = answered(spec, widget(spell(spec), ours=spell(spec)))
    assert known.remainder.lost == ()
    theirs = {
        "labels": {f"other/{name}": text for name, text in labels.items()},
        "annotations": {f"other/{name}": text for name, text in annotations.items()},
    }
    now = widget(spell(spec), ours=spell(spec), **theirs)
    assert judge_difference(compare(widget(spec), now, manager=US), known) is NextStep.IN_STEP


@given(SPECS, st.data())
def test_a_change_of_what_is_wanted_is_written_also_where_it_is_spelled_otherwise(
    spec: Any, data: st.DataObject
) -> None:
    stored = widget(spell(spec), ours=spell(spec))
    known = answered(spec, stored)
    name = data.draw(st.sampled_from(sorted(spec)))
    changed = copy.deepcopy(stored)
    changed["spec"][name] = "edited"
    assert judge_difference(compare(widget(spec), changed, manager=US), known) is NextStep.WRITE


@given(SPECS, TEXTS, TEXTS, st.booleans())
def test_a_value_that_the_server_renews_is_not_repaired_and_another_writers_is(
    spec: Any, before: str, after: str, is_ours: bool
) -> None:
    """The server adds `stamp` at each write; nobody wants it. A wanted value that changed is repaired, too."""
    ours = {**spec, "stamp": ""}
    stored = widget({**spec, "stamp": after}, ours=ours)
    present = widget({**spec, "stamp": before}, ours=ours if is_ours else spec)
    if not is_ours:
        entry = {"manager": "somebody", "operation": "Update", "fieldsV1": {"f:spec": {"f:stamp": {}}}}
        present["metadata"]["managedFields"].append(entry)
    assert is_repaired(widget(spec), present, stored, manager=US, left=NOTHING_LEFT) is not is_ours
    present["spec"][min(spec)] = "edited"
    assert is_repaired(widget(spec), present, stored, manager=US, left=NOTHING_LEFT)


@given(SPECS, st.data())
def test_a_wanted_field_that_is_not_stored_is_lost_and_no_other_is(spec: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(spec)))
    pruned = {key: spell(value) for key, value in spec.items() if key != name}
    found = compare(widget(spec), widget(pruned, ours=pruned), manager=US)
    assert found.remainder.lost == (f"spec.{name}",)


@given(SPECS, SPECS, KNOWN)
def test_a_difference_of_which_nothing_is_remembered_is_never_written_unasked(
    spec: Any, stored: Any, known: Known
) -> None:
    """And a dry run is asked for only where there is a difference."""
    found = compare(widget(spec), widget(stored, ours=stored), manager=US)
    step = judge_difference(found, known._replace(is_remembered=False, is_same_wish=False))
    assert step is not NextStep.WRITE
    of_now = known._replace(is_same_wish=False, is_of_now=True, is_same_origin=True)
    assert judge_difference(found, of_now) is not NextStep.WRITE, "its provenance names the present state"
    if found.drift is Drift.IN_SYNC:
        assert judge_difference(found, known) is NextStep.IN_STEP


@pytest.mark.clause("A2")
@given(SPECS, SPECS)
def test_a_former_field_that_the_server_keeps_is_found_and_a_default_is_not(spec: Any, former: Any) -> None:
    """The server keeps `kept`, and gives every object the `default`."""
    before = widget(
        {**former, **spec, "kept": "None", "default": 1}, ours={**former, **spec, "kept": "", "default": ""}
    )
    wish = widget(spec)
    found, body = compare_and_merge(wish, before, manager=US)
    after = {**dict(body), "spec": {**body["spec"], "kept": "None", "default": 1}}
    anew = widget({**spec, "default": 1})
    known = Known(True, False, Remainder(extras=(("spec", "default"),)), is_of_now=False, is_same_origin=False)
    suspects = list_suspects(found, known)
    assert ("spec", "default") not in suspects
    for asked in (suspects, found.remainder.extras):  # after a restart, the default is suspected, too
        staying = list_staying(asked, before=before, after=after)
        assert list_kept(staying, stored=before, anew=anew) == (("spec", "kept"),)


@given(SPECS, SPECS)
def test_the_same_wish_suspects_nothing(spec: Any, stored: Any) -> None:
    found = compare(widget(spec), widget(stored, ours=stored), manager=US)
    of_now = Known(False, False, NOTHING_REMAINS, is_of_now=True, is_same_origin=True)
    assert list_suspects(found, of_now) == ()
    assert list_suspects(found, of_now._replace(is_remembered=True, is_same_wish=True)) == ()


@given(SPECS, SPECS)
def test_a_merge_that_was_stored_leaves_no_difference(spec: Any, stored: Any) -> None:
    body = dict(merge(widget(spec), widget(stored, ours=stored), manager=US))
    assert compare(widget(spec), body, manager=US).remainder.lost == ()


HASHES = st.dictionaries(NAMES, st.sampled_from("12"), min_size=1, max_size=3)


@given(st.lists(HASHES, min_size=1, max_size=6))
def test_a_schema_that_changed_is_asked_about_at_this_look_and_the_next(looks: list[dict[str, str]]) -> None:
    """At the first look, each is: fields were lost before it."""
    seen, asked = look(NOTHING_SEEN, looks[0])
    assert asked == looks[0].keys()
    changed_before, before = frozenset[str](), looks[0]
    for now in looks[1:]:
        seen, asked = look(seen, now)
        changed = frozenset(name for name in {*now, *before} if now.get(name) != before.get(name))
        assert asked == changed | changed_before
        changed_before, before = changed, now
