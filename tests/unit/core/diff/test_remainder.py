"""A10: what of a wanted object is lost in the stored one, and what is only spelled otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.core.diff.drift import compare
from registry_controller.core.diff.walk import list_lost

US = meta.FIELD_MANAGER


def widget(spec: Any, *, fields: dict[str, Any] | None = None, **info: Any) -> dict[str, Any]:
    entries = [{"manager": US, "operation": "Update", "fieldsV1": {"f:spec": fields}}] if fields is not None else []
    return {"kind": "Widget", "metadata": {"name": "one", "managedFields": entries, **info}, "spec": spec}


PORTS = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {}}}


@pytest.mark.parametrize(
    ("wanted", "stored", "fields", "lost"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}, {}, ()),
        ({"a": {"b": 1}}, {"a": {}}, {}, ("spec.a.b",)),
        ({"a": {"b": 1}}, {}, {}, ("spec.a",)),
        ({"a": {}, "b": [], "c": "", "d": 0, "e": False, "f": None}, {}, {}, ()),
        ({"a": {"b": {"c": [""]}}}, {}, {}, ()),
        ({"a": [1, 2]}, {"a": [2, 1]}, {}, ()),
        ({"a": [1, 2]}, {"a": [1]}, {}, ("spec.a[1]",)),
        ({"a": ["X"]}, {"a": ["x"]}, {"f:a": {'v:"x"': {}}}, ()),
        ({"a": ["x", "y"]}, {"a": ["y"]}, {"f:a": {'v:"y"': {}}}, ("spec.a[0]",)),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80, "protocol": "TCP"}]}, PORTS, ()),
        (
            {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]},
            {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 82, "protocol": "TCP"}]},
            PORTS,
            ("spec.ports[1]",),
        ),
    ],
)
def test_what_is_lost_is_named_and_what_is_empty_or_spelled_otherwise_is_not(
    wanted: Any, stored: Any, fields: Any, lost: tuple[str, ...]
) -> None:
    assert compare(widget(wanted), widget(stored, fields=fields), manager=US).remainder.lost == lost


def test_a_label_that_admission_takes_away_is_lost_and_one_that_it_changes_is_not() -> None:
    found = compare(widget({}, labels={"a": "1", "b": "2"}), widget({}, labels={"b": "3"}), manager=US)
    assert found.remainder.lost == ("metadata.labels.a",)


def test_what_a_status_lacks_is_named() -> None:
    assert list_lost({"phase": "Ready", "at": {"x": 1}}, {"phase": "READY", "more": 1}, at=("status",)) == (
        "status.at",
    )
    assert list_lost({"phase": "Ready"}, {"phase": "Ready"}, at=("status",)) == ()


def test_values_are_known_by_their_digest_alone() -> None:
    """A6."""
    found = compare(widget({"a": "secret"}), widget({"a": "hidden"}), manager=US)
    assert "secret" not in repr(found)
    assert "hidden" not in repr(found)
    again = compare(widget({"a": "secret"}), widget({"a": "other"}), manager=US)
    assert found.remainder.state != again.remainder.state
