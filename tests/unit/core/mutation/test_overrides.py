"""Overrides: what they do to a copy, and what they refuse without a word of the copy's data."""

import copy
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import Override
from registry_controller.core.mutation.overrides import PatchOperation, apply_overrides, read_override, resolve_override
from registry_controller.gotemplate import Budget

COPY: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"k8s.io/x": "1"}},
    "spec": {"ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}], "n": 1, "none": None},
    "0": "zero",
    "mixed": [{"name": "x"}, [1, 2]],
}


def _change(type_: str, pointer: str, value: Any = None, *, document: Any = COPY) -> Any:
    override = Override(type_, pointer, "", False, "spec.o[0]")
    return apply_overrides(document, [(read_override(override), value)])


@pytest.mark.parametrize(
    ("pointer", "part", "value"),
    [
        ("/metadata/name", "metadata", {"name": "new", "labels": {"k8s.io/x": "1"}}),
        ("/metadata/labels/k8s.io~1x", "metadata", {"name": "a", "labels": {"k8s.io/x": "new"}}),
        ("/metadata/labels/y?", "metadata", {"name": "a", "labels": {"k8s.io/x": "1", "y": "new"}}),
        ("/new?", "new", "new"),
        ("/new?/a/b", "new", {"a": {"b": "new"}}),
        ("/new?/-", "new", ["new"]),
        ("/new?/name=x", "new", ["new"]),
        ("/new?/name=x/port", "new", [{"name": "x", "port": "new"}]),
        ("/new?/name=x/name", "new", [{"name": "new"}]),
        ("/new?/name=x/ports/-", "new", [{"name": "x", "ports": ["new"]}]),
        ("/0?", "0", "new"),
        ("/mixed/0", "mixed", ["new", [1, 2]]),
        ("/mixed/-1", "mixed", [{"name": "x"}, "new"]),
        ("/mixed/0:prev", "mixed", [{"name": "x"}, "new"]),
        ("/mixed/0:before", "mixed", ["new", {"name": "x"}, [1, 2]]),
        ("/mixed/-1:after", "mixed", [{"name": "x"}, [1, 2], "new"]),
        ("/mixed/0:next:before", "mixed", [{"name": "x"}, "new", [1, 2]]),
        ("/mixed/name=x:after", "mixed", [{"name": "x"}, "new", [1, 2]]),
        ("/mixed/name=y?:before", "mixed", [{"name": "x"}, [1, 2], "new"]),
        ("/mixed/-", "mixed", [{"name": "x"}, [1, 2], "new"]),
        ("/mixed/1/-", "mixed", [{"name": "x"}, [1, 2, "new"]]),
    ],
)
def test_a_replacement_is_made(pointer: str, part: str, value: Any) -> None:
    assert _change("replace", pointer, "new") == {**COPY, part: value}


@pytest.mark.parametrize(
    ("pointer", "part", "value"),
    [
        ("/metadata/labels", "metadata", {"name": "a"}),
        ("/mixed/0", "mixed", [[1, 2]]),
        ("/mixed/1/-1", "mixed", [{"name": "x"}, [1]]),
        ("/mixed/name=x", "mixed", [[1, 2]]),
        ("/mixed/name=x:next", "mixed", [{"name": "x"}]),
        ("/metadata/none?", "mixed", COPY["mixed"]),
        ("/metadata/none?/deeper/0", "mixed", COPY["mixed"]),
        ("/mixed/name=y?", "mixed", COPY["mixed"]),
        ("/mixed/name=y?/a", "mixed", COPY["mixed"]),
    ],
)
def test_a_removal_is_made_or_has_nothing_to_do(pointer: str, part: str, value: Any) -> None:
    assert _change("remove", pointer) == {**COPY, part: value}


