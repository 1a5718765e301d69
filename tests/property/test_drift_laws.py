"""Laws of drift: what merge gave back is never said to differ, and what others may do is never fought over."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.core.diff.drift import Drift, compare, merge
from registry_controller.sync.copy_writer import content_digest

US = meta.FIELD_MANAGER
KEY = b"k" * 32

NAMES = st.sampled_from("abcd")
SCALARS = st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "y"])
KEYED = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"v": SCALARS, "w": SCALARS}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=3) | KEYED,
    lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
TEXTS = st.dictionaries(NAMES, st.sampled_from(["x", "y"]), max_size=3)
CONTENT = st.dictionaries(NAMES, VALUES, max_size=3)


@st.composite
def fields(draw: st.DrawFn, value: Any) -> dict[str, Any]:
    """Draw what a manager may own of a value: a part of it, or all (no fields below)."""
    owned: dict[str, Any] = {}
    if isinstance(value, dict):
        for name in value:
            if draw(st.booleans()):
                owned[f"f:{name}"] = draw(fields(value[name]))
    elif isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        for item in value:
            if draw(st.booleans()):
                owned[f'k:{{"name":"{item["name"]}"}}'] = draw(fields(item))
    return owned


@st.composite
def objects(draw: st.DrawFn, *, kind: str = "Widget", managed: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = draw(CONTENT)
    info: dict[str, Any] = {"name": "one", "labels": draw(TEXTS), "annotations": draw(TEXTS)}
    found = {"apiVersion": "v1", "kind": kind, "metadata": info, "spec": spec}
    if managed:
        owned = {"spec": spec, "metadata": {"labels": info["labels"], "annotations": info["annotations"]}}
        info["managedFields"] = [
            {"manager": manager, "operation": "Update", "fieldsV1": draw(fields(owned))}
            for manager in draw(st.lists(st.sampled_from([US, "kubectl", "other"]), max_size=3, unique=True))
        ]
        info |= {"uid": "u", "resourceVersion": "7"}
        found["status"] = draw(CONTENT)
    return found


CURRENT = st.booleans().flatmap(lambda managed: objects(managed=managed))
SERVICES = st.fixed_dictionaries(
    {"type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])},
    optional={
        "ports": st.lists(
            st.fixed_dictionaries(
                {"port": st.integers(1, 3), "protocol": st.just("TCP")},
                optional={"name": NAMES, "nodePort": st.integers(1, 3)},
            ),
            max_size=3,
            unique_by=lambda port: port["port"],
        ),
        "clusterIP": st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    },
)


def stored(body: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Give a body the managedFields that the object had: the server keeps them when a PUT has none."""
    managed = before["metadata"].get("managedFields")
    return {**body, "metadata": {**body["metadata"], **({"managedFields": managed} if managed else {})}}


@given(objects(), CURRENT)
def test_merge_and_compare_leave_their_input_alone(desired: dict[str, Any], current: dict[str, Any]) -> None:
    before = copy.deepcopy((desired, current))
    compare(desired, current, manager=US)
    merge(desired, current, manager=US)
    content_digest(current, key=KEY)
    assert (desired, current) == before


@given(objects(), CURRENT)
def test_what_merge_gave_back_never_differs(desired: dict[str, Any], current: dict[str, Any]) -> None:
    body = dict(merge(desired, current, manager=US))
    assert compare(desired, body, manager=US).drift is not Drift.DIFFERS
    assert compare(desired, stored(body, current), manager=US).drift is not Drift.DIFFERS


@given(objects(), CURRENT)
def test_merging_again_changes_nothing(desired: dict[str, Any], current: dict[str, Any]) -> None:
    once = dict(merge(desired, current, manager=US))
    assert merge(desired, stored(once, current), manager=US) == once


@given(objects(), CURRENT)
def test_in_sync_means_that_merge_would_change_nothing(desired: dict[str, Any], current: dict[str, Any]) -> None:
    body = merge(desired, current, manager=US)
    if compare(desired, current, manager=US).drift is Drift.IN_SYNC:
        assert body["spec"].keys() == current["spec"].keys()
        for which in ("labels", "annotations"):
            assert meta.metadata_of(body).get(which, {}) == current["metadata"][which]


