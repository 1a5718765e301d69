"""Lists in pages, from raw bytes, by quorum reads.

Law: whatever a server answers, a page holds no more than memory has room for, and pages come to an end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from registry_controller.api.errors import Gone, ProtocolError, TooMuch
from registry_controller.api.meta import GVK, GVR, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader
from registry_controller.kube.object import PartialObject, decode_object

_MANY_COMMAS: Final = 100_000  # of a page; each item has some, but so may a text
_MOST_ITEMS: Final = 20_000  # in a page, whatever was asked for: old servers do not know pages
_FREE_PAGES: Final = 20
_FULL: Final = 10  # a page that is not the last has at least this part of what was asked for, on average
_RESTARTS: Final = 2
_TOKEN_LENGTH: Final = 8192  # it holds a key and a resourceVersion, in base64, and becomes a part of a URL
REVISION_LENGTH: Final = 128
"""The longest resourceVersion that is said back to a server: they are opaque, and have 20 digits at most."""
_NOTHING: Final = "metadata.name=no-object-of-that-name"
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what was expected."""


class _ListRequest(NamedTuple):
    """What a list is of."""

    gvk: GVK
    gvr: GVR
    selection: Selection


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Page:
    """A page of a list. `is_first` also after a restart: what came before no longer counts.

    `resource_version` is where a watch begins after the last page, `next_token` what the next page is asked for with,
    `size` the number of items. `items` are decoded one by one while they are gone
    through, once; after that, `refused` tells how many were no objects.
    """

    def __init__(self, found: _List, *, kind: _ListRequest, is_first: bool) -> None:
        self.resource_version = found.metadata.resource_version
        self.is_first = is_first
        self.next_token = found.metadata.next
        self.is_last = not self.next_token
        self.size = len(found.items or ())
        self.refused = 0
        self.items = self._decode(found.items or (), kind)

    def _decode(self, items: Iterable[msgspec.Raw], kind: _ListRequest) -> Iterator[PartialObject]:
        for item in items:
            try:
                found = decode_object(item, kind=kind.gvk)
                check_scope(found, gvr=kind.gvr, selection=kind.selection)
            except ProtocolError:
                self.refused += 1
            else:
                yield found


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
    While a page is gone through, it is one of the few that are taken of that server at a time.
    """
    next_token, restarts, is_first, pages, listed = "", 0, True, 0, 0
    what = _ListRequest(kind, gvr, selection)
    while True:
        async with reader.turns:
            try:
                page = await _read_page(reader, what, next_token=next_token, page_size=page_size, is_first=is_first)
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
            if next_token and page.next_token == next_token:
                raise ProtocolError(f"list {gvr}: its pages do not get on: the same continue token came again")
            next_token = page.next_token
            pages, listed = pages + 1, listed + page.size
            if next_token and listed * _FULL < (pages - _FREE_PAGES) * page_size:
                raise TooMuch(f"list {gvr}: its pages hold next to nothing: {listed} objects in {pages} pages")
            yield page
        is_first = False
        if page.is_last:
            return


async def _read_page(reader: Reader, what: _ListRequest, *, next_token: str, page_size: int, is_first: bool) -> Page:
    query = {"limit": str(page_size), "continue": next_token}
    answer = await reader.list_page(what.gvr, what.selection, query=query)
    return Page(_decode_list(answer, gvr=what.gvr), kind=what, is_first=is_first)


async def read_revision(reader: Reader, gvr: GVR, selection: Selection) -> int:
    """Ask where a server's history stands, by a quorum read of nothing: one name, which no object has.

    A watch that resumes beyond that point is no error to an API server: it is silent until history has grown so far.
    """
    place = Selection(namespace=(selection.namespace or "default") if gvr.namespaced else "", fields=_NOTHING)
    async with reader.turns:
        answer = await reader.list_page(gvr, place, query={"limit": "1"})
        return revision(_decode_list(answer, gvr=gvr).metadata.resource_version)


def _decode_list(answer: bytes, *, gvr: GVR) -> _List:
    """Decode a page; how many items there are is found out first where they might be more than memory can hold."""
    found = _try_decode_list(answer, gvr=gvr)
    if len(found.metadata.next) > _TOKEN_LENGTH or len(found.metadata.resource_version) > REVISION_LENGTH:
        raise ProtocolError(f"list {gvr}: where it goes on, or stands, is longer than any server says it")
    return found


def _try_decode_list(answer: bytes, *, gvr: GVR) -> _List:
    try:
        if answer.count(b",") > _MANY_COMMAS and len(_ITEMS.decode(answer).items or ()) > _MOST_ITEMS:
            raise TooMuch(f"list {gvr}: a page of more than {_MOST_ITEMS} objects")
        return _LIST.decode(answer)
    except DECODE_ERRORS:
        raise ProtocolError(f"list {gvr}: the answer is no list") from None


def check_scope(obj: PartialObject, *, gvr: GVR, selection: Selection) -> None:
    """Refuse an object where none of its kind can be, or that was not asked for."""
    namespace = obj.key.namespace
    if bool(namespace) != gvr.namespaced or (selection.namespace and namespace != selection.namespace):
        raise ProtocolError(f"{obj.key}: is in a namespace that was not asked for")
