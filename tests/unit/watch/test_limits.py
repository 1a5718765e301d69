"""How many objects are taken of one peer."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import TooMuch
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.peer_objects import read_member
from registry_controller.kube.object import decode_object
from registry_controller.watch.limits import MOST_OBJECTS, MOST_OWN, check_room

MAP = GVK("", "v1", "ConfigMap")


class Sized(NamedTuple):
    """A reflector, as far as it is counted."""

    size: int


def reflectors(**sizes: int) -> Any:
    kinds = {
        "maps": (MAP, EVERYTHING),
        "labelled": (MAP, Selection(labels="a=b")),
        "clusters": (meta.CLUSTER, EVERYTHING),
    }
    return {kinds[name]: Sized(size) for name, size in sizes.items()}


def test_there_is_room_below_the_limits() -> None:
    check_room(MAP, reflectors(maps=MOST_OBJECTS - 2, clusters=1), peer="b")
    check_room(meta.CLUSTER, reflectors(maps=1000, clusters=MOST_OWN[meta.CLUSTER] - 1), peer="b")


def test_all_kinds_of_a_peer_count_together() -> None:
    with pytest.raises(TooMuch, match=f"b offers more than {MOST_OBJECTS} objects: "):
        check_room(MAP, reflectors(maps=MOST_OBJECTS - 2, labelled=1, clusters=1), peer="b")


@pytest.mark.parametrize(("kind", "most"), [(meta.CLUSTER, 256), (meta.RULE, 1024), (meta.FEATURE, 1024)])
def test_the_registrys_own_kinds_have_limits_of_their_own(kind: GVK, most: int) -> None:
    """P5: as docs/security-limits.md says them."""
    held: Any = {
        (kind, EVERYTHING): Sized(most - 2),
        (kind, Selection(labels="a=b")): Sized(1),
        (MAP, EVERYTHING): Sized(5),
    }
    check_room(kind, held, peer="b")
    held[kind, EVERYTHING] = Sized(most - 1)
    with pytest.raises(TooMuch, match=f"b offers more than {most} objects of the kind {kind.kind}: "):
        check_room(kind, held, peer="b")
    check_room(MAP, held, peer="b")


def test_of_all_kinds_together_150000_objects_are_taken() -> None:
    """P5: as docs/security-limits.md says it."""
    check_room(MAP, reflectors(maps=149_998, clusters=1), peer="b")
    with pytest.raises(TooMuch, match="b offers more than 150000 objects: "):
        check_room(MAP, reflectors(maps=149_999, clusters=1), peer="b")


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({"spec": [1], "status": "x"}, None),
        ({"spec": {"clusterID": 5}}, None),
        ({"spec": {"clusterID": "u", "authInfo": []}, "status": {"type": ["Local"], "state": {}}}, ("", "")),
        ({"spec": {"clusterID": "u"}, "status": {"type": "Local", "state": "x" * 1000}}, ("Local", "x" * 32)),
        ({"spec": {"clusterID": "u" * 65}}, None),
    ],
)
def test_a_cluster_at_a_peer_may_be_of_any_shape(more: dict[str, Any], seen: tuple[str, str] | None) -> None:
    """P5: what is no mapping, and no text, is nothing; an alias that is looked at does not end the daemon."""
    view = read_member(decode_object(b'{"metadata":{"name":"a"}}'), more, peer=ClusterUID("p"))
    assert (None if view is None else (view.type, view.state)) == seen


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_secret_of_a_name_that_none_can_have_is_none(field: str) -> None:
    reference = {"name": "a", "namespace": "b"} | {field: "x" * 254}
    more = {"spec": {"clusterID": "u", "authInfo": {"secretRef": reference}}}
    view = read_member(decode_object(b'{"metadata":{"name":"a"}}'), more, peer=ClusterUID("p"))
    assert view is not None
    assert view.secret is None
