"""Laws of what a rule leaves to a copy's cluster (A9): what others set there stays, and nothing is fought over."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from registry_controller.api import meta, provenance
from registry_controller.api.meta import CLUSTER, ClusterUID, ObjectKey, Target
from registry_controller.core.diff.drift import Drift, Left, carry_over, compare, merge
from registry_controller.core.mutation.left_fields import LeftPath, Named, Step, digest_paths
from tests.property.test_drift_laws import CONTENT, NAMES, SCALARS, US, VALUES, fields, objects, places, stored

pytestmark = pytest.mark.clause("A9")


def spelled(place: tuple[Any, ...], document: Any) -> LeftPath:
    """Spell a place as a rule does: an element by its name, where it has one."""
    steps: list[Step] = []
    found = document
    for step in place:
        found = found[step]
        named = isinstance(step, int) and isinstance(found, dict) and isinstance(found.get("name"), str)
        steps.append(Named("name", found["name"]) if named else step)
    return tuple(steps)


@st.composite
def left_in(draw: st.DrawFn, *found: dict[str, Any]) -> Left:
    """Draw places in any of these objects, and some that are in none."""
    known = [spelled(("spec", *place), {"spec": one["spec"]}) for one in found for place in places(one["spec"])]
    known = [path for path in known if not isinstance(path[-1], int)]
    chosen = draw(st.lists(st.sampled_from([*known, ("spec",), ("spec", "none", "a")]), max_size=4, unique=True))
    texts = draw(
        st.lists(st.tuples(st.just("metadata"), st.sampled_from(["labels", "annotations"]), NAMES), max_size=2)
    )
    return Left((*chosen, *texts), draw(st.sampled_from([(), ("spec", "a"), ("spec", "b")])))


def marked(manifest: dict[str, Any], *left: LeftPath) -> dict[str, Any]:
    """Put a provenance on an object: it was written with these places left."""
    target = Target("", manifest["kind"], "", manifest["metadata"]["name"])
    text = provenance.encode(
        provenance.Provenance(
            ClusterUID("o"), "r", ClusterUID("o"), "Orphan", CLUSTER, ObjectKey("", "one"), "u", "", 1, target,
            left=digest_paths(left),
        )
    )  # fmt: skip
    info = manifest["metadata"]
    annotations = {**info.get("annotations", {}), meta.PROVENANCE: text}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


CURRENT = st.booleans().flatmap(lambda managed: objects(managed=managed))


@given(objects(), CURRENT, st.data())
def test_what_merge_gave_back_never_differs(
    desired: dict[str, Any], current: dict[str, Any], data: st.DataObject
) -> None:
    left = data.draw(left_in(desired, current))
    settled = data.draw(st.sets(st.sampled_from(left.paths))) if left.paths else set()
    desired, current = marked(desired, *left.paths), marked(current, *settled)
    before = copy.deepcopy((desired, current))
    body = dict(merge(desired, current, manager=US, left=left))
    assert (desired, current) == before
    for held in (body, stored(body, current)):
        assert compare(desired, held, manager=US, left=left).drift is not Drift.DIFFERS
    again = merge(desired, stored(body, current), manager=US, left=left)
    assert compare(desired, dict(again), manager=US, left=left).drift is not Drift.DIFFERS


@given(objects(), NAMES, VALUES, st.lists(NAMES, max_size=2))
def test_what_another_manager_set_at_a_left_place_stays(
    desired: dict[str, Any], name: str, value: Any, below: list[str]
) -> None:
    """Also below what the wanted copy does not have, for whole maps, and with all that the others own of it."""
    assume(value is not None)
    place = ["spec", f"left-{name}", *below]
    current = copy.deepcopy(desired)
    parent, tree = current, {}
    owned: dict[str, Any] = tree
    for step in place[:-1]:
        parent = parent.setdefault(step, {})
        owned = owned.setdefault(f"f:{step}", {})
    parent[place[-1]] = value
    owned[f"f:{place[-1]}"] = {}
    current["metadata"]["managedFields"] = [{"manager": "other", "operation": "Update", "fieldsV1": tree}]
    for path in (tuple(place), ("spec", f"left-{name}")):
        found = compare(desired, current, manager=US, left=Left((path,)))
        assert found.drift is Drift.IN_SYNC
        assert found.left
        assert merge(desired, current, manager=US, left=Left((path,)))["spec"] == current["spec"]
    assert compare(desired, current, manager=US).drift is Drift.DIFFERS


@given(objects(), SCALARS, st.booleans())
def test_what_only_the_daemon_wrote_goes_once_and_stays_where_it_was_left_already(
    desired: dict[str, Any], value: Any, settled: bool
) -> None:
    left = Left((("spec", "taken-out"),))
    current = copy.deepcopy(desired)
    current["spec"]["taken-out"] = value
    entry = {"manager": US, "operation": "Update", "fieldsV1": {"f:spec": {"f:taken-out": {}}}}
    current["metadata"]["managedFields"] = [entry]
    desired, current = marked(desired, *left.paths), marked(current, *(left.paths if settled else ()))
    body = merge(desired, current, manager=US, left=left)
    assert ("taken-out" in body["spec"]) is settled
    handed_over = merge(desired, current, manager=US, left=left._replace(replicas=("spec", "taken-out")))
    assert handed_over["spec"]["taken-out"] == value


@given(objects(), objects(managed=True), st.data())
def test_a_copy_that_is_made_anew_has_the_clusters_values_and_is_in_step(
    desired: dict[str, Any], current: dict[str, Any], data: st.DataObject
) -> None:
    """A2: all of it is written by the daemon then, and stays at the next comparison."""
    left = data.draw(left_in(desired, current))
    desired, current = marked(desired, *left.paths), marked(current, *left.paths)
    made = dict(carry_over(desired, current, manager=US, left=left))
    assert "uid" not in made["metadata"]
    assert carry_over(desired, desired, manager=US, left=left)["spec"] == desired["spec"]
    own = {"spec": made["spec"], "metadata": {key: made["metadata"].get(key, {}) for key in ("labels", "annotations")}}
    everything = data.draw(fields(own))
    made["metadata"] = {
        **made["metadata"],
        "managedFields": [{"manager": US, "operation": "Update", "fieldsV1": everything}],
    }
    kept = merge(desired, made, manager=US, left=left)
    assert compare(desired, made, manager=US, left=left).drift is not Drift.DIFFERS
    assert kept["spec"] == made["spec"]
    assert kept["metadata"].get("labels", {}) == made["metadata"].get("labels", {})


@given(objects(), CURRENT, CONTENT)
def test_without_left_places_nothing_of_this_matters(
    desired: dict[str, Any], current: dict[str, Any], other: dict[str, Any]
) -> None:
    plain = merge(desired, current, manager=US)
    assert merge(desired, current, manager=US, left=Left((("else", "where"),))) == plain
    assert carry_over(desired, {**current, "spec": other}, manager=US, left=Left()) is desired
