"""The mark by which an object names its owner at a member: it binds the object, its cluster and its owner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.group.objects import LocalOrigin, Object
from registry_controller.group.ownership import Owner, OwnerMark, encode_mark, make_owner, read_mark

HERE, THERE = ClusterUID("here"), ClusterUID("there")
OWNER = Owner(THERE, "example.com", "Widget", "default", "w", "uid-1")
MARK = OwnerMark(OWNER, "Foreground", "an-operator")
OF = Target("batch", "Job", "default", "w")


def annotated(text: str) -> dict[str, str]:
    return {meta.GROUP_OWNER: text}


def test_a_mark_is_read_as_it_was_written() -> None:
    text = encode_mark(MARK, of=OF, cluster=HERE)
    assert read_mark(annotated(text), of=OF, cluster=HERE) == MARK
    assert json.loads(text)["format"] == 1
    assert text == encode_mark(MARK, of=OF, cluster=HERE)


@pytest.mark.parametrize(
    "of",
    [
        OF._replace(name="copy"),
        OF._replace(namespace="other"),
        OF._replace(kind="CronJob"),
        OF._replace(group="example.com"),
    ],
)
def test_a_mark_that_was_copied_to_another_object_is_no_mark(of: Target) -> None:
    assert read_mark(annotated(encode_mark(MARK, of=OF, cluster=HERE)), of=of, cluster=HERE) is None


def test_a_mark_that_was_copied_to_another_cluster_is_no_mark() -> None:
    assert read_mark(annotated(encode_mark(MARK, of=OF, cluster=HERE)), of=OF, cluster=THERE) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("owner", "name"), "x"),
        (("owner", "uid"), "uid-2"),
        (("owner", "uid"), ""),
        (("owner", "uid"), 5),
        (("owner", "cluster"), "here"),
        (("propagation",), "Background"),
        (("propagation",), "Never"),
        (("propagation",), ["Orphan"]),
        (("operator",), "another"),
        (("operator",), None),
        (("digest",), "0"),
        (("format",), 2),
        (("format",), "1"),
        (("owner",), []),
        (("owner",), {}),
    ],
)
def test_a_text_in_which_something_was_replaced_is_no_mark(path: tuple[str, ...], value: object) -> None:
    content = json.loads(encode_mark(MARK, of=OF, cluster=HERE))
    *above, last = path
    place = content
    for name in above:
        place = place[name]
    place[last] = value
    assert read_mark(annotated(json.dumps(content)), of=OF, cluster=HERE) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "no JSON", '{"format":1}', "{" * 100_000, '{"a":"' + "x" * 20_000 + '"}']
)
def test_another_text_is_no_mark(text: str) -> None:
    assert read_mark(annotated(text), of=OF, cluster=HERE) is None
    assert read_mark({}, of=OF, cluster=HERE) is None


def test_a_mark_without_the_name_of_its_object_is_bound_still() -> None:
    """The digest has the names: the readable ones are for people."""
    content = json.loads(encode_mark(MARK, of=OF, cluster=HERE))
    content["dependent"] = {**content["dependent"], "name": "copy"}
    assert read_mark(annotated(json.dumps(content)), of=OF._replace(name="copy"), cluster=HERE) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"propagation": "foreground"}, "propagation: must be Background, Foreground or Orphan, and is 'foreground'"),
        ({"propagation": True}, "propagation: must be Background, Foreground or Orphan, and is a bool"),
        ({"propagation": ["Orphan"]}, "propagation: .*is a list"),
        ({"owner": "x"}, "owner: must be an Owner"),
        ({"owner": OWNER._replace(name="x" * 5000)}, r"owner\.name: must be a text of at most 4096"),
        ({"owner": OWNER._replace(namespace=None)}, r"owner\.namespace: must be a text"),
        ({"owner": OWNER._replace(uid="")}, r"owner\.uid: must not be empty"),
        ({"operator": None}, "operator: must be a text"),
    ],
)
def test_a_mark_that_could_not_be_read_is_not_made(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidObject, match=words):
        replace(MARK, **changes)


def test_a_member_whose_id_is_not_known_owns_nothing() -> None:
    obj = Object(GVK("example.com", "v1", "Widget"), "default", "w", "uid-1", 5, "", False, 1, {}, {})
    assert make_owner(obj, cluster=THERE, member="b", is_local=False) == OWNER
    with pytest.raises(LookupError, match="b: its ID is not known"):
        make_owner(obj, cluster=ClusterUID(""), member="b", is_local=False)


@pytest.mark.parametrize("is_known", [False, True])
def test_an_object_that_was_read_from_the_local_cluster_is_one_of_that_member_alone(is_known: bool) -> None:
    origin = LocalOrigin()
    obj = Object(GVK("example.com", "v1", "Widget"), "default", "w", "uid-1", 5, "", False, 1, {}, {}, None, origin)
    if is_known:
        origin.cluster_id = HERE
    assert make_owner(obj, cluster=HERE, member="a", is_local=True).cluster == HERE
    with pytest.raises(ValueError, match=r"Widget default/w was read from the local cluster, .* and b is cluster"):
        make_owner(obj, cluster=THERE, member="b", is_local=False)
    if is_known:  # a Secret may lead to the local cluster, and the local cluster may have been rebuilt
        assert make_owner(obj, cluster=HERE, member="secret", is_local=False).cluster == HERE
        with pytest.raises(ValueError, match="was read from"):
            make_owner(obj, cluster=THERE, member="a", is_local=True)
