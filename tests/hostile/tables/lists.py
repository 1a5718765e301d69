"""What it answers to a list: bodies, pages and items."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Final

from tests.hostile.cases import HONEST, Case, config_map, good_name
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
from tests.hostile.shown import (
    LISTED,
    LISTED_RARELY,
    MAPS,
    NOT_DECOMPRESSED,
    NOT_DELETED,
    Claim,
    is_list,
    stays,
)
from tests.hostile.tables.connections import COMPRESSED

_NO_LIST: Final = "the answer is not a list"
_LARGE: Final = "the answer is larger than 8 MiB"
_AGAIN: Final = (LISTED, NOT_DELETED)
_RARELY: Final = (LISTED_RARELY, NOT_DELETED)
_LEFT_OUT: Final = (stays("the other items are used"),)
_READ: Final = (stays("is read"),)


def without_streams(server: Stranger) -> None:
    """Have it listed in pages."""
    server.order(no_stream_of_lists, when=lambda ask: ask.wants_initial)


def _listed(does: str, deed: Deed, said: str, *claims: Claim) -> Case:
    """A server that is honest at first. When its object was copied here, its history is gone, and it is listed anew."""

    def turns(server: Stranger) -> None:
        server.order(refuses(410, "Expired"), MAPS, when=lambda ask: ask.is_watch)
        server.order(deed, MAPS, when=is_list)

    return Case(does, claims, without_streams, turns, said=(said,), copied=HONEST)


def _beside(does: str, claims: tuple[Claim, ...], *items: Any, said: str, **info: Any) -> Case:
    """A list in which the honest object is, and these."""

    def make(ask: Ask, server: Stranger, place: Any) -> Any:
        good = [found for found in server.world.find(place) if found["metadata"]["name"] == good_name(server)]
        return server.world.spell_list(place, [*good, *items], **info)

    def arm(server: Stranger) -> None:
        without_streams(server)
        server.order(lists(make), MAPS, when=is_list)

    return Case(does, claims, arm, said=(said,) if said else (), copied=HONEST)


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
    _listed("lists without end", _items(lambda number: _ITEM), _LARGE, *_RARELY),
    _listed("lists white space without end", blank_body(), _LARGE, *_RARELY),
    _listed("lists 256 MiB in 256 KiB, with gzip", compresses("gzip"), COMPRESSED, NOT_DECOMPRESSED, *_AGAIN),
    _listed(
        "lists 4,000,000 zeros",
        replies(lambda: b'{"metadata":{},"items":[' + b"0," * 4_000_000 + b"0]}"),
        _NO_LIST,
        *_AGAIN,
    ),
    _listed("lists 100,000 objects in one page", lists(_a_large_page), _LARGE, *_RARELY),
    _listed(
        "gives the same continue token again and again",
        holds(**{"continue": "again"}),
        "the same continue token came again",
        *_AGAIN,
    ),
    _listed(
        "gives a continue token of 1 MiB",
        holds(**{"continue": "x" * 1024 * 1024}),
        "is longer than any server says it",
        *_AGAIN,
    ),
    _listed(
        "has pages without end, with nothing in them",
        endless_pages(lambda number: []),
        "its pages are almost empty",
        *_RARELY,
    ),
    _listed(
        "answers 410 to every next page",
        in_turn(holds(**{"continue": "next"}), refuses(410, "Expired")),
        "410",
        *_AGAIN,
    ),
    _listed("lists HTML, and 200", replies(b"<html></html>"), _NO_LIST, *_AGAIN),
    _listed("lists a mapping of items", replies({"metadata": {}, "items": {"a": 1}}), _NO_LIST, *_AGAIN),
    _listed("lists without metadata", replies({"items": []}), _NO_LIST, *_AGAIN),
    _listed("lists in JSON that does not end", replies(b'{"metadata":{},"items":['), _NO_LIST, *_AGAIN),
)

ITEMS: Final = (
    _beside("lists null, numbers and texts as items", _LEFT_OUT, None, 5, "x", [], said="4 items are not objects of"),
    _beside("lists objects of another kind", _LEFT_OUT, _SECRET, said="1 items are not objects of"),
    _beside(
        "lists objects of another namespace",
        _LEFT_OUT,
        config_map("a", namespace="kube-system"),
        said="1 items are not objects of",
    ),
    _beside(
        "lists objects without a name",
        _LEFT_OUT,
        {"metadata": {"namespace": "default"}},
        said="1 items are not objects of",
    ),
    _beside(
        "lists objects with an empty kind",
        _LEFT_OUT,
        {**config_map("a"), "kind": "", "apiVersion": ""},
        said="1 items are not objects of",
    ),
    _beside("lists up to a revision that is no number", _READ, said="", resourceVersion="yesterday"),
    _beside("lists up to revision 2^63", _READ, said="", resourceVersion=str(2**63)),
    _beside("lists up to revision 2^200", _READ, said="", resourceVersion=str(2**200)),
)
