"""Lists in pages, from raw bytes, by quorum reads.

Law: whatever a server answers, a page holds no more than memory has room for, and pages come to an end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from registry_controller.api.errors import Gone, ProtocolError, TooMuch
from registry_controller.api.meta import GVK, GVR, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import PAGE_BYTES, Reader
from registry_controller.kube.heard import Heard, decode_heard
from registry_controller.kube.transport import OBJECT_BYTES

_MANY_COMMAS: Final = 100_000  # of a page; each item has some, but so may a text
_MOST_ITEMS: Final = 20_000  # in a page, whatever was asked for: old servers do not know pages
_FREE_PAGES: Final = 20
_FULL: Final = 10  # a page that is not the last has at least this part of what was asked for, on average
_RESTARTS: Final = 2
_NOTHING: Final = "metadata.name=no-object-of-that-name"
NONSENSE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what was expected."""


class Page(msgspec.Struct, frozen=True):
    """A page of a list. `is_first` also after a restart: what came before no longer counts.

    `refused` counts items that are no objects. `resource_version` is where a watch begins after the last page.
    """

    items: list[Heard]
    resource_version: str
    is_first: bool
    is_last: bool
    refused: int


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Name(msgspec.Struct, gc=False):
    name: str


class _Item(msgspec.Struct, gc=False):
    metadata: _Name


class _Items(msgspec.Struct):
    items: list[_Item] | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_ITEMS: Final = msgspec.json.Decoder(_Items)


async def list_objects(
    reader: Reader, gvr: GVR, selection: Selection, *, kind: GVK, page_size: int = 500
) -> AsyncGenerator[Page, None]:
    """List by quorum reads, page by page; begin again (with larger pages) when a continuation has expired.

    A page that is too large is asked for in smaller ones. TooMuch for pages without end, or with next to nothing.
    """
    next_token, restarts, is_first, pages, listed = "", 0, True, 0, 0
    while True:
        query = {"limit": str(page_size), "continue": next_token}
        limit_bytes = PAGE_BYTES if page_size > 1 else OBJECT_BYTES
        try:
            answer = await reader.list_page(gvr, selection, query=query, limit_bytes=limit_bytes)
            found = _decode_list(answer, gvr=gvr)
        except TooMuch:
            if page_size == 1:
                raise
            page_size = max(1, page_size // 8)
            continue
        except Gone:
            restarts += 1
            if not next_token or restarts > _RESTARTS:
                raise
            next_token, is_first, page_size, pages, listed = "", True, page_size * 4, 0, 0
            continue
        if next_token and found.metadata.next == next_token:
            raise ProtocolError(f"list {gvr}: its pages do not get on: the same continue token came again")
        next_token = found.metadata.next
        pages, listed = pages + 1, listed + len(found.items or ())
        if next_token and listed * _FULL < (pages - _FREE_PAGES) * page_size:
            raise TooMuch(f"list {gvr}: its pages hold next to nothing: {listed} objects in {pages} pages")
        items, refused = _decode_items(found.items or [], gvr=gvr, kind=kind, selection=selection)
        yield Page(items, found.metadata.resource_version, is_first, not next_token, refused)
        is_first = False
        if not next_token:
            return


async def read_revision(reader: Reader, gvr: GVR, selection: Selection) -> int:
    """Ask where a server's history stands, by a quorum read of nothing: one name, which no object has.

    A watch that resumes beyond that point is no error to an API server: it is silent until history has grown so far.
    """
    place = Selection(namespace=(selection.namespace or "default") if gvr.namespaced else "", fields=_NOTHING)
    answer = await reader.list_page(gvr, place, query={"limit": "1"})
    return revision(_decode_list(answer, gvr=gvr).metadata.resource_version)


def _decode_list(answer: bytes, *, gvr: GVR) -> _List:
    """Decode a page; how many items there are is found out first where they might be more than memory can hold."""
    try:
        if answer.count(b",") > _MANY_COMMAS and len(_ITEMS.decode(answer).items or ()) > _MOST_ITEMS:
            raise TooMuch(f"list {gvr}: a page of more than {_MOST_ITEMS} objects")
        return _LIST.decode(answer)
    except NONSENSE:
        raise ProtocolError(f"list {gvr}: the answer is no list") from None


def _decode_items(items: list[msgspec.Raw], *, gvr: GVR, kind: GVK, selection: Selection) -> tuple[list[Heard], int]:
    heard, refused = [], 0
    for item in items:
        try:
            found = decode_heard(item, kind=kind)
            check_scope(found, gvr=gvr, selection=selection)
        except ProtocolError:
            refused += 1
        else:
            heard.append(found)
    return heard, refused


def check_scope(heard: Heard, *, gvr: GVR, selection: Selection) -> None:
    """Refuse an object where none of its kind can be, or that was not asked for."""
    namespace = heard.key.namespace
    if bool(namespace) != gvr.namespaced or (selection.namespace and namespace != selection.namespace):
        raise ProtocolError(f"{heard.key}: is in a namespace that was not asked for")
