"""What it answers to a list: bodies, pages and items."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Final

from tests.hostile.cases import GOOD, Case, config_map, good_name
from tests.hostile.server.asking import Ask
from tests.hostile.server.deeds import (
    blank_body,
    compresses,
    endless_body,
    endless_pages,
    holds,
    in_turn,
    lists,
    no_stream_of_lists,
    refuses,
    replies,
)
from tests.hostile.server.stranger import Deed, Stranger
from tests.hostile.server.world import Place, objects
from tests.hostile.tables.connections import COMPRESSED

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_NO_LIST: Final = "the answer is no list"
_AGAIN: Final = "is listed again, every few seconds at most; nothing is deleted"
_RARELY: Final = "is left, and asked for again after half a minute"
_LEFT_OUT: Final = "the others are used"


def without_streams(server: Stranger) -> None:
    """Have it listed in pages."""
    server.order(no_stream_of_lists, when=lambda ask: ask.wants_initial)


def is_list(ask: Ask) -> bool:
    """Say whether a request is for a list."""
    return not ask.is_watch and "fieldSelector" not in ask.query


def _listed(does: str, happens: str, deed: Deed, *said: str, copied: tuple[str, ...] = ()) -> Case:
    def arm(server: Stranger) -> None:
        without_streams(server)
        server.order(deed, MAPS, when=is_list)

    return Case(does, happens, arm, said, copied=copied)


def _beside(does: str, happens: str, *items: Any, said: str, **info: Any) -> Case:
    """A list in which the honest object is, and these."""

    def make(ask: Ask, server: Stranger, place: Any) -> Any:
        good = [found for found in server.world.find(place) if found["metadata"]["name"] == good_name(server)]
        return server.world.spell_list(place, [*good, *items], **info)

    return _listed(does, happens, lists(make), *([said] if said else []), copied=(GOOD,))


def _items(make: Callable[[int], bytes]) -> Deed:
    return endless_body(b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[', make)


@functools.cache
def _large_page() -> bytes:
    items = list(objects("ConfigMap", [f"x{number}" for number in range(100_000)]))
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()


def _a_large_page(ask: Ask, server: Stranger, place: Place) -> Any:
    return _large_page()


_ITEM: Final = json.dumps(config_map("x", text="y" * 60_000)).encode() + b","
_SECRET: Final = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}

LISTS: Final = (
    _listed("lists without end", _RARELY, _items(lambda number: _ITEM), "the answer is larger than"),
    _listed("lists white space without end", _RARELY, blank_body(), "the answer is larger than"),
    _listed(
        "lists 256 MiB in 256 KiB, with gzip", f"nothing is decompressed; {_AGAIN}", compresses("gzip"), COMPRESSED
    ),
    _listed(
        "lists 4,000,000 zeros",
        _AGAIN,
        replies(lambda: b'{"metadata":{},"items":[' + b"0," * 4_000_000 + b"0]}"),
        _NO_LIST,
    ),
    _listed("lists 100,000 objects in one page", _RARELY, lists(_a_large_page), "the answer is larger than"),
    _listed(
        "gives the same continue token again and again",
        _AGAIN,
        holds(**{"continue": "again"}),
        "the same continue token came again",
    ),
    _listed(
        "gives a continue token of 1 MiB",
        _AGAIN,
        holds(**{"continue": "x" * 1024 * 1024}),
        "is longer than any server says it",
    ),
    _listed(
        "has pages without end, with nothing in them",
        _RARELY,
        endless_pages(lambda number: []),
        "its pages hold next to nothing",
    ),
    _listed(
        "answers 410 to every next page", _AGAIN, in_turn(holds(**{"continue": "next"}), refuses(410, "Expired")), "410"
    ),
    _listed("lists HTML, and 200", _AGAIN, replies(b"<html></html>"), _NO_LIST),
    _listed("lists a mapping of items", _AGAIN, replies({"metadata": {}, "items": {"a": 1}}), _NO_LIST),
    _listed("lists without metadata", _AGAIN, replies({"items": []}), _NO_LIST),
    _listed("lists in JSON that does not end", _AGAIN, replies(b'{"metadata":{},"items":['), _NO_LIST),
)

ITEMS: Final = (
    _beside("lists null, numbers and texts as items", _LEFT_OUT, None, 5, "x", [], said="4 items are no such objects"),
    _beside("lists objects of another kind", _LEFT_OUT, _SECRET, said="1 items are no such objects"),
    _beside(
        "lists objects of another namespace",
        _LEFT_OUT,
        config_map("a", namespace="kube-system"),
        said="1 items are no such objects",
    ),
    _beside(
        "lists objects without a name",
        _LEFT_OUT,
        {"metadata": {"namespace": "default"}},
        said="1 items are no such objects",
    ),
    _beside(
        "lists objects with an empty kind",
        _LEFT_OUT,
        {**config_map("a"), "kind": "", "apiVersion": ""},
        said="1 items are no such objects",
    ),
    _beside("lists up to a revision that is no number", "is read", said="", resourceVersion="yesterday"),
    _beside("lists up to revision 2^63", "is read", said="", resourceVersion=str(2**63)),
    _beside("lists up to revision 2^200", "is read", said="", resourceVersion=str(2**200)),
)