@pytest.mark.parametrize(
    ("type_", "pointer", "position"),
    [
        ("replace", "/nowhere", 2),
        ("replace", "/spec/n/x", 9),
        ("replace", "/spec/none/x?", 12),
        ("replace", "/spec/0", 7),
        ("replace", "/0", 2),
        ("replace", "/spec/ports/2", 13),
        ("replace", "/spec/ports/-3", 13),
        ("replace", "/spec/ports/1:next", 13),
        ("replace", "/spec/ports/port=80", 13),
        ("replace", "/spec/ports/name=x/port", 13),
        ("replace", "/spec/ports/0:after/port", 13),
        ("replace", "/spec/ports/0:before:next", 13),
        ("replace", "/metadata/-", 11),
        ("replace", "/new?/0", 7),
        ("replace", "/new?/name=x/0", 14),
        ("replace", "/new?/name=x/name/y", 14),
        ("remove", "/nowhere", 2),
        ("remove", "/spec/ports/-", 13),
        ("remove", "/spec/ports/0:before", 13),
        ("remove", "/spec/ports/2", 13),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_position(type_: str, pointer: str, position: int) -> None:
    with pytest.raises(InvalidObject, match=rf"^spec\.o\[0\]\.path: character {position}: ") as refused:
        _change(type_, pointer, "new")
    assert "http" not in str(refused.value)


def test_two_elements_that_match_are_refused() -> None:
    with pytest.raises(InvalidObject, match=r"character 2: exactly one element must match this, and 2 do$"):
        _change("replace", "/name=x", 1, document=[{"name": "x"}, {"name": "x"}])


@pytest.mark.parametrize(
    ("type_", "pointer", "field"),
    [
        ("add", "/a", "type"),
        ("", "/a", "type"),
        ("test", "/a", "type"),
        ("replace", "", "path"),
        ("remove", "", "path"),
    ],
)
def test_an_override_without_type_or_path_is_refused(type_: str, pointer: str, field: str) -> None:
    with pytest.raises(InvalidObject, match=rf"^spec\.o\[0\]\.{field}: "):
        _change(type_, pointer)


@pytest.mark.parametrize(
    ("type_", "pointer", "operation"),
    [
        ("replace", "/spec/n", {"op": "add", "path": "/spec/n", "value": 9}),
        ("replace", "/metadata/labels/k8s.io~1x~0?", {"op": "add", "path": "/metadata/labels/k8s.io~1x~0", "value": 9}),
        ("replace", "/mixed/-1", {"op": "replace", "path": "/mixed/1", "value": 9}),
        ("replace", "/mixed/name=x:after", {"op": "add", "path": "/mixed/1", "value": 9}),
        ("replace", "/mixed/-", {"op": "add", "path": "/mixed/-", "value": 9}),
        ("remove", "/mixed/-1", {"op": "remove", "path": "/mixed/1"}),
    ],
)
def test_an_override_becomes_one_operation_of_rfc_6902(type_: str, pointer: str, operation: dict[str, Any]) -> None:
    read = read_override(Override(type_, pointer, "", False, "p"))
    resolved = resolve_override(read, COPY, value=9, budget=Budget())
    assert isinstance(resolved, PatchOperation)
    assert resolved.to_json() == operation


def test_neither_the_copy_nor_the_value_is_changed_and_the_rest_is_shared() -> None:
    before, value = copy.deepcopy(COPY), {"a": [1]}
    overrides = [Override("replace", pointer, "", False, "p") for pointer in ("/spec/n", "/spec/n/a/0")]
    changed = apply_overrides(COPY, zip(map(read_override, overrides), (value, 2), strict=True))
    assert changed["spec"]["n"] == {"a": [2]}
    assert (before, value) == (COPY, {"a": [1]})
    assert changed["mixed"] is COPY["mixed"]


def test_a_step_to_a_list_writes_into_that_list() -> None:
    """go-patch puts the inner list into the outer one's place here, and the rest of the outer one is lost."""
    assert _change("replace", "/mixed/name=x:next/0", 9)["mixed"] == [{"name": "x"}, [9, 2]]
    assert _change("remove", "/mixed/name=x:next/0")["mixed"] == [{"name": "x"}, [2]]


@pytest.mark.parametrize(
    ("type_", "pointer", "message"),
    [
        ("replace", "/spec/m", "there is no key `m`: correct it, or write `?` behind it to create it"),
        ("remove", "/spec/m", "there is no key `m`: correct it, or write `?` behind it if it may be missing"),
        (
            "remove",
            "/spec/ports[0]",
            "there is no key `ports[0]`: an element of a list is `/ports/0`, or `/ports/name=x`",
        ),
        (
            "replace",
            "/spec/ports[1]",
            "there is no key `ports[1]`: an element of a list is `/ports/1`, or `/ports/name=x`",
        ),
    ],
)
def test_a_missing_key_is_named_with_what_the_override_can_do(type_: str, pointer: str, message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        _change(type_, pointer)
    assert caught.value.message == f"character 7: {message}"


def test_the_keys_of_the_copy_and_a_long_key_are_not_shown_whole() -> None:
    with pytest.raises(InvalidObject) as caught:
        _change("remove", "/spec/" + "x" * 200)
    assert len(caught.value.message) < 200
    assert not any(key in caught.value.message for key in ("ports", "none"))