@given(SERVICES, SERVICES, st.booleans())
def test_a_services_allocations_are_never_fought_over(
    wanted: dict[str, Any], found: dict[str, Any], managed: bool
) -> None:
    wanted.pop("clusterIP", None)
    for port in wanted.get("ports", ()):
        port.pop("nodePort", None)
    desired = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}, "spec": wanted}
    current = {**desired, "metadata": {"name": "one"}, "spec": found}
    if managed:
        steps = {f'k:{{"port":{port["port"]},"protocol":"TCP"}}': {"f:port": {}} for port in found.get("ports", ())}
        entry = {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": steps, "f:type": {}}}}
        current["metadata"]["managedFields"] = [entry]
    body = stored(dict(merge(desired, current, manager=US)), current)
    assert compare(desired, body, manager=US).drift is Drift.IN_SYNC
    assert stored(dict(merge(desired, body, manager=US)), current) == body


@given(objects(), TEXTS, TEXTS)
def test_labels_and_annotations_of_others_never_differ(
    desired: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]
) -> None:
    current = copy.deepcopy(desired)
    added = {"labels": labels, "annotations": annotations}
    for which, texts in added.items():
        current["metadata"][which] = {
            **{f"other/{key}": text for key, text in texts.items()},
            **desired["metadata"][which],
        }
    owned = {f"f:{which}": {f"f:other/{key}": {} for key in texts} for which, texts in added.items()}
    current["metadata"]["managedFields"] = [{"manager": "o", "operation": "Update", "fieldsV1": {"f:metadata": owned}}]
    assert compare(desired, current, manager=US).drift is Drift.IN_SYNC
    assert merge(desired, current, manager=US)["metadata"] == {
        name: value for name, value in current["metadata"].items() if name != "managedFields" and value != {}
    }


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Find every key and index below a value."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, child in items for place in ((*at, key), *places(child, (*at, key)))]


@given(objects(), st.data())
def test_whatever_of_desired_is_removed_or_changed_differs(desired: dict[str, Any], data: st.DataObject) -> None:
    own = {"spec": desired["spec"], "metadata": desired["metadata"]}
    known = [place for place in places(own) if place not in (("metadata",), ("metadata", "name"))]
    known = [place for place in known if place not in (("metadata", "labels"), ("metadata", "annotations"))]
    current = copy.deepcopy(desired)
    *path, last = data.draw(st.sampled_from(known))
    parent: Any = current
    for step in path:
        parent = parent[step]
    if data.draw(st.booleans()):
        del parent[last]
    else:
        parent[last] = "something else"
    found = compare(desired, current, manager=US)
    assert found.drift is Drift.DIFFERS
    assert "something else" not in str(found.paths)


@given(objects(), NAMES, VALUES)
def test_what_another_manager_added_differs_and_merge_removes_it(
    desired: dict[str, Any], name: str, value: Any
) -> None:
    current = copy.deepcopy(desired)
    current["spec"][f"added-{name}"] = value
    entry = {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {f"f:added-{name}": {}}}}
    current["metadata"]["managedFields"] = [entry]
    found = compare(desired, current, manager=US)
    assert (found.drift, found.managers) == (Drift.DIFFERS, ("other",))
    assert merge(desired, current, manager=US)["spec"] == desired["spec"]


@given(objects(), CONTENT)
def test_the_digest_does_not_see_status_or_what_the_server_sets(found: dict[str, Any], status: dict[str, Any]) -> None:
    seen = {**found, "status": status, "metadata": {**found["metadata"], "uid": "u", "managedFields": [status]}}
    assert content_digest(seen, key=KEY) == content_digest(found, key=KEY)


@given(objects(), objects())
def test_the_same_digest_means_the_same_content(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = content_digest(one, key=KEY) == content_digest(other, key=KEY)
    if same:
        assert compare(one, other, manager=US).drift is Drift.IN_SYNC
